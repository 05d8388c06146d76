"""Kubeflow's training jobs: replicas by role, and TrainJob."""

from dataclasses import replace

from muster_domain.workload import PodSet, RestartPolicy
from muster_manifests.gang import with_min_member
from muster_manifests.jobs.job_metadata import (
    JobSpec,
    keep_finished_ms,
    make_submission,
    seconds_ms,
)
from muster_manifests.manifest import Manifest
from muster_manifests.pods import PodTemplate, read_container, read_pod_template
from muster_manifests.reader import ObjectReader
from muster_manifests.resources import read_requests
from muster_manifests.submission import JobSubmission

_ROLE_ORDER = ("Launcher", "Chief", "Master", "PS", "Worker", "Evaluator")
_RESTART_ALIASES = {"ExitCode": RestartPolicy.ON_FAILURE}
_REPLICA_KEYS = {
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
}


def read_training_job(manifest: Manifest) -> JobSubmission:
    """Read a job of the training operator; its replicas by role are pod sets of one gang."""
    spec = manifest.body.object("spec")
    spec.accept(
        "nprocPerNode", "slotsPerWorker", "sshAuthMountPath", "launcherCreationPolicy",
        "mpiImplementation", "runLauncherAsWorker", "enableDynamicWorker", "successPolicy",
        "cleanPodPolicy",
    )  # fmt: skip
    spec.not_acted_on("elasticPolicy")
    key = _REPLICA_KEYS[manifest.kind]
    roles = spec.object(key)
    if not roles.present:
        spec.problem(key, "missing", f"write {key}: {{Worker: {{replicas: 1, template: ...}}}}")
    names = sorted(roles.keys, key=_role_rank)
    return _read_roles(manifest, [(name, roles.object(name)) for name in names], _run_policy(spec))


def read_old_paddle_job(manifest: Manifest) -> JobSubmission:
    """Read a PaddleJob of PaddlePaddle's own operator."""
    spec = manifest.body.object("spec")
    spec.accept("cleanPodPolicy", "withGloo", "intranet", "framework", "sharedPorts")
    spec.not_acted_on("elastic", "tolerateCount")
    policy = spec.object("schedulingPolicy")
    roles = [(name, spec.object(name)) for name in ("ps", "worker", "heter") if name in spec]
    if not roles:
        spec.problem("worker", "missing", "write worker: {replicas: 1, template: ...}")
    return _read_roles(manifest, roles, (policy, _scheduled(policy)))


def read_train_job(manifest: Manifest) -> JobSubmission:
    """Read a TrainJob from its `trainer` alone: the runtime it refers to is not read."""
    spec = manifest.body.object("spec")
    spec.accept("suspend", "labels", "annotations", "managedBy")
    spec.not_acted_on("initializer", "podTemplateOverrides", "podSpecOverrides")
    spec.not_acted_on("runtimeRef", why="the runtime is not read; only trainer counts")
    trainer = spec.object("trainer")
    trainer.accept("numProcPerNode")
    requests = read_requests(trainer, "resourcesPerNode")
    if not any(requests.values()):
        trainer.warn(
            "resourcesPerNode", "no resources asked for: charged zero", "write resourcesPerNode"
        )
    container = read_container(trainer, "node")
    pod_set = PodSet(
        name="node",
        count=trainer.integer("numNodes", 1, low=1),
        requests=requests,
        containers=(container,),
    )
    return make_submission(manifest, (), (pod_set,))


def _run_policy(spec: ObjectReader) -> tuple[ObjectReader, JobSpec]:
    policy = spec.object("runPolicy")
    policy.accept("suspend", "cleanPodPolicy", "managedBy")
    policy.not_acted_on("backoffLimit")
    scheduling = policy.object("schedulingPolicy")
    found = replace(
        _scheduled(scheduling),
        max_execution_time_ms=seconds_ms(policy, "activeDeadlineSeconds"),
        keep_finished_ms=keep_finished_ms(policy),
    )
    return scheduling, found


def _scheduled(scheduling: ObjectReader) -> JobSpec:
    return JobSpec(
        priority_class=scheduling.text("priorityClass"), volcano_queue=scheduling.text("queue")
    )


def _read_roles(
    manifest: Manifest,
    roles: list[tuple[str, ObjectReader]],
    policy: tuple[ObjectReader, JobSpec],
) -> JobSubmission:
    scheduling, of_policy = policy
    scheduling.accept("minResources")
    scheduling.not_acted_on("scheduleTimeoutSeconds")
    templates: list[PodTemplate] = []
    pod_sets: list[PodSet] = []
    for name, role in roles:
        template = read_pod_template(role.object("template"), RestartPolicy.NEVER)
        restart = role.choice(
            "restartPolicy", RestartPolicy, template.restart_policy, _RESTART_ALIASES
        )
        templates.append(template)
        pod_sets.append(
            template.pod_set(
                name.lower(), role.integer("replicas", 1, low=0), restart_policy=restart
            )
        )
    submission = make_submission(
        manifest,
        tuple(templates),
        tuple(pod_sets),
        of_policy,
    )
    minimum = scheduling.optional_integer("minAvailable", low=0)
    if minimum is None:
        return submission
    result = with_min_member(submission, minimum)
    for finding in result.findings:
        scheduling.warn("minAvailable", finding.problem, finding.fix)
    return result.submission


def _role_rank(name: str) -> tuple[int, str]:
    known = _ROLE_ORDER.index(name) if name in _ROLE_ORDER else len(_ROLE_ORDER)
    return known, name
