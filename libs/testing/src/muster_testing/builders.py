"""Small values for tests: what a test does not say is the plainest there is.

Quantities are whole pieces of GPU where nothing else is said.
"""

from collections.abc import Mapping, Sequence

from muster_contracts import codec, subjects
from muster_contracts.events import Event, WorkloadSubmitted
from muster_contracts.subjects import Service
from muster_domain.nodes import Device, Node, Placement, PodAssignment
from muster_domain.queues import (
    ClusterQueue,
    FlavorQuotas,
    LocalQueue,
    PreemptionPolicy,
    QueueingStrategy,
    ReclaimWithinCohort,
    ResourceFlavor,
    ResourceGroup,
    ResourceQuota,
    StopPolicy,
    WithinClusterQueue,
)
from muster_domain.selectors import Selector
from muster_domain.workload import (
    External,
    LocalQueueRef,
    Managed,
    Owner,
    PodSet,
    Workload,
)
from muster_runtime.reader import Received
from muster_scheduling.snapshot.catalog import Configuration

GPU = "nvidia.com/gpu"
FLAVOR = "a100"
NAMESPACE = "team-a"
DOOR = "jobs"
PARTITION = "p00"
T0_MS = 1_700_000_000_000
"""When tests begin."""


def cluster_queue(  # noqa: PLR0913 - what differs between queues in tests
    name: str = "cq",
    gpus: int = 8,
    *,
    cohort: str = "",
    stop: StopPolicy = StopPolicy.NONE,
    strategy: QueueingStrategy = QueueingStrategy.BEST_EFFORT_FIFO,
    within: WithinClusterQueue = WithinClusterQueue.NEVER,
    reclaim: ReclaimWithinCohort = ReclaimWithinCohort.NEVER,
) -> ClusterQueue:
    """So many GPUs of one flavor, for every namespace."""
    quota = ResourceQuota(nominal_milli=gpus * 1000)
    return ClusterQueue(
        name=name,
        cohort=cohort,
        stop_policy=stop,
        queueing_strategy=strategy,
        namespace_selector=Selector(),
        preemption=PreemptionPolicy(within_cluster_queue=within, reclaim_within_cohort=reclaim),
        resource_groups=(
            ResourceGroup(
                covered_resources=(GPU,),
                flavors=(FlavorQuotas(flavor=FLAVOR, resources={GPU: quota}),),
            ),
        ),
    )


def local_queue(
    cluster_queue: str = "cq", *, name: str = DOOR, stop: StopPolicy = StopPolicy.NONE
) -> LocalQueue:
    """A door of the namespace to a ClusterQueue."""
    return LocalQueue(namespace=NAMESPACE, name=name, cluster_queue=cluster_queue, stop_policy=stop)


def configuration(
    *queues: ClusterQueue, doors: Sequence[LocalQueue] | None = None
) -> Configuration:
    """Queues with everything that they name.

    Without `doors` each has one of its own name, and the first has the usual one besides.
    """
    if doors is None:
        doors = [
            local_queue(queues[0].name),
            *(local_queue(queue.name, name=queue.name) for queue in queues),
        ]
    return Configuration(
        cluster_queues={queue.name: queue for queue in queues},
        flavors={FLAVOR: ResourceFlavor(name=FLAVOR)},
        local_queues={door.key: door for door in doors},
    )


def workload(  # noqa: PLR0913 - what differs between workloads in tests
    identity: str = "w1",
    gpus: int = 1,
    *,
    pods: int = 1,
    name: str = "",
    door: str = DOOR,
    priority: int = 0,
    lease_ms: int | None = None,
    limit_ms: int | None = None,
    created_at_ms: int = T0_MS,
    annotations: Mapping[str, str] | None = None,
    user: str = "",
    active: bool = True,
) -> Workload:
    """So many pods of so many GPUs each; an external job where a lease is given."""
    return Workload(
        id=identity,
        namespace=NAMESPACE,
        name=name or f"job-{identity}",
        queue=LocalQueueRef(name=door),
        pod_sets=(PodSet(name="main", count=pods, requests={GPU: gpus * 1000}),),
        owner=Owner(api_version="batch/v1", kind="Job", name=name or f"job-{identity}"),
        created_at_ms=created_at_ms,
        priority=priority,
        execution=Managed() if lease_ms is None else External(lease_ms=lease_ms),
        max_execution_time_ms=limit_ms,
        annotations=dict(annotations or {}),
        user=user,
        active=active,
    )


def submitted(
    asked: Workload, cluster_queue: str = "cq", *, objects_sequence: int = 0
) -> WorkloadSubmitted:
    """The gateway's word that a job was accepted."""
    return WorkloadSubmitted(
        workload=asked, cluster_queue=cluster_queue, objects_sequence=objects_sequence
    )


def placement(asked: Workload, *nodes: str) -> Placement:
    """Seats for all pods, on the nodes in turn."""
    names = nodes or ("n1",)
    pods = [(pod_set.name, index) for pod_set in asked.pod_sets for index in range(pod_set.count)]
    return Placement(
        pods=tuple(
            PodAssignment(pod_set=name, index=index, rank=rank, node=names[rank % len(names)])
            for rank, (name, index) in enumerate(pods)
        )
    )


def node(name: str = "n1", gpus: int = 4, *, failed: frozenset[int] = frozenset()) -> Node:
    """A machine with GPUs; those in `failed` are broken."""
    healthy = gpus - len(failed)
    devices = [Device(index=index, resource=GPU) for index in range(gpus) if index not in failed]
    return Node(name=name, allocatable={GPU: healthy * 1000}, devices=tuple(devices))


def received(
    fact: Event,
    owner: Service,
    workload_id: str = "",
    *,
    sequence: int = 1,
    partition: str = PARTITION,
    namespace: str = NAMESPACE,
) -> Received:
    """A fact about a workload as the log delivers it."""
    name = codec.EVENT_NAMES[type(fact)]
    return Received(
        sequence=sequence,
        subject=subjects.workload_event(owner, name, partition, namespace, workload_id or "_"),
        headers={"ce-id": f"{name}-{workload_id}-{sequence}"},
        body=codec.encode(fact),
        published_ms=T0_MS,
    )


def node_fact(fact: Event, node: str, *, sequence: int = 1) -> Received:
    """A fact of a node's agent, or a person's wish about a node, as the log delivers it."""
    name = codec.EVENT_NAMES[type(fact)]
    asked = name == "drain_requested"
    subject = subjects.node_request(name, node) if asked else subjects.node_event(name, node)
    return Received(
        sequence=sequence,
        subject=subject,
        headers={"ce-id": f"{name}-{node}-{sequence}"},
        body=codec.encode(fact),
        published_ms=T0_MS,
    )
