"""Statements on the wire: what a month came to, line by line, and as a table.

Quantities are milli-units times milliseconds, money is in micros of the currency.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster_domain.money import ChargingBasis
from muster_rating.policies import Attribution

LINES_MAX = 1000
"""Lines in one answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementQuestion:
    """Which month (`2026-06`), in the days of which zone, and its lines from `offset` on.

    `at_ms` asks for what was so then; 0 is now.
    """

    month: str
    zone: str = "UTC"
    offset: int = 0
    limit: int = LINES_MAX
    at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseQuestion:
    """Close a month. Once it is closed, the same again answers the same.

    Refused for some time after its end, and where it does not follow the last that was closed.
    """

    month: str
    zone: str = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class TermsOfQueue:
    """What a ClusterQueue pays for; `cluster_queue` is empty for all that are not named.

    `lender_credit_percent` is what it gets back of what it lent on the basis `both`,
    `borrow_percent` of its price is what it pays for what it borrows, and `attribution` says which
    of its workloads hold that.
    """

    cluster_queue: str
    basis: ChargingBasis
    lender_credit_percent: int
    borrow_percent: int = 100
    attribution: Attribution = Attribution.LIFO


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyInForce:
    """A version of a ChargingPolicy, by which some of a period is charged."""

    policy: str
    effective_from_ms: int | None
    terms: tuple[TermsOfQueue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementLine:
    """One charge. `hourly` is the exact price of `per_milli` milli-units, empty without a price.

    `kind` is usage, or one that belongs to nobody: idle, reserved, unavailable, overallocated,
    uncommitted. `charge_class` of usage is nominal, borrowed, or surcharge, for what a loan costs
    above its time; of a queue that pays by quota it is unused too, for quota that it did not use,
    and lent, a credit. `corrects` names the earlier period that it puts right. It was held at times
    within `[start_ms, end_ms)`. The price is that of the `pool` of nodes, or without one that of
    the flavor. Of what was held, `observed` was looked at, and devices worked in `busy` of that.
    """

    kind: str
    flavor: str
    resource: str
    quantity: int
    start_ms: int
    end_ms: int
    hourly: str
    per_milli: int
    per: str
    price_from_ms: int | None
    micros: int
    workload_id: str = ""
    attempt: int = 0
    charge_class: str = ""
    namespace: str = ""
    workload: str = ""
    cluster_queue: str = ""
    team: str = ""
    user: str = ""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    corrects: str = ""
    pool: str = ""
    observed: int = 0
    busy: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementPage:
    """A statement and some of its lines, `total_lines` in all.

    `state` is open, provisional or closed. Only a closed one has a number, a digest, the digest of
    the one before it and a time of issue; until then it says what would be issued at `at_ms`.
    `policy` are the versions by which it is charged, none where all queues pay for their usage.
    """

    period: str
    zone: str
    starts_at_ms: int
    ends_at_ms: int
    state: str
    currency: str
    total_micros: int
    total_lines: int
    lines: tuple[StatementLine, ...]
    at_ms: int = 0
    number: int = 0
    issued_at_ms: int = 0
    digest: str = ""
    previous: str = ""
    policy: tuple[PolicyInForce, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementRow:
    """One row of a statement's table; GPU time in milli-units times milliseconds, and cents.

    `correction_cents` is the part of `cents` that puts earlier months right. Of the time,
    `observed_time` was looked at, and devices worked in `busy_time` of that.
    """

    key: str
    gpu_time: int
    borrowed_time: int
    cents: int
    correction_cents: int = 0
    observed_time: int = 0
    busy_time: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementView:
    """A statement as a table by one dimension; the cents of the rows sum to `total_cents`.

    `unpriced` names `flavor/resource` pairs with time that has no price and is not in the cents.
    `policy` are the versions by which it is charged.
    """

    by: str
    period: str
    starts_at_ms: int
    ends_at_ms: int
    state: str
    currency: str
    rows: tuple[StatementRow, ...]
    total_cents: int
    total_micros: int
    number: int = 0
    issued_at_ms: int = 0
    digest: str = ""
    previous: str = ""
    unpriced: tuple[str, ...] = ()
    policy: tuple[PolicyInForce, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLines:
    """Stored: the lines of a closed statement, and by which policy it was charged."""

    lines: tuple[StatementLine, ...]
    policy: tuple[PolicyInForce, ...] = ()
