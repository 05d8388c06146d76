"""Suites that run whole admission cycles."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kueue_topology import make_board, seats_of, second_passes
from kueue_world import (
    World,
    is_holder,
    load_world,
    make_view,
    milliseconds,
    topology_on,
    workload_of,
)
from tas_adapter import written_assignment

from muster_domain.conditions import EvictionReason
from muster_domain.nodes import TopologyAssignment
from muster_domain.quantity import format_quantity
from muster_domain.queues import ClusterQueue, ResourceQuota
from muster_domain.states import Admission
from muster_scheduling import AdmissionView
from muster_scheduling.admission import (
    Budget,
    Decision,
    EvictUnseated,
    EvictWorkload,
    ReserveQuota,
    SeatWorkload,
    decide,
    violations,
)


def cycles(case: dict[str, Any]) -> dict[str, Any]:
    """Run `config.cycles` cycles."""
    world = load_world(case)
    view = make_view(case, world)
    now_ms = milliseconds(case["config"].get("clock"))
    keys = _keys(view)
    if topology_on(case) and world.topologies:
        _seat(case, world, view)
    decisions = [_one_cycle(view, now_ms) for _ in range(case["config"].get("cycles", 1))]
    effects = [e for d in decisions for group in d.groups for e in group.effects]
    seatings = [seating for d in decisions for seating in d.seatings]
    explained = {k: e for d in decisions for k, e in d.explanations.items()}
    reserved = {
        e.workload_id: _admission(e.admission, {s.pod_set: s.assignment for s in e.seats})
        for e in effects
        if isinstance(e, ReserveQuota)
    }
    reserved |= {
        e.workload_id: _admission(e.admission, e.placed)
        for e in seatings
        if isinstance(e, SeatWorkload)
    }
    return {
        "newly_reserved": {keys[i]: written for i, written in reserved.items()},
        "preempted": {
            keys[e.workload_id]: e.reason.value for e in effects if isinstance(e, EvictWorkload)
        },
        "evicted": {
            keys[e.workload_id]: EvictionReason.NODE_FAILURES.value
            for e in seatings
            if isinstance(e, EvictUnseated)
        }
        | {keys[e.workload_id]: "FlavorMigration" for d in decisions for e in d.migrations},
        "left": _lists(view, keys, active=True),
        "inadmissible": _lists(view, keys, active=False),
        "pending_conditions": {
            keys[i]: {"reason": str(e.reason)} for i, e in explained.items() if i not in reserved
        },
    }


def scan_progress(case: dict[str, Any]) -> dict[str, Any]:
    """Cycles between which everybody is looked at again, and a quota may change."""
    world = load_world(case)
    view = make_view(case, world)
    now_ms = milliseconds(case["config"].get("clock"))
    keys = _keys(view)
    _seat(case, world, view)
    held: dict[str, Any] = {}
    (name,) = world.cluster_queues
    for number in range(case["config"]["cycles"]):
        _collect(held, keys, _one_cycle(view, now_ms))
        if case["config"]["churnFlavor2QuotaEachCycle"]:
            quota = 4000 if number % 2 else 5000
            changed = _with_quota(world.cluster_queues[name], "tas-flavor-2", quota)
            world.cluster_queues[name] = changed
            view.configure(world.configuration())
        else:
            view.queues[name].flush(now_ms)
    return {
        f"{who}Flavor": held[f"default/{who}"]["podSetAssignments"][0]["flavors"]["cpu"]
        for who in ("pending", "blocker")
        if f"default/{who}" in held
    }


def _with_quota(queue: ClusterQueue, flavor: str, nominal_milli: int) -> ClusterQueue:
    (group,) = queue.resource_groups
    flavors = tuple(
        replace(f, resources={"cpu": ResourceQuota(nominal_milli=nominal_milli)})
        if f.flavor == flavor
        else f
        for f in group.flavors
    )
    return replace(queue, resource_groups=(replace(group, flavors=flavors),))


def _seat(case: dict[str, Any], world: World, view: AdmissionView) -> None:
    """Let the core seat workloads, on the case's nodes."""
    for place, record in enumerate(world.records):
        holder = view.holders.get(workload_of(record, place).id)
        if holder is not None:
            holder.seats = seats_of(record, world)
    view.use_board(make_board(case, world, with_pods=case["suite"] == "scheduler_tas"))
    for workload in second_passes(case, world, view):
        view.look_again(workload)


def last_context(case: dict[str, Any]) -> dict[str, Any]:
    """A cycle, some workloads deleted, another cycle; who holds quota then."""
    world = load_world(case)
    view = make_view(case, world)
    now_ms = milliseconds(case["config"].get("clock"))
    keys = _keys(view)
    held = _held(world)
    _collect(held, keys, _one_cycle(view, now_ms))
    for key in case["incoming"].get("deleteWorkloads", []):
        held.pop(key, None)
        for workload_id in [i for i, k in keys.items() if k == key]:
            view.release(workload_id)
            view.remove_pending(workload_id)
    _collect(held, keys, _one_cycle(view, now_ms))
    return {"assignments": held}


def _one_cycle(view: AdmissionView, now_ms: int) -> Decision:
    for root in view.catalog.queues_of_root:
        view.dirty.setdefault(root)
    snapshot = view.snapshot(now_ms)
    decision = decide(snapshot, Budget(cycles=1))
    broken = violations(snapshot, decision)
    assert not broken, broken
    view.apply(decision)
    return decision


def _keys(view: AdmissionView) -> dict[str, str]:
    pending = [w for queue in view.queues.values() for w in queue.workloads.values()]
    return {w.id: w.key for w in [*pending, *view.holders.values()]}


def _lists(view: AdmissionView, keys: dict[str, str], *, active: bool) -> dict[str, list[str]]:
    return {
        name: [keys[i] for i in (queue.active_ids() if active else queue.parked_ids())]
        for name, queue in view.queues.items()
    }


def _admission(admission: Admission, placed: Mapping[str, TopologyAssignment]) -> dict[str, Any]:
    return {
        "clusterQueue": admission.cluster_queue,
        "podSets": {
            pod_set.name: {
                "count": pod_set.count,
                "flavors": dict(pod_set.flavors),
                "resourceUsage": {r: format_quantity(q) for r, q in pod_set.usage.items()},
                "topology": written_assignment(placed[pod_set.name])
                if pod_set.name in placed
                else None,
            }
            for pod_set in admission.pod_sets
        },
    }


def _held(world: World) -> dict[str, Any]:
    return {
        f"{record.submission.namespace}/{record.submission.name}": {
            "clusterQueue": record.status.admission.cluster_queue,
            "podSetAssignments": [
                {"name": p.name, "flavors": dict(p.flavors)}
                for p in record.status.admission.pod_sets
            ],
        }
        for record in world.records
        if is_holder(record) and record.status.admission is not None
    }


def _collect(held: dict[str, Any], keys: dict[str, str], decision: Decision) -> None:
    for group in decision.groups:
        for effect in group.effects:
            if isinstance(effect, ReserveQuota):
                held[keys[effect.workload_id]] = {
                    "clusterQueue": effect.admission.cluster_queue,
                    "podSetAssignments": [
                        {"name": p.name, "flavors": dict(p.flavors)}
                        for p in effect.admission.pod_sets
                    ],
                }


_CYCLES = (
    "scheduler", "scheduler_fair_sharing", "scheduler_recompute_preemption", "scheduler_tas",
    "scheduler_tas_preemption", "scheduler_tas_cohorts", "scheduler_afs",
    "scheduler_concurrent_admission",
)  # fmt: skip

SUITES = {
    **dict.fromkeys(_CYCLES, cycles),
    "scheduler_last_context": last_context,
    "scheduler_preserve_flavor_scan_progress": scan_progress,
}
