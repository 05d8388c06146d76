import json
from dataclasses import asdict, replace

import pytest

from muster_admission.queries import ANSWERS
from muster_contracts import codec, events
from muster_contracts.queries import (
    LedgerReport,
    Phase,
    Plan,
    PlanQuestion,
    PlanVerdict,
    Query,
    QuotaPage,
    WorkloadDetail,
    WorkloadPage,
)
from muster_domain.conditions import PendingReason
from muster_domain.errors import InvalidValue, NotFound
from muster_domain.queues import WithinClusterQueue
from muster_domain.workload import Workload
from muster_runtime.clock import now_ms
from muster_testing.builders import cluster_queue, configuration, placement, workload

from .house import House


@pytest.fixture
def house() -> House:
    return House(
        configuration(
            cluster_queue(gpus=4, within=WithinClusterQueue.LOWER_PRIORITY, cohort="lab"),
            cluster_queue("other", 2, cohort="lab"),
        )
    )


def listed(house: House, **question: object) -> WorkloadPage:
    return codec.decode(WorkloadPage, ANSWERS[Query.WORKLOADS](house.machine, question))


def detail(house: House, identity: str) -> WorkloadDetail:
    return codec.decode(WorkloadDetail, ANSWERS[Query.WORKLOAD](house.machine, {"id": identity}))


def quota(house: House, **question: object) -> QuotaPage:
    return codec.decode(QuotaPage, ANSWERS[Query.QUOTA](house.machine, question))


def planned(house: House, asked: Workload, queue: str = "cq") -> Plan:
    question = codec.encode(PlanQuestion(workload=asked, cluster_queue=queue))
    return codec.decode(Plan, ANSWERS[Query.PLAN](house.machine, json.loads(question)))


def test_a_list_shows_who_runs_then_who_waits_in_order_then_who_ended(house: House) -> None:
    house.run(workload("ended"))
    house.finish("ended")
    house.run(workload("hog", gpus=6))
    house.submit(workload("second", gpus=2, created_at_ms=2))
    house.submit(workload("first", gpus=2, created_at_ms=1))
    house.submit(workload("urgent", gpus=2, priority=-1, created_at_ms=0))
    page = listed(house)
    assert [row.id for row in page.rows] == ["hog", "first", "second", "urgent", "ended"]
    assert [row.phase for row in page.rows] == [
        Phase.RUNNING,
        *[Phase.PENDING] * 3,
        Phase.FINISHED,
    ]
    assert [row.position_in_cluster_queue for row in page.rows] == [None, 0, 1, 2, None]
    assert page.total == 5


def test_positions_count_in_the_queue_and_at_the_door(house: House) -> None:
    house.run(workload("hog", gpus=6))
    doors = ["jobs", "cq", "cq", "jobs"]
    for number, door in enumerate(doors):
        house.submit(workload(f"w{number}", gpus=2, door=door, created_at_ms=number))
    rows = {row.id: row for row in listed(house, phases=["Pending"]).rows}
    assert [rows[f"w{n}"].position_in_cluster_queue for n in range(4)] == [0, 1, 2, 3]
    assert [rows[f"w{n}"].position_in_local_queue for n in range(4)] == [0, 0, 1, 1]


def test_pages_together_are_the_whole_list(house: House) -> None:
    for number in range(23):
        house.submit(workload(f"w{number:02d}"))
    whole = [row.id for row in listed(house).rows]
    pages = [listed(house, limit=5, offset=offset) for offset in range(0, 30, 5)]
    assert [row.id for page in pages for row in page.rows] == whole
    assert {page.total for page in pages} == {23}


@pytest.mark.parametrize("limit", [0, -1, 1001])
def test_a_page_out_of_bounds_is_refused(house: House, limit: int) -> None:
    with pytest.raises(InvalidValue, match="a page has"):
        listed(house, limit=limit)


def test_filters_take_any_of_theirs_and_all_of_them(house: House) -> None:
    house.run(workload("aa1", user="ann"))
    house.submit(workload("ab2", gpus=1, door="other", user="ann"), "other")
    house.submit(workload("b3", user="bob"))
    assert {row.id for row in listed(house, user="ann").rows} == {"aa1", "ab2"}
    assert {row.id for row in listed(house, id_prefix="a").rows} == {"aa1", "ab2"}
    assert {row.id for row in listed(house, cluster_queue="other").rows} == {"ab2"}
    assert {row.id for row in listed(house, queue="jobs", user="bob").rows} == {"b3"}
    assert {row.id for row in listed(house, name="job-b3").rows} == {"b3"}
    assert listed(house, namespaces=["team-b"]).total == 0
    assert listed(house, phases=["Running", "Finished"]).total == 1


def test_counts_equal_the_lists(house: House) -> None:
    house.run(workload("hog", gpus=5))
    for number in range(4):
        house.submit(workload(f"w{number}", gpus=number % 2 + 1))
    house.submit(workload("o1", door="other"), "other")
    for queue in quota(house).queues:
        rows = listed(house, cluster_queue=queue.name).rows
        phases = [row.phase for row in rows]
        assert queue.pending == phases.count(Phase.PENDING)
        assert queue.admitted == phases.count(Phase.RUNNING) + phases.count(Phase.ADMITTED)
        assert queue.reserving == len(rows) - queue.pending


def test_quota_says_who_borrows_and_who_lends(house: House) -> None:
    house.run(workload("hog", gpus=5))
    rows = {row.cluster_queue: row for row in quota(house).rows}
    assert (rows["cq"].used_milli, rows["cq"].borrowed_milli) == (5_000, 1_000)
    assert (rows["other"].used_milli, rows["other"].lent_milli) == (0, 1_000)
    assert rows["cq"].available_milli == rows["other"].available_milli == 1_000
    assert rows["cq"].max_milli == 6_000
    assert [row.name for row in quota(house, cluster_queue="other").queues] == ["other"]


def test_a_detail_says_why_and_who_is_ahead(house: House) -> None:
    house.run(workload("hog", gpus=6, priority=5))
    house.submit(workload("first", gpus=3, created_at_ms=1))
    house.submit(workload("second", gpus=3, pods=2, created_at_ms=2))
    found = detail(house, "second")
    assert found.explanation.reason == PendingReason.WAITING_FOR_QUOTA
    assert [ahead.id for ahead in found.ahead] == ["first"]
    assert found.ahead_total == 1
    assert found.pods_by_set == {"main": 2}
    assert found.timeline[0] == ("submitted", 2)


def test_a_detail_of_a_running_job_says_where(house: House) -> None:
    house.run(workload(gpus=1, pods=2))
    found = detail(house, "w1")
    assert [seat.node for seat in found.seats] == ["n1", "n1"]
    assert found.flavors == {"nvidia.com/gpu": "a100"}
    assert [step for step, _ in found.timeline] == [
        "submitted",
        "quota reserved",
        "admitted",
        "running",
    ]


def test_what_nobody_has_is_not_found(house: House) -> None:
    with pytest.raises(NotFound):
        detail(house, "nobody")


def test_an_estimate_comes_from_the_last_waits(house: House) -> None:
    for number in range(8):
        house.submit(workload(f"w{number}", created_at_ms=house.now_ms - 1_000 * (number + 1)))
        house.place(f"w{number}")
        house.finish(f"w{number}")
    house.run(workload("hog", gpus=6))
    house.submit(workload("next", gpus=1))
    estimate = detail(house, "next").estimate
    assert estimate is not None
    assert estimate.samples == 9
    assert 0 <= estimate.low_ms <= estimate.high_ms <= 8_000


PLANS = [
    pytest.param(1, 0, PlanVerdict.ADMIT, id="fits now"),
    pytest.param(3, 0, PlanVerdict.WAIT, id="waits"),
    pytest.param(3, 10, PlanVerdict.PREEMPT, id="would preempt"),
    pytest.param(7, 0, PlanVerdict.NEVER, id="never fits"),
]


@pytest.mark.parametrize(("gpus", "priority", "verdict"), PLANS)
def test_a_plan_says_what_would_happen_and_changes_nothing(
    house: House, gpus: int, priority: int, verdict: PlanVerdict
) -> None:
    house.run(workload("hog", gpus=4))
    before = asdict(listed(house)), asdict(quota(house)), dict(house.stored)
    plan = planned(house, workload("asked", gpus, priority=priority))
    assert plan.verdict is verdict
    assert (asdict(listed(house)), asdict(quota(house)), dict(house.stored)) == before
    assert not house.cycle()
    if verdict is PlanVerdict.PREEMPT:
        assert [victim.id for victim in plan.victims] == ["hog"]
    if verdict is PlanVerdict.ADMIT:
        assert plan.flavors == {"nvidia.com/gpu": "a100"}


def test_a_plan_comes_true(house: House) -> None:
    house.run(workload("hog", gpus=4))
    for number, (gpus, priority) in enumerate([(1, 0), (3, 0), (7, 0)]):
        asked = workload(f"w{number}", gpus, priority=priority)
        verdict = planned(house, asked).verdict
        house.submit(asked)
        expected = {
            PlanVerdict.ADMIT: "reserved",
            PlanVerdict.WAIT: "pending",
            PlanVerdict.NEVER: "finished",
        }[verdict]
        assert house.kind(f"w{number}") == expected


def test_the_books_agree(house: House) -> None:
    house.run(workload("hog", gpus=4))
    house.submit(workload("next", gpus=1))
    report = codec.decode(LedgerReport, ANSWERS[Query.VERIFY](house.machine, {}))
    assert (report.holds, report.workloads, report.discrepancies) == (2, 2, ())


def test_books_that_differ_are_reported(house: House) -> None:
    house.run(workload("hog", gpus=4))
    del house.machine.book.records["hog"]
    report = codec.decode(LedgerReport, ANSWERS[Query.VERIFY](house.machine, {}))
    assert len(report.discrepancies) >= 1
    assert "cq/a100/nvidia.com/gpu" in report.discrepancies[0]


def test_what_asked_not_to_be_kept_is_listed_no_more_and_known_by_its_id(house: House) -> None:
    house.now_ms = now_ms()
    for identity, kept_ms in (("kept", None), ("gone", 0), ("soon", 3_600_000)):
        house.run(replace(workload(identity), keep_finished_ms=kept_ms))
        assert identity in [row.id for row in listed(house).rows]
        house.finish(identity)
    assert {row.id for row in listed(house).rows} == {"kept", "soon"}
    assert detail(house, "gone").row.phase is Phase.FINISHED


def test_placement_s_word_about_the_seats_is_the_explanation(house: House) -> None:
    house.submit(workload("w1"))
    seated = events.GangPlaced(
        workload_id="w1",
        attempt=1,
        placement=placement(workload("w1")),
        message="binpack: n1: leaves 3 whole nvidia.com/gpu",
    )
    house.say(seated, "w1")
    assert detail(house, "w1").explanation.message == "binpack: n1: leaves 3 whole nvidia.com/gpu"
