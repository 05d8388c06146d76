"""From a scenario's short forms to manifests, and to what the deciding works on.

With a `prefix` every name that is shared between scenarios begins with it, so that many of them can
be played in one installation; names of workloads and nodes stay as written.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from muster_domain.errors import InvalidValue
from muster_domain.mig import MIG_CARD, known_profiles, offered
from muster_domain.nodes import Device, Node
from muster_domain.policy import Policy
from muster_domain.quantity import parse_quantity_milli
from muster_domain.workload import LocalQueueRef, Workload
from muster_manifests import (
    Document,
    JobSubmission,
    ManifestError,
    SubmissionContext,
    load_objects,
    make_workload,
)
from muster_manifests.catalogue import ObjectCatalogue
from muster_rating.prices import price_books
from muster_scheduling.snapshot.catalog import Configuration
from muster_simulation.scenario import (
    CohortLine,
    Job,
    Line,
    Machines,
    Manifest,
    Quotas,
    Scenario,
    VolcanoJob,
)

KUEUE = "kueue.x-k8s.io/v1beta2"
SCENARIO_LABEL = "muster.dev/scenario"
DURATION = "muster.dev/simulated-duration-ms"
START_DURATION = "muster.dev/simulated-start-ms"
STOP_DURATION = "muster.dev/simulated-stop-ms"
EXIT_CODE = "muster.dev/simulated-exit-code"
FOR_EVER_MS = 10 * 365 * 86_400_000
PLENTY = "1000000"
CARD_BYTES = 80 * 2**30
_CLUSTER_WIDE = (
    "ClusterQueue", "Cohort", "HyperNode", "ResourceFlavor", "Topology", "WorkloadPriorityClass",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Naming:
    """How names are spelled. An empty prefix leaves them as they are."""

    prefix: str = ""

    @property
    def namespace(self) -> str:
        """Where the scenario's jobs and LocalQueues are."""
        return self.prefix or "default"

    def shared(self, name: str) -> str:
        """A name that is the same for a whole installation."""
        return f"{self.prefix}-{name}" if self.prefix and name else name

    def plain(self, name: str) -> str:
        """The name as the scenario writes it."""
        return name.removeprefix(f"{self.prefix}-") if self.prefix else name


def object_manifests(scenario: Scenario, naming: Naming) -> list[Manifest]:
    """Every declared object that a scenario begins with."""
    flavors = dict.fromkeys(
        flavor for line in scenario.queues.values() for flavor in (line.flavors or ("default",))
    )
    return [
        *([configuration_manifest(scenario.config)] if scenario.config else []),
        *(_priority_class(value, naming) for value in sorted(_priorities(scenario))),
        *(_pod_priority_class(value, naming) for value in sorted(_pod_priorities(scenario))),
        *(_topology(name, levels, naming) for name, levels in scenario.topologies.items()),
        *(_flavor(name, scenario, naming) for name in flavors),
        *(_cohort(name, line, naming) for name, line in scenario.cohorts.items()),
        *(manifest for entry in scenario.queues.items() for manifest in queue_of(*entry, naming)),
        *(renamed(manifest, naming) for manifest in scenario.objects),
    ]


def configuration_manifest(config: Manifest) -> Manifest:
    """Kueue's Configuration with these keys."""
    return {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", **config}


def queue_of(name: str, line: Line, naming: Naming) -> tuple[Manifest, Manifest]:
    """A ClusterQueue and the LocalQueue before it."""
    preemption: Manifest = {
        "withinClusterQueue": line.within,
        "reclaimWithinCohort": line.reclaim,
    }
    if line.borrow_within != "Never":
        borrow: Manifest = {"policy": line.borrow_within}
        if line.borrow_within_threshold is not None:
            borrow["maxPriorityThreshold"] = line.borrow_within_threshold
        preemption["borrowWithinCohort"] = borrow
    fungibility = {"whenCanBorrow": line.when_can_borrow, "whenCanPreempt": line.when_can_preempt}
    if line.preference:
        fungibility["preference"] = line.preference
    spec: Manifest = {
        "cohortName": naming.shared(line.cohort),
        "queueingStrategy": line.strategy,
        "namespaceSelector": {},
        "preemption": preemption,
        "flavorFungibility": fungibility,
        "resourceGroups": _groups(line.flavors or {"default": line.quota}, naming),
    }
    if line.weight:
        spec["fairSharing"] = {"weight": line.weight}
    door = _object("LocalQueue", name, {"clusterQueue": naming.shared(name)})
    door["metadata"]["namespace"] = naming.namespace
    return _object("ClusterQueue", naming.shared(name), spec), door


def job_manifest(job: Job, naming: Naming) -> Manifest:
    """A Kubernetes Job."""
    labels = {"kueue.x-k8s.io/queue-name": job.queue, **job.labels}
    if job.priority:
        labels["kueue.x-k8s.io/priority-class"] = naming.shared(_class_name(job.priority))
    annotations = dict(job.annotations)
    if job.least is not None:
        annotations["kueue.x-k8s.io/job-min-parallelism"] = str(job.least)
    run_ms = FOR_EVER_MS if job.run is None else job.run
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job.name,
            "namespace": naming.namespace,
            "labels": labels,
            "annotations": annotations,
        },
        "spec": {
            "parallelism": job.pods,
            "completions": job.pods,
            "template": {
                "metadata": {
                    "annotations": {
                        DURATION: str(run_ms),
                        STOP_DURATION: str(job.stop),
                        **job.pod_annotations,
                    },
                },
                "spec": {
                    "restartPolicy": "Never",
                    "nodeSelector": job.node_selector,
                    "containers": [
                        {
                            "name": "main",
                            "image": "scenario:1",
                            "resources": {"requests": job.each, "limits": job.each},
                        }
                    ],
                },
            },
        },
    }


def volcano_job_manifest(job: VolcanoJob) -> Manifest:
    """A Volcano Job whose names are not yet those of an installation."""
    run_ms = FOR_EVER_MS if job.run is None else job.run
    annotations = {
        START_DURATION: str(job.start),
        DURATION: str(run_ms),
        STOP_DURATION: str(job.stop),
        EXIT_CODE: str(job.exit_code),
    }
    container: Manifest = {
        "name": "main",
        "image": "scenario:1",
        "resources": {"requests": job.each, "limits": job.each},
    }
    task: Manifest = {
        "name": "worker",
        "replicas": job.pods,
        "template": {
            "metadata": {"annotations": annotations},
            "spec": {
                "restartPolicy": "Never",
                "nodeSelector": job.node_selector,
                "containers": [container],
            },
        },
    }
    spec: Manifest = {
        "queue": job.volcano_queue,
        "minAvailable": job.pods if job.least is None else job.least,
        "maxRetry": job.max_retry,
        "policies": list(job.policies),
        "tasks": [task],
    }
    if job.priority:
        spec["priorityClassName"] = _class_name(job.priority)
    if job.topology:
        spec["networkTopology"] = job.topology
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": job.name, "namespace": "default"},
        "spec": spec,
    }


def submission_manifest(written: Job | VolcanoJob | Manifest, naming: Naming) -> Manifest:
    """A submission, from its short form or as written."""
    match written:
        case Job():
            return job_manifest(written, naming)
        case VolcanoJob():
            return renamed(volcano_job_manifest(written), naming)
        case _:
            return renamed(written, naming)


def renamed(manifest: Manifest, naming: Naming) -> Manifest:
    """A manifest whose shared names, and references to them, begin with the prefix."""
    if not naming.prefix or manifest.get("kind") in ("Configuration", "ConfigMap"):
        return manifest
    metadata: Manifest = dict(manifest.get("metadata", {}))
    if manifest.get("kind") in _CLUSTER_WIDE or _is_of_volcano(manifest, "Queue"):
        metadata["name"] = naming.shared(metadata.get("name", ""))
    else:
        metadata["namespace"] = naming.namespace
    result = {**manifest, "metadata": metadata}
    if "spec" in manifest:
        result["spec"] = _renamed_references(manifest["spec"], naming)
    if manifest.get("kind") == "ResourceFlavor":
        result["spec"] = _of_scenario(result.get("spec") or {}, naming)
    if manifest.get("kind") == "HyperNode":
        result["spec"] = {**result["spec"], "members": _members(result["spec"], naming)}
    if _is_of_volcano(manifest, "Job"):
        result["spec"] = _volcano_job_of_scenario(result["spec"], naming)
    return result


def load_documents(manifests: Iterable[Manifest], source: str) -> tuple[Document, ...]:
    """Manifests as documents. Raises `InvalidValue` with the first problem and its place."""
    try:
        return load_objects(list(manifests), source=source).documents
    except ManifestError as error:
        raise InvalidValue(str(error), field=source) from error


def configuration_of(catalogue: ObjectCatalogue) -> Configuration:
    """What is declared, as deciding looks at it."""
    kueue = catalogue.configuration
    return Configuration(
        cluster_queues=dict(catalogue.cluster_queues),
        cohorts=dict(catalogue.cohorts),
        flavors=dict(catalogue.flavors),
        local_queues=dict(catalogue.local_queues),
        namespaces=dict(catalogue.namespaces),
        topologies=dict(catalogue.topologies),
        admission_checks=dict(catalogue.admission_checks),
        provisioning=dict(catalogue.provisioning),
        budgets=dict(catalogue.budgets),
        prices=price_books(catalogue.price_lists.values()),
        volcano_queues=dict(catalogue.volcano_queues),
        hyper_nodes=dict(catalogue.hyper_nodes),
        volcano_scheduler=catalogue.volcano_scheduler,
        policy=Policy() if kueue is None else kueue.policy,
        lifecycle=None if kueue is None else kueue.lifecycle,
    )


def workload_of(
    document: Document, catalogue: ObjectCatalogue, identity: str, at_ms: int
) -> Workload:
    """The workload of a submitted job. Raises `InvalidValue` for something else."""
    if not isinstance(document.content, JobSubmission):
        raise InvalidValue(f"a {document.kind} is not a job", field=document.source)
    context = SubmissionContext(
        id=identity,
        created_at_ms=at_ms,
        priority_classes=catalogue.priority_classes,
        default_queue=LocalQueueRef(name="default"),
    )
    return make_workload(document.content, context)


def nodes_of(scenario: Scenario, naming: Naming) -> tuple[Node, ...]:
    """The scenario's nodes; where it names none, one that has plenty of everything."""
    groups = scenario.nodes or (_plenty(scenario),)
    return tuple(_node(group, number, naming) for group in groups for number in range(group.count))


def node_groups(scenario: Scenario) -> tuple[Machines, ...]:
    """The same nodes, as groups."""
    return scenario.nodes or (_plenty(scenario),)


def _plenty(scenario: Scenario) -> Machines:
    lines = [quotas for line in scenario.queues.values() for quotas in _tables(line)]
    resources = {resource: PLENTY for quotas in lines for resource in quotas}
    for manifest in scenario.objects:
        for group in manifest.get("spec", {}).get("resourceGroups", ()):
            resources |= dict.fromkeys(group["coveredResources"], PLENTY)
    if scenario.trace is not None:
        resources[scenario.trace.resource] = PLENTY
    return Machines(name="plenty", resources=resources)


def _tables(line: Line) -> list[Quotas]:
    return list(line.flavors.values()) if line.flavors else [line.quota]


def _node(group: Machines, number: int, naming: Naming) -> Node:
    allocatable = {name: parse_quantity_milli(text) for name, text in group.resources.items()}
    gpu = "nvidia.com/gpu"
    devices = tuple(Device(index=index, resource=gpu) for index in range(group.gpus))
    if group.mig_model:
        devices = tuple(_divided_card(group.mig_model, index) for index in range(group.gpus))
        allocatable |= offered(devices)
    elif group.gpus:
        allocatable[gpu] = group.gpus * 1000
    labels = dict(group.labels)
    if naming.prefix:
        labels[SCENARIO_LABEL] = naming.prefix
    return Node(
        name=naming.shared(group.name.replace("{n}", str(number))),
        allocatable=allocatable,
        labels=labels,
        devices=devices,
        simulated=True,
    )


def _divided_card(model: str, index: int) -> Device:
    return Device(
        index=index,
        resource=MIG_CARD,
        model=model,
        memory_bytes=CARD_BYTES,
        profiles=known_profiles(model, CARD_BYTES),
    )


def _groups(flavors: Mapping[str, Quotas], naming: Naming) -> list[Manifest]:
    covered = [resource for quotas in list(flavors.values())[:1] for resource in quotas]
    return [
        {
            "coveredResources": covered,
            "flavors": [
                {
                    "name": naming.shared(name),
                    "resources": [_quota(resource, quotas) for resource in quotas],
                }
                for name, quotas in flavors.items()
            ],
        }
    ]


def _quota(resource: str, quotas: Quotas) -> Manifest:
    quota = quotas[resource]
    row: Manifest = {"name": resource, "nominalQuota": quota.nominal}
    if quota.borrowing is not None:
        row["borrowingLimit"] = quota.borrowing
    if quota.lending is not None:
        row["lendingLimit"] = quota.lending
    return row


def _flavor(name: str, scenario: Scenario, naming: Naming) -> Manifest:
    spec = _of_scenario({"nodeLabels": dict(scenario.flavor_labels.get(name, {}))}, naming)
    if name in scenario.flavor_topologies:
        spec["topologyName"] = naming.shared(scenario.flavor_topologies[name])
    return _object("ResourceFlavor", naming.shared(name), spec)


def _topology(name: str, levels: Iterable[str], naming: Naming) -> Manifest:
    spec: Manifest = {"levels": [{"nodeLabel": level} for level in levels]}
    return _object("Topology", naming.shared(name), spec)


def _of_scenario(spec: Manifest, naming: Naming) -> Manifest:
    if not naming.prefix:
        return spec
    return {**spec, "nodeLabels": {**spec.get("nodeLabels", {}), SCENARIO_LABEL: naming.prefix}}


def _cohort(name: str, line: CohortLine, naming: Naming) -> Manifest:
    spec: Manifest = {}
    if line.parent:
        spec["parentName"] = naming.shared(line.parent)
    if line.quota:
        spec["resourceGroups"] = _groups({"default": line.quota}, naming)
    if line.weight:
        spec["fairSharing"] = {"weight": line.weight}
    return _object("Cohort", naming.shared(name), spec)


def _priorities(scenario: Scenario) -> set[int]:
    jobs = [job for one in scenario.rounds for job in one.submit if isinstance(job, Job)]
    found = {job.priority for job in jobs if job.priority}
    return found | ({1} if scenario.trace is not None else set[int]())


def _pod_priorities(scenario: Scenario) -> set[int]:
    jobs = [job for one in scenario.rounds for job in one.submit if isinstance(job, VolcanoJob)]
    return {job.priority for job in jobs if job.priority}


def _pod_priority_class(value: int, naming: Naming) -> Manifest:
    manifest = _priority_class(value, naming)
    return {**manifest, "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}


def _priority_class(value: int, naming: Naming) -> Manifest:
    manifest = _object("WorkloadPriorityClass", naming.shared(_class_name(value)), {})
    del manifest["spec"]
    return {**manifest, "value": value}


def _class_name(priority: int) -> str:
    return f"minus-{-priority}" if priority < 0 else f"plus-{priority}"


def _object(kind: str, name: str, spec: Manifest) -> Manifest:
    return {"apiVersion": KUEUE, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _is_of_volcano(manifest: Manifest, kind: str) -> bool:
    group = str(manifest.get("apiVersion", "")).partition("/")[0]
    return group.endswith("volcano.sh") and manifest.get("kind") == kind


def _members(spec: Manifest, naming: Naming) -> list[Manifest]:
    """Members of a HyperNode that are named, by their names here."""
    return [
        {**member, "selector": {"exactMatch": {"name": naming.shared(exact["name"])}}}
        if (exact := member["selector"].get("exactMatch"))
        else member
        for member in spec["members"]
    ]


def _volcano_job_of_scenario(spec: Manifest, naming: Naming) -> Manifest:
    """A Job's spec with its queue's name here, and kept to the scenario's nodes."""
    tasks: list[Manifest] = []
    for task in spec["tasks"]:
        pod = task["template"]["spec"]
        chosen = {**pod.get("nodeSelector", {}), SCENARIO_LABEL: naming.prefix}
        template = {**task["template"], "spec": {**pod, "nodeSelector": chosen}}
        tasks.append({**task, "template": template})
    result = {**spec, "queue": naming.shared(spec["queue"]), "tasks": tasks}
    if "priorityClassName" in spec:
        result["priorityClassName"] = naming.shared(spec["priorityClassName"])
    return result


_REFERENCES = ("clusterQueue", "cohortName", "parent", "parentName", "topologyName")


def _renamed_references(spec: Manifest, naming: Naming) -> Manifest:
    result: Manifest = {
        key: naming.shared(value) if key in _REFERENCES else value for key, value in spec.items()
    }
    if "resourceGroups" in result:
        result["resourceGroups"] = [
            {
                **group,
                "flavors": [
                    {**flavor, "name": naming.shared(flavor["name"])} for flavor in group["flavors"]
                ],
            }
            for group in result["resourceGroups"]
        ]
    return result
