"""Budgets as series: what their homes know of them, in the currency and not in millionths."""

import math
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from muster_admission.budget_gauges import ALERTED, EXHAUSTED, WITHIN, BudgetGauges
from muster_contracts.partitions import PARTITIONS
from muster_domain.budgets import BudgetScope, BudgetSubject
from muster_testing.builders import NAMESPACE

from .house import House
from .test_budgets import (
    AWAY,
    HERE,
    HOUR_MS,
    budget,
    declared,
    euros,
    hear,
    job,
    opened,
    settle_in,
    submit,
    word,
)


def series(house: House) -> dict[str, float]:
    """Every series by the end of its name, and by its state where it has one."""
    registry = CollectorRegistry()
    gauges = BudgetGauges(registry)
    for _ in range(2):
        gauges.refresh([house.machine.book.homes], house.now_ms)
    found: dict[str, float] = {}
    for metric in registry.collect():
        for sample in metric.samples:
            labels = dict(sample.labels)
            state = labels.pop("state", "")
            assert labels == {
                "budget": HERE,
                "scope": f"namespace {NAMESPACE}",
                "window": "24h",
                "currency": "EUR",
            }
            found[state or sample.name.removeprefix("muster_budget_")] = sample.value
    return found


def test_what_is_held_and_spent_stands_beside_the_limit() -> None:
    elsewhere = BudgetScope(subject=BudgetSubject.NAMESPACE, value="elsewhere")
    house = opened(budget(euros(4)), budget(euros(9), name=AWAY, scope=elsewhere))
    submit(house, job("w1", gpus=1))
    assert series(house) == {
        "limit": 4,
        "spent": 0,
        "held": 2,
        "forecast": 0,
        WITHIN: 1,
        ALERTED: 0,
        EXHAUSTED: 0,
    }
    house.place("w1")
    house.cycle(HOUR_MS // 4)
    house.finish("w1")
    settle_in(house)
    found = series(house)
    assert (found["spent"], found["held"]) == (0.5, 0)


@pytest.mark.parametrize(
    ("limit", "spent", "state"),
    [
        (euros(10), 4_999_999, WITHIN),
        (euros(10), euros(5), ALERTED),
        (euros(10), 9_999_999, ALERTED),
        (euros(10), euros(10), EXHAUSTED),
        (euros(0), 0, EXHAUSTED),
        (None, euros(1000), WITHIN),
    ],
)
def test_one_state_holds(limit: int | None, spent: int, state: str) -> None:
    house = opened(budget(limit, alerts=(50,)))
    hear(house, word(PARTITIONS[1], 1, spent=spent))
    found = series(house)
    assert {name: found[name] for name in (WITHIN, ALERTED, EXHAUSTED)} == {
        **dict.fromkeys((WITHIN, ALERTED, EXHAUSTED), 0),
        state: 1,
    }
    assert found["limit"] == (math.inf if limit is None else limit / 10**6)


def test_a_budget_that_is_gone_leaves_no_series() -> None:
    house = opened(budget(euros(4)))
    assert series(house)
    house.configure(replace(declared(), budgets={}))
    assert series(house) == {}
