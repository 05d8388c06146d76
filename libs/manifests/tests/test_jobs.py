from collections.abc import Callable

import pytest

from muster_domain.workload import Container, Owner, RestartPolicy
from muster_manifests import JobSubmission

from .job_texts import RAY, ROLES, batch, manifest, template

LoadJob = Callable[[str], JobSubmission]
Warned = Callable[[str], list[tuple[str, str]]]
Shape = tuple[str, int, int | None, dict[str, int]]

MIB_MILLI = 2**20 * 1000


def shapes(submission: JobSubmission) -> list[Shape]:
    return [
        (pod_set.name, pod_set.count, pod_set.min_count, dict(pod_set.requests))
        for pod_set in submission.pod_sets
    ]


GPU = {"gpu": 1000}
TWO_GPUS = {"gpu": 2000}

ROLE_SHAPES: list[Shape] = [("master", 1, None, GPU), ("worker", 7, None, TWO_GPUS)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(batch(), [("main", 1, None, GPU)], id="Job, one pod"),
        pytest.param(batch("parallelism: 4"), [("main", 4, None, GPU)], id="Job, four pods"),
        pytest.param(
            batch("parallelism: 4, completions: 2"),
            [("main", 2, None, GPU)],
            id="Job, fewer completions than pods",
        ),
        pytest.param(
            batch("parallelism: 4, completions: 9"),
            [("main", 4, None, GPU)],
            id="Job, more completions than pods",
        ),
        pytest.param(
            batch(
                "parallelism: 4",
                'name: a, annotations: {kueue.x-k8s.io/job-min-parallelism: "2"}',
            ),
            [("main", 4, 2, GPU)],
            id="Job, partial admission",
        ),
        pytest.param(
            manifest(
                "batch/v1",
                "CronJob",
                'schedule: "@daily", '
                f"jobTemplate: {{spec: {{parallelism: 2, template: {template()}}}}}",
            ),
            [("main", 2, None, GPU)],
            id="CronJob",
        ),
        pytest.param(
            manifest("apps/v1", "Deployment", f"replicas: 3, template: {template()}"),
            [("main", 3, None, GPU)],
            id="Deployment",
        ),
        pytest.param(
            manifest("apps/v1", "StatefulSet", f"serviceName: s, template: {template()}"),
            [("main", 1, None, GPU)],
            id="StatefulSet",
        ),
        pytest.param(
            manifest(
                "leaderworkerset.x-k8s.io/v1",
                "LeaderWorkerSet",
                f"replicas: 2, leaderWorkerTemplate: {{size: 4, workerTemplate: {template()}}}",
            ),
            [("main", 8, None, GPU)],
            id="LeaderWorkerSet of equal pods",
        ),
        pytest.param(
            manifest(
                "leaderworkerset.x-k8s.io/v1",
                "LeaderWorkerSet",
                f"replicas: 2, leaderWorkerTemplate: {{size: 4, leaderTemplate: {template(2)}, "
                f"workerTemplate: {template()}}}",
            ),
            [("leader", 2, None, TWO_GPUS), ("worker", 6, None, GPU)],
            id="LeaderWorkerSet with leaders",
        ),
        pytest.param(
            manifest(
                "jobset.x-k8s.io/v1alpha2",
                "JobSet",
                "replicatedJobs: ["
                f"{{name: driver, template: {{spec: {{template: {template()}}}}}}}, "
                "{name: workers, replicas: 3, template: "
                f"{{spec: {{parallelism: 4, completions: 4, template: {template(2)}}}}}}}]",
            ),
            [("driver", 1, None, GPU), ("workers", 12, None, TWO_GPUS)],
            id="JobSet",
        ),
        pytest.param(
            manifest("ray.io/v1", "RayCluster", RAY),
            [("head", 1, None, GPU), ("small", 3, None, TWO_GPUS), ("hosts", 8, None, TWO_GPUS)],
            id="RayCluster",
        ),
        pytest.param(
            manifest(
                "ray.io/v1",
                "RayJob",
                f"rayClusterSpec: {{{RAY}}}, submitterPodTemplate: {template()}",
            ),
            [
                ("head", 1, None, GPU),
                ("small", 3, None, TWO_GPUS),
                ("hosts", 8, None, TWO_GPUS),
                ("submitter", 1, None, GPU),
            ],
            id="RayJob with a submitter",
        ),
        pytest.param(
            manifest("ray.io/v1", "RayService", f"rayClusterConfig: {{{RAY}}}"),
            [("head", 1, None, GPU), ("small", 3, None, TWO_GPUS), ("hosts", 8, None, TWO_GPUS)],
            id="RayService",
        ),
        pytest.param(
            manifest("kubeflow.org/v1", "PyTorchJob", f"pytorch{ROLES}"),
            ROLE_SHAPES,
            id="PyTorchJob",
        ),
        pytest.param(
            manifest("kubeflow.org/v1", "XGBoostJob", f"xgb{ROLES}"), ROLE_SHAPES, id="XGBoostJob"
        ),
        pytest.param(
            manifest("kubeflow.org/v1", "PaddleJob", f"paddle{ROLES}"), ROLE_SHAPES, id="PaddleJob"
        ),
        pytest.param(
            manifest("kubeflow.org/v1", "JAXJob", f"jax{ROLES}"), ROLE_SHAPES, id="JAXJob"
        ),
        pytest.param(
            manifest(
                "kubeflow.org/v1",
                "TFJob",
                "tfReplicaSpecs: {"
                f"Worker: {{replicas: 2, template: {template()}}}, "
                f"PS: {{template: {template()}}}, Chief: {{template: {template()}}}, "
                f"Other: {{template: {template()}}}}}",
            ),
            [
                ("chief", 1, None, GPU),
                ("ps", 1, None, GPU),
                ("worker", 2, None, GPU),
                ("other", 1, None, GPU),
            ],
            id="TFJob, roles in the order of the operator",
        ),
        pytest.param(
            manifest(
                "kubeflow.org/v2beta1",
                "MPIJob",
                f"slotsPerWorker: 2, mpiReplicaSpecs: {{Worker: {{replicas: 2, template: "
                f"{template(2)}}}, Launcher: {{template: {template()}}}}}",
            ),
            [("launcher", 1, None, GPU), ("worker", 2, None, TWO_GPUS)],
            id="MPIJob",
        ),
        pytest.param(
            manifest(
                "kubeflow.org/v1",
                "PyTorchJob",
                f"pytorchReplicaSpecs: {{Worker: {{replicas: 8, template: {template()}}}}}, "
                "runPolicy: {schedulingPolicy: {minAvailable: 4}}",
            ),
            [("worker", 8, 4, GPU)],
            id="PyTorchJob with a minimum",
        ),
        pytest.param(
            manifest(
                "batch.paddlepaddle.org/v1",
                "PaddleJob",
                f"worker: {{replicas: 2, template: {template()}}}, "
                f"ps: {{replicas: 3, template: {template(2)}}}",
            ),
            [("ps", 3, None, TWO_GPUS), ("worker", 2, None, GPU)],
            id="PaddleJob of PaddlePaddle's operator",
        ),
        pytest.param(
            manifest(
                "trainer.kubeflow.org/v1alpha1",
                "TrainJob",
                "runtimeRef: {name: torch}, trainer: {numNodes: 3, image: x, "
                "resourcesPerNode: {limits: {gpu: 2}}}",
            ),
            [("node", 3, None, TWO_GPUS)],
            id="TrainJob",
        ),
        pytest.param(
            manifest(
                "workload.codeflare.dev/v1beta2",
                "AppWrapper",
                "components: [{template: {apiVersion: batch/v1, kind: Job, metadata: {name: a}, "
                f"spec: {{parallelism: 2, template: {template()}}}}}}}]",
            ),
            [("main", 2, None, GPU)],
            id="AppWrapper of one job",
        ),
        pytest.param(
            manifest(
                "workload.codeflare.dev/v1beta2",
                "AppWrapper",
                "components: [{template: {apiVersion: v1, kind: Service, metadata: {name: s}}}, "
                "{template: {apiVersion: batch/v1, kind: Job, metadata: {name: a}, "
                f"spec: {{template: {template()}}}}}}}, "
                "{template: {apiVersion: v1, kind: Pod, metadata: {name: b}, "
                "spec: {containers: [{name: c, resources: {limits: {gpu: 2}}}]}}}]",
            ),
            [("main-0", 1, None, GPU), ("main-1", 1, None, TWO_GPUS)],
            id="AppWrapper of several objects",
        ),
        pytest.param(
            manifest(
                "workload.serving.volcano.sh/v1alpha1",
                "ModelServing",
                "replicas: 2, template: {gangPolicy: {minRoleReplicas: {decode: 1}}, roles: ["
                f"{{name: decode, replicas: 3, entryTemplate: {template()}, workerReplicas: 2, "
                f"workerTemplate: {template(2)}}}, {{name: route, entryTemplate: {template()}}}]}}",
            ),
            [
                ("decode-entry", 6, 2, GPU),
                ("decode-worker", 12, 4, TWO_GPUS),
                ("route-entry", 2, None, GPU),
            ],
            id="ModelServing",
        ),
        pytest.param(
            manifest(
                "sparkoperator.k8s.io/v1beta2",
                "SparkApplication",
                "type: Scala, driver: {cores: 2, memory: 512m}, "
                "executor: {instances: 3, memory: 8g, gpu: {name: gpu, quantity: 1}}",
            ),
            [
                ("driver", 1, None, {"cpu": 2000, "memory": (512 + 384) * MIB_MILLI}),
                (
                    "executor",
                    3,
                    None,
                    {
                        "cpu": 1000,
                        "memory": (8192 * MIB_MILLI // 1000 * 11 // 10 + 1) * 1000,
                        **GPU,
                    },
                ),
            ],
            id="SparkApplication",
        ),
        pytest.param(
            manifest(
                "sparkoperator.k8s.io/v1beta2",
                "SparkApplication",
                "type: Python, driver: {coreRequest: 500m, memory: 2g, memoryOverhead: 1g}, "
                "executor: {memory: 1g}, dynamicAllocation: {enabled: true, minExecutors: 4}",
            ),
            [
                ("driver", 1, None, {"cpu": 500, "memory": 3072 * MIB_MILLI}),
                (
                    "executor",
                    4,
                    None,
                    {"cpu": 1000, "memory": (2**30 + -(-(2**30) * 4 // 10)) * 1000},
                ),
            ],
            id="SparkApplication in Python",
        ),
    ],
)
def test_the_gang_of_a_job(load_job: LoadJob, text: str, expected: list[Shape]) -> None:
    assert shapes(load_job(text)) == expected


def test_what_labels_and_annotations_say(load_job: LoadJob) -> None:
    metadata = """name: train, namespace: vision, labels: {
        kueue.x-k8s.io/queue-name: research, kueue.x-k8s.io/priority-class: release,
        kueue.x-k8s.io/max-exec-time-seconds: "3600", team: a},
        annotations: {scheduling.volcano.sh/queue-name: vq, note: x}"""
    submission = load_job(batch("", " ".join(metadata.split())))
    assert submission.owner == Owner(api_version="batch/v1", kind="Job", name="train")
    assert (submission.namespace, submission.name) == ("vision", "train")
    assert (submission.queue, submission.volcano_queue) == ("research", "vq")
    assert submission.workload_priority_class == "release"
    assert submission.max_execution_time_ms == 3_600_000
    assert submission.labels["team"] == "a"
    assert submission.annotations["note"] == "x"


@pytest.mark.parametrize(
    ("metadata", "queue", "volcano_queue"),
    [
        pytest.param("name: a", "", "", id="none"),
        pytest.param(
            "name: a, annotations: {kueue.x-k8s.io/queue-name: q}", "q", "", id="old annotation"
        ),
        pytest.param(
            "name: a, labels: {kueue.x-k8s.io/queue-name: l}, "
            "annotations: {kueue.x-k8s.io/queue-name: a}",
            "l",
            "",
            id="the label wins",
        ),
        pytest.param("name: a, labels: {volcano.sh/queue-name: v}", "", "v", id="Ray's label"),
    ],
)
def test_where_a_job_queues(
    load_job: LoadJob, metadata: str, queue: str, volcano_queue: str
) -> None:
    submission = load_job(batch("", metadata))
    assert (submission.queue, submission.volcano_queue) == (queue, volcano_queue)


@pytest.mark.parametrize(("minimum", "expected"), [("3", 3), ("5", None), ("0", 1)])
def test_the_minimum_volcano_reads_without_a_pod_group(
    load_job: LoadJob, minimum: str, expected: int | None
) -> None:
    annotation = f'annotations: {{scheduling.volcano.sh/group-min-member: "{minimum}"}}'
    on_job = load_job(batch("parallelism: 5", f"name: a, {annotation}"))
    pods = f"parallelism: 5, template: {template(metadata=annotation)}"
    on_pods = load_job(manifest("batch/v1", "Job", pods))
    assert shapes(on_job) == shapes(on_pods) == [("main", 5, expected, GPU)]


def test_a_volcano_queue_named_by_the_pods(load_job: LoadJob) -> None:
    pods = template(metadata="annotations: {scheduling.volcano.sh/queue-name: vq}")
    submission = load_job(manifest("batch/v1", "Job", f"template: {pods}"))
    assert submission.volcano_queue == "vq"


def test_the_priority_class_of_the_first_pods_that_have_one(load_job: LoadJob) -> None:
    high = template(spec="priorityClassName: high")
    submission = load_job(
        manifest(
            "kubeflow.org/v1",
            "PyTorchJob",
            f"pytorchReplicaSpecs: {{Master: {{template: {template()}}}, "
            f"Worker: {{template: {high}}}}}",
        )
    )
    assert submission.priority_class == "high"


def test_a_scheduling_policy_wins_over_the_pods(load_job: LoadJob) -> None:
    pods = template(spec="priorityClassName: a")
    submission = load_job(
        manifest(
            "kubeflow.org/v1",
            "PyTorchJob",
            f"pytorchReplicaSpecs: {{Worker: {{template: {pods}}}}}, "
            "runPolicy: {activeDeadlineSeconds: 60, schedulingPolicy: "
            "{queue: vq, priorityClass: b}}",
        )
    )
    assert (submission.priority_class, submission.volcano_queue) == ("b", "vq")
    assert submission.max_execution_time_ms == 60_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(batch("activeDeadlineSeconds: 60"), 60_000, id="deadline of a Job"),
        pytest.param(
            batch(
                "activeDeadlineSeconds: 60",
                'name: a, labels: {kueue.x-k8s.io/max-exec-time-seconds: "30"}',
            ),
            30_000,
            id="the label wins",
        ),
        pytest.param(batch(), None, id="none"),
    ],
)
def test_how_long_a_job_may_run(load_job: LoadJob, text: str, expected: int | None) -> None:
    assert load_job(text).max_execution_time_ms == expected


_TTL = "ttlSecondsAfterFinished: 90"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(batch(_TTL), 90_000, id="Job"),
        pytest.param(batch("ttlSecondsAfterFinished: 0"), 0, id="not at all"),
        pytest.param(
            manifest(
                "jobset.x-k8s.io/v1alpha2",
                "JobSet",
                f"{_TTL}, replicatedJobs: [{{name: a, template: "
                f"{{spec: {{template: {template()}}}}}}}]",
            ),
            90_000,
            id="JobSet",
        ),
        pytest.param(
            manifest(
                "kubeflow.org/v1",
                "PyTorchJob",
                f"pytorchReplicaSpecs: {{Worker: {{template: {template()}}}}}, "
                f"runPolicy: {{{_TTL}}}",
            ),
            90_000,
            id="PyTorchJob",
        ),
        pytest.param(
            manifest(
                "batch.volcano.sh/v1alpha1",
                "Job",
                f"{_TTL}, tasks: [{{name: a, replicas: 1, template: {template()}}}]",
            ),
            90_000,
            id="Volcano Job",
        ),
        pytest.param(batch(), None, id="as long as others"),
    ],
)
def test_how_long_a_job_is_listed_after_its_end(
    load_job: LoadJob, text: str, expected: int | None
) -> None:
    assert load_job(text).keep_finished_ms == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(batch(), [RestartPolicy.NEVER], id="a Job's pods end"),
        pytest.param(
            manifest("apps/v1", "Deployment", f"template: {template()}"),
            [RestartPolicy.ALWAYS],
            id="a Deployment's pods stay",
        ),
        pytest.param(
            manifest("kubeflow.org/v1", "PyTorchJob", f"pytorch{ROLES}"),
            [RestartPolicy.NEVER, RestartPolicy.ON_FAILURE],
            id="by role",
        ),
        pytest.param(
            manifest(
                "kubeflow.org/v1",
                "TFJob",
                f"tfReplicaSpecs: {{Worker: {{restartPolicy: ExitCode, template: {template()}}}}}",
            ),
            [RestartPolicy.ON_FAILURE],
            id="by exit code",
        ),
    ],
)
def test_what_happens_when_a_container_exits(
    load_job: LoadJob, text: str, expected: list[RestartPolicy]
) -> None:
    assert [pod_set.restart_policy for pod_set in load_job(text).pod_sets] == expected


def test_a_train_job_runs_its_trainer(load_job: LoadJob, warned: Warned) -> None:
    text = manifest(
        "trainer.kubeflow.org/v1alpha1",
        "TrainJob",
        "runtimeRef: {name: torch}, trainer: {image: x, command: [python], args: [a.py]}",
    )
    assert load_job(text).pod_sets[0].containers == (
        Container(name="node", image="x", command=("python",), args=("a.py",)),
    )
    assert warned(text) == [
        ("spec.runtimeRef", "the runtime is not read; only trainer counts"),
        ("spec.trainer.resourcesPerNode", "no resources asked for: charged zero"),
    ]


def test_a_cron_job_is_submitted_under_its_own_name(load_job: LoadJob, warned: Warned) -> None:
    text = manifest(
        "batch/v1",
        "CronJob",
        'schedule: "@daily", jobTemplate: {metadata: {labels: {kueue.x-k8s.io/queue-name: q}}, '
        f"spec: {{template: {template()}}}}}",
    )
    submission = load_job(text)
    assert submission.owner == Owner(api_version="batch/v1", kind="CronJob", name="train")
    assert (submission.name, submission.queue) == ("train", "q")
    assert [field for field, _ in warned(text)] == ["spec.schedule"]


def test_an_app_wrapper_takes_what_its_components_say(load_job: LoadJob) -> None:
    pods = template(spec="priorityClassName: p")
    submission = load_job(
        manifest(
            "workload.codeflare.dev/v1beta2",
            "AppWrapper",
            "components: [{template: {apiVersion: batch/v1, kind: Job, "
            f"metadata: {{generateName: a}}, spec: {{activeDeadlineSeconds: 9, template: {pods}}}"
            "}}]",
            "name: w, labels: {kueue.x-k8s.io/queue-name: q}",
        )
    )
    assert submission.owner.kind == "AppWrapper"
    assert (submission.queue, submission.priority_class) == ("q", "p")
    assert submission.max_execution_time_ms == 9000
