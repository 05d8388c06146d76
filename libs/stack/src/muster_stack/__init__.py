"""The whole of Muster on one machine, and the access rules of its bus and its ledger.

Owns how the services are started, supervised and stopped together, and what each of them may read
and write. Knows nothing of what they say to each other.
"""
