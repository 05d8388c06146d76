"""What has become of a workload: a closed union, owned by admission.

    Pending ─▶ Reserved ─▶ Admitted ─▶ Finished
       ▲          │            │          ▲
       └── Evicting ◀──────────┘──────────┘   (quota is held until the pods are known to be gone)

`attempt` counts reservations from 1; every message about a reservation names it, so an answer to
an old attempt changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from muster_domain.conditions import (
    DeactivationCause,
    EvictionReason,
    Explanation,
    Outcome,
    PreemptionReason,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """Waiting for quota. `requeue_at_ms` holds it back until then; `queued_at_ms` orders it.

    `unseated` says that it had quota and placement found no seats. It had none in `avoided_flavors`
    either, so others go first until seats come free.
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
    kind: Literal["pending"] = "pending"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """Quota is held (pending in the ledger); the admission checks have not all answered."""

    admission: Admission
    reserved_at_ms: int
    attempt: int
    queued_at_ms: int
    requeue_count: int = 0
    past_execution_ms: int = 0
    avoided_flavors: tuple[str, ...] = ()
    kind: Literal["reserved"] = "reserved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """Quota is posted and seats are bound. `ready_at_ms` once all its pods run.

    `lease_until_ms` only for external jobs.
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
    kind: Literal["admitted"] = "admitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    """After the pods are gone the workload waits again, held back until `at_ms` if that is set."""

    at_ms: int | None = None
    kind: Literal["requeue"] = "requeue"


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """After the pods are gone the workload is finished."""

    outcome: Outcome
    message: str = ""
    kind: Literal["end"] = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evicting:
    """It must give everything back; quota stays charged until placement says the seats are free."""

    admission: Admission
    reason: EvictionReason | Outcome
    then: Requeue | End
    since_ms: int
    attempt: int
    queued_at_ms: int
    message: str = ""
    preemption_reason: PreemptionReason | None = None
    preemptor: str = ""
    cause: DeactivationCause = DeactivationCause.NONE
    requeue_count: int = 0
    past_execution_ms: int = 0
    kind: Literal["evicting"] = "evicting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The one terminal state."""

    outcome: Outcome
    finished_at_ms: int
    attempt: int
    message: str = ""
    explanation: Explanation | None = None
    kind: Literal["finished"] = "finished"


WorkloadState = Pending | Reserved | Admitted | Evicting | Finished
