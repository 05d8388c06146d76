"""Whether a flavor may serve a pod set at all, quota aside (R-27 to R-29)."""

from collections.abc import Collection, Mapping

from muster_domain.queues import ResourceFlavor, Topology
from muster_domain.selectors import NodeDemand, Selector, Taint, untolerated
from muster_domain.states import Admission
from muster_domain.workload import TopologyMode, TopologyRequest
from muster_scheduling.snapshot.catalog import Group, QueueEntry
from muster_scheduling.snapshot.view import AdmissionView
from muster_scheduling.snapshot.workloads import PendingWorkload, PodSetRequest


def obstacle(
    view: AdmissionView,
    workload: PendingWorkload,
    pod_set: PodSetRequest,
    entry: QueueEntry,
    flavor: str,
) -> str:
    """Why the flavor cannot serve the pod set, or the empty string."""
    if flavor in workload.avoided:
        return f"no seats were found in flavor {flavor}"
    return lasting_obstacle(view, workload, pod_set, entry, flavor)


def lasting_obstacle(
    view: AdmissionView,
    workload: PendingWorkload,
    pod_set: PodSetRequest,
    entry: QueueEntry,
    flavor: str,
) -> str:
    """What stands in the way of everybody of the workload's shape, or the empty string."""
    allowed = workload.allowed_flavors
    if allowed is not None and flavor not in allowed:
        return f"flavor {flavor} is not among the flavors that the workload allows"
    key = (pod_set.shape, entry.name, flavor)
    found = view.eligibility.get(key)
    if found is None:
        found = _obstacle(view, pod_set, entry, flavor)
        view.eligibility[key] = found
    return found


def flavors_of(admission: Admission) -> frozenset[str]:
    """Every flavor that an admission names."""
    return frozenset(name for granted in admission.pod_sets for name in granted.flavors.values())


def has_other_flavor(entry: QueueEntry, admission: Admission, tried: Collection[str]) -> bool:
    """Whether the groups that an admission draws on have flavors besides those that were tried."""
    used = flavors_of(admission)
    groups = [group for group in entry.groups if used.intersection(group.flavors)]
    return any(flavor not in tried for group in groups for flavor in group.flavors)


def _obstacle(view: AdmissionView, pod_set: PodSetRequest, entry: QueueEntry, name: str) -> str:
    flavor = view.catalog.flavors.get(name)
    if flavor is None:
        return f"flavor {name} not found"
    mismatch = _topology_mismatch(view, pod_set, entry, flavor)
    if mismatch:
        return mismatch
    tolerations = (*pod_set.demand.tolerations, *flavor.tolerations)
    taint = untolerated(flavor.node_taints, tolerations)
    if taint is not None:
        return f"untolerated taint {_text(taint)} in flavor {name}"
    if not _affinity_matches(pod_set.demand, flavor):
        return f"flavor {name} doesn't match node affinity"
    return ""


def _text(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect.value}"


def _affinity_matches(demand: NodeDemand, flavor: ResourceFlavor) -> bool:
    """Only keys that the flavor itself labels count; a term left empty matches (R-28)."""
    labels = flavor.node_labels
    for key, value in demand.node_selector.items():
        if key in labels and labels[key] != value:
            return False
    terms = [
        Selector(requirements=tuple(r for r in term.requirements if r.key in labels))
        for term in demand.affinity.required_terms
    ]
    if not terms or any(not term.requirements for term in terms):
        return True
    return any(term.matches(labels) for term in terms)


def _topology_mismatch(
    view: AdmissionView, pod_set: PodSetRequest, entry: QueueEntry, flavor: ResourceFlavor
) -> str:
    request = pod_set.topology
    if request is None:
        if flavor.topology_name and not entry.topology_only:
            return f"flavor {flavor.name} supports only topology aware scheduling"
        return ""
    if not flavor.topology_name:
        serves = _serves(entry, flavor.name, pod_set)
        return f"flavor {flavor.name} does not support topology aware scheduling" if serves else ""
    topologies = view.catalog.topologies
    return "" if topologies is None else _level_missing(topologies, request, flavor)


def _level_missing(
    topologies: Mapping[str, Topology], request: TopologyRequest, flavor: ResourceFlavor
) -> str:
    topology = topologies.get(flavor.topology_name)
    if topology is None:
        return f"flavor {flavor.name} information missing in the topology cache"
    wanted = request.node_label if request.mode is not TopologyMode.UNCONSTRAINED else ""
    levels = (wanted, *(constraint.node_label for constraint in request.slices))
    missing = any(level and level not in topology.levels for level in levels)
    return f"flavor {flavor.name} does not contain the requested level" if missing else ""


def _serves(entry: QueueEntry, flavor: str, pod_set: PodSetRequest) -> bool:
    """Whether the flavor gives the pod set any resource that it asks for itself."""
    groups: list[Group] = [group for group in entry.groups if flavor in group.flavors]
    return any(resource in group.resources for group in groups for resource in pod_set.raw)
