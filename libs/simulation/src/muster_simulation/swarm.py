"""What a seed draws: queues, nodes, jobs, and which faults there are."""

import random
from dataclasses import dataclass, replace

from muster_domain.job_policies import JobPolicies, TaskPolicies
from muster_domain.nodes import Device, Node
from muster_domain.queues import (
    BorrowWithinCohort,
    BorrowWithinCohortPolicy,
    ClusterQueue,
    FlavorQuotas,
    LocalQueue,
    PreemptionPolicy,
    QueueingStrategy,
    ReclaimWithinCohort,
    ResourceFlavor,
    ResourceGroup,
    ResourceQuota,
    Topology,
    WithinClusterQueue,
)
from muster_domain.selectors import NodeDemand, Selector
from muster_domain.workload import (
    ELASTIC_JOB,
    External,
    LocalQueueRef,
    Managed,
    Owner,
    PodSet,
    TopologyMode,
    TopologyRequest,
    Workload,
)
from muster_scheduling.snapshot.catalog import Configuration
from muster_simulation.nodes import DURATION, EXIT_CODE
from muster_simulation.world import Faults

GPU = "nvidia.com/gpu"
GPUS_PER_NODE = 4
NAMESPACE = "team"
HALL = Topology(name="hall", levels=("rack", "kubernetes.io/hostname"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A workload with its submission, and what its submitter does later."""

    workload: Workload
    cluster_queue: str
    at_ms: int
    copies: int = 1
    cancel_after_ms: int | None = None
    external_run_ms: int | None = None
    finish_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Everything that a run starts from."""

    configuration: Configuration
    nodes: tuple[Node, ...]
    jobs: tuple[Job, ...]
    faults: Faults
    dedupe_window_ms: int


def draw(seed: int) -> Scenario:
    """The scenario of a seed."""
    dice = random.Random(f"{seed}/scenario")  # noqa: S311 - a simulation
    queues = _queues(dice)
    nodes = tuple(_node(index) for index in range(dice.randrange(2, 7)))
    racked = random.Random(f"{seed}/racks").random() < 0.4  # noqa: PLR2004, S311 - a simulation
    topology = HALL.name if racked else ""
    return Scenario(
        configuration=Configuration(
            cluster_queues={queue.name: queue for queue in queues},
            flavors={
                "gpu": ResourceFlavor(
                    name="gpu", node_labels={"pool": "gpu"}, topology_name=topology
                )
            },
            topologies={HALL.name: HALL} if racked else {},
            local_queues={
                f"{NAMESPACE}/lq-{queue.name}": LocalQueue(
                    namespace=NAMESPACE, name=f"lq-{queue.name}", cluster_queue=queue.name
                )
                for queue in queues
            },
        ),
        nodes=nodes,
        jobs=tuple(
            _elastic(_job(dice, index, queues, racked=racked), seed)
            for index in range(dice.randrange(10, 40))
        ),
        faults=_faults(dice),
        dedupe_window_ms=dice.choice((0, 500, 120_000)),
    )


def _queues(dice: random.Random) -> list[ClusterQueue]:
    preemption = PreemptionPolicy(
        within_cluster_queue=dice.choice(list(WithinClusterQueue)),
        reclaim_within_cohort=dice.choice(list(ReclaimWithinCohort)),
    )
    if preemption.reclaim_within_cohort is not ReclaimWithinCohort.NEVER and dice.random() < 0.3:  # noqa: PLR2004 - a chance
        preemption = PreemptionPolicy(
            within_cluster_queue=preemption.within_cluster_queue,
            reclaim_within_cohort=preemption.reclaim_within_cohort,
            borrow_within_cohort=BorrowWithinCohort(policy=BorrowWithinCohortPolicy.LOWER_PRIORITY),
        )
    cohort = dice.choice(("", "lab", "lab"))
    return [
        ClusterQueue(
            name=f"cq-{index}",
            cohort=cohort,
            queueing_strategy=dice.choice(list(QueueingStrategy)),
            namespace_selector=Selector(),
            preemption=preemption,
            resource_groups=(
                ResourceGroup(
                    covered_resources=(GPU,),
                    flavors=(
                        FlavorQuotas(
                            flavor="gpu",
                            resources={
                                GPU: ResourceQuota(
                                    nominal_milli=dice.randrange(2, 9) * 1000,
                                    borrowing_limit_milli=dice.choice((None, 4000))
                                    if cohort
                                    else None,
                                )
                            },
                        ),
                    ),
                ),
            ),
        )
        for index in range(dice.randrange(1, 4))
    ]


def _node(index: int) -> Node:
    return Node(
        name=f"node-{index}",
        allocatable={GPU: GPUS_PER_NODE * 1000},
        labels={"pool": "gpu", "rack": f"r{index % 2}"},
        devices=tuple(Device(index=number, resource=GPU) for number in range(GPUS_PER_NODE)),
    )


def _job(dice: random.Random, index: int, queues: list[ClusterQueue], *, racked: bool) -> Job:
    queue = dice.choice(queues)
    at_ms = dice.randrange(60_000)
    external = dice.random() < 0.15  # noqa: PLR2004 - a chance
    count = dice.choice((1, 1, 1, 2, 3, 4))
    gpus = dice.choice((1, 1, 2, 4)) if count < 3 else 1  # noqa: PLR2004 - small gangs of big pods
    annotations = {
        DURATION: str(dice.randrange(500, 30_000)),
        EXIT_CODE: "1" if dice.random() < 0.05 else "0",  # noqa: PLR2004 - a chance
    }
    workload = Workload(
        id=f"wl-{index:03d}",
        namespace=NAMESPACE,
        name=f"job-{index:03d}",
        queue=LocalQueueRef(name=f"lq-{queue.name}"),
        pod_sets=(
            PodSet(
                name="main",
                count=count,
                min_count=1 if dice.random() < 0.1 and not external else None,  # noqa: PLR2004 - a chance
                requests={GPU: gpus * 1000},
                demand=NodeDemand(),
                topology=_wish(index, count * gpus) if racked else None,
                annotations=annotations,
            ),
        ),
        owner=Owner(api_version="batch/v1", kind="Job", name=f"job-{index:03d}"),
        created_at_ms=1_000_000 + at_ms,
        priority=dice.choice((0, 0, 5, 10)),
        execution=External(lease_ms=10_000) if external else Managed(),
        max_execution_time_ms=dice.choice((None, None, None, 20_000)),
    )
    return Job(
        workload=workload,
        cluster_queue=queue.name,
        at_ms=at_ms,
        copies=2 if dice.random() < 0.2 else 1,  # noqa: PLR2004 - a chance
        cancel_after_ms=dice.randrange(40_000) if dice.random() < 0.1 else None,  # noqa: PLR2004 - a chance
        external_run_ms=dice.choice((3_000, 15_000, 10**9)) if external else None,
        finish_first=external and dice.random() < 0.2,  # noqa: PLR2004 - a chance
    )


def _elastic(job: Job, seed: int) -> Job:
    """Every third job may be scaled while it lives, or is a gang that grows by itself."""
    chance = random.Random(f"{seed}/elastic/{job.workload.id}").randrange(3)  # noqa: S311 - a simulation
    (pods,) = job.workload.pod_sets
    if chance:
        return job
    if pods.min_count is not None:
        task = TaskPolicies(name=pods.name, min_available=pods.min_count)
        policies = JobPolicies(min_available=pods.min_count, tasks=(task,))
        return replace(job, workload=replace(job.workload, job_policies=policies))
    annotations = {**job.workload.annotations, ELASTIC_JOB: "true"}
    return replace(job, workload=replace(job.workload, annotations=annotations))


def _wish(index: int, gpus: int) -> TopologyRequest | None:
    """Every fourth job has none, which implies anywhere; what is required fits on one node."""
    preferred = TopologyRequest(mode=TopologyMode.PREFERRED, node_label="rack")
    required = TopologyRequest(mode=TopologyMode.REQUIRED, node_label="rack")
    anywhere = TopologyRequest(mode=TopologyMode.UNCONSTRAINED)
    return (None, required if gpus <= GPUS_PER_NODE else preferred, preferred, anywhere)[index % 4]


def _faults(dice: random.Random) -> Faults:
    def maybe(most: int) -> int:
        return dice.randrange(1, most) if dice.random() < 0.6 else 0  # noqa: PLR2004 - a chance

    return Faults(
        crash_before_commit=maybe(30),
        crash_after_commit=maybe(30),
        crash_in_relay=maybe(30),
        takeover=maybe(3),
        duplicate=maybe(300),
        lost_heartbeat=maybe(200),
        node_down=maybe(10),
        node_cut_off=maybe(10),
    )
