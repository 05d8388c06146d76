"""How budgets stand, each window in its present period, as their homes know it."""

import math
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Gauge

from muster_admission.budget_home import BudgetHomes
from muster_contracts.budgets import BudgetRow
from muster_domain.money import MICROS

_BUDGET = ("budget", "scope", "window", "currency")
WITHIN, ALERTED, EXHAUSTED = "within", "alerted", "exhausted"
"""Nothing was said of it yet; spending has reached a threshold; nothing is left to be held."""


class BudgetGauges:
    """Gauges over the budgets that are at home in the partitions of this process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def add(name: str, text: str, *more: str) -> Gauge:
            return Gauge(name, text, (*_BUDGET, *more), registry=registry)

        self._limit = add("muster_budget_limit", "What may be spent; +Inf where nothing is blocked")
        self._spent = add("muster_budget_spent", "What was spent, by what runs too")
        self._held = add("muster_budget_held", "What admitted workloads may still cost")
        self._forecast = add("muster_budget_forecast", "What the period comes to at this pace")
        self._state = add("muster_budget_state", "1 for what holds", "state")

    def refresh(self, homes: Iterable[BudgetHomes], now_ms: int) -> None:
        """Compute everything anew."""
        for gauge in (self._limit, self._spent, self._held, self._forecast, self._state):
            gauge.clear()
        for home in homes:
            for row in home.rows(now_ms):
                self._show(row)

    def _show(self, row: BudgetRow) -> None:
        labels = (row.budget, row.scope, row.window, row.currency)
        limit_micros = math.inf if row.limit_micros is None else row.limit_micros
        self._limit.labels(*labels).set(limit_micros / MICROS)
        self._spent.labels(*labels).set(row.spent_micros / MICROS)
        self._held.labels(*labels).set(row.held_micros / MICROS)
        self._forecast.labels(*labels).set(row.forecast_micros / MICROS)
        holds = _state(row)
        for state in (WITHIN, ALERTED, EXHAUSTED):
            self._state.labels(*labels, state).set(int(state == holds))


def _state(row: BudgetRow) -> str:
    if row.limit_micros is not None and row.spent_micros + row.held_micros >= row.limit_micros:
        return EXHAUSTED
    return ALERTED if row.alerted_percents else WITHIN
