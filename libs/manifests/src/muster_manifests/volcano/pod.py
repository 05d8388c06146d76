"""A Pod as Volcano's session sees it: what it asks for, where it is, and whom it belongs to."""

from muster_domain.selectors import Selector
from muster_domain.volcano import Pod, PodAffinityTerm, PodPhase, SpreadConstraint
from muster_manifests.manifest import Manifest
from muster_manifests.reader import ObjectReader
from muster_manifests.resources import PodRequests
from muster_manifests.terms import read_label_selector, read_node_demand

GROUP_ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/pod-group-name")
"""The annotations in use that name a pod's PodGroup; the first that is there counts."""

ROLE = "volcano.sh/task-spec"
_WEIGHT_MAX = 100
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_SCHEDULED = "PodScheduled"


def read_session_pod(manifest: Manifest) -> Pod:
    """Read a Pod with its status."""
    metadata, spec = manifest.metadata, manifest.body.object("spec")
    status = manifest.body.object("status")
    annotations, labels = metadata.annotations, metadata.labels
    groups = (annotations[key] for key in GROUP_ANNOTATIONS if annotations.get(key))
    containers = [item.object("resources") for item in spec.objects("containers")]
    requests, init_requests = _requests(spec)
    return Pod(
        namespace=metadata.namespace,
        name=metadata.name,
        pod_group=next(groups, ""),
        role=annotations.get(ROLE) or labels.get(ROLE, ""),
        phase=status.choice("phase", PodPhase, PodPhase.PENDING),
        node=spec.text("nodeName"),
        nominated_node=status.text("nominatedNodeName"),
        deleting="deletionTimestamp" in manifest.body.object("metadata"),
        gated=bool(spec.objects("schedulingGates")),
        priority=spec.optional_integer("priority"),
        priority_class=spec.text("priorityClassName"),
        may_preempt=spec.text("preemptionPolicy") != "Never",
        requests=requests,
        init_requests=init_requests,
        containers=tuple(_asked(item) for item in containers),
        guaranteed=bool(containers) and all(_guaranteed(item) for item in containers),
        demand=read_node_demand(spec),
        affinity=_affinity(spec.object("affinity")),
        spread=tuple(_spread(item) for item in spec.objects("topologySpreadConstraints")),
        host_ports=_host_ports(spec),
        volume_claims=_claim_names(spec, metadata.name),
        resource_claims=tuple(
            item.text("resourceClaimName") or f"{metadata.name}-{item.text('name')}"
            for item in spec.objects("resourceClaims")
        ),
        labels=labels,
        annotations=annotations,
        created_at_ms=metadata.created_at_ms or 0,
        scheduled_at_ms=_scheduled_at_ms(status),
    )


def _asked(resources: ObjectReader) -> dict[str, int]:
    return {**resources.quantities("limits"), **resources.quantities("requests")}


def _guaranteed(resources: ObjectReader) -> bool:
    """Whether a container asks for exactly its limits of cpu and memory, and for some of both."""
    limits, asked = resources.quantities("limits"), _asked(resources)
    return all(limits.get(name) and limits[name] == asked[name] for name in ("cpu", "memory"))


def _requests(spec: ObjectReader) -> tuple[dict[str, int], dict[str, int]]:
    """What a pod is charged for, and what must be free when it starts (R7)."""
    running, starting = PodRequests(), PodRequests()
    for item in spec.objects("initContainers"):
        asked = _asked(item.object("resources"))
        if item.text("restartPolicy") == "Always":
            running.add_sidecar(asked)
            starting.add_sidecar(asked)
        else:
            starting.add_init_container(asked)
    for item in spec.objects("containers"):
        asked = _asked(item.object("resources"))
        running.add_container(asked)
        starting.add_container(asked)
    overhead = spec.quantities("overhead")
    return (
        running.total(pod_level={}, overhead=overhead),
        starting.total(pod_level={}, overhead=overhead),
    )


def _affinity(affinity: ObjectReader) -> tuple[PodAffinityTerm, ...]:
    terms: list[PodAffinityTerm] = []
    for key, anti in (("podAffinity", False), ("podAntiAffinity", True)):
        reader = affinity.object(key)
        terms += [_term(item, 0, anti=anti) for item in reader.objects(_REQUIRED)]
        for item in reader.objects(_PREFERRED):
            weight = item.integer("weight", 1, low=1, high=_WEIGHT_MAX)
            terms.append(_term(item.object("podAffinityTerm"), weight, anti=anti))
    return tuple(terms)


def _term(item: ObjectReader, weight: int, *, anti: bool) -> PodAffinityTerm:
    return PodAffinityTerm(
        topology_key=item.required_text("topologyKey"),
        selector=_selector(item),
        namespaces=item.texts("namespaces"),
        weight=weight,
        anti=anti,
    )


def _spread(item: ObjectReader) -> SpreadConstraint:
    return SpreadConstraint(
        topology_key=item.required_text("topologyKey"),
        selector=_selector(item),
        max_skew=item.integer("maxSkew", 1, low=1),
        required=item.text("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule",
    )


def _selector(item: ObjectReader) -> Selector:
    return read_label_selector(item.object("labelSelector"))


def _host_ports(spec: ObjectReader) -> tuple[str, ...]:
    """The ports that a pod takes of its node, as `protocol/number`."""
    ports = [port for item in spec.objects("containers") for port in item.objects("ports")]
    return tuple(
        f"{port.text('protocol', 'TCP')}/{port.integer('hostPort')}"
        for port in ports
        if port.integer("hostPort")
    )


def _claim_names(spec: ObjectReader, pod: str) -> tuple[str, ...]:
    names: list[str] = []
    for item in spec.objects("volumes"):
        if "persistentVolumeClaim" in item:
            names.append(item.object("persistentVolumeClaim").text("claimName"))
        elif "ephemeral" in item:
            names.append(f"{pod}-{item.text('name')}")
    return tuple(names)


def _scheduled_at_ms(status: ObjectReader) -> int | None:
    for item in status.objects("conditions"):
        if item.text("type") == _SCHEDULED and item.text("status") == "True":
            return item.time_ms("lastTransitionTime")
    return None
