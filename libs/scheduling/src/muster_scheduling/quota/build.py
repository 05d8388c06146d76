"""Building the quota tree from what people declared (R-16, R-17, R-19).

Subtree quota, local quota and potential are computed here, once per configuration.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from muster_domain.queues import ClusterQueue, Cohort, ResourceGroup
from muster_scheduling.quota.amounts import minus, plus, quota_amount
from muster_scheduling.quota.tree import (
    FlavorResource,
    NodeKind,
    NodeQuota,
    QuotaNode,
    QuotaTree,
)

_DEPTH_MAX = 100


@dataclass(frozen=True, slots=True)
class Members:
    """The queues and cohorts of which a tree is built, by name."""

    cluster_queues: Mapping[str, ClusterQueue] = field(default_factory=dict[str, ClusterQueue])
    cohorts: Mapping[str, Cohort] = field(default_factory=dict[str, Cohort])


def build_tree(members: Members) -> QuotaTree:
    """Link, order and sum up.

    A cohort that is only named exists without quota. ClusterQueues at or below a cycle of cohorts,
    or more than 100 cohorts deep, are named in `cyclic`; their cohorts are not linked to each other
    and they must not admit.
    """
    cohorts = _cohort_nodes(members)
    queues = {
        name: QuotaNode(
            name, NodeKind.CLUSTER_QUEUE, _quotas(queue.resource_groups), queue.fair_weight_milli
        )
        for name, queue in sorted(members.cluster_queues.items())
    }
    looped = _looped_cohorts(members.cohorts)
    for name, cohort in sorted(members.cohorts.items()):
        if cohort.parent and name not in looped:
            _link(cohorts[name], cohorts[cohort.parent])
    cyclic: set[str] = set()
    for name, queue in sorted(members.cluster_queues.items()):
        if queue.cohort in looped:
            cyclic.add(name)
        if queue.cohort:
            _link(queues[name], cohorts[queue.cohort])
    for node in [*cohorts.values(), *queues.values()]:
        if node.parent is None:
            _sum_up(node)
            _spread_down(node, ())
    return QuotaTree(queues, cohorts, frozenset(cyclic), looped)


def _cohort_nodes(members: Members) -> dict[str, QuotaNode]:
    names = set(members.cohorts)
    names |= {queue.cohort for queue in members.cluster_queues.values() if queue.cohort}
    names |= {cohort.parent for cohort in members.cohorts.values() if cohort.parent}
    nodes: dict[str, QuotaNode] = {}
    for name in sorted(names):
        cohort = members.cohorts.get(name) or Cohort(name=name)
        nodes[name] = QuotaNode(
            name, NodeKind.COHORT, _quotas(cohort.resource_groups), cohort.fair_weight_milli
        )
    return nodes


def _quotas(groups: Iterable[ResourceGroup]) -> dict[FlavorResource, NodeQuota]:
    quotas: dict[FlavorResource, NodeQuota] = {}
    for group in groups:
        for flavor in group.flavors:
            for resource, quota in flavor.resources.items():
                borrow, lend = quota.borrowing_limit_milli, quota.lending_limit_milli
                quotas[(flavor.flavor, resource)] = NodeQuota(
                    nominal=quota_amount(resource, quota.nominal_milli),
                    borrowing_limit=None if borrow is None else quota_amount(resource, borrow),
                    lending_limit=None if lend is None else quota_amount(resource, lend),
                )
    return quotas


def _looped_cohorts(cohorts: Mapping[str, Cohort]) -> frozenset[str]:
    """Cohorts whose chain of parents never ends, or is longer than anybody means it to be."""
    height: dict[str, int] = {}
    for start in cohorts:
        chain: dict[str, None] = {}
        name = start
        while name in cohorts and name not in height and name not in chain:
            chain[name] = None
            name = cohorts[name].parent
        above = _DEPTH_MAX if name in chain else height.get(name, 0)
        for member in reversed(chain):
            above += 1
            height[member] = above
    return frozenset(name for name, levels in height.items() if levels > _DEPTH_MAX)


def _link(child: QuotaNode, parent: QuotaNode) -> None:
    child.parent = parent
    (parent.cohorts if child.kind is NodeKind.COHORT else parent.queues).append(child)


def _sum_up(node: QuotaNode) -> None:
    node.subtree = {fr: quota.nominal for fr, quota in node.quotas.items()}
    for child in [*node.cohorts, *node.queues]:
        _sum_up(child)
        for fr, amount in child.subtree.items():
            lent = minus(amount, child.local.get(fr, 0))
            node.subtree[fr] = plus(node.subtree.get(fr, 0), lent)
    if node.kind is NodeKind.COHORT:
        below = max((child.height for child in node.cohorts), default=-1)
        node.height = max(min(len(node.queues) + len(node.cohorts), 1), 1 + below)
    if node.parent is None:
        return
    for fr, quota in node.quotas.items():
        if quota.lending_limit is not None:
            node.local[fr] = max(0, minus(node.subtree.get(fr, 0), quota.lending_limit))
        if quota.borrowing_limit is not None:
            own = minus(node.subtree.get(fr, 0), node.local.get(fr, 0))
            node.taken_limit[fr] = plus(own, quota.borrowing_limit)


def _spread_down(node: QuotaNode, ancestors: tuple[QuotaNode, ...]) -> None:
    node.ancestors = ancestors
    node.root = ancestors[-1] if ancestors else node
    node.below_root = (*reversed(ancestors[:-1]), node) if ancestors else ()
    if not ancestors:
        node.potential = dict(node.subtree)
    else:
        parent = ancestors[0]
        for fr in sorted(set(node.subtree) | set(parent.potential)):
            reach = plus(node.local.get(fr, 0), parent.potential.get(fr, 0))
            quota = node.quotas.get(fr)
            if quota is not None and quota.borrowing_limit is not None:
                reach = min(reach, plus(node.subtree.get(fr, 0), quota.borrowing_limit))
            node.potential[fr] = reach
    node.usage = dict.fromkeys(node.potential, 0)
    for fr in node.root.subtree:
        node.lendable[fr[1]] = plus(node.lendable.get(fr[1], 0), node.potential.get(fr, 0))
    for child in [*node.cohorts, *node.queues]:
        _spread_down(child, (node, *ancestors))
