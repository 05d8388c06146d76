"""Real manifests that lie beside the project: the examples users gave, and public ones."""

from pathlib import Path
from typing import TypeVar

import pytest

from muster_domain.queues import (
    ClusterQueue,
    LocalQueue,
    ResourceFlavor,
    Topology,
    VolcanoQueue,
)
from muster_domain.selectors import TaintEffect, Toleration, TolerationOperator
from muster_domain.workload import NetworkTopology, NetworkTopologyMode, RestartPolicy
from muster_manifests import JobSubmission, LoadResult, ManifestError, PodGroup, dump, load

T = TypeVar("T")

MANIFESTS = Path(__file__).resolve().parents[4] / "shared" / "manifests"
SEED, PUBLIC = MANIFESTS / "seed", MANIFESTS / "public"
GPU = "nvidia.com/gpu"
GIB_MILLI = 2**30 * 1000

pytestmark = pytest.mark.skipif(
    not MANIFESTS.is_dir(), reason="no ../shared/manifests beside the project"
)

REFUSED = {
    "x01-coreweave-queues-TAB.yaml": ("a tab cannot indent YAML", 21),
    "x06-kueue-v1alpha2-schema.yaml": ("is no longer in use", 1),
    "x07-kueue-v1alpha1-schema.yaml": ("is no longer in use", 1),
    "own-volcano-2-duplicatedTaskName-webhook-deny.yaml": ("a second task 'task-1'", 24),
    "own-volcano-3-minAvailable-webhook-deny.yaml": ("5 is more than the 4 replicas", 7),
}
WARNED = {
    "x02-gke-spot-cq-no-namespaceSelector.yaml": "without a namespaceSelector",
    "x03-gke-dws-placeholders-infinite-quota.yaml": "${DWS_NODEPOOL} was not filled in",
    "k19-kueueviz-cluster-queues-300m.yaml": "written twice",
    "k36-hyperpod-team-b-prio.yaml": "Service asks nothing of Muster",
    "v13-kuberay-rayjob-queue.yaml": "ConfigMap asks nothing of Muster",
    "v02-mlcookbook-nccl-anchors.yaml": "charged zero",
    "v03-mlcookbook-finetune.yaml": "charged zero",
    "own-volcano-5-tf-dist-mnist-example.yaml": "charged zero",
    "own-volcano-6-mpi-example.yaml": "charged zero",
}


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.yaml"))


def load_file(path: Path) -> LoadResult:
    return load(path.read_bytes(), source=path.name)


def seed(name: str) -> LoadResult:
    return load_file(SEED / name)


def contents(result: LoadResult, kind: type[T]) -> list[T]:
    return [document.content for document in result.documents if isinstance(document.content, kind)]


def only(result: LoadResult, kind: type[T]) -> T:
    (content,) = contents(result, kind)
    return content


def quotas(queue: ClusterQueue) -> dict[str, tuple[int, int | None, int | None]]:
    (group,) = queue.resource_groups
    (flavor,) = group.flavors
    assert flavor.flavor == "h100-sxm"
    return {
        name: (quota.nominal_milli, quota.borrowing_limit_milli, quota.lending_limit_milli)
        for name, quota in flavor.resources.items()
    }


def shapes(job: JobSubmission) -> list[tuple[str, int, int | None, int]]:
    return [
        (pod_set.name, pod_set.count, pod_set.min_count, pod_set.requests.get(GPU, 0))
        for pod_set in job.pod_sets
    ]


@pytest.mark.parametrize("path", files(PUBLIC), ids=lambda path: path.name)
def test_a_public_manifest_loads_or_is_refused_for_its_known_reason(path: Path) -> None:
    if path.name in REFUSED:
        words, line = REFUSED[path.name]
        with pytest.raises(ManifestError) as caught:
            load_file(path)
        assert words in caught.value.problems[0].problem
        assert caught.value.problems[0].mark.line == line
        return
    result = load_file(path)
    assert result.documents
    assert WARNED.get(path.name, "") in "\n".join(map(str, result.warnings))


@pytest.mark.parametrize(
    "path",
    [path for path in files(MANIFESTS) if path.name not in REFUSED],
    ids=lambda path: path.name,
)
def test_what_is_dumped_loads_as_the_same(path: Path) -> None:
    for document in load_file(path).documents:
        again = load(dump(document), source=path.name)
        assert [found.manifest for found in again.documents] == [document.manifest]


def test_the_pod_group_wants_all_eight() -> None:
    group = only(seed("01-podgroup.yaml"), PodGroup)
    assert (group.key, group.min_member) == ("ml-training/pytorch-train-pg", 8)
    assert group.min_resources == {GPU: 32_000}
    assert (group.queue, group.priority_class) == ("team-datos", "high-priority")


@pytest.mark.parametrize(
    ("name", "capability", "guarantee"),
    [
        pytest.param(
            "02-volcano-queues.yaml",
            [{GPU: 16_000}, {GPU: 8000}],
            [{GPU: 8000}, {GPU: 4000}],
            id="two queues",
        ),
        pytest.param(
            "10-volcano-example.yaml",
            [
                {GPU: 24_000, "cpu": 192_000, "memory": 768 * GIB_MILLI},
                {GPU: 16_000, "cpu": 64_000, "memory": 256 * GIB_MILLI},
            ],
            [{GPU: 16_000}, {GPU: 8000}],
            id="the whole example",
        ),
    ],
)
def test_the_volcano_queues(
    name: str, capability: list[dict[str, int]], guarantee: list[dict[str, int]]
) -> None:
    queues = contents(seed(name), VolcanoQueue)
    assert [(queue.name, queue.weight) for queue in queues] == [("team-datos", 4), ("team-ia", 2)]
    assert [queue.capability for queue in queues] == capability
    assert [queue.guarantee for queue in queues] == guarantee
    assert all(queue.reclaimable for queue in queues)


def test_the_volcano_job_stays_within_a_block() -> None:
    job = only(seed("03-volcanojob-network-topology.yaml"), JobSubmission)
    assert job.network_topology == NetworkTopology(
        mode=NetworkTopologyMode.HARD, highest_tier_name="block"
    )
    assert job.volcano_queue == "team-datos"
    assert shapes(job) == [("worker", 8, None, 4000)]


@pytest.mark.parametrize("name", ["04-resourceflavor.yaml", "11-kueue-example.yaml"])
def test_the_flavor_of_the_h100_nodes(name: str) -> None:
    flavor = only(seed(name), ResourceFlavor)
    assert flavor.node_labels["accelerator"] == "h100-sxm"
    assert flavor.tolerations == (
        Toleration(key=GPU, operator=TolerationOperator.EXISTS, effect=TaintEffect.NO_SCHEDULE),
    )


def test_the_flavor_with_a_topology() -> None:
    assert only(seed("08-resourceflavor-topology.yaml"), ResourceFlavor) == ResourceFlavor(
        name="h100-sxm",
        node_labels={"accelerator": "h100-sxm"},
        topology_name="datacenter-topology",
    )
    assert only(seed("07-topology.yaml"), Topology) == Topology(
        name="datacenter-topology",
        levels=(
            "topology.kubernetes.io/block",
            "topology.kubernetes.io/rack",
            "kubernetes.io/hostname",
        ),
    )


def test_the_queues_of_two_teams() -> None:
    result = seed("11-kueue-example.yaml")
    datos, ia = contents(result, ClusterQueue)
    assert datos == only(seed("05-clusterqueue.yaml"), ClusterQueue)
    assert (datos.name, datos.cohort, ia.cohort) == ("cq-team-datos", "llm-platform", datos.cohort)
    assert quotas(datos) == {
        GPU: (16_000, 8000, 8000),
        "cpu": (128_000, None, None),
        "memory": (512 * GIB_MILLI, None, None),
    }
    assert quotas(ia)[GPU] == (8000, 8000, 4000)
    assert datos.preemption.reclaim_within_cohort == "LowerPriority"
    assert datos.preemption.borrow_within_cohort.policy == "LowerPriority"
    assert ia.preemption.borrow_within_cohort.policy == "Never"
    assert datos.namespace_selector is not None
    assert datos.namespace_selector.matches({"kubernetes.io/metadata.name": "ns-datos"})
    assert not datos.namespace_selector.matches({"kubernetes.io/metadata.name": "ns-ia"})
    assert contents(result, LocalQueue) == [
        LocalQueue(namespace="ns-datos", name="lq-datos", cluster_queue="cq-team-datos"),
        LocalQueue(namespace="ns-ia", name="lq-ia", cluster_queue="cq-team-ia"),
    ]
    assert only(seed("06-localqueue.yaml"), LocalQueue) == contents(result, LocalQueue)[0]


def test_the_ray_job_is_a_head_and_three_workers() -> None:
    job = only(seed("11-kueue-example.yaml"), JobSubmission)
    assert (job.namespace, job.queue) == ("ns-datos", "lq-datos")
    assert shapes(job) == [("head", 1, None, 4000), ("gpu-worker", 3, None, 4000)]
    each = {GPU: 4000, "cpu": 16_000, "memory": 64 * GIB_MILLI}
    assert [pod_set.requests for pod_set in job.pod_sets] == [each, each]


@pytest.mark.parametrize(
    "name", ["09-pytorchjob-finetune-70b.yaml", "12-kueue-and-volcano-pytorchjob.yaml"]
)
def test_the_training_jobs_name_both_queues(name: str) -> None:
    job = only(seed(name), JobSubmission)
    assert (job.queue, job.volcano_queue) == ("lq-datos", "team-datos")
    assert shapes(job) == [("master", 1, None, 4000), ("worker", 7, None, 4000)]
    assert {pod_set.restart_policy for pod_set in job.pod_sets} == {RestartPolicy.ON_FAILURE}


def test_the_volcano_job_joins_its_pod_group() -> None:
    result = seed("10-volcano-example.yaml")
    group, job = only(result, PodGroup), only(result, JobSubmission)
    assert job.pod_group == group.name == "finetune-70b-pg"
    assert (job.volcano_queue, job.priority_class) == ("team-datos", "training-high")
    assert shapes(job) == [("worker", 8, None, 4000)]
    (container,) = job.pod_sets[0].containers
    assert container.command[0] == "torchrun"
    assert len(container.command) == 7
    assert [(item.name, item.value) for item in container.environment] == [("NCCL_DEBUG", "INFO")]


def test_three_teams_share_four_gpus_under_the_older_field_name() -> None:
    queues = contents(seed("13-three-teams.yaml"), ClusterQueue)
    assert {queue.cohort for queue in queues} == {"llm-platform"}
    assert [quotas(queue)[GPU] for queue in queues] == [
        (2000, 2000, None),
        (1000, None, 1000),
        (1000, 3000, None),
    ]


@pytest.mark.parametrize("path", files(SEED), ids=lambda path: path.name)
def test_the_users_examples_have_no_unknown_field(path: Path) -> None:
    assert "unknown" not in "\n".join(map(str, load_file(path).warnings))
