"""A case's nodes and pods as the board on which admission seats workloads."""

from collections.abc import Mapping
from typing import Any

from kueue_world import OPTIONS, World, is_holder, pending_of, workload_of
from tas_adapter import ENDED, loaded, options_of

from muster_manifests import WorkloadRecord, load_object, make_admission
from muster_scheduling import AdmissionView, PendingWorkload
from muster_scheduling.placement.topology.snapshot import OtherPod, topology_snapshot
from muster_scheduling.snapshot.board import Seats, TopologyBoard

TAS_LABEL = "kueue.x-k8s.io/tas"
POD_OWNED = "kueue.x-k8s.io/is-group-workload"


def make_board(case: Mapping[str, Any], world: World, *, with_pods: bool) -> TopologyBoard:
    """The topology of every flavor that names one."""
    nodes, others = [], []
    for manifest in case["objects"]:
        if manifest["kind"] == "Node":
            content = load_object(manifest, source="case", options=OPTIONS).content
            nodes.append((content.node, content.condition))
        elif manifest["kind"] == "Pod" and with_pods and not _seated_by_kueue(manifest):
            content = load_object(manifest, source="case", options=OPTIONS).content
            others.append(
                OtherPod(
                    node=manifest["spec"].get("nodeName", ""),
                    requests=content.pod_sets[0].requests,
                    ended=manifest.get("status", {}).get("phase") in ENDED,
                )
            )
    snapshots = {
        flavor.name: topology_snapshot(
            world.topologies[flavor.topology_name], flavor, nodes, others
        )
        for flavor in world.flavors.values()
        if flavor.topology_name in world.topologies
    }
    return TopologyBoard(snapshots, options_of(case))


def _seated_by_kueue(manifest: Mapping[str, Any]) -> bool:
    return TAS_LABEL in (manifest["metadata"].get("labels") or {})


def seats_of(record: WorkloadRecord, world: World) -> tuple[Seats, ...]:
    """Where a workload sits by its status."""
    if record.status.admission is None:
        return ()
    requests = {pod_set.name: pod_set.requests for pod_set in record.submission.pod_sets}
    return tuple(
        Seats(
            flavor=flavor,
            pod_set=granted.name,
            assignment=assignment,
            requests=requests[granted.name],
        )
        for granted in record.status.admission.pod_sets
        if (assignment := loaded(granted.topology)) is not None
        for flavor in sorted(set(granted.flavors.values()))
        if world.flavors[flavor].topology_name
    )


def second_passes(
    case: Mapping[str, Any], world: World, view: AdmissionView
) -> list[PendingWorkload]:
    """The holders that a case sends through the cycle again."""
    named = (case.get("incoming") or {}).get("secondPassWorkloads") or []
    found: list[PendingWorkload] = []
    for place, record in enumerate(world.records):
        key = workload_of(record, place).key
        if key not in named or not is_holder(record) or record.status.admission is None:
            continue
        workload = pending_of(record, view.policy, place)
        workload.has_quota = True
        workload.granted = make_admission(record.status.admission, record.submission.pod_sets)
        workload.seats = seats_of(record, world)
        workload.lost_node = next(iter(record.status.unhealthy_nodes), "")
        found.append(workload)
    return found
