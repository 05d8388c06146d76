"""Who must give way: candidates, search for a smallest set, and checking a proposal."""

from muster_scheduling.preemption.context import Search, Victim, candidate_key
from muster_scheduling.preemption.message import preemption_message
from muster_scheduling.preemption.proposal import Proposal, ProposedVictim
from muster_scheduling.preemption.victims import (
    Oracle,
    Possibility,
    Wanted,
    find_victims,
    may_leave,
    victims_for,
)

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
