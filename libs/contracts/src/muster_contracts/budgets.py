"""Budgets on the wire: what admission's partitions say to one another, store, and answer.

Money is in micros of the budget's currency. An account is one window of a budget in one period; its
home is the partition that `partitions.home_of` names.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

ACCOUNT_FIELD = "ba/"
HOLD_FIELD = "bh/"
HOME_FIELD = "bo/"


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetDrawn:
    """admission: what one partition has spent, holds and wants of an account, told to its home.

    Absolute, so that only the newest counts, by `number`. `wanted_micros` is the allotment that it
    asks for, `returned_micros` all that it ever gave back; `waits` says that it would let somebody
    in if more were free. The home answers after `objects_sequence`.
    """

    account: str
    budget: str
    partition: str
    period: str
    starts_at_ms: int
    ends_at_ms: int
    number: int
    objects_sequence: int
    wanted_micros: int
    returned_micros: int
    spent_micros: int
    held_micros: int
    waits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetAllotted:
    """admission: what the home of an account allots to a partition, ever; and how the others stand.

    Answers the partition's word of that number. `free_micros` is left for anybody; it and
    `limit_micros` are None where there is no limit.
    """

    account: str
    partition: str
    answers: int
    allotted_micros: int
    limit_micros: int | None
    free_micros: int | None
    others_spent_micros: int
    others_held_micros: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetThresholdReached:
    """admission: spending has reached part of a limit; once for each period and percentage."""

    account: str
    budget: str
    period: str
    ends_at_ms: int
    percent: int
    spent_micros: int
    limit_micros: int
    currency: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetHold:
    """Stored: what one attempt of a workload may cost, by account.

    It holds until `until_ms`, and `quantum_ms` more at a time where the workload says no limit of
    time; else that is 0. `usage_milli` is by flavor, then by resource. `seated_ms` once charged.
    """

    workload_id: str
    attempt: int
    from_ms: int
    until_ms: int
    usage_milli: Mapping[str, Mapping[str, int]]
    amounts_micros: Mapping[str, int]
    quantum_ms: int = 0
    seated_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetAccount:
    """Stored: an account as a partition keeps it; `said` is its last word, `told` the last answer.

    `settled_micros` is what attempts that have ended cost.
    """

    account: str
    budget: str
    period: str
    starts_at_ms: int
    ends_at_ms: int
    settled_micros: int = 0
    allotted_micros: int = 0
    returned_micros: int = 0
    said: BudgetDrawn | None = None
    told: BudgetAllotted | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetHome:
    """Stored: an account as its home keeps it, each partition's last word and what it was allotted.

    `since` orders the partitions that want something. `alerted_percents` were said.
    """

    account: str
    words: Mapping[str, BudgetDrawn] = field(default_factory=dict[str, BudgetDrawn])
    allotted_micros: Mapping[str, int] = field(default_factory=dict[str, int])
    since: Mapping[str, int] = field(default_factory=dict[str, int])
    alerted_percents: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRow:
    """One window of a budget in its present period, as its home knows it.

    `window` is the period as it is declared. `limit_micros` is None where nothing is blocked.
    `forecast_micros` is what the period comes to if spending goes on as it has so far in it.
    """

    budget: str
    scope: str
    period: str
    starts_at_ms: int
    ends_at_ms: int
    currency: str
    limit_micros: int | None
    spent_micros: int
    held_micros: int
    forecast_micros: int
    alert_percents: tuple[int, ...] = ()
    alerted_percents: tuple[int, ...] = ()
    window: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPage:
    """Budgets in their present periods, by name; of `silent` partitions theirs are missing."""

    rows: tuple[BudgetRow, ...]
    silent: tuple[str, ...] = ()


BudgetFact = BudgetDrawn | BudgetAllotted | BudgetThresholdReached
