"""Ray: RayCluster, and the RayJob and RayService that bring one along."""

from muster_domain.workload import PodSet, RestartPolicy
from muster_manifests.jobs.job_metadata import (
    JobSpec,
    keep_finished_ms,
    make_submission,
    seconds_ms,
)
from muster_manifests.manifest import Manifest
from muster_manifests.pods import PodTemplate, read_pod_template
from muster_manifests.reader import ObjectReader
from muster_manifests.submission import JobSubmission

_OPERATOR_STARTS = "not acted upon: the pods run their containers' own commands"


def read_ray_cluster(manifest: Manifest) -> JobSubmission:
    """Read a RayCluster: the head and each worker group are pod sets of one gang."""
    return _submission(manifest, manifest.body.object("spec"), ())


def read_ray_job(manifest: Manifest) -> JobSubmission:
    """Read a RayJob; a submitter pod counts only where its template is written."""
    spec = manifest.body.object("spec")
    spec.accept(
        "suspend", "shutdownAfterJobFinishes", "submissionMode",
        "jobId", "metadata", "managedBy", "deletionPolicy", "deletionStrategy", "submitterConfig",
    )  # fmt: skip
    spec.not_acted_on(
        "entrypoint", "runtimeEnvYAML", "entrypointNumCpus", "entrypointNumGpus",
        "entrypointResources", why=_OPERATOR_STARTS,
    )  # fmt: skip
    spec.not_acted_on("backoffLimit", "preRunningDeadlineSeconds")
    if "clusterSelector" in spec:
        spec.raw("clusterSelector")
        spec.problem(
            "clusterSelector",
            "a job in a running cluster asks for nothing to admit",
            "write rayClusterSpec",
        )
    submitter: tuple[tuple[str, PodTemplate], ...] = ()
    if "submitterPodTemplate" in spec:
        template = read_pod_template(spec.object("submitterPodTemplate"), RestartPolicy.NEVER)
        submitter = (("submitter", template),)
    return _submission(
        manifest,
        spec.object("rayClusterSpec"),
        submitter,
        JobSpec(
            max_execution_time_ms=seconds_ms(spec, "activeDeadlineSeconds"),
            keep_finished_ms=keep_finished_ms(spec),
        ),
        restart_policy=RestartPolicy.NEVER,
    )


def read_ray_service(manifest: Manifest) -> JobSubmission:
    """Read a RayService's cluster."""
    spec = manifest.body.object("spec")
    spec.accept(
        "suspend", "serveService", "serviceUnhealthySecondThreshold", "upgradeStrategy",
        "deploymentUnhealthySecondThreshold", "excludeHeadPodFromServeSvc",
        "rayClusterDeletionDelaySeconds",
    )  # fmt: skip
    spec.not_acted_on("serveConfigV2", why=_OPERATOR_STARTS)
    return _submission(manifest, spec.object("rayClusterConfig"), ())


def _submission(
    manifest: Manifest,
    cluster: ObjectReader,
    others: tuple[tuple[str, PodTemplate], ...],
    spec: JobSpec | None = None,
    *,
    restart_policy: RestartPolicy = RestartPolicy.ALWAYS,
) -> JobSubmission:
    cluster.accept(
        "rayVersion", "suspend", "autoscalerOptions", "headServiceAnnotations", "managedBy",
        "upgradeStrategy",
    )  # fmt: skip
    cluster.not_acted_on("enableInTreeAutoscaling", "gcsFaultToleranceOptions", "authOptions")
    head = cluster.object("headGroupSpec")
    head.accept("serviceType", "headService", "enableIngress", "rayStartParams", "labels")
    if not head.present:
        cluster.problem("headGroupSpec", "missing", "write headGroupSpec.template")
    templates = [read_pod_template(head.object("template"), restart_policy)]
    pod_sets: list[PodSet] = [templates[0].pod_set("head", 1)]
    for group in cluster.objects("workerGroupSpecs"):
        template = read_pod_template(group.object("template"), restart_policy)
        name = group.required_text("groupName")
        if name in {pod_set.name for pod_set in pod_sets}:
            group.problem("groupName", f"a second group {name!r}", "give it its own name")
        templates.append(template)
        pod_sets.append(template.pod_set(name, _workers(group)))
    for name, template in others:
        templates.append(template)
        pod_sets.append(template.pod_set(name, 1))
    return make_submission(manifest, tuple(templates), tuple(pod_sets), spec or JobSpec())


def _workers(group: ObjectReader) -> int:
    group.accept("rayStartParams", "scaleStrategy", "suspend", "idleTimeoutSeconds", "labels")
    group.accept("maxReplicas")
    low = group.integer("minReplicas", 0, low=0)
    replicas = max(low, group.integer("replicas", low, low=0))
    return replicas * group.integer("numOfHosts", 1, low=1)
