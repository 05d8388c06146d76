"""Suites about what queues say of themselves."""

from typing import Any

from kueue_world import load_queue, load_world, make_view

from muster_domain.quantity import format_quantity
from muster_domain.queues import AdmissionCheck
from muster_scheduling import QueueUsage, cluster_queue_usage, local_queue_usage
from muster_scheduling.snapshot.activity import condition, terminating
from muster_scheduling.snapshot.catalog import Catalog
from muster_scheduling.snapshot.status import FlavorTotals


def queue_usage(case: dict[str, Any]) -> dict[str, Any]:
    """What is held of a ClusterQueue."""
    view = make_view(case, load_world(case))
    usage = cluster_queue_usage(view, case["incoming"]["clusterQueue"])
    return _written(usage, borrowed=True) if usage is not None else {}


def local_usage(case: dict[str, Any]) -> dict[str, Any]:
    """What is held through a LocalQueue."""
    view = make_view(case, load_world(case))
    usage = local_queue_usage(view, case["incoming"]["localQueue"])
    if usage is None:
        return {}
    written = _written(usage, borrowed=False)
    return {"flavorsReservation": written["flavorsReservation"]}


def _written(usage: QueueUsage, *, borrowed: bool) -> dict[str, Any]:
    return {
        "reservingWorkloads": usage.reserving_workloads,
        "admittedWorkloads": usage.admitted_workloads,
        "flavorsReservation": [_flavor(totals, borrowed=borrowed) for totals in usage.reserved],
        "flavorsUsage": [_flavor(totals, borrowed=borrowed) for totals in usage.used],
    }


def _flavor(totals: FlavorTotals, *, borrowed: bool) -> dict[str, Any]:
    return {
        "name": totals.flavor,
        "resources": [
            {
                "name": total.resource,
                "total": format_quantity(total.total_milli),
                **({"borrowed": format_quantity(total.borrowed_milli)} if borrowed else {}),
            }
            for total in totals.resources
        ],
    }


def activity(case: dict[str, Any]) -> dict[str, Any]:
    """Whether a ClusterQueue admits, and why not."""
    world, incoming = load_world(case), case["incoming"]
    given = incoming.get("admissionChecks") or {}
    world.admission_checks |= {
        name: AdmissionCheck(name=name, controller=row["controller"]) for name, row in given.items()
    }
    world.inactive_checks = frozenset(name for name, row in given.items() if not row["active"])
    if "updatedClusterQueue" in incoming:
        queue = load_queue(incoming["updatedClusterQueue"])
        world.cluster_queues[queue.name] = queue
    entry = Catalog(world.configuration()).queues[incoming["clusterQueue"]]
    leaving = incoming.get("currentStatus") == "terminating"
    found = (terminating(),) if leaving else entry.obstructions
    reason, message = condition(found)
    status = "terminating" if leaving else "pending" if found else "active"
    said = {"reason": reason, "message": message}
    if "currentStatus" not in incoming:
        return said
    return {"status": status, **said} if given else {"status": status}


SUITES = {
    "status_clusterqueue_usage": queue_usage,
    "status_localqueue_usage": local_usage,
    "clusterqueue_status": activity,
}
