"""Fair sharing between ClusterQueues: shares, and who goes first by them (R-60 to R-62)."""

from muster_scheduling.fairness.history import LocalQueueHistory, decayed, entry_penalty
from muster_scheduling.fairness.share import SHARE_UNBOUNDED, Share, share_of
from muster_scheduling.fairness.tournament import Contender, Tournament

__all__ = [
    "SHARE_UNBOUNDED",
    "Contender",
    "LocalQueueHistory",
    "Share",
    "Tournament",
    "decayed",
    "entry_penalty",
    "share_of",
]
