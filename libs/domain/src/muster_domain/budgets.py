"""Budgets as people declare them: whose money, how much of it, and for how long.

A budget counts what its scope's workloads used, at the price of the quota they held. Each of its
windows is a limit of its own; a workload is admitted only if it fits all of them.
"""

from dataclasses import dataclass
from enum import StrEnum

from muster_domain.selectors import Labels

PERCENT = 100


class BudgetSubject(StrEnum):
    """By what a budget finds its workloads."""

    TEAM = "team"
    NAMESPACE = "namespace"
    CLUSTER_QUEUE = "clusterQueue"
    LABEL = "label"


class Unanswered(StrEnum):
    """What becomes of a workload whose cost or budget is not known: no price, or no answer."""

    BLOCK = "Block"
    ADMIT = "Admit"


class Exhaustion(StrEnum):
    """What becomes of a running workload whose next quantum the budget does not hold."""

    CONTINUE = "Continue"
    EVICT = "Evict"


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetScope:
    """Whose usage counts: everything whose `subject` is `value`; of a LABEL, `key` is its name."""

    subject: BudgetSubject
    value: str
    key: str = ""

    def __str__(self) -> str:
        name = f"{self.subject} {self.key}={self.value}" if self.key else ""
        return name or f"{self.subject} {self.value}"

    def covers(self, *, team: str, namespace: str, cluster_queue: str, labels: Labels) -> bool:
        """Whether usage of that team, namespace, queue and labels counts."""
        match self.subject:
            case BudgetSubject.TEAM:
                return team == self.value
            case BudgetSubject.NAMESPACE:
                return namespace == self.value
            case BudgetSubject.CLUSTER_QUEUE:
                return cluster_queue == self.value
            case BudgetSubject.LABEL:
                return labels.get(self.key) == self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetWindow:
    """One limit. `period` is `month`, `<n>d` or `<n>h`, whose days are those of the budget's zone.

    `limit_micros` of `None` never blocks and 0 lets nothing in that costs. At each of
    `alert_percents` of the limit, once in a period, an alert is said.
    """

    period: str
    limit_micros: int | None
    alert_percents: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetVerdict:
    """What one window of a budget said to a workload. Money is in micros of the currency.

    `spent` and `held` are the whole budget's, as far as is known where the workload is decided on.
    `known` is false until the budget's home has answered; `unpriced` names what has no price.
    """

    budget: str
    period: str
    ends_at_ms: int
    currency: str
    limit_micros: int
    spent_micros: int
    held_micros: int
    asked_micros: int
    known: bool = True
    unpriced: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Money that a scope may spend.

    Work that has no limit of time is held for `quantum_ms` at a time.
    """

    name: str
    scope: BudgetScope
    currency: str
    windows: tuple[BudgetWindow, ...]
    zone: str = "UTC"
    unanswered: Unanswered = Unanswered.BLOCK
    exhaustion: Exhaustion = Exhaustion.CONTINUE
    quantum_ms: int = 3_600_000
