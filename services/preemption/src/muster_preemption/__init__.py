"""Who would have to give way: the heavy search, apart from the decisions that need it.

Owns no fact. Proposes victims; admission checks every proposal against its books.
"""
