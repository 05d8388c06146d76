"""Topology-aware placement by Kueue's rules (R-80 to R-88).

`find.find_assignments` is the whole of it: from a `snapshot.TopologySnapshot` and pod sets to
counts per domain. `tree`, `counts`, `terms`, `selection` and `balanced` know nothing of nodes or
resources: they go from counts per leaf to counts per leaf.
"""
