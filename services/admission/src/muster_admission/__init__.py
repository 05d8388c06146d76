"""The doorman: who may start, by quota and turn, and who must give back what was lent.

Owns workload states and the quota ledger of the partitions that it leases. Knows no node.
"""
