"""The stored form of admission's state: admission writes it, preemption and `verify` read it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeGuard

from muster_contracts import codec, events
from muster_domain.conditions import Outcome
from muster_domain.states import WorkloadState
from muster_domain.workload import Workload

WORKLOAD_FIELD = "w/"
TOMBSTONE_FIELD = "t/"
USE_FIELD = "u/"
CLAIM_FIELD = "c/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A workload, where it queues, and what has become of it."""

    workload: Workload
    cluster_queue: str
    state: WorkloadState
    traceparent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """The end of a workload that was reported before its submission arrived."""

    outcome: Outcome
    at_ms: int
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueueUse:
    """What a LocalQueue has used lately, up to `updated_ms` (admission fair sharing).

    Amounts are whole millionths of a milli-unit by resource, as decimal text: they outgrow 64 bits.
    `penalties` are those of workloads that hold quota and were not admitted yet, by id; each has a
    field of its own, so that a field stays small however many there are.
    """

    updated_ms: int
    consumed: Mapping[str, str]
    penalties: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a preemptor waits for: milli-units by flavor and resource, kept from others for it."""

    cluster_queue: str
    amounts: tuple[tuple[str, str, int], ...]
    since_ms: int

    @property
    def usage(self) -> dict[tuple[str, str], int]:
        """Milli-units by (flavor, resource)."""
        return {(flavor, resource): amount for flavor, resource, amount in self.amounts}


def records_of(fields: Mapping[str, bytes]) -> dict[str, Record]:
    """All workloads in a shard's stored fields, by id, sorted."""
    return {
        name.removeprefix(WORKLOAD_FIELD): codec.decode(Record, fields[name])
        for name in sorted(fields)
        if name.startswith(WORKLOAD_FIELD)
    }


def tombstones_of(fields: Mapping[str, bytes]) -> dict[str, Tombstone]:
    """All tombstones in a shard's stored fields, oldest first."""
    found = [
        (name.removeprefix(TOMBSTONE_FIELD), codec.decode(Tombstone, stored))
        for name, stored in fields.items()
        if name.startswith(TOMBSTONE_FIELD)
    ]
    return dict(sorted(found, key=lambda item: (item[1].at_ms, item[0])))


def penalty_field(local_queue: str, workload_id: str) -> str:
    """Where the penalty of one workload stands; `local_queue` is `namespace/name`."""
    return f"{USE_FIELD}{local_queue}/{workload_id}"


def uses_of(fields: Mapping[str, bytes]) -> dict[str, LocalQueueUse]:
    """What LocalQueues used lately in a shard's stored fields, by `namespace/name`, sorted."""
    uses: dict[str, LocalQueueUse] = {}
    for name in sorted(fields):
        if name.startswith(USE_FIELD):
            part = codec.decode(LocalQueueUse, fields[name])
            key = "/".join(name.removeprefix(USE_FIELD).split("/", 2)[:2])
            whole = uses.setdefault(key, part)
            if whole is not part:
                uses[key] = replace(whole, penalties={**whole.penalties, **part.penalties})
    return uses


def claims_of(fields: Mapping[str, bytes]) -> dict[str, Claim]:
    """Claims of preemptors in a shard's stored fields, by claimant, sorted."""
    return {
        name.removeprefix(CLAIM_FIELD): codec.decode(Claim, fields[name])
        for name in sorted(fields)
        if name.startswith(CLAIM_FIELD)
    }


AdmissionFact = (
    events.WorkloadQueued
    | events.QuotaReserved
    | events.ChecksPassed
    | events.WorkloadAdmitted
    | events.PodsBecameReady
    | events.PodsBecameUnready
    | events.QuotaReclaimed
    | events.WorkloadResized
    | events.WorkloadCheckpointed
    | events.WorkloadEvicted
    | events.WorkloadRequeued
    | events.WorkloadFinished
)


def after_fact(before: Record | None, fact: AdmissionFact) -> Record | None:
    """The record after one of admission's facts; None when the fact says too little to make one."""
    match fact:
        case events.WorkloadQueued():
            return Record(
                workload=fact.workload, cluster_queue=fact.cluster_queue, state=fact.state
            )
        case events.QuotaReserved() | events.WorkloadAdmitted():
            queue = fact.state.admission.cluster_queue
            return Record(workload=fact.workload, cluster_queue=queue, state=fact.state)
        case _ if before is None:
            return None
        case events.WorkloadResized():
            return replace(before, workload=fact.workload, state=fact.state)
        case _:
            return replace(before, state=fact.state)


def is_admission_fact(fact: object) -> TypeGuard[AdmissionFact]:
    """Whether the fact changes a record."""
    return isinstance(fact, AdmissionFact)


def workload_of(fact: AdmissionFact) -> str:
    """The id of the workload that a fact is about."""
    match fact:
        case (
            events.WorkloadQueued()
            | events.QuotaReserved()
            | events.ChecksPassed()
            | events.WorkloadAdmitted()
            | events.WorkloadResized()
        ):
            return fact.workload.id
        case _:
            return fact.workload_id
