"""Deciding who gets quota: flavor assignment, the admission cycle and its explanation."""

from muster_scheduling.admission.assignment import (
    Assignment,
    Attempt,
    Choice,
    PodSetAssignment,
    ResourceVerdict,
)
from muster_scheduling.admission.cycle import Cycle, Entry, Verdict, entry_key, reserved_for_head
from muster_scheduling.admission.decide import decide
from muster_scheduling.admission.decision import (
    Budget,
    Decision,
    Effect,
    EffectGroup,
    EvictUnseated,
    EvictVariant,
    EvictWorkload,
    FinishReplaced,
    Place,
    RequestPreemption,
    Requeued,
    ReserveQuota,
    Seating,
    SeatWorkload,
    StopReason,
)
from muster_scheduling.admission.flavors import FlavorAssigner, PreemptionOracle
from muster_scheduling.admission.limits import max_possible
from muster_scheduling.admission.modes import Mode, Outlook, Suit, preferred
from muster_scheduling.admission.proposal import Refusal, RefusalReason, apply_proposal
from muster_scheduling.admission.standing import Standing, Waiter, closed, explain, standing
from muster_scheduling.admission.violations import Violation, ViolationKind, violations

__all__ = [
    "Assignment",
    "Attempt",
    "Budget",
    "Choice",
    "Cycle",
    "Decision",
    "Effect",
    "EffectGroup",
    "Entry",
    "EvictUnseated",
    "EvictVariant",
    "EvictWorkload",
    "FinishReplaced",
    "FlavorAssigner",
    "Mode",
    "Outlook",
    "Place",
    "PodSetAssignment",
    "PreemptionOracle",
    "Refusal",
    "RefusalReason",
    "RequestPreemption",
    "Requeued",
    "ReserveQuota",
    "ResourceVerdict",
    "SeatWorkload",
    "Seating",
    "Standing",
    "StopReason",
    "Suit",
    "Verdict",
    "Violation",
    "ViolationKind",
    "Waiter",
    "apply_proposal",
    "closed",
    "decide",
    "entry_key",
    "explain",
    "max_possible",
    "preferred",
    "reserved_for_head",
    "standing",
    "violations",
]
