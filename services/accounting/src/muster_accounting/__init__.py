"""What usage was, and what it cost.

Owns usage intervals and cost, as rows in SQL. Reads the log and says nothing in it. Everything here
can be rebuilt from the log as far back as the log goes, and is kept beyond that.
"""
