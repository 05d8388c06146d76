from collections.abc import Callable

import pytest

from muster_domain.workload import NetworkTopology, Owner
from muster_manifests import (
    GangFinding,
    JobSubmission,
    LoadOptions,
    LoadResult,
    ManifestError,
    PodGroup,
    join_pod_group,
    load,
)

LoadJob = Callable[[str], JobSubmission]

KUEUE_GROUP = (
    "labels: {kueue.x-k8s.io/pod-group-name: ring, kueue.x-k8s.io/queue-name: q}, "
    'annotations: {kueue.x-k8s.io/pod-group-total-count: "TOTAL"}'
)
VOLCANO_GROUP = "annotations: {scheduling.k8s.io/group-name: ring}"


def pod(name: str, group: str, gpus: int = 1) -> str:
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, {group}}}\n"
        f"spec: {{containers: [{{name: c, resources: {{limits: {{gpu: {gpus}}}}}}}]}}\n"
    )


def pod_group(spec: str, name: str = "ring") -> str:
    return (
        "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\n"
        f"metadata: {{name: {name}}}\nspec: {{{spec}}}\n"
    )


def batch(name: str, parallelism: int) -> str:
    return (
        f"apiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}}}\n"
        f"spec: {{parallelism: {parallelism}, template: {{metadata: {{{VOLCANO_GROUP}}}, "
        "spec: {containers: [{name: c, resources: {limits: {gpu: 1}}}]}}}\n"
    )


def flavor(name: str, spec: str = "") -> str:
    return (
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\n"
        f"metadata: {{name: {name}}}\nspec: {{{spec}}}\n"
    )


def load_all(*texts: str) -> LoadResult:
    return load("---\n".join(texts), source="f.yaml")


def only_job(result: LoadResult) -> JobSubmission:
    (job,) = [
        document.content
        for document in result.documents
        if isinstance(document.content, JobSubmission)
    ]
    return job


def shapes(job: JobSubmission) -> list[tuple[str, int, int | None]]:
    return [(pod_set.name, pod_set.count, pod_set.min_count) for pod_set in job.pod_sets]


def test_pods_of_a_kueue_group_are_one_job() -> None:
    group = KUEUE_GROUP.replace("TOTAL", "3")
    result = load_all(pod("lead", group, 2), pod("w1", group), pod("w2", group))
    job = only_job(result)
    assert job.owner == Owner(api_version="v1", kind="Pod", name="ring")
    assert (job.name, job.queue) == ("ring", "q")
    assert shapes(job) == [("lead", 1, None), ("w1", 2, None)]


def test_pods_of_a_group_are_one_document_that_loads_again() -> None:
    group = KUEUE_GROUP.replace("TOTAL", "2")
    (document,) = load_all(pod("w1", group), pod("w2", group)).documents
    assert document.manifest["kind"] == "List"
    (again,) = load(document.text, source="f.yaml").documents
    assert again.content == document.content


def test_a_group_that_is_not_complete_is_refused() -> None:
    group = KUEUE_GROUP.replace("TOTAL", "3")
    with pytest.raises(ManifestError, match="the group has 3 pods, 2 are here"):
        load_all(pod("w1", group), pod("w2", group))
    lenient = LoadOptions(admission_rules=False)
    assert load(pod("w1", group), source="f", options=lenient).documents


def test_problems_of_every_pod_of_a_group_are_told() -> None:
    group = KUEUE_GROUP.replace("TOTAL", "2")
    bad = pod("w2", group).replace("gpu: 1", "gpu: x")
    with pytest.raises(ManifestError, match=r"f.yaml:9:.*'x' is not a quantity"):
        load_all(pod("w1", group), bad)


def test_pods_without_a_group_stay_jobs_of_their_own() -> None:
    names = "labels: {a: b}"
    result = load_all(pod("p1", names), pod("p2", names))
    assert [document.name for document in result.documents] == ["p1", "p2"]


def test_groups_of_one_name_in_two_namespaces_stay_apart() -> None:
    texts = [pod("w1", f"namespace: {namespace}, {VOLCANO_GROUP}") for namespace in ("a", "b")]
    assert [document.key for document in load_all(*texts).documents] == [
        "Pod/a/ring",
        "Pod/b/ring",
    ]


@pytest.mark.parametrize("order", ["group first", "group last"])
def test_pods_take_what_their_volcano_group_says(order: str) -> None:
    spec = (
        "minMember: 2, queue: vq, priorityClassName: high, networkTopology: {highestTierAllowed: 1}"
    )
    texts = [pod_group(spec), pod("w1", VOLCANO_GROUP), pod("w2", VOLCANO_GROUP)]
    texts.append(pod("w3", VOLCANO_GROUP))
    result = load_all(*(texts if order == "group first" else texts[1:] + texts[:1]))
    job = only_job(result)
    assert (job.volcano_queue, job.priority_class) == ("vq", "high")
    assert job.network_topology == NetworkTopology(highest_tier=1)
    assert shapes(job) == [("w1", 3, 2)]
    assert len(result.documents) == 2


def test_a_job_keeps_what_it_says_itself(load_job: LoadJob) -> None:
    job = load_job("""
        apiVersion: batch.volcano.sh/v1alpha1
        kind: Job
        metadata: {name: train}
        spec:
          queue: own
          priorityClassName: own
          minAvailable: 3
          tasks:
          - {name: w, replicas: 4, template: {spec: {containers: [{name: c}]}}}
        """)
    group = PodGroup(
        namespace="default", name="ring", min_member=2, queue="other", priority_class="other"
    )
    result = join_pod_group(job, group)
    assert result.submission == job
    assert result.findings == ()


def test_minima_by_role_of_a_group(load_job: LoadJob) -> None:
    job = load_job("""
        apiVersion: batch.volcano.sh/v1alpha1
        kind: Job
        metadata: {name: train}
        spec:
          tasks:
          - {name: m, replicas: 1, template: {spec: {containers: [{name: c}]}}}
          - {name: w, replicas: 6, template: {spec: {containers: [{name: c}]}}}
        """)
    group = PodGroup(
        namespace="default", name="ring", min_member=3, min_task_member={"m": 1, "w": 2}
    )
    assert shapes(join_pod_group(job, group).submission) == [("m", 1, None), ("w", 6, 2)]


def test_a_group_that_its_pods_never_fill_is_refused() -> None:
    with pytest.raises(ManifestError, match="PodGroup ring needs 3 members of 2 pods"):
        load_all(pod_group("minMember: 3"), batch("a", 2))


def test_a_group_over_several_jobs_is_counted_together_and_told() -> None:
    result = load_all(pod_group("minMember: 4"), batch("a", 2), batch("b", 2))
    assert [warning.problem for warning in result.warnings] == [
        "PodGroup ring spans several jobs: each starts by itself"
    ] * 2
    with pytest.raises(ManifestError, match="needs 5 members of 4 pods"):
        load_all(pod_group("minMember: 5"), batch("a", 2), batch("b", 2))


def test_a_group_that_is_not_in_the_file_stays_a_name(load_job: LoadJob) -> None:
    job = load_job(batch("a", 4))
    assert job.pod_group == "ring"
    joined = join_pod_group(job, PodGroup(namespace="default", name="ring", min_member=2))
    assert shapes(joined.submission) == [("main", 4, 2)]
    refused = join_pod_group(job, PodGroup(namespace="default", name="ring", min_member=9))
    assert refused.findings == (
        GangFinding(
            problem="PodGroup ring needs 9 members of 4 pods",
            fix="lower minMember or raise replicas",
            refused=True,
        ),
    )


CLUSTER_QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: q}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [gpu]
    flavors:
    - {name: a, resources: [{name: gpu, nominalQuota: 1}]}
    - {name: b, resources: [{name: gpu, nominalQuota: 1}]}
"""


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        pytest.param(
            [flavor("a", "nodeLabels: {gpu: a}"), flavor("b", "nodeLabels: {gpu: b}")],
            [],
            id="different labels",
        ),
        pytest.param(
            [flavor("a", "nodeLabels: {gpu: a}"), flavor("b", "nodeLabels: {gpu: a}")],
            ["matches the same nodes as flavor a: their devices count twice"],
            id="the same labels",
        ),
        pytest.param(
            [flavor("a", "tolerations: [{operator: Exists}]"), flavor("b")],
            ["matches the same nodes as flavor a: their devices count twice"],
            id="tolerations only",
        ),
        pytest.param([flavor("a"), flavor("b")], [], id="empty flavors of made-up resources"),
        pytest.param(
            [flavor("a"), flavor("b"), CLUSTER_QUEUE],
            ["matches the same nodes as flavor a: their devices count twice"],
            id="empty flavors as alternatives of one group",
        ),
    ],
)
def test_flavors_that_match_the_same_nodes_are_told(texts: list[str], told: list[str]) -> None:
    assert [warning.problem for warning in load_all(*texts).warnings] == told


def test_an_object_twice_in_a_file_is_told() -> None:
    result = load_all(flavor("a"), flavor("b", "nodeLabels: {x: y}"), flavor("a"))
    (warning,) = result.warnings
    assert str(warning) == (
        "f.yaml:13:12: metadata.name: a second ResourceFlavor a: the later one counts; "
        "the first is in line 1"
    )
