"""Values of the field, and nothing else.

Owns the words that every library and service shares: quantities, workloads, queues, nodes, states
and reasons. Knows no clock, no IO and no wire format; every value is frozen and every quantity is
an integer with its unit in the name.
"""
