"""Checks a decision against its snapshot with arithmetic of its own.

Nothing here calls the quota tree's sums, the flavor assigner or the victim search: usage is summed
up again from the holders and the declared quotas for every step.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from muster_domain.queues import (
    UNLIMITED,
    ClusterQueue,
    Cohort,
    ReclaimWithinCohort,
    ResourceGroup,
    ResourceQuota,
    WithinClusterQueue,
)
from muster_domain.states import PodSetAdmission
from muster_scheduling.admission.decision import (
    Decision,
    EffectGroup,
    EvictVariant,
    EvictWorkload,
    ReserveQuota,
    holder,
)
from muster_scheduling.preemption.victims import Wanted
from muster_scheduling.snapshot.view import AdmissionView, Snapshot
from muster_scheduling.snapshot.workloads import (
    AdmittedWorkload,
    PendingWorkload,
    PodSetRequest,
    Variant,
)

Pair = tuple[str, str]


class ViolationKind(StrEnum):
    """What a decision must never do."""

    QUOTA_EXCEEDED = "quota_exceeded"
    ADMITTED_TWICE = "admitted_twice"
    NOT_PENDING = "not_pending"
    GANG_BROKEN = "gang_broken"
    WRONG_USAGE = "wrong_usage"
    WRONG_FLAVOR = "wrong_flavor"
    WRONG_VICTIM = "wrong_victim"
    EVICTED_TWICE = "evicted_twice"
    NOT_ENOUGH_VICTIMS = "not_enough_victims"
    NEEDLESS_VICTIM = "needless_victim"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One broken rule, and the workload or node it is broken for."""

    kind: ViolationKind
    subject: str
    message: str = ""


def violations(snapshot: Snapshot, decision: Decision) -> tuple[Violation, ...]:
    """Everything that is wrong with a decision; empty when all is well.

    Costs O(holders x tree) for every group: for tests, simulation and samples.
    """
    check = _Check(snapshot)
    for group in decision.groups:
        check.group(group)
    for eviction in decision.migrations:
        check.migration(eviction)
    looked_at = {step.workload_id for step in decision.requeues}
    looked_at |= {group.workload_id for group in decision.groups}
    check.found += [
        Violation(kind=ViolationKind.UNEXPLAINED, subject=workload_id)
        for workload_id in sorted(looked_at - set(decision.explanations))
    ]
    return tuple(check.found)


class _Check:
    """Replays a decision over plain dictionaries."""

    def __init__(self, snapshot: Snapshot) -> None:
        view = snapshot.view
        self._view = view
        self._now_ms = snapshot.now_ms
        self._books = _Books(view)
        self._usage: dict[str, dict[Pair, int]] = {}
        self._holders = dict(view.holders)
        self._reserved: set[str] = set()
        self._evicted = {holder_id for holder_id in view.holders if view.is_evicting(holder_id)}
        self.found: list[Violation] = []
        for held in view.holders.values():
            self._charge(held.cluster_queue, held.usage, 1)

    def group(self, group: EffectGroup) -> None:
        """Check one group, then do it."""
        evictions = [e for e in group.effects if isinstance(e, EvictWorkload)]
        for eviction in evictions:
            self._eviction(eviction)
        self._evicted |= {eviction.workload_id for eviction in evictions}
        if group.wanted is not None:
            self._victims(group, group.wanted, [e.workload_id for e in evictions])
        for effect in group.effects:
            if isinstance(effect, ReserveQuota):
                self._reservation(effect)

    def migration(self, eviction: EvictVariant) -> None:
        """Check that a variant gives way to one of the same parent in a better flavor."""
        victim_id = eviction.workload_id
        if victim_id in self._evicted:
            self._say(ViolationKind.EVICTED_TWICE, victim_id)
        self._evicted.add(victim_id)
        victim = self._holders.get(victim_id)
        migrant = self._view.pending(eviction.migrant_id)
        if migrant is None:
            self._say(ViolationKind.NOT_PENDING, eviction.migrant_id)
        elif victim is None or victim.attempt != eviction.attempt:
            self._say(ViolationKind.WRONG_VICTIM, victim_id, "holds no such reservation")
        elif not self._is_better(migrant.variant, victim):
            self._say(ViolationKind.WRONG_VICTIM, victim_id, f"is no worse than {migrant.id}")

    def _is_better(self, migrant: Variant | None, victim: AdmittedWorkload) -> bool:
        held = victim.variant
        if migrant is None or held is None or migrant.parent != held.parent:
            return False
        group, *_ = self._books.queues[victim.cluster_queue].resource_groups
        offered = [quotas.flavor for quotas in group.flavors]
        return offered.index(migrant.flavor) < offered.index(held.flavor)

    def _say(self, kind: ViolationKind, subject: str, message: str = "") -> None:
        self.found.append(Violation(kind=kind, subject=subject, message=message))

    def _charge(self, queue: str, usage: Mapping[Pair, int], sign: int) -> None:
        mine = self._usage.setdefault(queue, {})
        for pair, amount in usage.items():
            mine[pair] = mine.get(pair, 0) + sign * amount

    def _reservation(self, effect: ReserveQuota) -> None:
        workload_id = effect.workload_id
        pending = self._view.pending(workload_id)
        if pending is None:
            self._say(ViolationKind.NOT_PENDING, workload_id)
            return
        holds = workload_id in self._view.holders
        if workload_id in self._reserved or holds is not pending.grows:
            self._say(ViolationKind.ADMITTED_TWICE, workload_id)
        self._reserved.add(workload_id)
        queue = effect.admission.cluster_queue
        self._gang(pending, effect)
        before = {(n, p): over for n, p, over in self._books.excess(queue, self._usage)}
        self._charge(queue, effect.usage, 1)
        for node, pair, over in self._books.excess(queue, self._usage):
            if pair in effect.usage and over > before.get((node, pair), 0):
                self._say(ViolationKind.QUOTA_EXCEEDED, node, f"{workload_id}: {pair} by {over}")
        granted = holder(pending, effect, self._now_ms)
        if pending.grows:
            granted.usage = effect.admission.usage
        self._holders[workload_id] = granted

    def _room(self, wanted: Wanted, *, without: Iterable[str]) -> bool:
        """Whether there is room for all that is wanted once these are gone."""
        leaving = [self._holders[workload_id] for workload_id in without]
        for victim in leaving:
            self._charge(victim.cluster_queue, victim.usage, -1)
        queue = wanted.cluster_queue
        found = all(
            amount <= max(0, self._books.available(queue, pair, self._usage))
            for pair, amount in wanted.usage.items()
        )
        for victim in leaving:
            self._charge(victim.cluster_queue, victim.usage, 1)
        return found

    def _victims(self, group: EffectGroup, wanted: Wanted, victims: list[str]) -> None:
        """Together they are enough; at most the last one found could have stayed (R-55).

        Victims that make room for seats too, or were chosen again amid a cycle, answer to more than
        a decision shows.
        """
        queue = wanted.cluster_queue
        if not self._room(wanted, without=sorted(self._evicted & set(self._holders))):
            self._say(ViolationKind.NOT_ENOUGH_VICTIMS, queue)
        if not group.by_quota_alone:
            return
        needless = [
            victim
            for victim in victims
            if self._within_own(queue, wanted, victims, victim)
            and self._room(wanted, without=[other for other in victims if other != victim])
        ]
        if len(needless) > 1:
            self._say(ViolationKind.NEEDLESS_VICTIM, needless[0])

    def _within_own(self, queue: str, wanted: Wanted, victims: list[str], stays: str) -> bool:
        """Whether it would fit into its queue's own quota if that victim stayed."""
        going = [
            self._holders[victim]
            for victim in victims
            if victim != stays and self._holders[victim].cluster_queue == queue
        ]
        return all(
            self._usage.get(queue, {}).get(pair, 0)
            - sum(victim.usage.get(pair, 0) for victim in going)
            + amount
            <= self._books.nominal(queue, pair)
            for pair, amount in wanted.usage.items()
        )

    def _gang(self, pending: PendingWorkload, effect: ReserveQuota) -> None:
        granted = {pod_set.name: pod_set for pod_set in effect.admission.pod_sets}
        if set(granted) != {pod_set.name for pod_set in pending.pod_sets}:
            self._say(ViolationKind.GANG_BROKEN, pending.id)
            return
        queue = self._books.queues[effect.admission.cluster_queue]
        for pod_set in pending.pod_sets:
            mine = granted[pod_set.name]
            if not pod_set.min_count <= mine.count <= pod_set.count:
                self._say(ViolationKind.GANG_BROKEN, pending.id, f"{mine.count} pods")
            self._pod_set(pending, pod_set, mine, queue)
        total: dict[Pair, int] = {}
        for mine in granted.values():
            for resource, amount in mine.usage.items():
                pair = (mine.flavors[resource], resource)
                total[pair] = total.get(pair, 0) + amount
        replaced = self._view.holder_of_key.get(pending.replaces)
        more = {pair: amount for pair, amount in _minus(total, replaced).items() if amount}
        if more != {pair: amount for pair, amount in effect.usage.items() if amount}:
            self._say(ViolationKind.WRONG_USAGE, pending.id)

    def _pod_set(
        self,
        pending: PendingWorkload,
        asked: PodSetRequest,
        granted: PodSetAdmission,
        queue: ClusterQueue,
    ) -> None:
        for resource, amount in asked.per_pod.items():
            group = _group_of(queue, resource)
            if group is None:
                continue
            flavor = granted.flavors.get(resource)
            offered = [quotas.flavor for quotas in group.flavors]
            if flavor not in offered:
                self._say(ViolationKind.WRONG_FLAVOR, pending.id, f"{resource} in {flavor}")
            elif granted.usage.get(resource) != amount * granted.count:
                self._say(ViolationKind.WRONG_USAGE, pending.id, resource)
        for group in queue.resource_groups:
            used = {granted.flavors.get(r) for r in group.covered_resources} - {None}
            if len(used) > 1:
                self._say(ViolationKind.WRONG_FLAVOR, pending.id, "two flavors in one group")

    def _eviction(self, eviction: EvictWorkload) -> None:
        victim_id = eviction.workload_id
        victim = self._holders.get(victim_id)
        if victim_id in self._evicted:
            self._say(ViolationKind.EVICTED_TWICE, victim_id)
        if victim is None or victim.attempt != eviction.attempt:
            self._say(ViolationKind.WRONG_VICTIM, victim_id, "holds no such reservation")
            return
        preemptor = self._view.pending(eviction.preemptor_id)
        if preemptor is None:
            self._say(ViolationKind.NOT_PENDING, eviction.preemptor_id)
        elif not self._may_take(preemptor, victim):
            self._say(ViolationKind.WRONG_VICTIM, victim_id, f"for {preemptor.id}")

    def _may_take(self, preemptor: PendingWorkload, victim: AdmittedWorkload) -> bool:
        own = self._view.queue_of.get(preemptor.id, "")
        policy = self._books.queues[own].preemption
        lower = victim.priority < preemptor.priority
        newer = (
            victim.priority == preemptor.priority and preemptor.queued_at_ms < victim.queued_at_ms
        )
        if victim.cluster_queue == own:
            return {
                WithinClusterQueue.NEVER: False,
                WithinClusterQueue.LOWER_PRIORITY: lower,
                WithinClusterQueue.LOWER_OR_NEWER_EQUAL_PRIORITY: lower or newer,
            }[policy.within_cluster_queue]
        if self._books.root(own) != self._books.root(victim.cluster_queue):
            return False
        return {
            ReclaimWithinCohort.NEVER: False,
            ReclaimWithinCohort.UNSET: False,
            ReclaimWithinCohort.LOWER_PRIORITY: lower,
            ReclaimWithinCohort.LOWER_OR_NEWER_EQUAL_PRIORITY: lower or newer,
            ReclaimWithinCohort.ANY: True,
        }[policy.reclaim_within_cohort]


def _minus(total: dict[Pair, int], replaced: AdmittedWorkload | None) -> dict[Pair, int]:
    """What is asked beyond what a slice that is taken over is charged."""
    held: Mapping[Pair, int] = replaced.usage if replaced is not None else {}
    return {pair: total.get(pair, 0) - held.get(pair, 0) for pair in sorted({*total, *held})}


class _Books:
    """Declared quotas, and sums over them by the definitions of R-17 and R-18."""

    def __init__(self, view: AdmissionView) -> None:
        self.queues = {name: entry.queue for name, entry in view.catalog.queues.items()}
        self._cohorts = view.catalog.cohorts

    def root(self, queue: str) -> str:
        """The topmost node above a queue, itself when it stands alone."""
        path = self._path(queue)
        return path[-1]

    def available(self, queue: str, pair: Pair, usage: Mapping[str, Mapping[Pair, int]]) -> int:
        """What the queue may still take, from the root down (R-18)."""
        path = self._path(queue)
        root = path.pop()
        subtree = self._subtree(root, pair)
        free = UNLIMITED if subtree >= UNLIMITED else subtree - self._used(root, pair, usage)
        for node in reversed(path):
            used, local = self._used(node, pair, usage), self._local(node, pair)
            quota = self._quota(node, pair)
            if quota is not None and quota.borrowing_limit_milli is not None:
                lends = self._subtree(node, pair) - local
                free = min(free, lends - max(0, used - local) + quota.borrowing_limit_milli)
            free += max(0, local - used)
        return free

    def excess(
        self, queue: str, usage: Mapping[str, Mapping[Pair, int]]
    ) -> list[tuple[str, Pair, int]]:
        """By how much each node on the way up is beyond what it may use."""
        path = self._path(queue)
        pairs = sorted({pair for mine in usage.values() for pair in mine})
        found: list[tuple[str, Pair, int]] = []
        for node in path:
            last = node == path[-1]
            for pair in pairs:
                over = self._over(node, pair, usage, last=last)
                if over > 0:
                    found.append((node, pair, over))
        return found

    def _over(
        self, node: str, pair: Pair, usage: Mapping[str, Mapping[Pair, int]], *, last: bool
    ) -> int:
        used, quota = self._used(node, pair, usage), self._quota(node, pair)
        subtree = self._subtree(node, pair)
        if last:
            return 0 if subtree >= UNLIMITED else used - subtree
        if quota is None or quota.borrowing_limit_milli is None:
            return 0
        local = self._local(node, pair)
        return max(0, used - local) - (subtree - local) - quota.borrowing_limit_milli

    def nominal(self, queue: str, pair: Pair) -> int:
        """A queue's declared quota."""
        quota = self._quota(f"queue {queue}", pair)
        return quota.nominal_milli if quota is not None else 0

    def _path(self, queue: str) -> list[str]:
        path = [f"queue {queue}"]
        name = self.queues[queue].cohort
        while name and f"cohort {name}" not in path:
            path.append(f"cohort {name}")
            name = self._cohorts[name].parent if name in self._cohorts else ""
        return path

    def _groups(self, node: str) -> tuple[ResourceGroup, ...]:
        kind, _, name = node.partition(" ")
        if kind == "queue":
            return self.queues[name].resource_groups
        return self._cohorts.get(name, Cohort(name=name)).resource_groups

    def _quota(self, node: str, pair: Pair) -> ResourceQuota | None:
        for group in self._groups(node):
            for flavor in group.flavors:
                if flavor.flavor == pair[0] and pair[1] in flavor.resources:
                    return flavor.resources[pair[1]]
        return None

    def _children(self, node: str) -> Iterable[str]:
        kind, _, name = node.partition(" ")
        if kind == "queue":
            return ()
        below = [f"queue {q.name}" for q in self.queues.values() if q.cohort == name]
        return below + [f"cohort {c.name}" for c in self._cohorts.values() if c.parent == name]

    def _subtree(self, node: str, pair: Pair) -> int:
        quota = self._quota(node, pair)
        own = quota.nominal_milli if quota is not None else 0
        lent = [self._subtree(c, pair) - self._local(c, pair) for c in self._children(node)]
        return min(UNLIMITED, own + sum(lent))

    def _local(self, node: str, pair: Pair) -> int:
        quota = self._quota(node, pair)
        if quota is None or quota.lending_limit_milli is None:
            return 0
        return max(0, self._subtree(node, pair) - quota.lending_limit_milli)

    def _used(self, node: str, pair: Pair, usage: Mapping[str, Mapping[Pair, int]]) -> int:
        kind, _, name = node.partition(" ")
        if kind == "queue":
            return usage.get(name, {}).get(pair, 0)
        return sum(
            max(0, self._used(c, pair, usage) - self._local(c, pair)) for c in self._children(node)
        )


def _group_of(queue: ClusterQueue, resource: str) -> ResourceGroup | None:
    for group in queue.resource_groups:
        if resource in group.covered_resources:
            return group
    return None
