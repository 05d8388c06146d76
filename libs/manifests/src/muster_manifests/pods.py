"""Pod templates: what one pod asks for and what it runs."""

from collections.abc import Mapping
from dataclasses import dataclass

from muster_domain.selectors import Labels, NodeDemand
from muster_domain.time_slicing import SHARED_GPU
from muster_domain.workload import (
    Container,
    EnvironmentVariable,
    PodSet,
    RestartPolicy,
    TopologyRequest,
)
from muster_manifests.reader import ObjectReader
from muster_manifests.resources import PodRequests, read_container_requests, read_requests
from muster_manifests.terms import read_node_demand
from muster_manifests.topology_requests import read_topology_annotations

_POD_FIELDS_NOT_ACTED_ON = (
    "volumes", "topologySpreadConstraints", "hostNetwork", "hostPID", "hostIPC", "nodeName",
    "resourceClaims", "schedulingGates", "activeDeadlineSeconds",
    "hostAliases", "shareProcessNamespace", "ephemeralContainers",
)  # fmt: skip
_POD_FIELDS_ACCEPTED = (
    "schedulerName", "serviceAccountName", "serviceAccount", "automountServiceAccountToken",
    "terminationGracePeriodSeconds", "dnsPolicy", "dnsConfig", "enableServiceLinks", "hostname",
    "subdomain", "setHostnameAsFQDN", "imagePullSecrets", "securityContext", "preemptionPolicy",
    "priority", "readinessGates", "os",
)  # fmt: skip
_OFTEN_MISPLACED = (
    "restartPolicy", "containers", "initContainers", "nodeSelector", "tolerations", "affinity",
    "priorityClassName", "schedulerName", "volumes",
)  # fmt: skip
_CONTAINER_FIELDS_NOT_ACTED_ON = (
    "volumeMounts", "volumeDevices", "envFrom", "lifecycle", "livenessProbe", "readinessProbe",
    "startupProbe", "securityContext",
)  # fmt: skip
_CONTAINER_FIELDS_ACCEPTED = (
    "imagePullPolicy", "ports", "stdin", "stdinOnce", "tty", "terminationMessagePath",
    "terminationMessagePolicy", "resizePolicy",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTemplate:
    """A pod as a template describes it; `requests` are milli-units after defaults."""

    requests: dict[str, int]
    demand: NodeDemand
    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...]
    restart_policy: RestartPolicy
    labels: Labels
    annotations: Labels
    priority_class: str
    topology: TopologyRequest | None

    def pod_set(
        self,
        name: str,
        count: int,
        *,
        min_count: int | None = None,
        restart_policy: RestartPolicy | None = None,
        topology: TopologyRequest | None = None,
    ) -> PodSet:
        """Make a pod set of `count` such pods; what is given here wins over the template."""
        return PodSet(
            name=name,
            count=count,
            requests=self.requests,
            min_count=min_count,
            demand=self.demand,
            topology=topology or self.topology,
            containers=self.containers,
            init_containers=self.init_containers,
            restart_policy=restart_policy or self.restart_policy,
            labels=self.labels,
            annotations=self.annotations,
        )


def read_pod_template(
    template: ObjectReader, default_restart: RestartPolicy = RestartPolicy.NEVER
) -> PodTemplate:
    """Read a pod template, or a Pod itself: `metadata` and `spec`."""
    metadata = template.object("metadata")
    metadata.accept("name", "generateName", "namespace", "creationTimestamp", "uid")
    template.not_acted_on(*_OFTEN_MISPLACED, why="ignored here: it belongs under spec")
    spec = template.object("spec")
    spec.accept(*_POD_FIELDS_ACCEPTED)
    spec.not_acted_on(*_POD_FIELDS_NOT_ACTED_ON)
    requests = PodRequests()
    init_containers = _read_init_containers(spec, requests)
    containers = _read_containers(spec, requests)
    total = requests.total(pod_level=read_requests(spec), overhead=_overhead(spec))
    if not any(total.values()):
        spec.warn("containers", "no resources asked for: charged zero", "write resources.requests")
    replicas = total.get(SHARED_GPU, 0) // 1000
    if replicas > 1:
        spec.warn(
            "containers",
            f"{replicas} replicas of shared cards may be turns on one card,"
            " whose memory all of them share",
            f"ask for 1 of {SHARED_GPU}, or for whole cards",
        )
    return PodTemplate(
        requests=total,
        demand=read_node_demand(spec),
        containers=containers,
        init_containers=init_containers,
        restart_policy=spec.choice("restartPolicy", RestartPolicy, default_restart),
        labels=metadata.text_map("labels"),
        annotations=metadata.text_map("annotations"),
        priority_class=spec.text("priorityClassName"),
        topology=read_topology_annotations(metadata),
    )


def _overhead(spec: ObjectReader) -> Mapping[str, int]:
    """Read what the pod takes besides its containers; else its RuntimeClass says it."""
    name = spec.text("runtimeClassName")
    written = spec.quantities("overhead")
    known = spec.options.runtime_classes.get(name)
    if known is None:
        if name:
            spec.warn("runtimeClassName", f"no RuntimeClass {name!r} is declared: no overhead")
        return written
    return written or known.overhead


def _read_containers(spec: ObjectReader, requests: PodRequests) -> tuple[Container, ...]:
    readers = spec.objects("containers")
    if not readers:
        spec.rule("containers", "a pod needs a container", "write containers: [{name: main}]")
    containers: list[Container] = []
    for reader in readers:
        requests.add_container(read_container_requests(reader))
        containers.append(_read_named_container(reader, containers))
    return tuple(containers)


def _read_init_containers(spec: ObjectReader, requests: PodRequests) -> tuple[Container, ...]:
    containers: list[Container] = []
    for reader in spec.objects("initContainers"):
        container = _read_named_container(reader, containers)
        if reader.text("restartPolicy") == "Always":
            reader.warn("restartPolicy", "a sidecar is charged but not started")
            requests.add_sidecar(read_container_requests(reader))
        else:
            requests.add_init_container(read_container_requests(reader))
            containers.append(container)
    return tuple(containers)


def _read_named_container(reader: ObjectReader, before: list[Container]) -> Container:
    reader.accept(*_CONTAINER_FIELDS_ACCEPTED)
    reader.not_acted_on(*_CONTAINER_FIELDS_NOT_ACTED_ON)
    name = reader.required_text("name")
    if any(container.name == name for container in before):
        reader.rule("name", f"a second container {name!r}", "give it a name of its own")
    return read_container(reader, name)


def read_container(reader: ObjectReader, name: str) -> Container:
    """Read what a container of that name runs."""
    return Container(
        name=name,
        image=reader.text("image"),
        command=reader.texts("command"),
        args=reader.texts("args"),
        environment=read_environment(reader),
        working_directory=reader.text("workingDir"),
    )


def read_environment(reader: ObjectReader) -> tuple[EnvironmentVariable, ...]:
    """Read `env`; what comes from elsewhere is left out with a warning."""
    variables: list[EnvironmentVariable] = []
    for item in reader.objects("env"):
        name = item.required_text("name")
        if "valueFrom" in item:
            item.raw("valueFrom")
            item.warn("valueFrom", f"{name} is left out: no Secret, ConfigMap or field is read")
        else:
            variables.append(EnvironmentVariable(name=name, value=item.text("value")))
    return tuple(variables)
