"""PodGroup: the gang that a Job or pods join by name."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from muster_domain.workload import NetworkTopology
from muster_manifests.gang import GangFinding, GangResult, with_min_member
from muster_manifests.manifest import Manifest
from muster_manifests.submission import JobSubmission
from muster_manifests.volcano.topology import read_network_topology


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """A gang. `min_member` pods start together or none does.

    `min_task_member` counts by role; `min_resources` are milli-units of the whole gang.
    """

    namespace: str
    name: str
    min_member: int = 1
    min_task_member: Mapping[str, int] = field(default_factory=dict[str, int])
    min_resources: Mapping[str, int] = field(default_factory=dict[str, int])
    queue: str = ""
    priority_class: str = ""
    network_topology: NetworkTopology | None = None

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


def read_pod_group(manifest: Manifest) -> PodGroup:
    """Read a PodGroup of Volcano, or of the coscheduling plugin."""
    spec = manifest.body.object("spec")
    spec.accept("scheduleTimeoutSeconds")
    spec.not_acted_on("subGroupPolicy")
    by_task = spec.object("minTaskMember")
    return PodGroup(
        namespace=manifest.metadata.namespace,
        name=manifest.metadata.name,
        min_member=spec.integer("minMember", 1, low=0),
        min_task_member={name: by_task.integer(name, 0, low=0) for name in by_task.keys},
        min_resources=spec.quantities("minResources"),
        queue=spec.text("queue"),
        priority_class=spec.text("priorityClassName"),
        network_topology=read_network_topology(spec),
    )


def join_pod_group(
    submission: JobSubmission, group: PodGroup, *, pods_in_group: int | None = None
) -> GangResult:
    """Give a job what its PodGroup says; what the job says itself stays.

    `pods_in_group` counts the pods of every job that names the group; by default those of this job.
    A gang that its pods can never fill is refused; one that spans several jobs is told.
    """
    own_pods = sum(pod_set.count for pod_set in submission.pod_sets)
    pods = own_pods if pods_in_group is None else pods_in_group
    joined = replace(
        submission,
        volcano_queue=submission.volcano_queue or group.queue,
        priority_class=submission.priority_class or group.priority_class,
        network_topology=submission.network_topology or group.network_topology,
    )
    if group.min_member > pods:
        finding = GangFinding(
            problem=f"PodGroup {group.name} needs {group.min_member} members of {pods} pods",
            fix="lower minMember or raise replicas",
            refused=True,
        )
        return GangResult(submission=joined, findings=(finding,))
    if pods > own_pods:
        finding = GangFinding(
            problem=f"PodGroup {group.name} spans several jobs: each starts by itself",
            fix="write one job with several tasks",
        )
        return GangResult(submission=joined, findings=(finding,))
    if any(pod_set.min_count is not None for pod_set in submission.pod_sets):
        return GangResult(submission=joined)
    return with_min_member(joined, group.min_member, group.min_task_member)
