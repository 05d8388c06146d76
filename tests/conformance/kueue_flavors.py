"""Suites about one workload: which flavors, which victims."""

from typing import Any

from kueue_topology import make_board
from kueue_world import load_record, load_world, make_view, milliseconds, pending_of, rows, vector

from muster_domain.queues import FlavorFungibility, FungibilityPreference, WhenCan
from muster_domain.states import PodSetAdmission
from muster_scheduling import AdmissionView, PendingWorkload, QueueEntry
from muster_scheduling.admission import (
    Assignment,
    FlavorAssigner,
    Mode,
    Outlook,
    Suit,
    preferred,
    reserved_for_head,
)
from muster_scheduling.preemption import Possibility, Wanted, find_victims

MODES = {
    Mode.NO_FIT: "NoFit",
    Mode.PREEMPT: "Preempt",
    Mode.DEFERRED_FIT: "DeferredFit",
    Mode.FIT: "Fit",
}
POSSIBILITIES = {
    "NoCandidates": Possibility.NO_CANDIDATES,
    "Preempt": Possibility.PREEMPT,
    "Reclaim": Possibility.RECLAIM,
}
SUITS = {
    "NoFit": Suit.NO_FIT,
    "NoCandidates": Suit.NO_CANDIDATES,
    "NoPreemptionCandidates": Suit.NO_CANDIDATES,
    "Preempt": Suit.PREEMPT,
    "Reclaim": Suit.RECLAIM,
    "Fit": Suit.FIT,
}


class GivenOracle:
    """Answers that a case gives; what it does not list is possible without borrowing."""

    def __init__(self, answers: list[dict[str, Any]]) -> None:
        self._answers = {
            (a["flavor"], a["resource"]): (
                POSSIBILITIES[a["possibility"]],
                a.get("borrowingLevelAfter", 0),
            )
            for a in answers
        }

    def ask(
        self, preemptor: PendingWorkload, entry: QueueEntry, fr: tuple[str, str], amount: int
    ) -> tuple[Possibility, int]:
        """The given answer."""
        del preemptor, entry, amount
        return self._answers.get(fr, (Possibility.PREEMPT, 0))


def assign(case: dict[str, Any]) -> dict[str, Any]:
    """Assign flavors to one workload."""
    world = load_world(case)
    view = make_view(case, world)
    incoming = case["incoming"]
    _charge(view, incoming["clusterQueue"], incoming.get("clusterQueueUsage"))
    if "secondaryClusterQueueUsage" in incoming:
        other = incoming["secondaryClusterQueue"]
        _charge(view, other, incoming["secondaryClusterQueueUsage"])
    for name, usage in (incoming.get("siblingUsage") or {}).items():
        _charge(view, name, usage)
    workload = pending_of(load_record(incoming["workload"]), view.policy)
    if world.topologies:
        view.use_board(make_board(case, world, with_pods=True))
    oracle = GivenOracle(incoming.get("preemptionOracle") or [])
    entry = view.catalog.queues[incoming["clusterQueue"]]
    replaced = _granted(incoming.get("replacedWorkloadSlice") or {})
    return _assignment(FlavorAssigner(view, workload, entry, oracle, replaced=replaced).assign())


def _granted(old: dict[str, Any]) -> list[PodSetAdmission]:
    return [
        PodSetAdmission(
            name=row["name"],
            count=row["count"],
            flavors=row.get("flavors") or {},
            usage={
                name: amount * (1 if name == "cpu" else 1000)
                for name, amount in (row.get("requests") or {}).items()
            },
        )
        for row in old.get("totalRequests", [])
    ]


def _charge(view: AdmissionView, queue: str, usage: list[dict[str, Any]] | None) -> None:
    if usage:
        view.tree.add(view.tree.queues[queue], vector(usage))


def _assignment(assignment: Assignment) -> dict[str, Any]:
    return {
        "mode": MODES[assignment.mode],
        "assignment": {
            "podSets": [
                {
                    "name": pod_set.name,
                    "flavors": {
                        resource: {"flavor": choice.flavor, "mode": MODES[choice.mode]}
                        for resource, choice in pod_set.choices.items()
                    },
                }
                for pod_set in assignment.pod_sets
            ],
            "borrowing": assignment.borrowing,
            "usage": rows(assignment.usage),
            "noFitReason": assignment.reason or "",
        },
    }


def is_preferred(case: dict[str, Any]) -> dict[str, Any]:
    """Compare two outlooks."""
    incoming = case["incoming"]
    written = incoming["flavorFungibility"]
    fungibility = FlavorFungibility(
        when_can_borrow=WhenCan(written.get("whenCanBorrow") or "MayStopSearch"),
        when_can_preempt=WhenCan(written.get("whenCanPreempt") or "TryNextFlavor"),
        preference=FungibilityPreference(written.get("preference") or "BorrowingOverPreemption"),
    )
    left, right = (
        Outlook(SUITS[incoming[side]["preemptionMode"]], incoming[side].get("borrowingLevel", 0))
        for side in ("a", "b")
    )
    return {"aPreferredOverB": preferred(left, right, fungibility)}


def victims(case: dict[str, Any]) -> dict[str, Any]:
    """Find victims for flavors that are already chosen."""
    view = make_view(case, load_world(case))
    incoming = case["incoming"]
    workload = pending_of(load_record(incoming["workload"]), view.policy)
    usage: dict[tuple[str, str], int] = {}
    need: set[tuple[str, str]] = set()
    for pod_set, chosen in zip(workload.pod_sets, incoming["assignment"]["podSets"], strict=True):
        totals = pod_set.totals(chosen.get("count", pod_set.count))
        for resource, flavor in chosen["flavors"].items():
            fr = (flavor["flavor"], resource)
            usage[fr] = usage.get(fr, 0) + totals.get(resource, 0)
            if flavor["mode"] == "Preempt":
                need.add(fr)
    wanted = Wanted(cluster_queue=incoming["clusterQueue"], usage=usage, need=frozenset(need))
    snapshot = view.snapshot(milliseconds(case["config"].get("clock")))
    found = find_victims(snapshot, workload, wanted)
    return {"targets": [{"workload": v.workload.key, "reason": v.reason.value} for v in found]}


def reserve(case: dict[str, Any]) -> dict[str, Any]:
    """What a blocked head holds back."""
    view = make_view(case, load_world(case))
    incoming = case["incoming"]
    node = view.tree.queues[incoming["clusterQueue"]]
    view.tree.add(node, vector(incoming.get("clusterQueueUsage")))
    assignment = Assignment(
        usage=vector(incoming["assignmentUsage"]),
        borrowing=incoming.get("borrowing", 0),
        mode={name: mode for mode, name in MODES.items()}[incoming["assignmentMode"]],
    )
    return {"reserved": rows(reserved_for_head(node, assignment))}


_ASSIGNER = (
    "", "_allowed_flavors", "_deleted_flavors", "_hierarchical", "_leader_worker_tas",
    "_nofit_reason", "_reclaim_before_priority",
)  # fmt: skip

SUITES = {
    **{f"flavorassigner{suffix}": assign for suffix in _ASSIGNER},
    "flavor_is_preferred": is_preferred,
    "preemption": victims,
    "preemption_hierarchical": victims,
    "preemption_fair": victims,
    "resources_to_reserve": reserve,
}
