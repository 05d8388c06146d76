"""Whose budgets pay for a workload, and how much it may cost them, as declared at the moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster_contracts.budgets import BudgetHold
from muster_contracts.stored import Record
from muster_domain.budgets import Budget
from muster_domain.states import Admitted, Pending, Reserved
from muster_domain.teams import team_of
from muster_rating.budgets import ACCOUNTS_MAX, Account, Span, accounts_in, cost_micros, most_micros
from muster_rating.prices import PriceBook
from muster_rating.windows import Window
from muster_scheduling.quota import Vector

PLACING_MS = 10 * 60_000
"""A reservation becomes an admission within so long, or comes back."""
STEP_MS = 60_000
"""The end of what is asked for moves in steps of so long, or of a tenth of a quantum if that is
shorter. If it moved with the clock, what a later period is asked for would have grown by the time
that its home has answered, and nobody whose time goes past the edge of a period would get in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The most that something may cost, by account, and the accounts that cannot tell."""

    amounts: Mapping[str, int]
    unpriced: tuple[str, ...] = ()


@dataclass(slots=True)
class BudgetTerms:
    """The declared budgets, by name in order, and the prices by currency."""

    budgets: Mapping[str, Budget] = field(default_factory=dict[str, Budget])
    prices: Mapping[str, PriceBook] = field(default_factory=dict[str, PriceBook])
    known: dict[str, Account] = field(default_factory=dict[str, Account])
    """Every account that was looked at, by its id."""

    def of(self, record: Record) -> list[Budget]:
        """The budgets that pay for a workload, in the order of their names."""
        workload = record.workload
        return [
            budget
            for budget in self.budgets.values()
            if budget.scope.covers(
                team=team_of(workload.labels, workload.namespace),
                namespace=workload.namespace,
                cluster_queue=record.cluster_queue,
                labels=workload.labels,
            )
        ]

    def quantum_ms(self, record: Record) -> int:
        """What is held at a time; 0 where the workload itself says how long it may run."""
        if record.workload.max_execution_time_ms is not None:
            return 0
        return min((budget.quantum_ms for budget in self.of(record)), default=0)

    def span(self, record: Record, now_ms: int) -> Span:
        """The time that is to be held for a workload whose quota is reserved now."""
        limit_ms = record.workload.max_execution_time_ms
        if limit_ms is None:
            quantum_ms = self.quantum_ms(record)
            until_ms = step_up(now_ms + PLACING_MS + quantum_ms, quantum_ms)
            return Span(from_ms=now_ms, until_ms=until_ms, longest_ms=quantum_ms)
        state = record.state
        past_ms = 0
        if isinstance(state, Pending | Reserved | Admitted):
            past_ms = state.past_execution_ms
        if isinstance(state, Admitted):
            past_ms += now_ms - state.admitted_at_ms
        left_ms = max(0, limit_ms - past_ms)
        until_ms = step_up(now_ms + PLACING_MS + left_ms)
        return Span(from_ms=now_ms, until_ms=until_ms, longest_ms=left_ms)

    def most(self, record: Record, usage: Vector, span: Span) -> Cost:
        """The most that a workload may cost each account in a span of time."""
        return self._most(self.of(record), usage, span)

    def most_of(self, hold: BudgetHold, span: Span) -> Cost:
        """The most that a held workload may cost in a span, by the budgets that hold it."""
        return self._most(self._of_hold(hold), usage_of(hold), span)

    def spent(self, hold: BudgetHold, until_ms: int) -> dict[str, int]:
        """What a hold's workload has cost until then, by account; of a budget that is gone, 0."""
        if hold.seated_ms is None:
            return {}
        window = Window(hold.seated_ms, max(hold.seated_ms, until_ms))
        usage, spent = usage_of(hold), dict.fromkeys(hold.amounts_micros, 0)
        for budget in self._of_hold(hold):
            prices = self.prices.get(budget.currency, PriceBook(budget.currency))
            for account in self._accounts(budget, window):
                part = window.clip(account.period.start_ms, account.period.end_ms)
                spent[account.id] = cost_micros(usage, prices, part)
        return spent

    def _most(self, budgets: list[Budget], usage: Vector, span: Span) -> Cost:
        amounts: dict[str, int] = {}
        unpriced: list[str] = []
        for budget in budgets:
            prices = self.prices.get(budget.currency, PriceBook(budget.currency))
            for account in self._accounts(budget, span.window):
                micros = most_micros(usage, prices, span, account.period.window)
                if micros is None or len(amounts) == ACCOUNTS_MAX:
                    unpriced.append(account.id)
                    break
                amounts[account.id] = micros
        return Cost(amounts=amounts, unpriced=tuple(unpriced))

    def _accounts(self, budget: Budget, window: Window) -> list[Account]:
        found = list(accounts_in(budget, window))
        self.known |= {account.id: account for account in found}
        return found

    def _of_hold(self, hold: BudgetHold) -> list[Budget]:
        names = sorted({name.partition("/")[0] for name in hold.amounts_micros})
        return [self.budgets[name] for name in names if name in self.budgets]


def step_up(at_ms: int, quantum_ms: int = 0) -> int:
    """The end of the step that a moment is in."""
    step_ms = min(STEP_MS, max(1, quantum_ms // 10)) if quantum_ms else STEP_MS
    return -(-at_ms // step_ms) * step_ms


def usage_of(hold: BudgetHold) -> dict[tuple[str, str], int]:
    """Milli-units by (flavor, resource)."""
    return {
        (flavor, resource): quantity
        for flavor, resources in hold.usage_milli.items()
        for resource, quantity in resources.items()
    }
