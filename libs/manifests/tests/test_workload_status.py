from collections.abc import Callable
from typing import Any

import pytest

from muster_domain.checks import CheckState
from muster_domain.conditions import (
    EvictionReason,
    Explanation,
    Outcome,
    PreemptionReason,
    UnderlyingCause,
)
from muster_domain.nodes import Placement, PodAssignment
from muster_domain.states import (
    Admission,
    Admitted,
    End,
    Evicting,
    Finished,
    Pending,
    PodSetAdmission,
    Requeue,
    Reserved,
)
from muster_domain.workload import Owner, SliceConstraint, TopologyMode, TopologyRequest
from muster_manifests import (
    AdmissionStatus,
    CheckStatus,
    Condition,
    ConditionStatus,
    Document,
    EvictionCount,
    LoadOptions,
    ManifestError,
    PodSetAssignment,
    RequeueState,
    TopologyAssignment,
    TopologyDomain,
    WorkloadRecord,
    WorkloadStatus,
    load,
    load_workload_status,
    workload_state,
)

LoadOne = Callable[[str], Document]
LoadContent = Callable[[str], Any]
Refused = Callable[[str], list[tuple[str, str]]]

NOON_MS = 1_772_366_400_000

HEAD = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata:
  name: train
  namespace: vision
  uid: u-1
  creationTimestamp: "2026-03-01T12:00:00Z"
spec:
  queueName: research
  priority: 7
  podSets:
  - name: workers
    count: 4
    template:
      spec:
        containers:
        - {name: main, resources: {requests: {cpu: 1, nvidia.com/gpu: 2}}}
"""

ADMISSION = """
  admission:
    clusterQueue: gpu
    podSetAssignments:
    - name: workers
      count: 4
      flavors: {nvidia.com/gpu: a100}
      resourceUsage: {nvidia.com/gpu: "8", cpu: "4"}
      topologyAssignment:
        levels: [kubernetes.io/hostname]
        slices:
        - domainCount: 2
          valuesPerLevel: [{individual: {prefix: node-, roots: [a, b], suffix: .lab}}]
          podCounts: {individual: [3, 1]}
"""


EVICTED_THREE_TIMES = """
  schedulingStats: {evictions: [{reason: x, underlyingCause: y, count: 3}]}
"""


def condition(kind: str, status: str = "True", reason: str = "", minute: int = 1) -> str:
    return (
        f'  - {{type: {kind}, status: "{status}", reason: "{reason}", message: told, '
        f'lastTransitionTime: "2026-03-01T12:0{minute}:00Z"}}\n'
    )


def workload(*conditions: str, rest: str = "") -> str:
    return f"{HEAD}status:\n  conditions:\n{''.join(conditions)}{rest}"


def state_of(text: str) -> object:
    (document,) = load(text, source="f").documents
    assert isinstance(document.content, WorkloadRecord)
    return workload_state(document.content)


GRANTED = Admission(
    cluster_queue="gpu",
    pod_sets=(
        PodSetAdmission(
            name="workers",
            count=4,
            flavors={"nvidia.com/gpu": "a100"},
            usage={"nvidia.com/gpu": 8000},
        ),
    ),
)


EVERYTHING = """
  requeueState: {count: 2, requeueAt: "2026-03-01T12:00:30.5Z"}
  reclaimablePods: [{name: workers, count: 1}]
  admissionChecks:
  - name: capacity
    state: Retry
    message: later
    lastTransitionTime: "2026-03-01T13:00:00+01:00"
    requeueAfterSeconds: 60
    retryCount: 3
  unhealthyNodes: [{name: node-b.lab}]
  schedulingStats: {evictions: [{reason: Preempted, underlyingCause: "", count: 2}]}
  accumulatedPastExecutionTimeSeconds: 90
"""


def test_a_status_with_everything(load_one: LoadOne) -> None:
    text = workload(
        condition("QuotaReserved", reason="QuotaReserved"),
        condition("Admitted", status="False"),
        rest=ADMISSION + EVERYTHING,
    )
    gated = text.replace("  podSets:", "  preemptionGates: [{name: hold}]\n  podSets:")
    assert load_workload_status(load_one(gated)) == WorkloadStatus(
        uid="u-1",
        created_at_ms=NOON_MS,
        admission=AdmissionStatus(
            cluster_queue="gpu",
            pod_sets=(
                PodSetAssignment(
                    name="workers",
                    count=4,
                    flavors={"nvidia.com/gpu": "a100"},
                    usage={"nvidia.com/gpu": 8000, "cpu": 4000},
                    topology=TopologyAssignment(
                        levels=("kubernetes.io/hostname",),
                        domains=(
                            TopologyDomain(values=("node-a.lab",), count=3),
                            TopologyDomain(values=("node-b.lab",), count=1),
                        ),
                    ),
                ),
            ),
        ),
        conditions=(
            Condition(
                type="QuotaReserved",
                status=ConditionStatus.TRUE,
                reason="QuotaReserved",
                message="told",
                last_transition_ms=NOON_MS + 60_000,
            ),
            Condition(
                type="Admitted",
                status=ConditionStatus.FALSE,
                message="told",
                last_transition_ms=NOON_MS + 60_000,
            ),
        ),
        requeue_state=RequeueState(count=2, requeue_at_ms=NOON_MS + 30_500),
        reclaimable_pods={"workers": 1},
        admission_checks=(
            CheckStatus(
                name="capacity",
                state=CheckState.RETRY,
                message="later",
                last_transition_ms=NOON_MS,
                requeue_after_ms=60_000,
                retry_count=3,
            ),
        ),
        unhealthy_nodes=("node-b.lab",),
        evictions=(EvictionCount(reason="Preempted", underlying_cause="", count=2),),
        past_execution_ms=90_000,
        preemption_gates=("hold",),
    )


def test_only_a_workload_has_a_status(load_one: LoadOne) -> None:
    document = load_one("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n")
    with pytest.raises(ManifestError, match="a Namespace has no workload status"):
        load_workload_status(document)


@pytest.mark.parametrize(
    ("assignment", "domains"),
    [
        pytest.param(
            "levels: [block, rack]\n        domains: [{values: [b1, r1], count: 2}]",
            [(("b1", "r1"), 2)],
            id="v1beta1 writes domains out",
        ),
        pytest.param(
            "levels: [block, rack]\n        slices:\n        - domainCount: 2\n"
            "          valuesPerLevel: [{universal: b1}, {individual: {roots: [r1, r2]}}]\n"
            "          podCounts: {universal: 3}",
            [(("b1", "r1"), 3), (("b1", "r2"), 3)],
            id="v1beta2 packs them",
        ),
    ],
)
def test_topology_assignments_of_both_versions(
    load_one: LoadOne, assignment: str, domains: list[tuple[tuple[str, ...], int]]
) -> None:
    head, _, _ = ADMISSION.partition("        levels:")
    text = workload(condition("QuotaReserved"), rest=f"{head}        {assignment}\n")
    status = load_workload_status(load_one(text))
    assert status.admission is not None
    topology = status.admission.pod_sets[0].topology
    assert topology is not None
    assert [(domain.values, domain.count) for domain in topology.domains] == domains


def test_a_topology_assignment_that_does_not_agree_is_refused(refused: Refused) -> None:
    text = workload(condition("QuotaReserved"), rest=ADMISSION.replace("[3, 1]", "[3]"))
    assert [problem for _, problem in refused(text)] == [
        "values, counts and domainCount do not agree"
    ]


def test_a_workload_that_waits() -> None:
    text = workload(condition("QuotaReserved", "False", "WaitingForQuota"))
    assert state_of(text) == Pending(
        explanation=Explanation(reason="WaitingForQuota", message="told"), queued_at_ms=NOON_MS
    )


def test_a_workload_without_status_waits_for_its_evaluation() -> None:
    assert state_of(HEAD) == Pending(
        explanation=Explanation(reason="PendingEvaluation", message=""), queued_at_ms=NOON_MS
    )


def test_a_workload_that_holds_quota() -> None:
    text = workload(condition("QuotaReserved"), rest=ADMISSION)
    assert state_of(text) == Reserved(
        admission=GRANTED, reserved_at_ms=NOON_MS + 60_000, attempt=1, queued_at_ms=NOON_MS
    )


def test_an_admitted_workload_sits_where_its_topology_says() -> None:
    text = workload(
        condition("QuotaReserved"),
        condition("Admitted", minute=2),
        condition("PodsReady", minute=3),
        rest=ADMISSION + EVICTED_THREE_TIMES,
    )
    nodes = ["node-a.lab", "node-a.lab", "node-a.lab", "node-b.lab"]
    assert state_of(text) == Admitted(
        admission=GRANTED,
        placement=Placement(
            pods=tuple(
                PodAssignment(pod_set="workers", index=rank, rank=rank, node=node)
                for rank, node in enumerate(nodes)
            )
        ),
        reserved_at_ms=NOON_MS + 60_000,
        admitted_at_ms=NOON_MS + 120_000,
        ready_at_ms=NOON_MS + 180_000,
        attempt=4,
        queued_at_ms=NOON_MS,
    )


def test_a_workload_being_preempted_still_holds_its_quota() -> None:
    text = workload(
        condition("QuotaReserved"),
        condition("Admitted"),
        condition("Evicted", reason="Preempted", minute=4),
        condition("Preempted", reason="InCohortReclamation", minute=4),
        rest=ADMISSION,
    )
    assert state_of(text) == Evicting(
        admission=GRANTED,
        reason=EvictionReason.PREEMPTED,
        then=Requeue(),
        since_ms=NOON_MS + 240_000,
        attempt=1,
        queued_at_ms=NOON_MS,
        message="told",
        preemption_reason=PreemptionReason.IN_COHORT_RECLAMATION,
    )


def test_a_deactivated_workload_ends_when_its_pods_are_gone() -> None:
    text = workload(
        condition("QuotaReserved"),
        condition("Evicted", reason="DeactivatedDueToMaximumExecutionTimeExceeded"),
        rest=ADMISSION,
    ).replace("  priority: 7", "  active: false")
    state = state_of(text)
    assert isinstance(state, Evicting)
    assert state.reason is EvictionReason.DEACTIVATED
    assert state.cause is UnderlyingCause.MAXIMUM_EXECUTION_TIME_EXCEEDED
    assert state.then == End(outcome=Outcome.DEACTIVATED)


@pytest.mark.parametrize(
    ("reason", "queued_at_ms"),
    [
        pytest.param("PodsReadyTimeout", NOON_MS + 60_000, id="not ready: to the end"),
        pytest.param("AdmissionCheck", NOON_MS + 60_000, id="refused by a check: to the end"),
        pytest.param("Preempted", NOON_MS, id="preempted: its old place"),
    ],
)
def test_where_an_evicted_workload_queues_again(reason: str, queued_at_ms: int) -> None:
    state = state_of(workload(condition("Evicted", reason=reason), rest=EVICTED_THREE_TIMES))
    assert isinstance(state, Pending)
    assert state.last_eviction == reason
    assert state.attempt == 3
    assert state.queued_at_ms == queued_at_ms


def test_an_eviction_that_is_over_moves_nobody() -> None:
    state = state_of(workload(condition("Evicted", "False", "PodsReadyTimeout")))
    assert isinstance(state, Pending)
    assert (state.last_eviction, state.queued_at_ms) == (None, NOON_MS)


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        ("Succeeded", Outcome.SUCCEEDED),
        ("Failed", Outcome.FAILED),
        ("OwnerNotFound", Outcome.CANCELLED),
    ],
)
def test_a_finished_workload_is_finished_whatever_else(reason: str, outcome: Outcome) -> None:
    text = workload(
        condition("QuotaReserved"), condition("Finished", reason=reason), rest=ADMISSION
    )
    assert state_of(text) == Finished(
        outcome=outcome, finished_at_ms=NOON_MS + 60_000, attempt=1, message="told"
    )


@pytest.mark.parametrize("written", ["noon", "2026-03-01", "2026-03-01T12:00:00", "12:00"])
def test_a_time_without_date_or_zone_is_refused(refused: Refused, written: str) -> None:
    text = HEAD.replace("2026-03-01T12:00:00Z", written)
    assert refused(text) == [("metadata.creationTimestamp", f"{written!r} is not a time")]


def test_go_s_zero_time_is_a_time(load_one: LoadOne) -> None:
    text = HEAD.replace("2026-03-01T12:00:00Z", "0001-01-01T00:00:00Z")
    assert load_workload_status(load_one(text)).created_at_ms == -62_135_596_800_000


def test_what_a_workload_asks_for(load_content: LoadContent) -> None:
    content = load_content("""
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: Workload
        metadata: {name: train, labels: {a: b}, annotations: {c: d}}
        spec:
          queueName: research
          priorityClassRef: {group: kueue.x-k8s.io, kind: WorkloadPriorityClass, name: release}
          maximumExecutionTimeSeconds: 60
          podSets:
          - count: 8
            minCount: 2
            topologyRequest:
              required: block
              podSetGroupName: g
              podSetSliceRequiredTopology: rack
              podSetSliceSize: 4
            template: {spec: {containers: [{name: a, resources: {limits: {cpu: 500m}}}]}}
        """)
    submission = content.submission
    assert submission.owner == Owner(
        api_version="kueue.x-k8s.io/v1beta2", kind="Workload", name="train"
    )
    assert (submission.namespace, submission.queue) == ("default", "research")
    assert (submission.workload_priority_class, submission.priority) == ("release", None)
    assert submission.max_execution_time_ms == 60_000
    assert (submission.labels, submission.annotations) == ({"a": "b"}, {"c": "d"})
    (pod_set,) = submission.pod_sets
    assert (pod_set.name, pod_set.count, pod_set.min_count) == ("main", 8, 2)
    assert pod_set.requests == {"cpu": 500}
    assert pod_set.topology == TopologyRequest(
        mode=TopologyMode.REQUIRED,
        node_label="block",
        pod_set_group="g",
        slices=(SliceConstraint(node_label="rack", size=4),),
    )


def test_slices_alone_leave_the_place_open(load_content: LoadContent) -> None:
    request = "topologyRequest: {podSetSliceRequiredTopology: rack, podSetSliceSize: 2}"
    submission = load_content(HEAD.replace("count: 4", f"count: 4\n    {request}")).submission
    assert submission.pod_sets[0].topology == TopologyRequest(
        mode=TopologyMode.UNCONSTRAINED, slices=(SliceConstraint(node_label="rack", size=2),)
    )


@pytest.mark.parametrize(
    ("spec", "classes"),
    [
        pytest.param(
            "priorityClassRef: {group: scheduling.k8s.io, kind: PriorityClass, name: x}",
            ("", "x"),
            id="reference to a class of pods",
        ),
        pytest.param(
            "priorityClassName: x\n  priorityClassSource: kueue.x-k8s.io/workloadpriorityclass",
            ("x", ""),
            id="v1beta1, Kueue's",
        ),
        pytest.param(
            "priorityClassName: x\n  priorityClassSource: scheduling.k8s.io/priorityclass",
            ("", "x"),
            id="v1beta1, of pods",
        ),
    ],
)
def test_priority_classes_of_both_versions(
    load_content: LoadContent, spec: str, classes: tuple[str, str]
) -> None:
    submission = load_content(HEAD.replace("priority: 7", spec)).submission
    assert (submission.workload_priority_class, submission.priority_class) == classes


POD_SET = "{name: NAME, count: 2MORE, template: {spec: {containers: [{name: a}]}}}"


def pod_sets(*written: str) -> str:
    return (
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: Workload\nmetadata: {name: a}\n"
        f"spec: {{podSets: [{', '.join(written)}]}}\n"
    )


def pod_set(name: str, more: str = "") -> str:
    return POD_SET.replace("NAME", name).replace("MORE", more)


@pytest.mark.parametrize(
    ("text", "field", "problem"),
    [
        pytest.param(pod_sets(), "spec.podSets", "0 pod sets", id="none"),
        pytest.param(
            pod_sets(*(pod_set(f"p{n}") for n in range(19))),
            "spec.podSets",
            "19 pod sets",
            id="too many",
        ),
        pytest.param(
            pod_sets(pod_set("a"), pod_set("a")),
            "spec.podSets[1].name",
            "a second pod set 'a'",
            id="one name twice",
        ),
        pytest.param(
            pod_sets(pod_set("a", ", minCount: 3")),
            "spec.podSets[0].minCount",
            "more than count 2",
            id="minimum above count",
        ),
        pytest.param(
            pod_sets(pod_set("a", ", minCount: 1"), pod_set("b", ", minCount: 1")),
            "spec.podSets",
            "more than one pod set has a minCount",
            id="two minima",
        ),
        pytest.param(
            pod_sets(pod_set("a")).replace("count: 2", "count: -1"),
            "spec.podSets[0].count",
            "-1 is out of range",
            id="negative",
        ),
    ],
)
def test_a_workload_that_kueue_refuses(
    refused: Refused, text: str, field: str, problem: str
) -> None:
    assert refused(text) == [(field, problem)]


def test_objects_of_unit_tests_load_without_admission_rules() -> None:
    options = LoadOptions(default_namespace="", admission_rules=False)
    text = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: Workload\nmetadata: {name: High_Prio}\n"
    (document,) = load(f"{text}spec: {{}}\n", source="f", options=options).documents
    assert (document.namespace, document.name) == ("", "High_Prio")
