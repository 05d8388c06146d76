"""PodGroup: the gang that a Job or pods join by name."""

from dataclasses import replace

from muster_domain.volcano import PodGroup, PodGroupPhase, SubGroupPolicy
from muster_manifests.gang import GangFinding, GangResult, with_min_member
from muster_manifests.manifest import Manifest
from muster_manifests.reader import ObjectReader
from muster_manifests.submission import JobSubmission
from muster_manifests.terms import read_label_selector
from muster_manifests.volcano.topology import read_network_topology

__all__ = ["PodGroup", "join_pod_group", "read_pod_group"]


def read_pod_group(manifest: Manifest) -> PodGroup:
    """Read a PodGroup of Volcano, or of the coscheduling plugin."""
    spec = manifest.body.object("spec")
    spec.accept("scheduleTimeoutSeconds")
    spec.not_acted_on("subGroupPolicy")
    by_task = spec.object("minTaskMember")
    roles = sum(by_task.integer(name, 0, low=0) for name in by_task.keys)
    if spec.integer("minMember", 1, low=0) < roles:
        spec.warn(
            "minTaskMember",
            f"not acted upon: its tasks need {roles} pods, which is more than minMember",
            f"write minMember: {roles}",
        )
    status = manifest.body.object("status")
    status.accept_all()
    return PodGroup(
        namespace=manifest.metadata.namespace,
        name=manifest.metadata.name,
        min_member=spec.integer("minMember", 1, low=0),
        min_task_member={name: by_task.integer(name, 0, low=0) for name in by_task.keys},
        min_resources=spec.quantities("minResources"),
        queue=spec.text("queue"),
        priority_class=spec.text("priorityClassName"),
        network_topology=read_network_topology(spec),
        sub_groups=tuple(_read_sub_group(item) for item in spec.objects("subGroupPolicy")),
        phase=status.choice("phase", PodGroupPhase, PodGroupPhase.NONE),
        created_at_ms=manifest.metadata.created_at_ms or 0,
        labels=manifest.metadata.labels,
        annotations=manifest.metadata.annotations,
    )


def _read_sub_group(item: ObjectReader) -> SubGroupPolicy:
    selector = item.object("labelSelector")
    keys = item.texts("matchLabelKeys")
    if not selector.present and not keys:
        item.rule("matchLabelKeys", "missing", "write matchLabelKeys: [volcano.sh/task-spec]")
    return SubGroupPolicy(
        name=item.required_text("name"),
        selector=read_label_selector(selector) if selector.present else None,
        match_label_keys=keys,
        size=item.integer("subGroupSize", 1, low=0),
        min_groups=item.integer("minSubGroups", 0, low=0),
        network_topology=read_network_topology(item),
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
