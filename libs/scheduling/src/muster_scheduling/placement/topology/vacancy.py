"""Where the pods of one lost node of a gang may sit instead, while its others stay (R-88)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from muster_domain.workload import TopologyMode, TopologyRequest
from muster_scheduling.placement.columns import Mask
from muster_scheduling.placement.topology.tree import TopologyTree


@dataclass(frozen=True, slots=True)
class Vacancy:
    """The request of the lost pods alone, and the leaves that they must be among, if not any."""

    request: TopologyRequest | None
    inside: Mask | None = None


def vacancy_of(
    tree: TopologyTree, request: TopologyRequest | None, seated: Mapping[int, int], lost: int
) -> Vacancy:
    """What `lost` pods need beside those `seated`, by leaf number.

    They go into the domain of the slice that is broken, else of the level that is required.
    """
    inside = _domain(tree, request, seated, lost)
    if request is None or inside is None:
        return Vacancy(request)
    return Vacancy(_whole_slices(request, lost), inside)


def _domain(
    tree: TopologyTree, request: TopologyRequest | None, seated: Mapping[int, int], lost: int
) -> Mask | None:
    if request is None or not seated:
        return None
    broken = [one for one in request.slices if lost % one.size]
    if broken and lost % request.slices[0].size:
        inner = broken[-1]
        if inner.node_label not in tree.labels:
            return None
        level = tree.labels.index(inner.node_label)
        held: dict[int, int] = {}
        for leaf, count in seated.items():
            above = tree.ancestor(leaf, level)
            held[above] = held.get(above, 0) + count
        incomplete = [d for d in sorted(held) if (held[d] + lost) % inner.size == 0]
        return _leaves_of(tree, level, incomplete[0]) if incomplete else None
    if request.mode is not TopologyMode.REQUIRED or request.node_label not in tree.labels:
        return None
    level = tree.labels.index(request.node_label)
    return _leaves_of(tree, level, tree.ancestor(min(seated), level))


def _leaves_of(tree: TopologyTree, level: int, domain: int) -> Mask:
    domains = [domain]
    for above in range(level, tree.lowest):
        domains = tree.children(above, domains).tolist()
    mask = np.zeros(len(tree.leaves), np.bool_)
    mask[domains] = True
    return mask


def _whole_slices(request: TopologyRequest, pods: int) -> TopologyRequest:
    """The request with the innermost slices that this many pods fill, or with none."""
    if not request.slices or pods % request.slices[0].size == 0:
        return request
    filled = [one for one in request.slices if pods % one.size == 0]
    return replace(request, slices=tuple(filled[-1:]))
