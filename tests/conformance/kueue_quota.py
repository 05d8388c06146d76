"""Suites about the quota tree."""

from collections.abc import Container, Mapping
from typing import Any

from kueue_world import load_world, make_view, rows, vector

from muster_scheduling import AdmissionView
from muster_scheduling.fairness import share_of
from muster_scheduling.quota import QuotaNode


def available(case: dict[str, Any]) -> dict[str, Any]:
    """What every ClusterQueue may take now, and ever."""
    view = make_view(case, load_world(case))
    for name, usage in case.get("incoming", {}).get("usage", {}).items():
        view.tree.add(view.tree.queues[name], vector(usage))
    nodes = view.tree.queues.items()
    return {
        "available": {
            name: rows({fr: view.tree.free(node, fr) for fr in node.quotas}) for name, node in nodes
        },
        "potentiallyAvailable": {
            name: rows({fr: node.potential[fr] for fr in node.quotas}) for name, node in nodes
        },
    }


def is_borrowing(case: dict[str, Any]) -> dict[str, Any]:
    """Whether a ClusterQueue borrows anything, and anything that is asked."""
    view = make_view(case, load_world(case))
    incoming = case["incoming"]
    node = view.tree.queues[incoming["usageClusterQueue"]]
    view.tree.add(node, vector(incoming["usage"]))
    requested = vector(incoming.get("requested"))
    return {
        "borrowing": not node.within_nominal(node.usage),
        "borrowingOnRequested": not node.within_nominal(requested),
    }


def lendable(case: dict[str, Any]) -> dict[str, Any]:
    """What a cohort could ever lend, by resource."""
    view = make_view(case, load_world(case))
    total: dict[str, int] = {}
    for (_, resource), amount in view.tree.cohorts[case["incoming"]["cohort"]].potential.items():
        total[resource] = total.get(resource, 0) + (amount if resource == "cpu" else amount // 1000)
    return {"lendable": total}


def snapshot(case: dict[str, Any]) -> dict[str, Any]:
    """Quota and usage of every node."""
    world = load_world(case)
    view = make_view(case, world)
    incoming = case.get("incoming", {})
    holders = {w.key: w for w in view.holders.values()}
    for key in incoming.get("remove", []):
        view.release(holders[key].id)
    for key in incoming.get("add", []):
        view.charge(holders[key])
    return {"snapshot": _nodes(view)}


def _nodes(view: AdmissionView) -> dict[str, Any]:
    inactive = sorted(name for name, entry in view.catalog.queues.items() if not entry.active)
    return {
        "clusterQueues": _side(view.tree.queues, inactive),
        "cohorts": _side(view.tree.cohorts, view.tree.cyclic_cohorts),
        "inactiveClusterQueues": inactive,
    }


def _side(nodes: Mapping[str, QuotaNode], but_not: Container[str]) -> dict[str, Any]:
    return {
        name: {"subtreeQuota": rows(node.subtree), "usage": rows(node.usage)}
        for name, node in nodes.items()
        if name not in but_not
    }


def shares(case: dict[str, Any]) -> dict[str, Any]:
    """The dominant resource share of every node."""
    view = make_view(case, load_world(case))
    incoming = case["incoming"]
    busy = view.tree.queues[incoming["usageClusterQueue"]]
    view.tree.add(busy, vector(incoming["usage"]))
    extra = vector(incoming.get("incomingWorkloadRequests"))
    view.tree.add(busy, extra)
    kinds = {"ClusterQueue": view.tree.queues, "Cohort": view.tree.cohorts}
    return {
        "shares": [
            {
                "kind": kind,
                "name": name,
                "weightedShare": found.per_mille,
                "dominantResource": found.dominant,
                "borrowing": found.borrowing,
            }
            for kind, nodes in kinds.items()
            for name, node in nodes.items()
            for found in (share_of(node),)
        ]
    }


SUITES = {
    "quota_dominant_resource_share": shares,
    "quota_available": available,
    "quota_is_borrowing": is_borrowing,
    "quota_cohort_lendable": lendable,
    "snapshot": snapshot,
    "snapshot_add_remove": snapshot,
}
