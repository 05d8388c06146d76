"""How the tables came to be what they are, one revision after another.

Whoever starts brings the store up to the newest revision, in one transaction.
"""
