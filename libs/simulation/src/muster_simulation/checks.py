"""What must hold in every run, computed without the code that is under test.

The numbers are those of ARCHITECTURE.md.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from muster_admission.book import Book
from muster_admission.standing import waits
from muster_contracts.stored import Record
from muster_domain.conditions import Explanation
from muster_domain.queues import ClusterQueue, Cohort
from muster_domain.states import Admitted, Evicting, Finished, Reserved
from muster_placement.floor import Floor
from muster_scheduling.placement.checks import violations
from muster_simulation.invariants import InvariantBroken
from muster_simulation.nodes import SimulatedNode

FlavorResource = tuple[str, str]
_UNKNOWN = Explanation(reason="", message="")


@dataclass(slots=True)
class Watch:
    """Looks on after every commit and remembers what may happen only once."""

    queues: Mapping[str, ClusterQueue]
    cohorts: Mapping[str, Cohort] = field(default_factory=dict[str, Cohort])
    ended: dict[str, str] = field(default_factory=dict[str, str])

    def admission(self, book: Book) -> None:
        """Quota, order and terminal states of one partition."""
        usage = _usage(book.records.values())
        self._within_limits(usage)
        self._ledger_agrees(book, usage)
        waiting = [r for r in book.records.values() if waits(r.state)]
        counted = sum(len(queue) for queue in book.view.queues.values())
        counted += len(book.view.orphans) + len(book.aside)
        if counted != len(waiting):
            raise InvariantBroken("INV-7", f"{counted} counted as pending, {len(waiting)} are")
        for record in book.records.values():
            self._ended_for_good(record)

    def placement(self, floor: Floor) -> None:
        """No node or device is given twice, no gang is seated in part."""
        found = violations(floor.table)
        if found:
            raise InvariantBroken("INV-2", str(found[0]))
        for seated in floor.gangs.values():
            counts = Counter(pod.pod_set for pod in seated.gang.placement.pods)
            for pod_set in seated.workload.pod_sets:
                scaled = seated.workload.is_scalable
                least, most = (1, sys.maxsize) if scaled else (pod_set.least, pod_set.count)
                if not least <= counts[pod_set.name] <= most:
                    raise InvariantBroken("INV-3", f"{seated.workload.key} is seated in part")

    def nodes(self, nodes: Iterable[SimulatedNode]) -> None:
        """A workload runs in one attempt at a time, whatever the network does."""
        attempts: dict[str, set[int]] = {}
        for node in nodes:
            for command in node.running:
                attempts.setdefault(command.workload_id, set()).add(command.attempt)
        for workload_id, live in sorted(attempts.items()):
            if len(live) > 1:
                raise InvariantBroken("INV-4", f"{workload_id} runs in attempts {sorted(live)}")

    def _within_limits(self, usage: Mapping[str, Mapping[FlavorResource, int]]) -> None:
        totals: dict[tuple[str, FlavorResource], int] = {}
        capacity: dict[tuple[str, FlavorResource], int] = {}
        for name, queue in self.queues.items():
            root = queue.cohort or f"cq:{name}"
            for group in queue.resource_groups:
                for flavors in group.flavors:
                    for resource, quota in flavors.resources.items():
                        fr = (flavors.flavor, resource)
                        used = usage.get(name, {}).get(fr, 0)
                        limit = quota.borrowing_limit_milli
                        if limit is not None and used > quota.nominal_milli + limit:
                            raise InvariantBroken("INV-1", f"{name} {fr} uses {used}")
                        key = (root, fr)
                        totals[key] = totals.get(key, 0) + used
                        capacity[key] = capacity.get(key, 0) + quota.nominal_milli
        for key, used in totals.items():
            if used > capacity[key]:
                raise InvariantBroken("INV-1", f"{key} uses {used} of {capacity[key]}")

    def _ledger_agrees(self, book: Book, usage: Mapping[str, Mapping[FlavorResource, int]]) -> None:
        charged: dict[tuple[str, ...], int] = {
            tuple(key): balance.reserved_milli + balance.used_milli
            for key, balance in book.ledger.balances().items()
        }
        held: dict[tuple[str, ...], int] = {
            (queue, *fr): amount
            for queue, amounts in usage.items()
            for fr, amount in amounts.items()
        }
        for key in sorted({*charged, *held}):
            if charged.get(key, 0) != held.get(key, 0):
                raise InvariantBroken("INV-8", f"{key}: {charged.get(key, 0)} charged")

    def _ended_for_good(self, record: Record) -> None:
        identity, state = record.workload.id, record.state
        outcome = self.ended.get(identity)
        if isinstance(state, Finished):
            if outcome is not None and outcome != state.outcome:
                raise InvariantBroken("INV-5", f"{identity} ended {outcome} and {state.outcome}")
            self.ended[identity] = state.outcome
        elif outcome is not None:
            raise InvariantBroken("INV-5", f"{identity} lives after it ended {outcome}")


def _usage(records: Iterable[Record]) -> dict[str, dict[FlavorResource, int]]:
    usage: dict[str, dict[FlavorResource, int]] = {}
    for record in records:
        if isinstance(record.state, Reserved | Admitted | Evicting):
            admission = record.state.admission
            amounts = usage.setdefault(admission.cluster_queue, {})
            for fr, amount in admission.usage.items():
                amounts[fr] = amounts.get(fr, 0) + amount
    return usage
