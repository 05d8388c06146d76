"""Pods and the kinds that keep pods running: Deployment, StatefulSet, LeaderWorkerSet."""

from muster_domain.workload import PodSet, RestartPolicy
from muster_manifests.jobs.job_metadata import make_submission
from muster_manifests.manifest import Manifest
from muster_manifests.pods import read_pod_template
from muster_manifests.submission import JobSubmission

_MAIN = "main"


def read_pod(manifest: Manifest) -> JobSubmission:
    """Read a Pod as a job of one."""
    template = read_pod_template(manifest.body, RestartPolicy.ALWAYS)
    return make_submission(manifest, (template,), (template.pod_set(_MAIN, 1),))


def read_deployment(manifest: Manifest) -> JobSubmission:
    """Read a Deployment or StatefulSet: all replicas are one gang."""
    spec = manifest.body.object("spec")
    spec.accept(
        "selector", "strategy", "minReadySeconds", "revisionHistoryLimit", "paused",
        "progressDeadlineSeconds", "serviceName", "podManagementPolicy", "updateStrategy",
        "persistentVolumeClaimRetentionPolicy", "ordinals",
    )  # fmt: skip
    spec.not_acted_on("volumeClaimTemplates")
    template = read_pod_template(spec.object("template"), RestartPolicy.ALWAYS)
    count = spec.integer("replicas", 1, low=0)
    return make_submission(manifest, (template,), (template.pod_set(_MAIN, count),))


def read_leader_worker_set(manifest: Manifest) -> JobSubmission:
    """Read a LeaderWorkerSet: `replicas` groups of `size` pods, all of them one gang."""
    spec = manifest.body.object("spec")
    spec.accept("startupPolicy", "rolloutStrategy", "networkConfig")
    groups = spec.integer("replicas", 1, low=0)
    group = spec.object("leaderWorkerTemplate")
    group.accept("restartPolicy", "subGroupPolicy")
    group.not_acted_on("volumeClaimTemplates")
    size = group.integer("size", 1, low=1)
    worker = read_pod_template(group.object("workerTemplate"), RestartPolicy.ALWAYS)
    if "leaderTemplate" not in group:
        group.accept("leaderTemplate")
        return make_submission(manifest, (worker,), (worker.pod_set(_MAIN, groups * size),))
    leader = read_pod_template(group.object("leaderTemplate"), RestartPolicy.ALWAYS)
    pod_sets: tuple[PodSet, ...] = (
        leader.pod_set("leader", groups),
        worker.pod_set("worker", groups * (size - 1)),
    )
    return make_submission(manifest, (leader, worker), pod_sets)
