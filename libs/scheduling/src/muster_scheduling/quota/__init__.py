"""How much every node of the quota tree may use, uses, lends and borrows (R-16 to R-25)."""

from muster_scheduling.quota.amounts import LEAST, bounded, minus, plus, quota_amount, whole
from muster_scheduling.quota.build import Members, build_tree
from muster_scheduling.quota.journal import Journal, Undone
from muster_scheduling.quota.tree import (
    FlavorResource,
    NodeKind,
    NodeQuota,
    QuotaNode,
    QuotaTree,
    Vector,
)

__all__ = [
    "LEAST",
    "FlavorResource",
    "Journal",
    "Members",
    "NodeKind",
    "NodeQuota",
    "QuotaNode",
    "QuotaTree",
    "Undone",
    "Vector",
    "bounded",
    "build_tree",
    "minus",
    "plus",
    "quota_amount",
    "whole",
]
