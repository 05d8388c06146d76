"""Which cohort tree a ClusterQueue stands in. A tree is decided and committed as one."""

from collections.abc import Mapping

LONE_PREFIX = "cq:"
"""Marks the root of a ClusterQueue that stands alone; no cohort's name has a colon."""
VOLCANO_PREFIX = "volcano/"
"""Begins the name of the ClusterQueue behind a Volcano queue; no Kueue name has a slash."""


def tree_root(cluster_queue: str, cohort: str, parents: Mapping[str, str]) -> str:
    """Name the root of a ClusterQueue's tree.

    The root is the topmost cohort reached from `cohort` through `parents` (cohort to parent; a
    cohort that nobody declared has none), or `cq:<name>` where `cohort` is empty. Cohorts that form
    a cycle admit nothing; they share the smallest name in the cycle as their root, so that all of
    them are told so by one owner.
    """
    if not cohort:
        return LONE_PREFIX + cluster_queue
    path: list[str] = []
    name = cohort
    while name not in path:
        path.append(name)
        parent = parents.get(name, "")
        if not parent:
            return name
        name = parent
    return min(path[path.index(name) :])
