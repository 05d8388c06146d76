"""Changing where the pods of a set sit, as counts per lowest domain."""

from collections.abc import Mapping

from muster_domain.nodes import DomainCount, TopologyAssignment

Path = tuple[str, ...]
"""Label values from the widest level down. A full path identifies a domain, a value does not."""


def merge(
    left: TopologyAssignment, right: TopologyAssignment, paths: Mapping[Path, Path]
) -> TopologyAssignment:
    """Both together, in the order of the domains' full `paths`, equal domains added up."""
    counts: dict[Path, int] = {}
    for domain in (*left.domains, *right.domains):
        counts[domain.values] = counts.get(domain.values, 0) + domain.count
    order = sorted(counts, key=lambda values: paths[values])
    return TopologyAssignment(
        levels=left.levels,
        domains=tuple(DomainCount(values=values, count=counts[values]) for values in order),
    )


def truncate(assignment: TopologyAssignment, count: int) -> TopologyAssignment:
    """The first `count` pods in the assignment's own order, for a set that shrinks."""
    kept: list[DomainCount] = []
    for domain in assignment.domains:
        take = min(domain.count, count)
        if take:
            kept.append(DomainCount(values=domain.values, count=take))
        count -= take
    return TopologyAssignment(levels=assignment.levels, domains=tuple(kept))


def without(assignment: TopologyAssignment, hostname: str) -> tuple[TopologyAssignment, int]:
    """The assignment without a node's domain, and how many pods sat there."""
    kept = tuple(domain for domain in assignment.domains if domain.values[-1] != hostname)
    left = TopologyAssignment(levels=assignment.levels, domains=kept)
    return left, assignment.pods - left.pods
