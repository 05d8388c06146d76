"""Reading a whole log, from a simulation or from a bus, and saying which invariants it keeps.

Everything is computed from the facts alone, in the order of the log; nothing of the services that
wrote them is asked.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from muster_admission.rebuild import books_of
from muster_contracts import codec, events, subjects
from muster_contracts.books import BooksKept, Told, note, told_otherwise
from muster_contracts.stored import (
    AdmissionFact,
    Record,
    after_fact,
    is_admission_fact,
    workload_of,
)
from muster_domain.conditions import Explanation
from muster_domain.nodes import Node, NodeCondition, Placement, PodAssignment
from muster_domain.queues import ClusterQueue
from muster_domain.states import Admitted, Evicting, Finished, Pending, Reserved
from muster_runtime.reader import Received

FlavorResource = tuple[str, str]
Charged = tuple[str, FlavorResource]

_UNKNOWN = Explanation(reason="", message="")


@dataclass(slots=True)
class Audit:
    """Facts in, broken invariants out (`INV-n` to the first thing that broke it)."""

    queues: Mapping[str, ClusterQueue]
    books_until: Mapping[str, int] = field(default_factory=dict[str, int])
    """The version up to which a partition's books are wanted; without one, all of them."""
    records: dict[str, Record] = field(default_factory=dict[str, Record])
    broken: dict[str, str] = field(default_factory=dict[str, str])
    submitted: set[str] = field(default_factory=set[str])
    counts: dict[str, int] = field(default_factory=dict[str, int])
    books: dict[str, Told] = field(default_factory=dict[str, Told])
    """What each partition keeps beside the states of its workloads."""
    eviction_reasons: list[str] = field(default_factory=list[str])
    _seen: set[str] = field(default_factory=set[str])
    _usage: dict[Charged, int] = field(default_factory=dict[Charged, int])
    _evictions: set[tuple[str, int, str]] = field(default_factory=set[tuple[str, int, str]])
    _seats: dict[tuple[str, int], Placement] = field(
        default_factory=dict[tuple[str, int], Placement]
    )
    _devices: dict[tuple[str, str, int], str] = field(
        default_factory=dict[tuple[str, str, int], str]
    )
    _slices: dict[tuple[str, int, str], int] = field(
        default_factory=dict[tuple[str, int, str], int]
    )
    _over: set[str] = field(default_factory=set[str])
    _running: dict[str, tuple[str, int, str]] = field(
        default_factory=dict[str, tuple[str, int, str]]
    )

    def read(self, log: Iterable[Received]) -> "Audit":
        """Take in a log, in order; a message that is there twice counts once."""
        for received in log:
            identity = received.headers.get("ce-id", "")
            name = subjects.event_name(received.subject)
            if name in codec.EVENT_TYPES and identity not in self._seen:
                self._seen.add(identity)
                self.counts[name] = self.counts.get(name, 0) + 1
                fact = codec.decode_event(name, received.body)
                if isinstance(fact, events.NodeRegistered):
                    self._registered(fact.node)
                if isinstance(fact, BooksKept):
                    self._kept(fact)
                self._take(fact)
        return self

    def _registered(self, node: Node) -> None:
        for card in node.devices:
            for profile in card.profiles:
                self._slices[node.name, card.index, profile.name] = profile.slices

    def _kept(self, fact: BooksKept) -> None:
        if fact.version <= self.books_until.get(fact.partition, fact.version):
            note(self.books.setdefault(fact.partition, {}), fact)

    def conclude(self) -> dict[str, str]:
        """What is broken, at the end of a log after which nothing more happens."""
        for workload_id in sorted(self.submitted):
            record = self.records.get(workload_id)
            if record is None or not isinstance(record.state, Finished):
                self._break("INV-5", f"{workload_id} has not ended")
        if self._seats:
            self._break("INV-3", f"seats were never given back: {sorted(self._seats)[:3]}")
        return self.broken

    def kept_otherwise(self, partition: str, fields: Mapping[str, bytes]) -> tuple[str, ...]:
        """Which of a partition's stored fields are not as the log says them."""
        return told_otherwise(self.books.get(partition, {}), books_of(fields))

    def _take(self, fact: events.Event) -> None:
        match fact:
            case events.WorkloadSubmitted():
                self._submitted(fact)
            case events.GangPlaced():
                self._placed(fact)
            case events.GangReleased() | events.GangFinished():
                self._unseat((fact.workload_id, fact.attempt))
            case events.PodStarted():
                self._started(fact)
            case events.PodFinished():
                self._over.add(fact.pod_uid)
                self._running.pop(fact.pod_uid, None)
            case events.NodeConditionChanged(condition=NodeCondition.FENCED, node=node):
                for uid in [uid for uid, pod in self._running.items() if pod[2] == node]:
                    del self._running[uid]
            case _:
                if is_admission_fact(fact):
                    self._admission(fact)

    def _submitted(self, fact: events.WorkloadSubmitted) -> None:
        self.submitted.add(fact.workload.id)
        self.records.setdefault(
            fact.workload.id,
            Record(
                workload=fact.workload,
                cluster_queue=fact.cluster_queue,
                state=Pending(explanation=_UNKNOWN, queued_at_ms=0),
            ),
        )

    def _admission(self, fact: AdmissionFact) -> None:
        identity = workload_of(fact)
        before = self.records.get(identity)
        after = after_fact(before, fact)
        if after is None:
            return
        if before is not None and isinstance(before.state, Finished):
            self._break("INV-5", f"{identity} lives on after it ended")
        self._charge(before, -1)
        self.records[identity] = after
        self._charge(after, 1)
        if isinstance(fact, events.WorkloadEvicted):
            self._evicted(identity, fact.state)

    def _evicted(self, identity: str, state: Evicting) -> None:
        eviction = (identity, state.attempt, state.preemptor)
        if eviction in self._evictions:
            self._break("INV-6", f"evicted twice by one rival: {eviction}")
        self._evictions.add(eviction)
        self.eviction_reasons.append(str(state.reason))

    def _charge(self, record: Record | None, sign: int) -> None:
        if record is None or not isinstance(record.state, Reserved | Admitted | Evicting):
            return
        admission = record.state.admission
        for fr, amount in admission.usage.items():
            key = (admission.cluster_queue, fr)
            self._usage[key] = self._usage.get(key, 0) + sign * amount
        if sign > 0:
            self._within_limits(admission.cluster_queue)

    def _within_limits(self, name: str) -> None:
        queue = self.queues.get(name)
        if queue is None:
            return
        members = [
            other
            for other, entry in self.queues.items()
            if other == name or (queue.cohort and entry.cohort == queue.cohort)
        ]
        for group in queue.resource_groups:
            for flavors in group.flavors:
                for resource, quota in flavors.resources.items():
                    fr = (flavors.flavor, resource)
                    used = self._usage.get((name, fr), 0)
                    limit = quota.borrowing_limit_milli
                    if limit is not None and used > quota.nominal_milli + limit:
                        self._break("INV-1", f"{name} {fr} uses {used}")
                    total = sum(self._usage.get((member, fr), 0) for member in members)
                    nominal = sum(_nominal(self.queues[member], fr) for member in members)
                    if total > nominal:
                        self._break("INV-1", f"the tree of {name} uses {total} of {nominal} {fr}")

    def _placed(self, fact: events.GangPlaced) -> None:
        key = (fact.workload_id, fact.attempt)
        record = self.records.get(fact.workload_id)
        if record is not None:
            scaled = record.workload.is_scalable
            least = sum(1 if scaled else pod_set.least for pod_set in record.workload.pod_sets)
            if len(fact.placement.pods) < least:
                self._break("INV-3", f"{fact.workload_id} is seated in part")
        self._unseat(key)
        self._seats[key] = fact.placement
        for pod in fact.placement.pods:
            for device in self._devices_of(pod):
                holder = self._devices.setdefault(device, fact.workload_id)
                if holder != fact.workload_id:
                    self._break("INV-2", f"{device} is held by {holder}, {fact.workload_id}")

    def _devices_of(self, pod: PodAssignment) -> list[tuple[str, str, int]]:
        """What nobody else may have meanwhile; of a divided card its slices."""
        whole = [
            (pod.node, resource, index)
            for resource, indices in pod.devices.items()
            for index in indices
        ]
        return whole + [
            (pod.node, f"slice of card {one.card}", one.start + number)
            for one in pod.instances
            for number in range(self._slices.get((pod.node, one.card, one.profile), 1))
        ]

    def _unseat(self, key: tuple[str, int]) -> None:
        placement = self._seats.pop(key, None)
        for pod in placement.pods if placement is not None else ():
            for device in self._devices_of(pod):
                self._devices.pop(device, None)

    def _started(self, fact: events.PodStarted) -> None:
        if fact.pod_uid in self._over:
            return
        others = {
            attempt
            for workload_id, attempt, _ in self._running.values()
            if workload_id == fact.workload_id and attempt != fact.attempt
        }
        if others:
            self._break("INV-4", f"{fact.workload_id} runs in {sorted({fact.attempt, *others})}")
        self._running[fact.pod_uid] = (fact.workload_id, fact.attempt, fact.node)

    def _break(self, invariant: str, what: str) -> None:
        self.broken.setdefault(invariant, what)


def _nominal(queue: ClusterQueue, fr: FlavorResource) -> int:
    return sum(
        quota.nominal_milli
        for group in queue.resource_groups
        for flavors in group.flavors
        for resource, quota in flavors.resources.items()
        if (flavors.flavor, resource) == fr
    )
