"""Budgets at admission: what lets in, what keeps out, what is held and what it comes to."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import pytest

from muster_admission.budgets import ANSWER_MS
from muster_contracts import codec, subjects
from muster_contracts.budgets import BudgetAllotted, BudgetDrawn, BudgetThresholdReached
from muster_contracts.partitions import PARTITIONS, home_of
from muster_contracts.queries import WorkloadDetail
from muster_domain.budgets import (
    Budget,
    BudgetScope,
    BudgetSubject,
    BudgetWindow,
    Exhaustion,
    Unanswered,
)
from muster_domain.conditions import EvictionReason, PendingReason
from muster_domain.money import MICROS
from muster_domain.queues import QueueingStrategy
from muster_domain.states import Evicting
from muster_domain.workload import Workload
from muster_rating.periods import period_at
from muster_rating.prices import Price, PriceBook
from muster_runtime.reader import Received
from muster_scheduling.snapshot.catalog import Configuration
from muster_testing.builders import (
    FLAVOR,
    GPU,
    NAMESPACE,
    PARTITION,
    cluster_queue,
    configuration,
    workload,
)

from .house import House

HOUR_MS = 3_600_000
DAY = period_at("24h", "UTC", 1_700_000_000_000)
MORNING_MS = DAY.start_ms + 8 * HOUR_MS
PRICES = {"EUR": PriceBook("EUR", (Price(flavor=FLAVOR, resource=GPU, hourly=Fraction(2)),))}
HERE = next(f"b{n}" for n in range(100) if home_of(f"b{n}") == PARTITION)
AWAY = next(f"b{n}" for n in range(100) if home_of(f"b{n}") != PARTITION)


def euros(amount: int) -> int:
    return amount * MICROS


def budget(
    limit_micros: int | None,
    *,
    name: str = HERE,
    period: str = "24h",
    alerts: tuple[int, ...] = (),
    **fields: object,
) -> Budget:
    window = BudgetWindow(period=period, limit_micros=limit_micros, alert_percents=alerts)
    scope = BudgetScope(subject=BudgetSubject.NAMESPACE, value=NAMESPACE)
    made = Budget(name=name, scope=scope, currency="EUR", windows=(window,))
    return replace(made, **fields)  # type: ignore[arg-type]


def declared(
    *budgets: Budget,
    prices: Mapping[str, PriceBook] = PRICES,
    strategy: QueueingStrategy = QueueingStrategy.BEST_EFFORT_FIFO,
) -> Configuration:
    there = configuration(cluster_queue(gpus=8, strategy=strategy))
    return replace(there, budgets={b.name: b for b in budgets}, prices=prices)


def job(identity: str, gpus: int = 1, hours: int | None = 1) -> Workload:
    return workload(identity, gpus, limit_ms=None if hours is None else hours * HOUR_MS)


def opened(*budgets: Budget, **terms: object) -> House:
    return House(declared(*budgets, **terms), now_ms=MORNING_MS)  # type: ignore[arg-type]


def settle_in(house: House) -> None:
    """Let the cycles pass that are due at once."""
    for _ in range(4):
        house.cycle()


def submit(house: House, asked: Workload) -> str:
    house.submit(asked)
    settle_in(house)
    return house.kind(asked.id)


def explained(house: House, identity: str) -> WorkloadDetail:
    from muster_admission.queries import workload as answer  # noqa: PLC0415 - named like the builder

    return codec.decode(WorkloadDetail, answer(house.machine, {"id": identity}))


def standing(house: House, name: str = HERE) -> tuple[int, int]:
    """What the home of a budget knows to be spent and held in the present period."""
    rows = house.machine.book.homes.rows(house.now_ms)
    row = next(row for row in rows if row.budget == name)
    return row.spent_micros, row.held_micros


def test_what_equals_the_limit_is_let_in_and_a_millionth_more_is_not() -> None:
    assert submit(opened(budget(euros(4))), job("w1", gpus=2)) == "reserved"
    assert submit(opened(budget(euros(4) - 1)), job("w1", gpus=2)) == "pending"


@pytest.mark.parametrize(("limit", "kind"), [(None, "reserved"), (0, "pending")])
def test_no_limit_never_blocks_and_a_limit_of_zero_does(limit: int | None, kind: str) -> None:
    assert submit(opened(budget(limit)), job("w1")) == kind


def test_what_costs_nothing_is_let_in_under_a_limit_of_zero() -> None:
    free = {"EUR": PriceBook("EUR", (Price(flavor=FLAVOR, resource=GPU, hourly=Fraction(0)),))}
    assert submit(opened(budget(0), prices=free), job("w1")) == "reserved"


def test_a_refusal_says_what_is_spent_held_asked_and_the_limit() -> None:
    house = opened(budget(euros(7)))
    submit(house, job("done", gpus=2))
    house.place("done")
    house.cycle(HOUR_MS // 2)
    house.finish("done")
    submit(house, job("runs"))
    assert submit(house, job("asks", gpus=2)) == "pending"
    why = explained(house, "asks").explanation
    assert why.reason == PendingReason.BUDGET_EXCEEDED
    assert why.message == (
        f"budget {HERE}, {DAY.id}: spent 2.00 + held 2.00 + asked 4.00 > limit 7.00 EUR"
    )
    (verdict,) = why.budgets
    assert verdict.ends_at_ms == DAY.end_ms
    assert house.decisions[-1].reason == PendingReason.BUDGET_EXCEEDED


def test_a_hold_is_settled_to_what_it_came_to_and_lets_the_next_in() -> None:
    house = opened(budget(euros(4)))
    submit(house, job("w1", gpus=2))
    house.place("w1")
    assert submit(house, job("w2")) == "pending"
    house.cycle(HOUR_MS // 4)
    house.finish("w1")
    settle_in(house)
    assert house.kind("w2") == "reserved"
    assert standing(house) == (euros(1), euros(2))


def test_what_never_got_seats_costs_nothing() -> None:
    house = opened(budget(euros(2)))
    submit(house, job("w1"))
    house.cycle(HOUR_MS // 60)
    house.cancel("w1")
    house.release("w1")
    settle_in(house)
    assert standing(house) == (0, 0)


def test_an_end_that_is_heard_twice_is_charged_once() -> None:
    house = opened(budget(euros(4)))
    submit(house, job("w1"))
    house.place("w1")
    house.place("w1")
    house.cycle(HOUR_MS)
    house.finish("w1")
    house.finish("w1")
    settle_in(house)
    assert standing(house) == (euros(2), 0)


def test_a_hold_over_the_end_of_a_period_is_split_and_both_must_have_room() -> None:
    house = House(declared(budget(euros(5))), now_ms=DAY.end_ms - HOUR_MS)
    submit(house, job("w1", gpus=1, hours=3))
    house.place("w1")
    house.start("w1")
    holds = house.machine.book.budgets.holds["w1", 1].amounts_micros
    following = period_at("24h", "UTC", DAY.end_ms)
    assert holds == {f"{HERE}/{DAY.id}": euros(2), f"{HERE}/{following.id}": euros(4)}
    assert submit(house, job("w2", gpus=1, hours=3)) == "pending"
    house.cycle(2 * HOUR_MS)
    house.finish("w1")
    settle_in(house)
    accounts = house.machine.book.budgets.accounts
    assert [accounts[name].settled_micros for name in sorted(holds)] == [euros(2), euros(2)]


def test_a_new_period_lets_in_whom_the_last_kept_out() -> None:
    house = opened(budget(euros(2)))
    submit(house, job("w1"))
    house.place("w1")
    house.cycle(HOUR_MS)
    house.finish("w1")
    assert submit(house, job("w2")) == "pending"
    house.now_ms = DAY.end_ms - 1
    assert house.machine.wake_at_ms() == DAY.end_ms
    house.cycle(1)
    settle_in(house)
    assert house.kind("w2") == "reserved"


def test_every_window_must_have_room() -> None:
    windows = tuple(
        BudgetWindow(period=period, limit_micros=limit)
        for period, limit in (("24h", euros(100)), ("7d", euros(3)), ("month", None))
    )
    house = opened(budget(0, windows=windows))
    assert submit(house, job("w1")) == "reserved"
    assert submit(house, job("w2")) == "pending"
    (verdict,) = explained(house, "w2").explanation.budgets
    assert "+7d@" in verdict.period


def test_who_is_over_budget_stands_in_nobodys_way() -> None:
    mine = BudgetScope(subject=BudgetSubject.LABEL, key="cost-centre", value="cc-1")
    house = opened(budget(0, scope=mine), strategy=QueueingStrategy.STRICT_FIFO)
    first = replace(job("w1"), labels={"cost-centre": "cc-1"})
    assert submit(house, first) == "pending"
    assert submit(house, job("w2")) == "reserved"


def test_a_limit_that_is_raised_lets_in_and_one_that_is_lowered_stops_nobody_who_runs() -> None:
    house = opened(budget(euros(1)))
    assert submit(house, job("w1")) == "pending"
    house.configure(declared(budget(euros(2))))
    settle_in(house)
    assert house.kind("w1") == "reserved"
    house.configure(declared(budget(0)))
    settle_in(house)
    assert house.kind("w1") == "reserved"
    assert submit(house, job("w2")) == "pending"


def test_holds_outlive_a_crash() -> None:
    house = opened(budget(euros(2)))
    submit(house, job("w1"))
    house.restart()
    assert submit(house, job("w2")) == "pending"
    assert standing(house) == (0, euros(2))


def test_work_without_a_limit_of_time_is_held_for_a_quantum_at_a_time() -> None:
    house = opened(budget(euros(3), exhaustion=Exhaustion.EVICT))
    submit(house, job("w1", hours=None))
    house.place("w1")
    house.start("w1")
    assert standing(house) == (0, euros(2))
    house.cycle(HOUR_MS // 2)
    settle_in(house)
    spent, held = standing(house)
    assert spent + held == euros(3)
    house.cycle(HOUR_MS // 2)
    settle_in(house)
    assert house.kind("w1") == "admitted"
    house.cycle(HOUR_MS // 2)
    state = house.state("w1")
    assert isinstance(state, Evicting)
    assert state.reason is EvictionReason.BUDGET_EXHAUSTED
    house.release("w1")
    settle_in(house)
    assert house.kind("w1") == "pending"
    assert standing(house) == (euros(3), 0)


def test_what_runs_may_go_on_beyond_the_limit_where_the_budget_says_so() -> None:
    house = opened(budget(euros(3)))
    submit(house, job("w1", hours=None))
    house.place("w1")
    house.start("w1")
    for _ in range(12):
        house.cycle(HOUR_MS // 4)
        settle_in(house)
    assert house.kind("w1") == "admitted"
    assert standing(house)[0] == euros(6)
    assert submit(house, job("w2")) == "pending"


@pytest.mark.parametrize(
    ("unanswered", "kind"), [(Unanswered.BLOCK, "pending"), (Unanswered.ADMIT, "reserved")]
)
def test_what_has_no_price_is_blocked_or_admitted_as_the_budget_says(
    unanswered: Unanswered, kind: str
) -> None:
    house = opened(budget(euros(9), unanswered=unanswered), prices={})
    assert submit(house, job("w1")) == kind
    if kind == "pending":
        why = explained(house, "w1").explanation
        assert why.reason == PendingReason.WAITING_FOR_BUDGET
        assert f"no price in EUR for {FLAVOR}/{GPU}" in why.message


@pytest.mark.parametrize(
    ("unanswered", "kind"), [(Unanswered.BLOCK, "pending"), (Unanswered.ADMIT, "reserved")]
)
def test_a_home_that_does_not_answer_blocks_or_admits_as_the_budget_says(
    unanswered: Unanswered, kind: str
) -> None:
    house = opened(budget(euros(9), name=AWAY, unanswered=unanswered))
    assert submit(house, job("w1")) == "pending"
    assert explained(house, "w1").explanation.reason == PendingReason.WAITING_FOR_BUDGET
    house.cycle(ANSWER_MS)
    assert house.kind("w1") == kind


def allotted(word: BudgetDrawn, micros: int, free: int) -> BudgetAllotted:
    return BudgetAllotted(
        account=word.account,
        partition=word.partition,
        answers=word.number,
        allotted_micros=micros,
        limit_micros=euros(9),
        free_micros=free,
        others_spent_micros=euros(1),
        others_held_micros=0,
    )


def hear(house: House, fact: BudgetAllotted | BudgetDrawn, partition: str = PARTITION) -> None:
    name = codec.EVENT_NAMES[type(fact)]
    house.machine.ingest(
        Received(
            sequence=1,
            subject=subjects.budget_event(name, partition, "b"),
            headers={},
            body=codec.encode(fact),
            published_ms=house.now_ms,
        ),
        house.now_ms,
    )
    settle_in(house)


def drawn(house: House) -> list[BudgetDrawn]:
    return [fact for fact in house.facts(BudgetDrawn) if isinstance(fact, BudgetDrawn)]


def test_another_partition_is_asked_for_what_is_needed_and_its_answer_lets_in() -> None:
    house = opened(budget(euros(9), name=AWAY))
    submit(house, job("w1"))
    asked = drawn(house)[-1]
    assert (asked.wanted_micros, asked.held_micros) == (euros(2), 0)
    hear(house, allotted(asked, euros(2), euros(6)))
    assert house.kind("w1") == "reserved"
    assert drawn(house)[-1].held_micros == euros(2)


@pytest.mark.parametrize("hours", [1, None])
def test_a_home_that_takes_its_time_lets_in_what_lasts_past_the_edge_of_a_period(
    hours: int | None,
) -> None:
    terms = declared(budget(euros(9), name=AWAY))
    house = House(terms, now_ms=DAY.end_ms - HOUR_MS // 3)
    submit(house, job("w1", hours=hours))
    answered: list[BudgetDrawn] = []
    for _ in range(4):
        for asked in drawn(house):
            if asked.wanted_micros and asked not in answered:
                answered.append(asked)
                house.cycle(20)
                hear(house, allotted(asked, asked.wanted_micros, euros(6)))
    assert house.kind("w1") == "reserved"
    assert len(answered) == 2, "once for each of two days"


def test_an_answer_that_comes_twice_or_late_allots_nothing_more() -> None:
    house = opened(budget(euros(9), name=AWAY))
    submit(house, job("w1"))
    asked = drawn(house)[-1]
    for _ in range(2):
        hear(house, allotted(asked, euros(2), euros(6)))
    submit(house, job("w2"))
    assert house.kind("w2") == "pending"
    second = drawn(house)[-1]
    hear(house, allotted(second, euros(4), euros(4)))
    hear(house, allotted(asked, euros(2), euros(6)))
    assert house.kind("w2") == "reserved"
    assert submit(house, job("w3")) == "pending"


def test_what_is_allotted_and_not_needed_is_given_back() -> None:
    house = opened(budget(euros(9), name=AWAY))
    submit(house, job("w1"))
    asked = drawn(house)[-1]
    house.cancel("w1")
    hear(house, allotted(asked, euros(2), euros(6)))
    last = drawn(house)[-1]
    assert (last.returned_micros, last.wanted_micros) == (euros(2), 0)


def word(partition: str, number: int, **money: int) -> BudgetDrawn:
    return BudgetDrawn(
        account=f"{HERE}/{DAY.id}",
        budget=HERE,
        partition=partition,
        period=DAY.id,
        starts_at_ms=DAY.start_ms,
        ends_at_ms=DAY.end_ms,
        number=number,
        objects_sequence=0,
        wanted_micros=money.get("wanted", 0),
        returned_micros=money.get("returned", 0),
        spent_micros=money.get("spent", 0),
        held_micros=money.get("held", 0),
        waits=bool(money.get("waits", 0)),
    )


def answers_to(house: House, partition: str) -> list[BudgetAllotted]:
    return [
        fact
        for fact in house.facts(BudgetAllotted)
        if isinstance(fact, BudgetAllotted) and fact.partition == partition
    ]


def test_a_home_never_allots_more_than_the_limit_and_serves_who_asked_first() -> None:
    house = opened(budget(euros(10)))
    one, two, three = PARTITIONS[1:4]
    hear(house, word(one, 1, wanted=euros(6)))
    hear(house, word(two, 1, wanted=euros(6)))
    hear(house, word(three, 1, wanted=euros(6)))
    hear(house, word(one, 1, wanted=euros(6)))
    assert [answers_to(house, name)[-1].allotted_micros for name in (one, two, three)] == [
        euros(6), 0, 0,
    ]  # fmt: skip
    hear(house, word(one, 2, returned=euros(6)))
    assert answers_to(house, two)[-1].allotted_micros == euros(6)
    assert answers_to(house, three)[-1].allotted_micros == 0


def test_an_alert_is_said_once_for_each_threshold_and_period() -> None:
    house = opened(budget(euros(10), alerts=(50, 80)))
    one = PARTITIONS[1]
    for number, spent in enumerate((4, 5, 6, 8, 9), start=1):
        hear(house, word(one, number, spent=euros(spent)))
    house.restart()
    hear(house, word(one, 9, spent=euros(10)))
    said = [f for f in house.facts(BudgetThresholdReached) if isinstance(f, BudgetThresholdReached)]
    assert [(alert.percent, alert.spent_micros) for alert in said] == [
        (50, euros(5)),
        (80, euros(8)),
    ]
