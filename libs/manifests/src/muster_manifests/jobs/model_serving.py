"""Kthena's ModelServing: roles of one entry pod and its workers."""

from muster_domain.workload import PodSet, RestartPolicy
from muster_manifests.jobs.job_metadata import make_submission
from muster_manifests.manifest import Manifest
from muster_manifests.pods import PodTemplate, read_pod_template
from muster_manifests.reader import ObjectReader
from muster_manifests.submission import JobSubmission


def read_model_serving(manifest: Manifest) -> JobSubmission:
    """Read a ModelServing: the pods of all its serving groups are one gang."""
    spec = manifest.body.object("spec")
    spec.accept("schedulerName", "recoveryPolicy", "rolloutStrategy")
    groups = spec.integer("replicas", 1, low=0)
    template = spec.object("template")
    template.accept("restartGracePeriodSeconds")
    template.not_acted_on("networkTopology")
    minima = template.object("gangPolicy").object("minRoleReplicas")
    templates: list[PodTemplate] = []
    pod_sets: list[PodSet] = []
    for role in template.objects("roles"):
        name = role.required_text("name")
        replicas = role.integer("replicas", 1, low=0)
        minimum = minima.integer(name, replicas, low=0)
        for part, pod_template, pods in _parts(role):
            templates.append(pod_template)
            pod_sets.append(
                pod_template.pod_set(
                    f"{name}-{part}",
                    groups * replicas * pods,
                    min_count=groups * minimum * pods if 0 < minimum < replicas else None,
                )
            )
    if not pod_sets:
        template.problem("roles", "missing", "write at least one role")
    return make_submission(manifest, tuple(templates), tuple(pod_sets))


def _parts(role: ObjectReader) -> list[tuple[str, PodTemplate, int]]:
    """Return the parts of a role: name, pod, and pods in each replica of the role."""
    entry = read_pod_template(role.object("entryTemplate"), RestartPolicy.ALWAYS)
    workers = role.integer("workerReplicas", 0, low=0)
    if not workers:
        role.accept("workerTemplate")
        return [("entry", entry, 1)]
    worker = read_pod_template(role.object("workerTemplate"), RestartPolicy.ALWAYS)
    return [("entry", entry, 1), ("worker", worker, workers)]
