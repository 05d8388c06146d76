"""What is known of one attempt of a workload, put together from facts in any order.

Every fact tells one part of the story: the quota was reserved, the seats were bound, it was told to
leave, everything was given back. Parts are kept side by side and for each the earliest word holds,
so `merge` is commutative, associative and idempotent: a fact delivered twice, late or out of order
ends in the same attempt.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from typing import Protocol, TypeVar

from muster_domain.conditions import EvictionReason
from muster_domain.selectors import Labels

Pair = tuple[str, str]
"""(flavor, resource)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who an attempt belongs to, as it was when the quota was reserved."""

    namespace: str
    workload: str
    cluster_queue: str
    local_queue: str = ""
    team: str = ""
    user: str = ""
    kind: str = ""
    priority: int = 0
    priority_class: str = ""
    labels: Labels = field(default_factory=dict[str, str])
    annotations: Labels = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """Milli-units of one resource in one flavor."""

    flavor: str
    resource: str
    quantity_milli: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """What an attempt holds on one node: pods, devices, and what is charged for it.

    A charge without a flavor counts in the flavor that the node's resource counts for.
    """

    node: str
    pods: int
    devices: int
    charges: tuple[Charge, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """Quota was reserved for `owner`."""

    at_ms: int
    version: int
    owner: Owner
    charges: tuple[Charge, ...]
    """The quota that was reserved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seating:
    """The quota was posted and the seats were bound."""

    at_ms: int
    version: int
    seats: tuple[Seat, ...]

    @property
    def charges(self) -> Iterator[Charge]:
        """The charges of all seats."""
        return (charge for seat in self.seats for charge in seat.charges)


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """It was told to give everything back."""

    at_ms: int
    version: int
    reason: str
    preemption_reason: str = ""
    preemptor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """Everything was given back. `outcome` is empty where the workload waits again."""

    at_ms: int
    version: int
    outcome: str = ""


class _Said(Protocol):
    @property
    def at_ms(self) -> int: ...
    @property
    def version(self) -> int: ...


S = TypeVar("S", bound=_Said)


def _earliest(left: S | None, right: S | None) -> S | None:
    if left is None or right is None:
        return left or right
    return right if (right.at_ms, right.version) < (left.at_ms, left.version) else left


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt of one workload; parts that no fact has told yet are None.

    `resizes` are the seats that it had from a moment on, each time that it grew or shrank.
    `checkpointed_ms` is when it last said that its work is saved: the latest word holds.
    """

    workload_id: str
    number: int
    opening: Opening | None = None
    seating: Seating | None = None
    resizes: tuple[Seating, ...] = ()
    eviction: Eviction | None = None
    closing: Closing | None = None
    checkpointed_ms: int | None = None

    @property
    def last_seating(self) -> Seating | None:
        """The seats that it had last."""
        return self.resizes[-1] if self.resizes else self.seating

    @property
    def key(self) -> tuple[str, int]:
        """What identifies it."""
        return self.workload_id, self.number

    @property
    def end_ms(self) -> int | None:
        """When everything was given back; None while it is held."""
        return None if self.closing is None else self.closing.at_ms

    @property
    def is_open(self) -> bool:
        """Whether it holds quota."""
        return self.opening is not None and self.closing is None

    @property
    def was_preempted(self) -> bool:
        """Whether it had to leave for somebody else."""
        return self.eviction is not None and self.eviction.reason == EvictionReason.PREEMPTED

    @property
    def lost_from_ms(self) -> int | None:
        """From when on what it held was lost to a preemption; None where nothing was."""
        return (self.checkpointed_ms or 0) if self.was_preempted else None

    @property
    def runs_backwards(self) -> bool:
        """Whether clocks disagree so that a later step has an earlier time; it counts as zero."""
        times = [part.at_ms for part in (self.opening, self.seating, self.closing) if part]
        return times != sorted(times)

    def merge(self, other: "Attempt") -> "Attempt":
        """Both together; `other` is of the same attempt."""
        return replace(
            self,
            opening=_earliest(self.opening, other.opening),
            seating=_earliest(self.seating, other.seating),
            resizes=_all_resizes(self.resizes, other.resizes),
            eviction=_earliest(self.eviction, other.eviction),
            closing=_earliest(self.closing, other.closing),
            checkpointed_ms=max(
                (at for at in (self.checkpointed_ms, other.checkpointed_ms) if at is not None),
                default=None,
            ),
        )


def settled(attempts: Iterable[Attempt]) -> Iterator[Attempt]:
    """The attempts in order of id and number, one that a later one follows being closed.

    One that grew or shrank is given in stretches, of one size each. A workload reserves quota again
    only after it has given everything back, so the next opening bounds an end that was never heard
    of.
    """
    ordered = sorted(attempts, key=lambda attempt: attempt.key)
    for _, group in groupby(ordered, key=lambda attempt: attempt.workload_id):
        of_workload = list(group)
        for attempt, following in pairwise(of_workload):
            if attempt.closing is None and following.opening is not None:
                closing = Closing(at_ms=following.opening.at_ms, version=following.opening.version)
                yield from _stretches(replace(attempt, closing=closing))
            else:
                yield from _stretches(attempt)
        yield from _stretches(of_workload[-1])


def _all_resizes(left: tuple[Seating, ...], right: tuple[Seating, ...]) -> tuple[Seating, ...]:
    if left == right or not right:
        return left
    told = {(seating.at_ms, seating.version): seating for seating in (*left, *right)}
    return tuple(told[key] for key in sorted(told))


def _stretches(attempt: Attempt) -> Iterator[Attempt]:
    """The attempt in parts between resizes; all but the last name the `resizes` that follow."""
    opening = attempt.opening
    if not attempt.resizes or opening is None:
        yield attempt
        return
    seatings = [attempt.seating] if attempt.seating is not None else []
    seatings += attempt.resizes
    end_ms = attempt.end_ms
    for number, seating in enumerate(seatings):
        rest = tuple(seatings[number + 1 :])
        closing = attempt.closing
        if rest and (end_ms is None or rest[0].at_ms <= end_ms):
            closing = Closing(at_ms=rest[0].at_ms, version=rest[0].version)
        begun = opening if number == 0 else replace(opening, at_ms=seating.at_ms, charges=())
        yield replace(attempt, opening=begun, seating=seating, resizes=rest, closing=closing)
        if closing is attempt.closing:
            return


def sum_charges(charges: Iterable[Charge]) -> tuple[Charge, ...]:
    """One charge for each (flavor, resource), sorted."""
    total: dict[Pair, int] = {}
    for charge in charges:
        pair = charge.flavor, charge.resource
        total[pair] = total.get(pair, 0) + charge.quantity_milli
    return tuple(
        Charge(flavor=flavor, resource=resource, quantity_milli=total[flavor, resource])
        for flavor, resource in sorted(total)
    )
