"""Who must give way: candidates, search for a smallest set, and checking a proposal."""

from muster_scheduling.preemption.context import Search, candidate_key
from muster_scheduling.preemption.message import preemption_message
from muster_scheduling.preemption.proposal import Proposal, ProposedVictim
from muster_scheduling.preemption.victims import (
    Oracle,
    Wanted,
    find_victims,
    may_leave,
    victims_for,
)
from muster_scheduling.snapshot.remembered import Possibility, Victim

__all__ = [
    "Oracle",
    "Possibility",
    "Proposal",
    "ProposedVictim",
    "Search",
    "Victim",
    "Wanted",
    "candidate_key",
    "find_victims",
    "may_leave",
    "preemption_message",
    "victims_for",
]
