from collections.abc import Callable
from typing import Any

import pytest

from muster_domain.job_policies import (
    JobAction,
    JobEvent,
    JobPolicies,
    JobPolicy,
    TaskPolicies,
)
from muster_domain.queues import HyperNode, NodeGroups, VolcanoQueue
from muster_domain.selectors import Requirement, Selector, SelectorOperator
from muster_domain.workload import NetworkTopology, NetworkTopologyMode
from muster_manifests import JobSubmission, PodGroup

LoadContent = Callable[[str], Any]
LoadJob = Callable[[str], JobSubmission]
Refused = Callable[[str], list[tuple[str, str]]]
Warned = Callable[[str], list[tuple[str, str]]]

TEMPLATE = "template: {spec: {containers: [{name: c, resources: {limits: {gpu: 1}}}]}}"


RACK = "{type: Node, selector: {labelMatch: {matchLabels: {a: b}}}}"


def task(name: str, replicas: int, more: str = "") -> str:
    return f"{{name: {name}, replicas: {replicas}, {TEMPLATE}{more}}}"


def job(*tasks: str, spec: str = "") -> str:
    more = f"{spec}, " if spec else ""
    return (
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: train}\n"
        f"spec: {{{more}tasks: [{', '.join(tasks)}]}}\n"
    )


def queue(spec: str, metadata: str = "name: vision") -> str:
    return (
        "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\n"
        f"metadata: {{{metadata}}}\nspec: {{{spec}}}\n"
    )


def hyper_node(members: str) -> str:
    return (
        "apiVersion: topology.volcano.sh/v1alpha1\nkind: HyperNode\nmetadata: {name: h}\n"
        f"spec: {{tier: 2, tierName: rack, members: [{members}]}}\n"
    )


def test_a_queue(load_content: LoadContent) -> None:
    spec = (
        "weight: 4, parent: lab, reclaimable: false, priority: 9, type: x, "
        "capability: {gpu: 16, cpu: 0, memory: 1Gi}, deserved: {gpu: 12}, "
        "guarantee: {resource: {gpu: 8}}"
    )
    assert load_content(queue(spec)) == VolcanoQueue(
        name="vision",
        weight=4,
        parent="lab",
        capability={"gpu": 16_000, "memory": 2**30 * 1000},
        deserved={"gpu": 12_000},
        guarantee={"gpu": 8000},
        reclaimable=False,
        priority=9,
    )
    assert load_content(queue("")) == VolcanoQueue(name="vision")


@pytest.mark.parametrize(
    ("spec", "field", "problem"),
    [
        pytest.param("weight: 0", "spec.weight", "0 is out of range", id="weight"),
        pytest.param(
            "guarantee: {resource: {gpu: 3}}, deserved: {gpu: 2}",
            "spec.guarantee",
            "gpu 3 is more than deserved 2",
            id="guarantee above deserved",
        ),
        pytest.param(
            "deserved: {gpu: 3}, capability: {gpu: 2}",
            "spec.deserved",
            "gpu 3 is more than capability 2",
            id="deserved above capability",
        ),
        pytest.param(
            "capability: {gpu: -1}", "spec.capability.gpu", "below zero", id="negative capability"
        ),
    ],
)
def test_a_queue_that_volcano_refuses(
    refused: Refused, spec: str, field: str, problem: str
) -> None:
    assert refused(queue(spec)) == [(field, problem)]


def test_a_hyper_node(load_content: LoadContent) -> None:
    members = (
        "{type: Node, selector: {exactMatch: {name: n1}}}, "
        "{type: Node, selector: {regexMatch: {pattern: '^gpu-.*$'}}}, "
        "{type: Node, selector: {labelMatch: {matchLabels: {rack: r1}}}}, "
        "{type: HyperNode, selector: {exactMatch: {name: s0}}}, "
        "{type: HyperNode, selector: {regexMatch: {pattern: 's[1-9]'}}}"
    )
    assert load_content(hyper_node(members)) == HyperNode(
        name="h",
        tier=2,
        tier_name="rack",
        node_members=("n1",),
        node_patterns=("^gpu-.*$",),
        node_selector=Selector(
            requirements=(Requirement(key="rack", operator=SelectorOperator.IN, values=("r1",)),)
        ),
        hyper_node_members=("s0",),
        hyper_node_patterns=("s[1-9]",),
    )


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ("{type: Rack, selector: {exactMatch: {name: n}}}", "'Rack' is none of its values"),
        ("{type: Node, selector: {}}", "0 selectors"),
        (
            "{type: Node, selector: {exactMatch: {name: n}, regexMatch: {pattern: n}}}",
            "2 selectors",
        ),
        (
            "{type: Node, selector: {regexMatch: {pattern: '('}}}",
            "'(' is not a regular expression",
        ),
        (
            "{type: HyperNode, selector: {labelMatch: {matchLabels: {a: b}}}}",
            "HyperNodes are not chosen by label",
        ),
        (
            f"{RACK}, {RACK}",
            "more than one labelMatch",
        ),
    ],
)
def test_a_hyper_node_that_is_refused(refused: Refused, members: str, problem: str) -> None:
    assert [found for _, found in refused(hyper_node(members))] == [problem]


@pytest.mark.parametrize("group", ["scheduling.volcano.sh/v1beta1", "scheduling.x-k8s.io/v1alpha1"])
def test_a_pod_group(load_content: LoadContent, group: str) -> None:
    content = load_content(f"""
        apiVersion: {group}
        kind: PodGroup
        metadata: {{name: g, namespace: vision}}
        spec:
          minMember: 8
          minTaskMember: {{master: 1, worker: 7}}
          minResources: {{gpu: 32}}
          queue: vq
          priorityClassName: high
          networkTopology: {{mode: soft, highestTierAllowed: 2}}
        """)
    assert content == PodGroup(
        namespace="vision",
        name="g",
        min_member=8,
        min_task_member={"master": 1, "worker": 7},
        min_resources={"gpu": 32_000},
        queue="vq",
        priority_class="high",
        network_topology=NetworkTopology(mode=NetworkTopologyMode.SOFT, highest_tier=2),
    )
    assert content.key == "vision/g"


def minima(submission: JobSubmission) -> dict[str, tuple[int, int | None]]:
    return {pod_set.name: (pod_set.count, pod_set.min_count) for pod_set in submission.pod_sets}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(job(task("w", 4)), {"w": (4, None)}, id="whole gang by default"),
        pytest.param(
            job(task("w", 4), spec="minAvailable: 4"), {"w": (4, None)}, id="whole gang, written"
        ),
        pytest.param(job(task("w", 4), spec="minAvailable: 2"), {"w": (4, 2)}, id="elastic gang"),
        pytest.param(
            job(task("w", 4), spec="minAvailable: 0"), {"w": (4, 1)}, id="one pod at the least"
        ),
        pytest.param(
            job(task("w", 4, ", minAvailable: 3")), {"w": (4, 3)}, id="minimum of the task"
        ),
        pytest.param(
            job(task("w", 4, ", minAvailable: 3"), spec="minAvailable: 2"),
            {"w": (4, 2)},
            id="the job's minimum decides over that of its only task",
        ),
        pytest.param(
            job(task("m", 1), task("w", 6, ", minAvailable: 2")),
            {"m": (1, None), "w": (6, 2)},
            id="minima by task",
        ),
        pytest.param(
            job(
                task("m", 3, ", minAvailable: 1"),
                task("w", 6, ", minAvailable: 2"),
                spec="minAvailable: 6",
            ),
            {"m": (3, None), "w": (6, 3)},
            id="minima by task are raised to the job's",
        ),
        pytest.param(
            job(task("m", 1), task("w", 6), spec="minAvailable: 3"),
            {"m": (1, None), "w": (6, None)},
            id="a minimum that does not say which pods",
        ),
    ],
)
def test_how_small_a_gang_may_start(
    load_job: LoadJob, text: str, expected: dict[str, tuple[int, int | None]]
) -> None:
    assert minima(load_job(text)) == expected


def test_what_a_job_says(load_job: LoadJob) -> None:
    spec = (
        "queue: vq, priorityClassName: high, schedulerName: volcano, "
        "networkTopology: {mode: hard, highestTierName: rack}"
    )
    nameless = f"{{replicas: 2, {TEMPLATE}}}"
    submission = load_job(job(task("w", 1), nameless, spec=spec))
    assert (submission.volcano_queue, submission.priority_class) == ("vq", "high")
    assert submission.network_topology == NetworkTopology(
        mode=NetworkTopologyMode.HARD, highest_tier_name="rack"
    )
    assert [pod_set.name for pod_set in submission.pod_sets] == ["w", "default1"]


def test_a_name_for_the_highest_tier_allowed(load_job: LoadJob, warned: Warned) -> None:
    text = job(task("w", 1), spec="networkTopology: {highestTierAllowed: rack}")
    assert load_job(text).network_topology == NetworkTopology(highest_tier_name="rack")
    assert warned(text) == [
        ("spec.networkTopology.highestTierAllowed", "'rack' is read as the name of a tier")
    ]
    quoted = job(task("w", 1), spec='networkTopology: {highestTierAllowed: "2"}')
    assert load_job(quoted).network_topology == NetworkTopology(highest_tier=2)


@pytest.mark.parametrize(
    ("text", "field", "problem"),
    [
        pytest.param(
            job(task("a", 1), task("a", 1)), "spec.tasks[1].name", "a second task 'a'", id="names"
        ),
        pytest.param(
            job(task("a", 2), task("b", 2), spec="minAvailable: 5"),
            "spec.minAvailable",
            "5 is more than the 4 replicas of all tasks",
            id="minimum above replicas",
        ),
        pytest.param(
            job(task("a", 2, ", minAvailable: 3")),
            "spec.tasks[0].minAvailable",
            "more than the 2 replicas",
            id="minimum of a task above its replicas",
        ),
        pytest.param(job(), "spec.tasks", "missing", id="no tasks"),
        pytest.param(
            job().replace("tasks: []", f"parallelism: 2, {TEMPLATE}"),
            "spec.tasks",
            "missing; this is written like a batch Job",
            id="written like a batch Job",
        ),
        pytest.param(
            job(task("a", 1), spec="networkTopology: {highestTierAllowed: 1, highestTierName: x}"),
            "spec.networkTopology.highestTierName",
            "excludes highestTierAllowed",
            id="two highest tiers",
        ),
        pytest.param(
            job(task("a", 1, ", dependsOn: {name: [b]}")),
            "spec.tasks[0].dependsOn",
            "no task is named 'b'",
            id="depends on nobody",
        ),
        pytest.param(
            job(task("a", 1, ", dependsOn: {name: [b]}"), task("b", 1, ", dependsOn: {name: [a]}")),
            "spec.tasks[0].dependsOn",
            "the tasks wait for each other",
            id="depends in a circle",
        ),
    ],
)
def test_a_job_that_volcano_refuses(refused: Refused, text: str, field: str, problem: str) -> None:
    assert refused(text) == [(field, problem)]


@pytest.mark.parametrize(
    ("policies", "field", "problem"),
    [
        pytest.param(
            "{event: PodFailed, action: AbortJob}, {event: PodFailed, action: RestartJob}",
            "policies[1].event",
            "a second policy for PodFailed",
            id="one event twice",
        ),
        pytest.param(
            "{events: [PodFailed, PodEvicted], action: AbortJob}, "
            "{event: PodEvicted, action: RestartJob}",
            "policies[1].event",
            "a second policy for PodEvicted",
            id="in a list",
        ),
        pytest.param(
            "{exitCode: 3, action: AbortJob}, {exitCode: 3, action: RestartJob}",
            "policies[1].event",
            "a second policy for exit code 3",
            id="one exit code twice",
        ),
        pytest.param(
            "{event: '*', action: AbortJob}, {event: PodFailed, action: RestartJob}",
            "policies[1].event",
            "a second policy for PodFailed",
            id="beside a policy for all",
        ),
        pytest.param(
            "{exitCode: 0, action: AbortJob}",
            "policies[0].exitCode",
            "0 is success, not an event",
            id="exit code 0",
        ),
        pytest.param(
            "{event: PodFailed, exitCode: 1, action: AbortJob}",
            "policies[0].exitCode",
            "excludes event",
            id="event and exit code",
        ),
        pytest.param(
            "{event: PodPending, action: AbortJob}",
            "policies[0].timeout",
            "missing for PodPending",
            id="pending for ever",
        ),
        pytest.param(
            "{event: PodFailed, action: AbortJob, timeout: soon}",
            "policies[0].timeout",
            "'soon' is not a duration",
            id="no duration",
        ),
        pytest.param("{action: AbortJob}", "policies[0].event", "missing", id="no event"),
        pytest.param("{event: PodFailed}", "policies[0].action", "missing", id="no action"),
        pytest.param(
            "{event: PodVanished, action: AbortJob}",
            "policies[0].event",
            "'PodVanished' is no event",
            id="unknown event",
        ),
        pytest.param(
            "{event: PodFailed, action: Panic}",
            "policies[0].action",
            "'Panic' is no action",
            id="unknown action",
        ),
    ],
)
def test_policies_that_volcano_refuses(
    refused: Refused, policies: str, field: str, problem: str
) -> None:
    of_job = job(task("a", 1), spec=f"policies: [{policies}]")
    assert refused(of_job) == [(f"spec.{field}", problem)]
    of_task = job(task("a", 1, f", policies: [{policies}]"))
    assert refused(of_task) == [(f"spec.tasks[0].{field}", problem)]


def test_what_of_a_job_has_no_effect_is_said(warned: Warned) -> None:
    spec = "plugins: {env: [], svc: [], horovod: [x]}, volumes: [{mountPath: /data}]"
    tasks = (task("a", 1), task("b", 1, ", topologyPolicy: restricted"))
    assert warned(job(*tasks, spec=spec)) == [
        ("spec.volumes", "not acted upon"),
        ("spec.plugins.horovod", "not acted upon"),
        ("spec.tasks[1].topologyPolicy", "not acted upon"),
    ]


def test_a_job_says_what_follows_from_which_event(load_job: LoadJob) -> None:
    text = job(
        task("ps", 1, ", maxRetry: -1, policies: [{event: TaskCompleted, action: CompleteJob}]"),
        task(
            "worker",
            4,
            ", minAvailable: 2, dependsOn: {name: [ps], iteration: any}, "
            "partitionPolicy: {totalPartitions: 2, partitionSize: 2}, "
            "policies: [{exitCode: 3, action: RestartPartition}]",
        ),
        spec="maxRetry: 5, minSuccess: 2, minAvailable: 3, policies: ["
        "{events: [PodEvicted, JobUnknown], action: RestartJob},"
        "{event: PodPending, action: AbortJob, timeout: 1h30m}]",
    )
    assert load_job(text).job_policies == JobPolicies(
        min_available=3,
        max_retry=5,
        min_success=2,
        policies=(
            JobPolicy(
                action=JobAction.RESTART_JOB, events=(JobEvent.POD_EVICTED, JobEvent.UNKNOWN)
            ),
            JobPolicy(
                action=JobAction.ABORT_JOB, events=(JobEvent.POD_PENDING,), timeout_ms=5_400_000
            ),
        ),
        tasks=(
            TaskPolicies(
                name="ps",
                min_available=1,
                max_retry=None,
                policies=(
                    JobPolicy(action=JobAction.COMPLETE_JOB, events=(JobEvent.TASK_COMPLETED,)),
                ),
            ),
            TaskPolicies(
                name="worker",
                min_available=2,
                depends_on=("ps",),
                depends_on_any=True,
                partition_size=2,
                policies=(JobPolicy(action=JobAction.RESTART_PARTITION, exit_code=3),),
            ),
        ),
    )


def test_a_partitioned_task_has_as_many_pods_as_its_partitions(load_job: LoadJob) -> None:
    text = job(
        "{name: a, partitionPolicy: {totalPartitions: 3, partitionSize: 4}, " + TEMPLATE + "}"
    )
    assert [pod_set.count for pod_set in load_job(text).pod_sets] == [12]


@pytest.mark.parametrize(
    ("policy", "least"),
    [
        ("totalPartitions: 4, partitionSize: 3, minPartitions: 2", 6),
        ("totalPartitions: 4, partitionSize: 3", 12),
        ("totalPartitions: 4, partitionSize: 3, minPartitions: 4", 12),
    ],
)
def test_a_partitioned_task_needs_its_least_partitions(
    load_job: LoadJob, policy: str, least: int
) -> None:
    found = load_job(job("{name: a, partitionPolicy: {" + policy + "}, " + TEMPLATE + "}"))
    assert found.pod_sets[0].count == 12
    assert found.pod_sets[0].min_count in {least, None if least == 12 else least}
    assert found.job_policies is not None
    assert found.job_policies.min_available == least


def test_what_of_a_queue_has_no_effect_is_said(warned: Warned) -> None:
    metadata = "name: q, namespace: x, annotations: {volcano.sh/hierarchy: root/a}"
    assert warned(queue("affinity: {a: b}", metadata)) == [
        ("metadata.namespace", "this kind belongs to no namespace, dropped"),
        ("spec.affinity", "not acted upon"),
        ('metadata.annotations["volcano.sh/hierarchy"]', "not acted upon"),
    ]


LIMITS = "volcano.sh/nodegroup-resource-limits"
GROUPS = "affinity: {nodeGroupAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [g]}}"


def test_how_much_a_queue_may_hold_of_a_node_group(load_content: LoadContent) -> None:
    written = '{"g": {"cpu": "3", "memory": "1Gi"}}'
    found = load_content(queue(GROUPS, f"name: q, annotations: {{{LIMITS}: '{written}'}}"))
    assert isinstance(found, VolcanoQueue)
    assert found.node_groups == NodeGroups(
        required=("g",), limits={"g": {"cpu": 3000, "memory": 2**30 * 1000}}
    )


@pytest.mark.parametrize("written", ['{"g": {"cpu":', "[]", '{"g": "all"}', '{"g": {"cpu": "x"}}'])
def test_limits_of_node_groups_that_cannot_be_read_are_refused(
    refused: Refused, written: str
) -> None:
    found = refused(queue(GROUPS, f"name: q, annotations: {{{LIMITS}: '{written}'}}"))
    assert found == [(f'metadata.annotations["{LIMITS}"]', "not a mapping of groups to amounts")]
