"""Seats as a topology counts them."""

from collections import Counter
from collections.abc import Iterable

from muster_domain.nodes import DomainCount, Node, PodAssignment, TopologyAssignment
from muster_scheduling.placement.record import HOSTNAME, label_of


def topology_of(
    levels: tuple[str, ...], pods: Iterable[PodAssignment], nodes: dict[str, Node]
) -> TopologyAssignment:
    """How many of the pods sit in each lowest domain, in path order (R-87).

    Every node carries a label of each level. Where the lowest is the hostname, it stands alone.
    """
    counts = Counter(
        tuple(label_of(nodes[pod.node], level) or "" for level in levels) for pod in pods
    )
    kept = slice(-1, None) if levels[-1] == HOSTNAME else slice(None)
    return TopologyAssignment(
        levels=levels[kept],
        domains=tuple(
            DomainCount(values=path[kept], count=counts[path]) for path in sorted(counts)
        ),
    )
