from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.rendering.cost import cost_csv, cost_heading, cost_table
from muster.rendering.explain import explain
from muster.rendering.manifest import workload_manifest
from muster.rendering.nodes import node_table
from muster.rendering.quota import bar, inactive_lines, parts_of, quota_table
from muster.rendering.words import asks, main_resource
from muster.rendering.workloads import decision_line, plan_lines, workload_table
from muster_contracts.jobs import Decision, Seat, Verdict
from muster_contracts.queries import (
    Condition,
    CostLine,
    CostLineKind,
    CostReport,
    DeviceRow,
    InstanceRow,
    Phase,
    Plan,
    PlanVerdict,
)
from muster_domain.checks import CheckState, CheckStatus
from muster_domain.conditions import Explanation, Outcome
from muster_domain.money import IdlePolicy
from muster_domain.nodes import DomainCount, TopologyAssignment
from muster_domain.states import Admission, EvictionCount, PodSetAdmission

from .examples import GPU, nodes, quota_row, quotas, row, shown, waiting
from .test_fit import page as fit_page

ESTIMATE = "estimate 25-70 min (history of 41 admissions)"


def test_a_waiting_job_is_explained_line_by_line() -> None:
    assert explain(waiting(), 0) == [
        "PENDING  WaitingForQuota   position 3 in main, 7 in gpus; " + ESTIMATE,
        "asks     8 x nvidia.com/gpu, cpu 4, priority 500",
        "flavor a100   quota 16 used 12 free 4; may borrow 2 from cohort -> short by 2",
        "flavor h100   not tried: nodeSelector model=a100",
        "largest  not known: placement does not answer",
        "ahead    aaaaaaaa (team-a, 8 GPUs, anna), (another namespace) (1 GPUs), 4 more",
        "preempt  none: 2 candidates are higher or equal priority",
        "would start if  2 more GPUs free in cohort gpu, or ask 6 GPUs",
    ]


def test_a_job_that_never_fits_is_told_the_most_there_will_be() -> None:
    detail = waiting()
    verdict = replace(detail.explanation.flavors[0], requested_milli=32_000)
    explanation = Explanation(reason="ExceedsMaxQuota", message="", flavors=(verdict,))
    lines = explain(replace(detail, explanation=explanation), 0)
    assert lines[2].endswith("-> at most 24 ever, 32 asked")


def test_a_running_job_is_explained_by_its_seats() -> None:
    detail = replace(
        waiting(),
        row=row(
            phase=Phase.RUNNING,
            reason="",
            nodes=("n1",),
            admitted_at_ms=0,
            pods=2,
            position_in_cluster_queue=None,
            position_in_local_queue=None,
        ),
        explanation=Explanation(reason="Admitted", message="runs"),
        estimate=None,
        flavors={GPU: "a100"},
        seats=(Seat(rank=0, pod_set="main", node="n1", devices={GPU: (0, 3)}),),
    )
    assert explain(detail, 61_000) == [
        "RUNNING  Admitted   on n1 for 1m",
        "asks     8 x nvidia.com/gpu, cpu 4 (gang of 2 x 4), priority 500",
        "flavors  nvidia.com/gpu a100",
        "seat     main rank 0: n1 nvidia.com/gpu 0,3",
        "because  runs",
    ]
    lines = explain(detail, 61_000, nodes().nodes)
    assert lines[3] == "seat     main rank 0: n1 nvidia.com/gpu 0,3  in dc b/r1"


def test_who_seeks_seats_is_told_where_there_are_some_if_placement_answers() -> None:
    lines = explain(waiting(), 0, fit=fit_page())
    assert lines[4].startswith("largest  gang of this shape that finds seats now: 2 of 4")
    assert lines[5].startswith("place    the whole floor: 2 of 4 fit")
    assert explain(waiting(), 0)[4] == "largest  not known: placement does not answer"


def test_quota_bars_and_their_numbers() -> None:
    table = [text.split() for text in shown(quota_table(quotas(), wide=False))]
    numbers = ["NOMINAL", "USED", "BORROWED", "LENT", "PENDING"]
    assert table == [
        ["QUEUE", "COHORT", "FLAVOR", "RESOURCE", *numbers],
        ["team-a", "site", "a100", GPU, "█" * 21 + "▓" * 10, "8", "12", "4", "0", "3"],
        ["team-b", "site", "a100", GPU, "█" * 5 + "░" * 10 + "·" * 5, "8", "2", "0", "4", "3"],
    ]
    assert inactive_lines(quotas()) == [
        "team-b is inactive: FlavorNotFound: Can't admit new workloads."
    ]
    wide = shown(quota_table(quotas(), wide=True))
    assert [line.split()[3] for line in wide[1:]] == [GPU, "cpu", GPU]


amounts = st.integers(0, 10**9)


@given(nominal=amounts, own=amounts, borrowed=amounts, lent=amounts)
def test_the_four_numbers_add_up(nominal: int, own: int, borrowed: int, lent: int) -> None:
    own, lent = min(own, nominal), min(lent, max(0, nominal - own))
    found = quota_row(
        nominal_milli=nominal,
        used_milli=own + borrowed,
        borrowed_milli=borrowed,
        lent_milli=lent,
    )
    parts = parts_of(found)
    assert parts.own + parts.borrowed == found.used_milli
    assert parts.own + parts.lent + parts.free == found.nominal_milli
    assert len(bar(parts, max(1, nominal + borrowed))) <= 32 + 4


def test_the_table_of_nodes() -> None:
    lines = shown(node_table(nodes(), 5000, wide=True))
    assert lines[1].split() == [
        "n1", "ready", "A100", "1/4", "60/64", "128Gi/256Gi", "team-a/train,", "team-b/eval",
        "5s", "zone=a",
    ]  # fmt: skip


def test_the_table_of_nodes_says_how_many_take_turns() -> None:
    labels = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"}
    page = nodes()
    first = replace(page.nodes[0], labels=labels)
    lines = shown(node_table(replace(page, nodes=(first,)), 5000, wide=False))
    assert "A100, 4 pods take turns on each" in lines[1]


def test_the_table_of_nodes_shows_how_cards_are_divided() -> None:
    instances = (
        InstanceRow(profile="1g.10gb", start=0, slices=1, health="held_by_others"),
        InstanceRow(profile="1g.10gb", start=1, slices=1),
        InstanceRow(profile="3g.40gb", start=4, slices=4, holder="team-a/x"),
    )
    card = DeviceRow(
        index=0,
        resource="nvidia.com/mig",
        model="A100",
        health="healthy",
        holder="team-a/x",
        left_milli=375,
        slices=8,
        instances=instances,
    )
    offer = {"nvidia.com/mig-1g.10gb": 7000, "nvidia.com/mig-3g.40gb": 2000}
    page = nodes()
    first = replace(page.nodes[0], devices=(card,), allocatable_milli=offer, free_milli=offer)
    lines = shown(node_table(replace(page, nodes=(first,)), 5000, wide=True))
    assert "GEOMETRY" in lines[0]
    assert "0.375/1" in lines[1]
    geometry = (
        "0: 1g.10gb@0 used outside Muster, 1g.10gb@1 idle, 3g.40gb@4 team-a/x, 3 of 8 slices free"
    )
    assert geometry in " ".join(lines[1].split())


def test_the_list_of_jobs() -> None:
    lines = shown(workload_table((row(), row(outcome=Outcome.FAILED)), 3_600_000, wide=False))
    assert lines[0].split() == [
        "ID", "NAME", "QUEUE", "PRIO", "STATE", "POS", "GPUS", "AGE", "ETA", "REASON",
    ]  # fmt: skip
    assert lines[1].split() == [
        "01234567", "team-a/train", "main", "500", "Pending", "7", "8", "1h00m", "unknown",
        "WaitingForQuota",
    ]  # fmt: skip
    assert lines[2].endswith("Failed")


def line(key: str, gpu_ms: int, cost: int | None) -> CostLine:
    return CostLine(key=key, resource_time={GPU: gpu_ms * 1000}, cost_micros=cost)


def test_cost_rows_are_hours_and_money_and_end_with_the_sum() -> None:
    report = CostReport(
        by="namespace",
        start_ms=0,
        end_ms=3_600_000,
        currency="EUR",
        lines=(line("team-a", 5_400_000, 3_004_999), line("team-b", 18_000, None)),
        idle=line("(idle)", 0, 0),
        total=line("(total)", 5_418_000, 3_004_999),
    )
    assert [text.split() for text in shown(cost_table(report))] == [
        ["NAMESPACE", "GPU-H", "BORROWED", "LOST", "COST", "EFFICIENCY", "OBSERVED"],
        ["team-a", "1.50", "0.00", "0.00", "3.00", "EUR", "unknown", "0", "%"],
        ["team-b", "0.00", "0.00", "0.00", "no", "price", "unknown", "0", "%"],
        ["(idle)", "0.00", "0.00", "0.00", "0.00", "EUR"],
        ["(total)", "1.50", "0.00", "0.00", "3.00", "EUR", "unknown", "0", "%"],
    ]
    assert cost_csv(report).splitlines()[1] == "team-a,1.50,0.00,0.00,3.00,EUR,unknown,0 %"


def test_efficiency_is_of_what_was_seen_and_says_how_much_that_was() -> None:
    seen = replace(
        line("team-a", 3_600_000, 0),
        observed_time={GPU: 1_800_000_000, "cpu": 7},
        busy_time={GPU: 1_206_000_000, "cpu": 7},
    )
    report = CostReport(
        by="team",
        start_ms=0,
        end_ms=3_600_000,
        currency="EUR",
        lines=(seen, line("team-b", 3_600_000, 0)),
        idle=replace(line("__idle__", 7_200_000, 0), kind=CostLineKind.IDLE),
        total=replace(seen, key="__total__", kind=CostLineKind.TOTAL),
    )
    assert [row.split(",")[-2:] for row in cost_csv(report).splitlines()] == [
        ["EFFICIENCY", "OBSERVED"],
        ["67 %", "50 %"],
        ["unknown", "0 %"],
        ["", ""],
        ["67 %", "25 %"],
    ]


def test_a_decision_in_one_line() -> None:
    decision = Decision(
        id="a" * 32,
        namespace="team-a",
        name="train",
        decision=Verdict.EVICTED,
        reason="Preempted",
        message="by a higher priority",
        queue="main",
        cluster_queue="gpus",
        partition="p00",
        attempt=1,
        at_ms=3_723_000,
        preemptor="b" * 32,
        assignments=(
            Seat(rank=0, pod_set="m", node="n1"),
            Seat(rank=1, pod_set="m", node="n1"),
            Seat(rank=2, pod_set="m", node="n2"),
        ),
    )
    assert decision_line(decision) == (
        "01:02:03Z  team-a/train  evicted  Preempted  on n1, n2  by bbbbbbbb  by a higher priority"
    )


def test_a_plan_says_who_would_have_to_go() -> None:
    plan = Plan(
        verdict=PlanVerdict.PREEMPT,
        explanation=Explanation(reason="WaitingForQuota", message="needs 4"),
        ahead_total=2,
        victims=waiting().ahead,
    )
    assert plan_lines("team-a/x", {GPU: 4000}, "gpus", plan) == [
        "team-a/x: would start after preemption, 2 ahead",
        "  asks     4 x nvidia.com/gpu in gpus",
        "  because  WaitingForQuota: needs 4",
        "  preempts aaaaaaaa (team-a/big), (another namespace)",
    ]


@pytest.mark.parametrize(
    ("resources", "text"),
    [
        ({}, "nothing"),
        ({"cpu": 500}, "cpu 500m"),
        ({"memory": 2**30 * 1000, GPU: 1000}, "1 x nvidia.com/gpu, memory 1Gi"),
        ({"nvidia.com/mig-1g.5gb": 2000}, "2 x nvidia.com/mig-1g.5gb"),
    ],
)
def test_what_is_asked_for(resources: dict[str, int], text: str) -> None:
    assert asks(resources) == text


@pytest.mark.parametrize(
    ("names", "main"),
    [
        ((), ""),
        (("memory", "cpu"), "cpu"),
        (("cpu", "amd.com/gpu"), "amd.com/gpu"),
        ((GPU, "cpu"), GPU),
    ],
)
def test_cards_matter_most(names: tuple[str, ...], main: str) -> None:
    assert main_resource(names) == main


def test_cents_of_the_rows_sum_to_the_last_line_and_shared_idle_has_its_column() -> None:
    third = 3_333_333
    report = CostReport(
        by="team",
        start_ms=0,
        end_ms=1,
        currency="EUR",
        lines=tuple(line(f"team-{name}", 0, third) for name in "abc"),
        idle=line("__idle__", 0, 0),
        total=line("__total__", 0, 3 * third),
        idle_policy=IdlePolicy.PROPORTIONAL,
    )

    rows = cost_csv(report).splitlines()
    assert rows[0] == "TEAM,GPU-H,BORROWED,LOST,IDLE,COST,CURRENCY,EFFICIENCY,OBSERVED"
    assert [row.split(",")[5] for row in rows[1:]] == ["3.34", "3.33", "3.33", "10.00"]


def test_hours_of_the_rows_sum_to_the_last_line() -> None:
    third = 3_600_000 // 3
    report = CostReport(
        by="team",
        start_ms=0,
        end_ms=3_600_000,
        currency="EUR",
        lines=tuple(line(f"team-{name}", third, 0) for name in "abc"),
        idle=line("__idle__", 0, 0),
        total=line("__total__", 3 * third, 0),
    )
    rows = [row.split(",") for row in cost_csv(report).splitlines()]
    assert [row[1] for row in rows[1:]] == ["0.34", "0.33", "0.33", "0.00", "1.00"]


def test_a_report_says_what_it_is_about() -> None:
    report = CostReport(
        by="team",
        start_ms=1_780_272_000_000,
        end_ms=1_782_864_000_000,
        currency="EUR",
        lines=(),
        idle=line("__idle__", 0, 0),
        total=line("__total__", 0, 0),
        complete_through_ms=1_782_864_000_000,
    )
    june = "2026-06-01T00:00:00Z to 2026-07-01T00:00:00Z, amounts in EUR, "
    assert cost_heading(report) == june + "idle on a row of its own"
    running = replace(report, complete_through_ms=1_780_358_400_000, idle_policy=IdlePolicy.OWNER)
    assert cost_heading(running) == (
        june + "idle paid by whose quota it was, counted up to 2026-06-02T00:00:00Z"
    )
    assert "has not ended" in cost_heading(replace(report, provisional=True))


def test_a_start_is_promised_only_where_it_is_known() -> None:
    known = row(starts_by_ms=3_600_000 + 600_000, position_in_cluster_queue=0)
    unknown = row(position_in_cluster_queue=1)
    lines = shown(workload_table((known, unknown), 3_600_000, wide=False))
    assert "<10m" in lines[1]
    assert "unknown" in lines[2]


def test_a_workload_in_kueues_form_has_its_status() -> None:
    detail = replace(
        waiting(),
        conditions=(
            Condition(
                type="QuotaReserved",
                status="False",
                reason="WaitingForQuota",
                message="short by 2",
                since_ms=0,
            ),
        ),
        requeue_count=2,
        requeue_at_ms=60_000,
        evictions=(EvictionCount(reason="PodsReadyTimeout", cause="WaitForStart", count=2),),
        checks=(CheckStatus(name="licences", state=CheckState.READY, retry_count=1),),
        reclaimable={"worker": 3},
    )
    status = workload_manifest(detail)["status"]
    assert status == {
        "conditions": [
            {
                "type": "QuotaReserved",
                "status": "False",
                "reason": "WaitingForQuota",
                "message": "short by 2",
                "lastTransitionTime": "1970-01-01T00:00:00Z",
            }
        ],
        "requeueState": {"count": 2, "requeueAt": "1970-01-01T00:01:00Z"},
        "admissionChecks": [
            {
                "name": "licences",
                "state": "Ready",
                "message": "",
                "lastTransitionTime": "1970-01-01T00:00:00Z",
                "retryCount": 1,
            }
        ],
        "reclaimablePods": [{"name": "worker", "count": 3}],
        "schedulingStats": {
            "evictions": [
                {"reason": "PodsReadyTimeout", "underlyingCause": "WaitForStart", "count": 2}
            ]
        },
    }


def test_a_topology_assignment_is_written_as_kueue_writes_it() -> None:
    granted = PodSetAdmission(name="main", count=4, flavors={GPU: "a100"}, usage={GPU: 4_000})
    domains = (DomainCount(values=("r1", "n1"), count=3), DomainCount(values=("r1", "n2"), count=1))
    seated = TopologyAssignment(levels=("rack", "kubernetes.io/hostname"), domains=domains)
    detail = replace(
        waiting(),
        admission=Admission(cluster_queue="gpus", pod_sets=(granted,)),
        topology={"main": seated},
    )
    manifest = workload_manifest(detail)
    assert manifest["status"]["admission"]["podSetAssignments"] == [
        {
            "name": "main",
            "count": 4,
            "flavors": {GPU: "a100"},
            "resourceUsage": {GPU: "4"},
            "topologyAssignment": {
                "levels": ["rack", "kubernetes.io/hostname"],
                "slices": [
                    {
                        "domainCount": 2,
                        "valuesPerLevel": [
                            {"individual": {"roots": ["r1", "r1"]}},
                            {"individual": {"roots": ["n1", "n2"]}},
                        ],
                        "podCounts": {"individual": [3, 1]},
                    }
                ],
            },
        }
    ]


@pytest.mark.parametrize(
    ("known", "line"),
    [
        pytest.param(
            {"checkpointed_at_ms": 0},
            "work     saved 1m ago: an eviction costs what came since",
            id="saved",
        ),
        pytest.param(
            {"never_checkpoints": True},
            "work     cannot be saved: an eviction costs all of it",
            id="never",
        ),
        pytest.param(
            {"lost_work_ms": 120_000},
            "work     2m of each pod is lost with this eviction",
            id="evicting",
        ),
    ],
)
def test_what_an_eviction_costs_is_explained(known: dict[str, int | bool], line: str) -> None:
    assert explain(replace(waiting(), **known), 60_000)[-1] == line


@pytest.mark.parametrize(
    ("count", "line"),
    [(2, "n0, n1"), (6, "n0, n1, n2, n3, n4, n5"), (9, "n0, n1, n2, n3, n4, n5 and 3 more")],
)
def test_a_plan_says_where_a_gang_would_sit(count: int, line: str) -> None:
    plan = Plan(
        verdict=PlanVerdict.ADMIT,
        explanation=Explanation(reason="QuotaReserved", message=""),
        nodes=tuple(f"n{number}" for number in range(count)),
    )
    assert plan_lines("team-a/x", {GPU: 4000}, "gpus", plan)[-1] == f"  sits on  {line}"


def test_a_plan_says_what_giving_way_costs() -> None:
    first, other = waiting().ahead
    plan = Plan(
        verdict=PlanVerdict.PREEMPT,
        explanation=Explanation(reason="WaitingForQuota", message=""),
        victims=(
            replace(first, lost_work_ms=3_600_000, never_checkpoints=True),
            replace(other, lost_work_ms=120_000),
        ),
    )
    assert plan_lines("team-a/x", {GPU: 4000}, "gpus", plan)[-1] == (
        "  preempts aaaaaaaa (team-a/big: 1h00m of work, cannot save its work), "
        "(another namespace): 2m of work"
    )


def test_tries_and_checks_are_explained() -> None:
    detail = replace(
        waiting(),
        checks=(CheckStatus(name="licences", message="2 of 8 free"),),
        requeue_count=2,
        requeue_at_ms=90_000,
        evictions=(EvictionCount(reason="PodsReadyTimeout", cause="WaitForStart", count=2),),
    )
    assert explain(detail, 30_000)[-3:] == [
        "check    licences: Pending, 2 of 8 free",
        "back-off held back for 1m more, after 2 tries",
        "evicted  PodsReadyTimeout (WaitForStart), 2 times",
    ]
