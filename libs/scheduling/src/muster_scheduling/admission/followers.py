"""Who else of a ClusterQueue is looked at in a cycle after its head: two of the improvements.

`heads_per_cycle` lets the next one try at once when the one before it got quota. `strict_scope`
lets those pass a blocked StrictFIFO head that could not use any flavor which the head could use.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from muster_domain.policy import StrictScope
from muster_domain.queues import QueueingStrategy
from muster_scheduling.admission.eligibility import obstacle
from muster_scheduling.snapshot.catalog import QueueEntry
from muster_scheduling.snapshot.view import AdmissionView
from muster_scheduling.snapshot.workloads import PendingWorkload

LOOK_AHEAD_MAX = 64
"""So many workloads behind a blocked head are asked whether they could pass it."""


@dataclass(slots=True)
class _Line:
    behind: Iterator[PendingWorkload]
    taken: int = 1
    blocked: frozenset[str] = frozenset()


@dataclass(slots=True)
class Followers:
    """The lines behind the heads of one cycle, as they stood when it began."""

    view: AdmissionView
    _lines: dict[str, _Line] = field(default_factory=dict[str, _Line])

    def after(
        self, workload: PendingWorkload, entry: QueueEntry, *, reserved: bool
    ) -> PendingWorkload | None:
        """Who may try next, after `workload` of the queue got quota or got nothing."""
        improvements = self.view.policy.improvements
        strict = entry.queue.queueing_strategy is QueueingStrategy.STRICT_FIFO
        by_group = strict and improvements.strict_scope is StrictScope.RESOURCE_GROUP
        more = improvements.heads_per_cycle > 1 and not self.view.shares_turns(entry)
        if workload.granted is not None or not (more if reserved else by_group):
            return None
        line = self._lines.get(entry.name)
        if line is None:
            behind = self.view.queues[entry.name].line()
            line = self._lines[entry.name] = _Line(islice(behind, 1, 1 + LOOK_AHEAD_MAX))
        if not reserved:
            line.blocked |= self._reach(workload, entry)
        elif line.taken >= improvements.heads_per_cycle:
            return None
        else:
            line.taken += 1
        for other in line.behind:
            if not line.blocked or line.blocked.isdisjoint(self._reach(other, entry)):
                return other
        return None

    def _reach(self, workload: PendingWorkload, entry: QueueEntry) -> frozenset[str]:
        """Every flavor that could serve any of its pod sets, quota aside."""
        return frozenset(
            flavor
            for pod_set in workload.pod_sets
            for resource, amount in pod_set.per_pod.items()
            if amount and resource in entry.group_of
            for flavor in entry.group_of[resource].flavors
            if not obstacle(self.view, workload, pod_set, entry, flavor)
        )
