"""What the preemption service hands to admission: victims, all or none."""

from dataclasses import dataclass

from muster_domain.conditions import PreemptionReason
from muster_scheduling.preemption.victims import Wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedVictim:
    """A workload that should give way; `attempt` names the reservation that was looked at."""

    workload_id: str
    attempt: int
    reason: PreemptionReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """All of these victims, or none, for this preemptor."""

    preemptor_id: str
    wanted: Wanted
    victims: tuple[ProposedVictim, ...]
