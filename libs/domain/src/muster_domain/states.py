"""What has become of a workload: a closed union, owned by admission.

    Pending ─▶ Reserved ─▶ Admitted ─▶ Finished
       ▲          │            │          ▲
       └── Evicting ◀──────────┘──────────┘   (quota is held until the pods are known to be gone)

`attempt` counts reservations from 1; every message about a reservation names it, so an answer to
an old attempt changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from muster_domain.checks import CheckStatus
from muster_domain.conditions import (
    EvictionReason,
    Explanation,
    Outcome,
    PreemptionReason,
    RequeuedReason,
    UnderlyingCause,
)
from muster_domain.nodes import Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSetAdmission:
    """The flavors and total milli-units that one pod set was granted."""

    name: str
    count: int
    flavors: Mapping[str, str] = field(default_factory=dict[str, str])
    usage: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Quota granted to a workload: where it is charged and in which flavors."""

    cluster_queue: str
    pod_sets: tuple[PodSetAdmission, ...]

    @property
    def usage(self) -> dict[tuple[str, str], int]:
        """Milli-units by (flavor, resource)."""
        total: dict[tuple[str, str], int] = {}
        for pod_set in self.pod_sets:
            for resource, quantity in pod_set.usage.items():
                key = (pod_set.flavors[resource], resource)
                total[key] = total.get(key, 0) + quantity
        return total

    def without(self, done: Mapping[str, int], admitted: Mapping[str, int]) -> "Admission":
        """What is held for so many pods `admitted` of each set, of which some are done (R-15)."""
        return replace(
            self,
            pod_sets=tuple(
                _shrunk(granted, admitted.get(granted.name, 0) - done.get(granted.name, 0))
                for granted in self.pod_sets
            ),
        )


def _shrunk(granted: PodSetAdmission, left: int) -> PodSetAdmission:
    """The same pods, fewer of them; never more."""
    if not 0 <= left < granted.count:
        return granted
    usage = {resource: milli // granted.count * left for resource, milli in granted.usage.items()}
    return replace(granted, count=left, usage=usage)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionCount:
    """How often a workload was evicted for one reason and cause."""

    reason: str
    cause: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What earlier attempts left behind; carried from state to state.

    `unseated_times` counts refusals of placement in a row. `was_ready` once all its pods ran, in
    whatever attempt. `activity_at_ms` is when somebody last said that it is to be active or not,
    `scaled_at_ms` when somebody last said how many pods it is to have.
    `check_retries` counts for each admission check how often it sent the workload back.
    """

    evictions: tuple[EvictionCount, ...] = ()
    unseated_times: int = 0
    was_ready: bool = False
    activity_at_ms: int = 0
    scaled_at_ms: int = 0
    check_retries: tuple[tuple[str, int], ...] = ()

    def evicted(self, reason: str, cause: str) -> "History":
        """One eviction more."""
        counts = {(count.reason, count.cause): count.count for count in self.evictions}
        counts[reason, cause] = counts.get((reason, cause), 0) + 1
        evictions = tuple(
            EvictionCount(reason=why, cause=behind, count=counts[why, behind])
            for why, behind in sorted(counts)
        )
        return replace(self, evictions=evictions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """Waiting for quota. `requeue_at_ms` holds it back until then; `queued_at_ms` orders it.

    `unseated` says that it had quota and placement found no seats. It had none in `avoided_flavors`
    either, so others go first until seats come free. One that is not `active` is not looked at
    until somebody says so. `requeued` is why it may be looked at again after `last_eviction`;
    `waiting_since_ms` is when that was (`None`: since its creation).
    """

    explanation: Explanation
    queued_at_ms: int
    attempt: int = 0
    requeue_count: int = 0
    requeue_at_ms: int | None = None
    last_eviction: EvictionReason | None = None
    past_execution_ms: int = 0
    unseated: bool = False
    avoided_flavors: tuple[str, ...] = ()
    active: bool = True
    requeued: RequeuedReason | None = None
    waiting_since_ms: int | None = None
    history: History = History()
    kind: Literal["pending"] = "pending"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """Quota is held (pending in the ledger); the admission checks have not all answered.

    Placement, the last of them, looks for seats once all `checks` agree: since `checked_at_ms`, or
    from the beginning where there is none.
    """

    admission: Admission
    reserved_at_ms: int
    attempt: int
    queued_at_ms: int
    requeue_count: int = 0
    past_execution_ms: int = 0
    avoided_flavors: tuple[str, ...] = ()
    waiting_since_ms: int | None = None
    checks: tuple[CheckStatus, ...] = ()
    checked_at_ms: int | None = None
    history: History = History()
    kind: Literal["reserved"] = "reserved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Growing:
    """It runs, and waits for quota for more pods: Kueue's next slice of the workload (R-110).

    It stands in line from `queued_at_ms` on, held back until `requeue_at_ms`. `unseated_times`
    counts in a row how often it had the quota and placement not the seats, for which `explanation`
    says why.
    """

    queued_at_ms: int
    requeue_at_ms: int | None = None
    unseated_times: int = 0
    explanation: Explanation | None = None
    kind: Literal["growing"] = "growing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resizing:
    """Placement is to bring the gang to `counts` pods by pod set; quota is held for both sizes.

    Of a gang that is to be smaller the ranks in `leaving` go first, then the highest indices.
    `unseated_times` is that of the wait before it. Seats for more pods are not sought before all
    its `checks` agree; since `since_ms` they are.
    """

    counts: Mapping[str, int]
    leaving: tuple[int, ...] = ()
    unseated_times: int = 0
    checks: tuple[CheckStatus, ...] = ()
    since_ms: int | None = None
    kind: Literal["resizing"] = "resizing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """Quota is posted and seats are bound. `ready_at_ms` once all its pods run.

    `unready_since_ms` while they ran and do not all run now, `recovered_at_ms` when they last did
    again; `stalls` counts that. `lease_until_ms` only for external jobs.
    `reclaimable` counts by pod set the pods that are done: `admission` is what the others hold.
    `checkpointed_at_ms` is when the job last said that its work is saved, in this attempt.
    `resizes` counts what placement was told of other sizes; `resize` is what has not come to an
    end yet, on the way to the numbers of pods that the workload declares.
    `seated_because` is what placement said of the seats.
    """

    admission: Admission
    placement: Placement
    reserved_at_ms: int
    admitted_at_ms: int
    attempt: int
    queued_at_ms: int
    ready_at_ms: int | None = None
    lease_until_ms: int | None = None
    requeue_count: int = 0
    past_execution_ms: int = 0
    unready_since_ms: int | None = None
    recovered_at_ms: int | None = None
    stalls: int = 0
    checks: tuple[CheckStatus, ...] = ()
    reclaimable: Mapping[str, int] = field(default_factory=dict[str, int])
    waiting_since_ms: int | None = None
    checkpointed_at_ms: int | None = None
    resizes: int = 0
    resize: Growing | Resizing | None = None
    history: History = History()
    seated_because: str = ""
    kind: Literal["admitted"] = "admitted"

    @property
    def unsaved_since_ms(self) -> int:
        """Since when an eviction would lose its work."""
        return self.checkpointed_at_ms or self.admitted_at_ms

    @property
    def asked_checks(self) -> tuple[CheckStatus, ...]:
        """The checks that were asked last: for more pods, or for the attempt."""
        return (self.resize.checks if isinstance(self.resize, Resizing) else ()) or self.checks

    @property
    def pods(self) -> dict[str, int]:
        """Pods by pod set for which it holds quota, or held it until they were done."""
        seated = self.placement.counts
        if isinstance(self.resize, Resizing):
            return {n: max(seated.get(n, 0), count) for n, count in self.resize.counts.items()}
        return seated


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    """After the pods are gone the workload waits again, held back until `at_ms` if that is set.

    One that is not `active` is not looked at until somebody says so. `keeps_place` where it is not
    to go behind others for what happened.
    """

    at_ms: int | None = None
    active: bool = True
    keeps_place: bool = False
    kind: Literal["requeue"] = "requeue"


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """After the pods are gone the workload is finished."""

    outcome: Outcome
    message: str = ""
    kind: Literal["end"] = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evicting:
    """It must give everything back; quota stays charged until placement says the seats are free.

    `lost_work_ms` is how long it had worked at `since_ms` since it was admitted or, if that was
    later, since it last said that its work is saved; `None` for one that was never admitted.
    """

    admission: Admission
    reason: EvictionReason | Outcome
    then: Requeue | End
    since_ms: int
    attempt: int
    queued_at_ms: int
    message: str = ""
    preemption_reason: PreemptionReason | None = None
    preemptor: str = ""
    cause: UnderlyingCause = UnderlyingCause.NONE
    requeue_count: int = 0
    past_execution_ms: int = 0
    admitted_at_ms: int | None = None
    ready_at_ms: int | None = None
    checkpointed_at_ms: int | None = None
    lost_work_ms: int | None = None
    history: History = History()
    kind: Literal["evicting"] = "evicting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The one terminal state."""

    outcome: Outcome
    finished_at_ms: int
    attempt: int
    message: str = ""
    explanation: Explanation | None = None
    history: History = History()
    kind: Literal["finished"] = "finished"


WorkloadState = Pending | Reserved | Admitted | Evicting | Finished
