"""The head waiter: which nodes and devices, everyone of a gang seated together or nobody.

Owns nodes, devices and seats. Knows no quota.
"""
