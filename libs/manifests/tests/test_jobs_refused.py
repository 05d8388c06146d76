from collections.abc import Callable

import pytest

from .job_texts import RAY, ROLES, batch, manifest, template

Refused = Callable[[str], list[tuple[str, str]]]
Warned = Callable[[str], list[tuple[str, str]]]


def test_problems_inside_an_app_wrapper_name_the_whole_path(refused: Refused) -> None:
    text = manifest(
        "workload.codeflare.dev/v1beta2",
        "AppWrapper",
        "components: [{template: {apiVersion: batch/v1, kind: Job, metadata: {name: a}, "
        "spec: {parallelism: x, template: " + template() + "}}}]",
    )
    assert refused(text) == [
        ("spec.components[0].template.spec.parallelism", "x is not a whole number")
    ]


@pytest.mark.parametrize(
    ("text", "field", "problem"),
    [
        pytest.param(
            batch("", 'name: a, annotations: {kueue.x-k8s.io/job-min-parallelism: "1"}'),
            'metadata.annotations["kueue.x-k8s.io/job-min-parallelism"]',
            "'1' is not between 0 and the 1 pods of the job",
            id="minimum not below parallelism",
        ),
        pytest.param(
            batch(
                "",
                'name: a, annotations: {kueue.x-k8s.io/job-min-parallelism: "1", '
                'kueue.x-k8s.io/elastic-job: "true"}',
            ),
            'metadata.annotations["kueue.x-k8s.io/job-min-parallelism"]',
            "an elastic job starts with all its pods, or none",
            id="elastic and a minimum",
        ),
        pytest.param(
            batch("", f'name: a, labels: {{kueue.x-k8s.io/max-exec-time-seconds: "{"9" * 5000}"}}'),
            'metadata.labels["kueue.x-k8s.io/max-exec-time-seconds"]',
            f"{'9' * 20!r} is not a number of seconds",
            id="execution time beyond all bounds",
        ),
        pytest.param(
            batch("", "name: a, annotations: {scheduling.volcano.sh/group-min-member: all}"),
            "metadata",
            "scheduling.volcano.sh/group-min-member is not a number",
            id="minimum of Volcano",
        ),
        pytest.param(
            batch("", 'name: a, labels: {kueue.x-k8s.io/max-exec-time-seconds: "1h"}'),
            'metadata.labels["kueue.x-k8s.io/max-exec-time-seconds"]',
            "'1h' is not a number of seconds",
            id="execution time",
        ),
        pytest.param(
            manifest("jobset.x-k8s.io/v1alpha2", "JobSet", "suspend: true"),
            "spec.replicatedJobs",
            "missing",
            id="empty JobSet",
        ),
        pytest.param(
            manifest("kubeflow.org/v1", "PyTorchJob", f"tf{ROLES}"),
            "spec.pytorchReplicaSpecs",
            "missing",
            id="roles of another kind",
        ),
        pytest.param(
            manifest("batch.paddlepaddle.org/v1", "PaddleJob", "withGloo: 1"),
            "spec.worker",
            "missing",
            id="PaddleJob without roles",
        ),
        pytest.param(
            manifest(
                "ray.io/v1", "RayJob", f"clusterSelector: {{a: b}}, rayClusterSpec: {{{RAY}}}"
            ),
            "spec.clusterSelector",
            "a job in a running cluster asks for nothing to admit",
            id="RayJob in a running cluster",
        ),
        pytest.param(
            manifest("workload.codeflare.dev/v1beta2", "AppWrapper", "suspend: true"),
            "spec.components",
            "no component asks for pods",
            id="empty AppWrapper",
        ),
        pytest.param(
            manifest(
                "sparkoperator.k8s.io/v1beta2",
                "SparkApplication",
                "driver: {memory: 1 gig}, executor: {memory: 1g}",
            ),
            "spec.driver.memory",
            "'1 gig' is not a Spark memory size",
            id="Spark memory",
        ),
        pytest.param(
            manifest(
                "sparkoperator.k8s.io/v1beta2",
                "SparkApplication",
                'memoryOverheadFactor: "2", driver: {memory: 1g}, executor: {memory: 1g}',
            ),
            "spec.memoryOverheadFactor",
            "'2' is not between 0 and 1",
            id="Spark overhead",
        ),
        pytest.param(
            manifest(
                "workload.serving.volcano.sh/v1alpha1", "ModelServing", "template: {roles: []}"
            ),
            "spec.template.roles",
            "missing",
            id="ModelServing without roles",
        ),
    ],
)
def test_a_job_that_is_refused(refused: Refused, text: str, field: str, problem: str) -> None:
    assert refused(text) == [(field, problem)]


def test_two_groups_of_one_name_are_refused(refused: Refused) -> None:
    jobs = f"{{name: a, template: {{spec: {{template: {template()}}}}}}}"
    jobset = manifest("jobset.x-k8s.io/v1alpha2", "JobSet", f"replicatedJobs: [{jobs}, {jobs}]")
    assert refused(jobset) == [("spec.replicatedJobs[1].name", "a second replicated job 'a'")]
    ray = manifest("ray.io/v1", "RayCluster", RAY.replace("groupName: hosts", "groupName: small"))
    assert refused(ray) == [("spec.workerGroupSpecs[1].groupName", "a second group 'small'")]


@pytest.mark.parametrize(
    ("text", "field", "words"),
    [
        pytest.param(
            batch("parallelism: 2, completions: 5"),
            "spec.completions",
            "2 pods run at once; the other 3 are not started later",
            id="completions in waves",
        ),
        pytest.param(
            batch("backoffLimit: 3"), "spec.backoffLimit", "not acted upon", id="backoffLimit"
        ),
        pytest.param(
            batch("", "name: a, labels: {kueue.x-k8s.io/prebuilt-workload-name: w}"),
            'metadata.labels["kueue.x-k8s.io/prebuilt-workload-name"]',
            "not acted upon",
            id="prebuilt workload",
        ),
        pytest.param(
            batch("", "name: a, annotations: {kueue.x-k8s.io/podset-required-topology: rack}"),
            'metadata.annotations["kueue.x-k8s.io/podset-required-topology"]',
            "annotation ignored here",
            id="topology on the job instead of its pods",
        ),
        pytest.param(
            batch().replace("{metadata: {}, spec:", "{restartPolicy: Never, spec:"),
            "spec.template.restartPolicy",
            "ignored here: it belongs under spec",
            id="restartPolicy beside spec",
        ),
        pytest.param(
            manifest("ray.io/v1", "RayJob", f"entrypoint: python a.py, rayClusterSpec: {{{RAY}}}"),
            "spec.entrypoint",
            "not acted upon: the pods run their containers' own commands",
            id="entrypoint",
        ),
        pytest.param(
            manifest(
                "kubeflow.org/v1",
                "PyTorchJob",
                f"pytorch{ROLES}, runPolicy: {{schedulingPolicy: {{minAvailable: 4}}}}",
            ),
            "spec.runPolicy.schedulingPolicy.minAvailable",
            "4 of 8 pods says nothing of which: all 8 start together",
            id="minimum over several roles",
        ),
        pytest.param(
            manifest("kubeflow.org/v1", "PyTorchJob", f"pytorch{ROLES}, elasticPolicy: {{a: 1}}"),
            "spec.elasticPolicy",
            "not acted upon",
            id="elasticPolicy",
        ),
    ],
)
def test_what_has_no_effect_is_said(warned: Warned, text: str, field: str, words: str) -> None:
    assert warned(text) == [(field, words)]


def test_what_asks_nothing_of_the_scheduler_is_taken_in_silence(warned: Warned) -> None:
    text = batch("suspend: true, ttlSecondsAfterFinished: 60, backoffLimit: 0")
    assert warned(text) == []
