"""What people's manifests hold in the wild, each with an input of our own."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_domain.quantity import add
from muster_domain.queues import UNLIMITED, ClusterQueue, Cohort, ResourceFlavor, VolcanoQueue
from muster_manifests import Document, JobSubmission, ManifestError, load

LoadOne = Callable[[str], Document]
LoadContent = Callable[[str], Any]
LoadJob = Callable[[str], JobSubmission]
Refused = Callable[[str], list[tuple[str, str]]]
Warned = Callable[[str], list[tuple[str, str]]]

CLUSTER_QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: gpu}
spec:
  cohort: lab
  namespaceSelector: {}
"""


def quota(*resources: str) -> str:
    """A ClusterQueue of one flavor; each resource is `name nominalQuota`."""
    named = [resource.partition(" ") for resource in resources]
    covered = ", ".join(name for name, _, _ in named)
    quotas = ", ".join(f"{{name: {name}, nominalQuota: {value}}}" for name, _, value in named)
    return (
        f"{CLUSTER_QUEUE}  resourceGroups:\n  - coveredResources: [{covered}]\n"
        f"    flavors: [{{name: f, resources: [{quotas}]}}]\n"
    )


def nominal(queue: ClusterQueue) -> dict[str, int]:
    resources = queue.resource_groups[0].flavors[0].resources
    return {name: resource.nominal_milli for name, resource in resources.items()}


def test_a_tab_names_file_and_line_and_nothing_of_the_file_is_applied() -> None:
    text = CLUSTER_QUEUE + "---\nkind: LocalQueue\n\tapiVersion: kueue.x-k8s.io/v1beta1\n"
    with pytest.raises(ManifestError) as caught:
        load(text, source="queues.yaml")
    assert str(caught.value) == ("queues.yaml:10:1: a tab cannot indent YAML; indent with spaces")


def test_a_queue_without_namespace_selector_lends_only(
    load_content: LoadContent, warned: Warned
) -> None:
    text = CLUSTER_QUEUE.replace("  namespaceSelector: {}\n", "")
    assert load_content(text).namespace_selector is None
    assert warned(text)[0][1].startswith("without a namespaceSelector no namespace may use this")


def test_a_variable_left_in_is_told_but_not_in_programs(warned: Warned) -> None:
    text = """
        apiVersion: kueue.x-k8s.io/v1beta1
        kind: ResourceFlavor
        metadata: {name: spot}
        spec: {nodeLabels: {pool: "${SPOT_POOL}"}}
        ---
        apiVersion: v1
        kind: Pod
        metadata: {name: p}
        spec:
          containers:
          - name: c
            command: [sh, -c, "echo ${HOME}"]
            env: [{name: A, value: "${B}"}]
            resources: {limits: {gpu: 1}}
        """
    assert warned(text) == [("spec.nodeLabels.pool", "${SPOT_POOL} was not filled in")]


def test_an_infinite_quota_adds_up_without_overflow(load_content: LoadContent) -> None:
    quotas = nominal(load_content(quota("memory 1000000000Gi", "gpu 1000000000")))
    assert quotas == {"memory": 10**9 * 2**30 * 1000, "gpu": 10**12}
    total: dict[str, int] = {}
    for _ in range(100):
        total = add(total, quotas)
    assert total["memory"] == 100 * quotas["memory"] > UNLIMITED


def test_a_topology_annotation_on_the_job_is_not_read(load_job: LoadJob, warned: Warned) -> None:
    text = """
        apiVersion: batch/v1
        kind: Job
        metadata:
          name: train
          annotations: {kueue.x-k8s.io/podset-required-topology: rack}
        spec:
          parallelism: 18
          template:
            spec: {containers: [{name: c, resources: {requests: {cpu: 128, memory: 1800Gi}}}]}
        """
    assert load_job(text).pod_sets[0].topology is None
    assert load_job(text).pod_sets[0].total_requests["cpu"] == 2_304_000
    assert [words for _, words in warned(text)] == ["annotation ignored here"]


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        pytest.param(
            "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: a}\n"
            "spec: {parallelism: 2, template: {spec: {containers: [{name: c}]}}}\n",
            "write apiVersion: batch/v1, or tasks:",
            id="Volcano Job written like a batch Job",
        ),
        pytest.param(
            "apiVersion: kueue.x-k8s.io/v1alpha2\nkind: ClusterQueue\nmetadata: {name: a}\n"
            "spec: {resources: [{name: cpu, flavors: [{name: f, quota: {min: 9}}]}]}\n",
            "quota.min is nominalQuota",
            id="Kueue v1alpha2",
        ),
        pytest.param(
            "apiVersion: kueue.x-k8s.io/v1alpha1\nkind: Queue\nmetadata: {name: a}\n"
            "spec: {clusterQueue: c}\n",
            "write kind: LocalQueue",
            id="Kueue v1alpha1 Queue",
        ),
        pytest.param(
            "apiVersion: kueue.x-k8s.io/v1alpha1\nkind: QueuedWorkload\nmetadata: {name: a}\n",
            "write kind: Workload",
            id="Kueue v1alpha1 QueuedWorkload",
        ),
        pytest.param(
            "apiVersion: kueue.x-k8s.io/v1alpha2\nkind: LocalQueue\nmetadata: {name: a}\n",
            "write kueue.x-k8s.io/v1beta1 or kueue.x-k8s.io/v1beta2",
            id="Kueue v1alpha2 LocalQueue",
        ),
        pytest.param(
            f"{CLUSTER_QUEUE}  requestableResources: [{{name: cpu}}]\n",
            "nominalQuota: 9",
            id="the oldest spelling of quota",
        ),
        pytest.param(
            "apiVersion: scheduling.incubator.k8s.io/v1alpha1\nkind: PodGroup\n"
            "metadata: {name: a}\nspec: {minMember: 2}\n",
            "write apiVersion: scheduling.volcano.sh/v1beta1",
            id="PodGroup of kube-batch",
        ),
    ],
)
def test_a_schema_of_old_is_refused_with_the_new_spelling(text: str, fix: str) -> None:
    with pytest.raises(ManifestError) as caught:
        load(text, source="f.yaml")
    (problem,) = caught.value.problems
    assert fix in problem.fix
    assert problem.mark.line > 0


@pytest.mark.parametrize(
    ("written", "milli"),
    [
        ("1k", 10**6),
        ("500Ti", 500 * 2**40 * 1000),
        ("'250'", 250_000),
        ('"0"', 0),
        ("300m ", 300),
        ("8000m", 8000),
        ("2000G", 2 * 10**15),
        ("2110335488Ki", 2110335488 * 1024 * 1000),
        ("1e3", 10**6),
        ("1.5", 1500),
        (".5", 500),
        ("1.", 1000),
        ("+2", 2000),
        ("1E3", 10**6),
        ("1E", 10**21),
        ("0.1Ki", 102_400),
    ],
)
def test_quantities_are_exact_quoted_or_not(
    load_content: LoadContent, written: str, milli: int
) -> None:
    value = nominal(load_content(quota(f"thing {written}")))["thing"]
    assert value == min(milli, UNLIMITED)


@given(st.integers(0, 10**12), st.integers(0, 3), st.sampled_from(["", '"', "'"]))
def test_a_decimal_quota_never_passes_through_a_float(digits: int, places: int, quote: str) -> None:
    text = f"{digits}"
    if places:
        whole, fraction = divmod(digits, 10**places)
        text = f"{whole}.{fraction:0{places}d}"
    (document,) = load(quota(f"thing {quote}{text}{quote}"), source="f").documents
    assert isinstance(document.content, ClusterQueue)
    assert nominal(document.content)["thing"] == digits * 10 ** (3 - places)


def test_made_up_resources_and_pods_may_have_quotas(load_content: LoadContent) -> None:
    names = ["example.dev/pipelines", "signing-token", "linux-arm64", "pods", "localhost"]
    queue = load_content(quota(*(f"{name} 250" for name in names)))
    assert queue.resource_groups[0].covered_resources == tuple(names)


def test_an_empty_cohort_and_parts_of_gpus_with_limits(load_content: LoadContent) -> None:
    text = "apiVersion: kueue.x-k8s.io/v1beta1\nkind: Cohort\nmetadata: {name: lab}\nspec: {}\n"
    assert load_content(text) == Cohort(name="lab")
    parts = load_content(
        f"{CLUSTER_QUEUE}  resourceGroups:\n"
        "  - coveredResources: [nvidia.com/mig-1g.10gb]\n"
        "    flavors: [{name: f, resources: [{name: nvidia.com/mig-1g.10gb, nominalQuota: 7, "
        "borrowingLimit: 2, lendingLimit: 3}]}]\n"
    )
    (resource,) = parts.resource_groups[0].flavors[0].resources.values()
    assert (resource.borrowing_limit_milli, resource.lending_limit_milli) == (2000, 3000)


def test_a_quota_of_zero_without_limit_may_borrow_all(load_content: LoadContent) -> None:
    (resource,) = load_content(quota("gpu 0")).resource_groups[0].flavors[0].resources.values()
    assert (resource.nominal_milli, resource.borrowing_limit_milli) == (0, None)


def test_a_generated_name_and_a_node_selector(load_job: LoadJob) -> None:
    job = load_job("""
        apiVersion: batch/v1
        kind: Job
        metadata: {generateName: important}
        spec:
          template:
            spec:
              nodeSelector: {gpu: t4}
              containers: [{name: c, resources: {limits: {gpu: 1}}}]
        """)
    assert job.name.startswith("important")
    assert job.name != "important"
    assert job.pod_sets[0].demand.node_selector == {"gpu": "t4"}


def test_limits_alone_are_requests(load_job: LoadJob) -> None:
    job = load_job("""
        apiVersion: v1
        kind: Pod
        metadata: {name: p}
        spec:
          containers:
          - name: a
            resources: {limits: {volcano.sh/vgpu-number: 2, volcano.sh/vgpu-memory: 2000}}
          - {name: b}
        """)
    assert job.pod_sets[0].requests == {
        "volcano.sh/vgpu-number": 2000,
        "volcano.sh/vgpu-memory": 2_000_000,
    }


def test_a_job_without_resources_with_an_anchor_and_a_misplaced_field(
    load_job: LoadJob, warned: Warned
) -> None:
    text = """
        apiVersion: batch.volcano.sh/v1alpha1
        kind: Job
        metadata: {name: bench}
        spec:
          minAvailable: 2
          tasks:
          - name: master
            replicas: 1
            template:
              spec: &pod
                containers: [{name: c, image: bench}]
              restartPolicy: OnFailure
          - name: worker
            replicas: 1
            template:
              spec: *pod
        """
    assert [pod_set.containers[0].image for pod_set in load_job(text).pod_sets] == ["bench"] * 2
    assert warned(text) == [
        ("spec.tasks[0].template.restartPolicy", "ignored here: it belongs under spec"),
        ("spec.tasks[0].template.spec.containers", "no resources asked for: charged zero"),
        ("spec.tasks[1].template.spec.containers", "no resources asked for: charged zero"),
    ]


def test_the_older_word_for_borrowing_beside_no_stop(load_content: LoadContent) -> None:
    queue = load_content(
        f"{CLUSTER_QUEUE}  flavorFungibility: {{whenCanBorrow: Borrow}}\n  stopPolicy: None\n"
    )
    assert queue.flavor_fungibility.when_can_borrow == "MayStopSearch"
    assert queue.stop_policy == "None"


def test_an_empty_flavor(load_content: LoadContent) -> None:
    text = "apiVersion: kueue.x-k8s.io/v1beta1\nkind: ResourceFlavor\nmetadata: {name: f}\n"
    assert load_content(f"{text}spec: {{}}\n") == ResourceFlavor(name="f")


def test_queue_labels_on_what_asks_for_nothing(warned: Warned) -> None:
    labels = "labels: {kueue.x-k8s.io/queue-name: q}"
    text = f"""
        apiVersion: v1
        kind: Service
        metadata: {{name: s, {labels}}}
        ---
        apiVersion: template.openshift.io/v1
        kind: Template
        metadata: {{name: vm, {labels}}}
        ---
        apiVersion: v1
        kind: ConfigMap
        metadata: {{name: c}}
        """
    assert [words for _, words in warned(text)] == [
        "Service asks nothing of Muster: left alone, its queue label has no effect",
        "Template asks nothing of Muster: left alone, its queue label has no effect",
        "ConfigMap asks nothing of Muster: left alone",
    ]
    assert load(text.replace("        ", ""), source="f").documents == ()


def test_replicas_of_a_deployment_with_a_queue_count(load_job: LoadJob) -> None:
    job = load_job("""
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: d, labels: {kueue.x-k8s.io/queue-name: q}}
        spec:
          replicas: 3
          selector: {matchLabels: {app: d}}
          template: {spec: {containers: [{name: c, resources: {limits: {gpu: 1}}}]}}
        """)
    assert (job.queue, job.pod_sets[0].total_requests) == ("q", {"gpu": 3000})


def test_a_queue_called_queue_in_a_namespace(load_one: LoadOne) -> None:
    document = load_one(
        "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\n"
        "metadata: {name: queue, namespace: team}\n"
    )
    assert document.content == VolcanoQueue(name="queue")
    assert document.namespace == ""
    assert [warning.field for warning in document.warnings] == ["metadata.namespace"]


def test_priorities_keep_their_order(load_content: LoadContent) -> None:
    values = [
        load_content(
            "apiVersion: kueue.x-k8s.io/v1beta2\nkind: WorkloadPriorityClass\n"
            f"metadata: {{name: p{value}}}\nvalue: {value}\n"
        ).value
        for value in (1100, 410, 409, 401, 300, -5)
    ]
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize("spelling", ["parent", "parentName"])
def test_decimal_weights_and_either_spelling_of_the_parent(
    load_content: LoadContent, spelling: str
) -> None:
    cohort = load_content(
        "apiVersion: kueue.x-k8s.io/v1alpha1\nkind: Cohort\nmetadata: {name: org}\n"
        f'spec: {{{spelling}: root, fairSharing: {{weight: "0.75"}}}}\n'
    )
    assert (cohort.parent, cohort.fair_weight_milli) == ("root", 750)


def test_half_a_cpu_without_quotes(load_job: LoadJob) -> None:
    job = load_job("""
        apiVersion: kubeflow.org/v1
        kind: XGBoostJob
        metadata: {name: x}
        spec:
          xgbReplicaSpecs:
            Master:
              template: {spec: {containers: [{name: c, resources: {requests: {cpu: 0.5}}}]}}
        """)
    assert job.pod_sets[0].requests == {"cpu": 500}
