"""Kueue's suites of topology-aware placement."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from kueue_world import load_record

from muster_domain.nodes import DomainCount, TopologyAssignment
from muster_domain.queues import ResourceFlavor, Topology
from muster_domain.workload import TopologyMode, TopologyRequest
from muster_manifests import LoadOptions, load_object
from muster_manifests import TopologyAssignment as WrittenAssignment
from muster_scheduling.placement.topology.assignment import merge, truncate
from muster_scheduling.placement.topology.counts import LevelCounts
from muster_scheduling.placement.topology.find import (
    NoTopology,
    Replacement,
    TopologyPodSet,
    find_assignments,
)
from muster_scheduling.placement.topology.selection import Selection
from muster_scheduling.placement.topology.snapshot import (
    OtherPod,
    TopologySnapshot,
    topology_snapshot,
)
from muster_scheduling.placement.topology.terms import Terms, TopologyOptions
from muster_scheduling.placement.topology.tree import grow_tree

OPTIONS = LoadOptions(default_namespace="", admission_rules=False)
GROUP_ANNOTATION = "kueue.x-k8s.io/is-group-workload"
ENDED = ("Failed", "Succeeded")


def run(suite: str, case: dict[str, Any]) -> dict[str, Any]:
    """Decide one case; a suite that is not covered decides nothing."""
    known = SUITES.get(suite)
    return known(case) if known is not None else {}


def find(case: dict[str, Any]) -> dict[str, Any]:
    """Place the pod sets of one workload."""
    snapshot = load_snapshot(case)
    incoming = case["incoming"]
    pod_sets = [load_pod_set(written) for written in incoming["podSets"]]
    found = find_assignments(
        snapshot,
        pod_sets,
        options_of(case),
        assumed=load_assumed(snapshot, incoming),
        replacement=load_replacement(incoming),
    )
    return {
        "result": {
            name: {"failureReason": answer.reason}
            if isinstance(answer, NoTopology)
            else {"topologyAssignment": written_assignment(answer)}
            for name, answer in found.items()
        }
    }


def load_snapshot(case: dict[str, Any]) -> TopologySnapshot:
    """The flavor's nodes, and what is used of them."""
    config, incoming = case["config"], case["incoming"]
    nodes = []
    others = []
    for manifest in case["objects"]:
        content = load_object(manifest, source="case", options=OPTIONS).content
        if manifest["kind"] == "Node":
            nodes.append((content.node, content.condition))
        elif manifest["kind"] == "Pod":
            others.append(
                OtherPod(
                    node=manifest["spec"].get("nodeName", ""),
                    requests=content.pod_sets[0].requests,
                    ended=manifest.get("status", {}).get("phase") in ENDED,
                )
            )
    snapshot = topology_snapshot(
        Topology(name=config.get("topology", ""), levels=tuple(config["levels"])),
        ResourceFlavor(name="tas", node_labels=config.get("flavorNodeLabels") or {}),
        nodes,
        others,
    )
    for row in incoming.get("priorOwnUsage") or []:
        snapshot.charge(load_usage(snapshot, row), milli(row["singlePodRequests"]))
    for row in incoming.get("priorFlavorUsage") or []:
        usage = load_usage(snapshot, row)
        snapshot.charge_others(usage, milli(row["singlePodRequests"]), options_of(case))
    return snapshot


def load_assumed(snapshot: TopologySnapshot, incoming: Mapping[str, Any]) -> dict[int, Any]:
    """What other flavors use of the same domains, by leaf."""
    rows = incoming.get("aggregatedDomainUsages") or {}
    leaf_of = {",".join(values): leaf for values, leaf in snapshot.leaf_of.items()}
    return {leaf_of[name]: milli(amounts) for name, amounts in rows.items() if name in leaf_of}


def load_usage(snapshot: TopologySnapshot, row: Mapping[str, Any]) -> TopologyAssignment:
    """Pods in one domain."""
    domain = DomainCount(values=tuple(row["values"]), count=row["count"])
    return TopologyAssignment(levels=snapshot.reported_levels, domains=(domain,))


def load_pod_set(written: Mapping[str, Any]) -> TopologyPodSet:
    """One pod set, with what it held before where the case says so."""
    manifest = {**written["podSet"], "name": written["podSet"].get("name") or "main"}
    status: dict[str, Any] = {}
    if written.get("previousAssignment"):
        held = {"name": manifest["name"], "topologyAssignment": written["previousAssignment"]}
        status = {"admission": {"clusterQueue": "cq", "podSetAssignments": [held]}}
    record = load_record({**WORKLOAD, "spec": {"podSets": [manifest]}, "status": status})
    pod_set = record.submission.pod_sets[0]
    admission = record.status.admission
    topology = pod_set.topology
    group = written.get("podSetGroupName") or ""
    if group:
        anywhere = TopologyRequest(mode=TopologyMode.UNCONSTRAINED)
        topology = replace(topology or anywhere, pod_set_group=group)
    return TopologyPodSet(
        name=written["podSet"].get("name", ""),
        count=written["count"],
        requests=milli(written["singlePodRequests"]),
        demand=pod_set.demand,
        topology=topology,
        previous=loaded(admission.pod_sets[0].topology) if admission else None,
    )


def load_replacement(incoming: Mapping[str, Any]) -> Replacement | None:
    """The lost node of a workload that runs."""
    if not incoming.get("workload"):
        return None
    record = load_record(incoming["workload"])
    admission = record.status.admission
    held = {one.name: loaded(one.topology) for one in admission.pod_sets} if admission else {}
    metadata = incoming["workload"]["metadata"]
    owners = metadata.get("ownerReferences") or []
    of_group = GROUP_ANNOTATION in (metadata.get("annotations") or {})
    return Replacement(
        hostname=record.status.unhealthy_nodes[0],
        existing={name: one for name, one in held.items() if one is not None},
        owned_by_pod=not of_group and [owner["kind"] for owner in owners] == ["Pod"],
    )


def sorted_domains(case: dict[str, Any]) -> dict[str, Any]:
    """Order domains that have their counts."""
    domains = sorted(case["incoming"]["domains"], key=lambda domain: domain["levelValues"])
    tree = grow_tree(("level",), [tuple(domain["levelValues"]) for domain in domains])
    columns = ("podCount", "podCountWithLeader", "leaderCount", "affinityScore", "sliceCount",
               "sliceCountWithLeader")  # fmt: skip
    counts = LevelCounts(
        *(np.array([domain[column] for domain in domains], np.int64) for column in columns)
    )
    terms = Terms(
        count=0, level=0, slice_level=0, unconstrained=case["config"].get("unconstrained", False)
    )
    selection = Selection(tree, [counts], terms, options_of(case))
    with_leader = case["config"].get("withLeader", False)
    order = selection.ordered(0, np.arange(len(domains)), with_leader=with_leader)
    return {"order": [domains[number]["id"] for number in order.tolist()]}


def merge_assignments(case: dict[str, Any]) -> dict[str, Any]:
    """Add two assignments up."""
    snapshot = load_snapshot(case)
    left, right = (written_as_domain(case["incoming"][side]) for side in "ab")
    leaves = snapshot.tree.leaves
    paths = {values: leaves[leaf] for values, leaf in snapshot.leaf_of.items()}
    return {"merged": written_assignment(merge(left, right, paths))}


def truncate_assignment(case: dict[str, Any]) -> dict[str, Any]:
    """Cut an assignment to a count."""
    incoming = case["incoming"]
    cut = truncate(written_as_domain(incoming["assignment"]), incoming.get("newCount", 0))
    return {"truncated": written_assignment(cut)}


def options_of(case: Mapping[str, Any]) -> TopologyOptions:
    """The options that a case's feature gates describe."""
    gates = {**case.get("features", {}), **case.get("features_nondefault", {})}
    names = {
        "least_free_when_unconstrained": "TASProfileMixed",
        "inner_slices": "TASMultiLayerTopology",
        "share_between_flavors": "TASHandleOverlappingFlavors",
        "keep_pod_owned": "SkipReassignmentForPodOwnedWorkloads",
        "preferred_affinity": "TASRespectNodeAffinityPreferred",
        "balanced": "TASBalancedPlacement",
        "elastic": "ElasticJobsViaWorkloadSlicesWithTAS",
    }
    return TopologyOptions(**{ours: gates[gate] for ours, gate in names.items() if gate in gates})


def milli(amounts: Mapping[str, int] | None) -> dict[str, int]:
    """Amounts of a case in milli-units; cases count cpu in thousandths, the rest in units."""
    return {r: amount * (1 if r == "cpu" else 1000) for r, amount in (amounts or {}).items()}


def loaded(written: WrittenAssignment | None) -> TopologyAssignment | None:
    """A manifest's assignment as the core has it."""
    if written is None:
        return None
    domains = tuple(DomainCount(values=d.values, count=d.count) for d in written.domains)
    return TopologyAssignment(levels=written.levels, domains=domains)


def written_as_domain(written: Mapping[str, Any]) -> TopologyAssignment:
    """An expanded assignment of a case."""
    domains = written.get("domains") or []
    return TopologyAssignment(
        levels=tuple(written["levels"]),
        domains=tuple(DomainCount(values=tuple(d["values"]), count=d["count"]) for d in domains),
    )


def written_assignment(assignment: TopologyAssignment) -> dict[str, Any]:
    """An assignment as cases write it."""
    return {
        "levels": list(assignment.levels),
        "domains": [{"values": list(d.values), "count": d.count} for d in assignment.domains],
    }


WORKLOAD = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "Workload",
    "metadata": {"name": "wl", "namespace": "ns"},
}

SUITES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "tas_find_topology_assignments": find,
    "tas_sorted_domains": sorted_domains,
    "tas_merge_assignments": merge_assignments,
    "tas_truncate_assignment": truncate_assignment,
}
