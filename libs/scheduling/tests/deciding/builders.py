"""Short words for queues, cohorts and workloads of one flavor (or a few)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from muster_domain.queues import (
    BorrowWithinCohort,
    ClusterQueue,
    Cohort,
    FlavorFungibility,
    FlavorQuotas,
    LocalQueue,
    PreemptionPolicy,
    QueueingStrategy,
    ReclaimWithinCohort,
    ResourceFlavor,
    ResourceGroup,
    ResourceQuota,
    WithinClusterQueue,
)
from muster_domain.selectors import Selector
from muster_domain.states import Admission, PodSetAdmission
from muster_domain.workload import LocalQueueRef, Owner, PodSet, QueueRef, Workload
from muster_scheduling import (
    AdmissionView,
    AdmittedWorkload,
    Configuration,
    PendingWorkload,
    Policy,
    hold,
    prepare,
)

GPU = "nvidia.com/gpu"
FLAVOR = "a100"
FR = (FLAVOR, GPU)
K = 1000

Quota = int | tuple[int, int | None] | tuple[int, int | None, int | None]
"""nominal, (nominal, borrowing limit) or (nominal, borrowing limit, lending limit), in pieces."""


def quota(written: Quota) -> ResourceQuota:
    """A quota of whole pieces."""
    parts = (written,) if isinstance(written, int) else written
    nominal, borrow, lend = (*parts, None, None)[:3]
    return ResourceQuota(
        nominal_milli=(nominal or 0) * K,
        borrowing_limit_milli=None if borrow is None else borrow * K,
        lending_limit_milli=None if lend is None else lend * K,
    )


def group(flavors: Mapping[str, Quota], resource: str = GPU) -> ResourceGroup:
    """One resource with its flavors, in order."""
    return ResourceGroup(
        covered_resources=(resource,),
        flavors=tuple(
            FlavorQuotas(flavor=name, resources={resource: quota(written)})
            for name, written in flavors.items()
        ),
    )


def queue(  # noqa: PLR0913 - what differs between queues in tests
    name: str,
    quotas: Quota | Mapping[str, Quota],
    cohort: str = "",
    *,
    within: WithinClusterQueue = WithinClusterQueue.NEVER,
    reclaim: ReclaimWithinCohort = ReclaimWithinCohort.NEVER,
    strategy: QueueingStrategy = QueueingStrategy.BEST_EFFORT_FIFO,
    fungibility: FlavorFungibility | None = None,
    weight_milli: int = 1000,
    while_borrowing: BorrowWithinCohort | None = None,
) -> ClusterQueue:
    """A ClusterQueue that takes every namespace."""
    flavors = quotas if isinstance(quotas, Mapping) else {FLAVOR: quotas}
    return ClusterQueue(
        name=name,
        cohort=cohort,
        resource_groups=(group(flavors),),
        namespace_selector=Selector(),
        queueing_strategy=strategy,
        preemption=PreemptionPolicy(
            within_cluster_queue=within,
            reclaim_within_cohort=reclaim,
            borrow_within_cohort=while_borrowing or BorrowWithinCohort(),
        ),
        flavor_fungibility=fungibility or FlavorFungibility(),
        fair_weight_milli=weight_milli,
    )


def cohort(name: str, quotas: Quota | None = None, parent: str = "") -> Cohort:
    """A cohort, with quota of its own or without."""
    groups = () if quotas is None else (group({FLAVOR: quotas}),)
    return Cohort(name=name, parent=parent, resource_groups=groups)


def view_of(
    queues: Sequence[ClusterQueue],
    cohorts: Sequence[Cohort] = (),
    *,
    flavors: Sequence[ResourceFlavor] = (),
    policy: Policy | None = None,
) -> AdmissionView:
    """A view with a LocalQueue `ns/<queue>` for every ClusterQueue."""
    declared = configuration(queues, cohorts, flavors=flavors)
    return AdmissionView(replace(declared, policy=policy or Policy()))


def configuration(
    queues: Sequence[ClusterQueue],
    cohorts: Sequence[Cohort] = (),
    *,
    flavors: Sequence[ResourceFlavor] = (),
) -> Configuration:
    """Everything that the queues name exists."""
    names = {f.flavor for q in queues for g in q.resource_groups for f in g.flavors}
    known = {name: ResourceFlavor(name=name) for name in sorted(names)}
    known |= {flavor.name: flavor for flavor in flavors}
    return Configuration(
        cluster_queues={q.name: q for q in queues},
        cohorts={c.name: c for c in cohorts},
        flavors=known,
        local_queues={
            f"ns/{q.name}": LocalQueue(namespace="ns", name=q.name, cluster_queue=q.name)
            for q in queues
        },
    )


def job(  # noqa: PLR0913 - what differs between jobs in tests
    name: str,
    queue_name: str | QueueRef,
    gpus: int,
    *,
    priority: int = 0,
    created: int = 0,
    count: int = 1,
    minimum: int | None = None,
) -> Workload:
    """A gang of `count` pods with `gpus` each."""
    reference = LocalQueueRef(name=queue_name) if isinstance(queue_name, str) else queue_name
    pods = PodSet(name="main", count=count, requests={GPU: gpus * K}, min_count=minimum)
    return Workload(
        id=name,
        namespace="ns",
        name=name,
        queue=reference,
        pod_sets=(pods,),
        owner=Owner(api_version="batch/v1", kind="Job", name=name),
        created_at_ms=created,
        priority=priority,
    )


def waiting(view: AdmissionView, *jobs: Workload, now_ms: int = 0) -> list[PendingWorkload]:
    """Let jobs wait."""
    pending = [prepare(workload, view.policy) for workload in jobs]
    for workload in pending:
        view.add_pending(workload, now_ms)
    return pending


def running(
    view: AdmissionView, workload: Workload, *, flavor: str = FLAVOR, reserved: int = 0
) -> AdmittedWorkload:
    """Let a job hold its quota in the queue it names."""
    holder = hold(
        workload,
        admission(workload, workload.queue.name, flavor),
        view.policy,
        reserved_at_ms=reserved,
    )
    view.charge(holder)
    return holder


def admission(workload: Workload, queue_name: str, flavor: str = FLAVOR) -> Admission:
    """The grant of the whole gang in one flavor."""
    return Admission(
        cluster_queue=queue_name,
        pod_sets=tuple(
            PodSetAdmission(
                name=pods.name,
                count=pods.count,
                flavors=dict.fromkeys(pods.requests, flavor),
                usage=pods.total_requests,
            )
            for pods in workload.pod_sets
        ),
    )
