"""Deciding who gets quota: flavor assignment, the admission cycle and its explanation."""

from muster_scheduling.admission.assignment import (
    Assignment,
    Attempt,
    Choice,
    PodSetAssignment,
    ResourceVerdict,
)
from muster_scheduling.admission.cycle import Cycle, Entry, Verdict, reserved_for_head
from muster_scheduling.admission.decide import decide
from muster_scheduling.admission.decision import (
    Budget,
    Decision,
    Effect,
    EffectGroup,
    EvictWorkload,
    FinishReplaced,
    Place,
    RequestPreemption,
    Requeued,
    ReserveQuota,
    StopReason,
)
from muster_scheduling.admission.flavors import FlavorAssigner, PreemptionOracle
from muster_scheduling.admission.modes import Mode, Outlook, Suit, preferred

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
    "EvictWorkload",
    "FinishReplaced",
    "FlavorAssigner",
    "Mode",
    "Outlook",
    "Place",
    "PodSetAssignment",
    "PreemptionOracle",
    "RequestPreemption",
    "Requeued",
    "ReserveQuota",
    "ResourceVerdict",
    "StopReason",
    "Suit",
    "Verdict",
    "decide",
    "preferred",
    "reserved_for_head",
]
