"""What declared quota commits its queues to, on the wire. Money is in micros of the currency."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitmentRow:
    """One (ClusterQueue, flavor, resource) over a period; amounts are None without a price.

    `committed_micros` is nominal quota, `ceiling_micros` the most that the queue can hold, and
    `loan_micros` what it borrows now, each held for the whole period.
    """

    cluster_queue: str
    cohort: str
    flavor: str
    resource: str
    nominal_milli: int
    ceiling_milli: int
    borrowed_milli: int
    committed_micros: int | None
    ceiling_micros: int | None
    loan_micros: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitmentPage:
    """Every queue's commitments over a period, by queue, flavor and resource, and their sums.

    Ceilings have no sum: queues of one cohort may all borrow the same quota. `unpriced` names
    `flavor/resource` pairs that are in no sum; of `silent` partitions the queues are missing.
    """

    period: str
    starts_at_ms: int
    ends_at_ms: int
    currency: str
    rows: tuple[CommitmentRow, ...]
    committed_micros: int
    loan_micros: int
    unpriced: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
