"""What may still be spent, as a decision sees it: a workload gets in only if every budget has room.

What the numbers mean and where they come from is the business of whoever fills the purse.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from muster_domain.budgets import BudgetVerdict
from muster_domain.conditions import PendingReason
from muster_domain.money import MICROS, format_decimal
from muster_scheduling.quota import Journal, Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one workload asks, by account; and what cannot be known about it, which refuses it."""

    amounts: Mapping[str, int] = field(default_factory=dict[str, int])
    unknown: tuple[BudgetVerdict, ...] = ()


@dataclass(slots=True, kw_only=True)
class Purse:
    """`left` by account in micros, and what a workload that is granted some usage asks of each."""

    left: dict[str, int]
    asks: Callable[[str, Vector], Asked]
    verdict: Callable[[str, int], BudgetVerdict]

    def refusals(self, workload_id: str, usage: Vector) -> tuple[BudgetVerdict, ...]:
        """The accounts that have no room for it, in order. What equals what is left fits.

        Where some are known to have none, those that are still being asked are left out.
        """
        asked = self.asks(workload_id, usage)
        short = [
            account
            for account in sorted(asked.amounts)
            if asked.amounts[account] > max(0, self.left.get(account, 0))
        ]
        verdicts = (*asked.unknown, *(self.verdict(name, asked.amounts[name]) for name in short))
        return tuple(verdict for verdict in verdicts if verdict.known) or verdicts

    def take(self, journal: Journal, workload_id: str, usage: Vector) -> None:
        """Count what the workload asks as used, journalled."""
        for account, micros in self.asks(workload_id, usage).amounts.items():
            journal.put(self.left, account, self.left.get(account, 0) - micros)


def reason_of(refusals: Iterable[BudgetVerdict]) -> PendingReason:
    """Exceeded where at least one budget is known to have no room."""
    exceeded = any(verdict.known for verdict in refusals)
    return PendingReason.BUDGET_EXCEEDED if exceeded else PendingReason.WAITING_FOR_BUDGET


def refusal_text(verdict: BudgetVerdict) -> str:
    """One budget's refusal with its numbers."""
    place = f"budget {verdict.budget}, {verdict.period}"
    if verdict.unpriced:
        return f"{place}: no price in {verdict.currency} for {verdict.unpriced}"
    used = (
        f"spent {_money(verdict.spent_micros)} + held {_money(verdict.held_micros)} + "
        f"asked {_money(verdict.asked_micros)}"
    )
    limit = f"limit {_money(verdict.limit_micros)} {verdict.currency}"
    return f"{place}: {used} > {limit}" if verdict.known else f"{place} is asked: {used}, {limit}"


def _money(micros: int) -> str:
    return format_decimal(Fraction(micros, MICROS), 2)
