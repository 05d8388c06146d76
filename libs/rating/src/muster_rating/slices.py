"""One (flavor, resource) over a stretch of time: where its capacity went, and who had it.

All of it is whole milli-unit-milliseconds, so slices of stretches that meet add up to the slice of
both. That is what lets reports be put together from hours that were measured before.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from muster_rating.attempts import Pair
from muster_rating.borrowing import Loans, loans
from muster_rating.capacity import CapacitySpan
from muster_rating.catalogs import Catalog, quota_windows
from muster_rating.charging import Quotas
from muster_rating.holdings import Holding
from muster_rating.metering import EMPTY, Balance, balance, idle_by_node, seats_of
from muster_rating.observations import AttemptKey, Observation, Observations, observed_of
from muster_rating.policies import NO_POLICY, PolicyVersion
from muster_rating.windows import Window

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class Cell:
    """What one key had; `borrowed`, `lost` and `observed` are parts of `held`.

    `observed` is what was looked at, and `busy` the part of it in which devices worked.
    """

    held: int = 0
    borrowed: int = 0
    lost: int = 0
    waiting: int = 0
    observed: int = 0
    busy: int = 0

    def add(self, other: "Cell") -> None:
        """Add another stretch or key."""
        self.held += other.held
        self.borrowed += other.borrowed
        self.lost += other.lost
        self.waiting += other.waiting
        self.observed += other.observed
        self.busy += other.busy


@dataclass(slots=True, kw_only=True)
class Slice(Generic[K]):
    """`idle_on`, `held_on` and `others_on` are by node, and only there where they are asked for."""

    balance: Balance = EMPTY
    cells: dict[K, Cell] = field(default_factory=dict[K, Cell])
    quotas: Quotas = field(default_factory=Quotas)
    idle_on: dict[str, int] = field(default_factory=dict[str, int])
    held_on: dict[str, dict[K, int]] = field(default_factory=dict[str, dict[K, int]])
    others_on: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def held(self) -> dict[K, int]:
        """What each key held."""
        return {key: cell.held for key, cell in self.cells.items()}

    @property
    def others(self) -> int:
        """What was held by those that have no key."""
        return self.balance.held - sum(cell.held for cell in self.cells.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Metered:
    """What is known of a pair."""

    pair: Pair
    holdings: Sequence[Holding]
    capacity: Sequence[CapacitySpan]
    catalogs: Sequence[Catalog]
    observations: Observations = field(default_factory=dict[AttemptKey, tuple[Observation, ...]])


KeyOfHolding = Callable[[Holding], K | None]
"""Whose a holding is; None leaves it to the others."""


def measure(
    into: Slice[K],
    metered: Metered,
    window: Window,
    key: KeyOfHolding[K],
    *,
    nodes: bool,
    version: PolicyVersion = NO_POLICY,
) -> None:
    """Add a stretch of time, in which one version of the policy holds, to a slice."""
    pair = metered.pair
    into.balance += balance(pair, metered.holdings, metered.capacity, window)
    for part, quotas in quota_windows(metered.catalogs, pair, window):
        found = loans(metered.holdings, quotas, part, version)
        _measure_owners(into, metered.holdings, part, found, key)
    if metered.observations:
        _measure_observed(into, metered, window, key)
    if nodes:
        idle = idle_by_node(pair, metered.holdings, metered.capacity, window)
        add_all(into.idle_on, idle)
        _measure_nodes(into, metered, window, key)


def _measure_owners(
    into: Slice[K],
    holdings: Sequence[Holding],
    window: Window,
    found: Loans,
    key: KeyOfHolding[K],
) -> None:
    for holding in holdings:
        held, waiting = holding.held(window), holding.waiting(window)
        if not held and not waiting:
            continue
        whose = key(holding)
        if whose is None:
            continue
        attempt = holding.attempt
        borrowed = found.borrowed.get(attempt.key, 0)
        lost = _lost(holding, window)
        into.cells.setdefault(whose, Cell()).add(Cell(held, borrowed, lost, waiting))
        add(into.quotas.borrowed, holding.owner.cluster_queue, borrowed)
    add_all(into.quotas.lent, found.lent)
    add_all(into.quotas.nominal, found.nominal)
    add_all(into.quotas.unused, found.unused)


def _measure_observed(
    into: Slice[K], metered: Metered, window: Window, key: KeyOfHolding[K]
) -> None:
    for holding in metered.holdings:
        for one in observed_of(metered.observations, holding, metered.pair, window):
            whose = key(holding)
            if whose is not None:
                cell = Cell(observed=one.observed, busy=one.busy)
                into.cells.setdefault(whose, Cell()).add(cell)


def _lost(holding: Holding, window: Window) -> int:
    """What it held in the window since its work was last saved, where it was preempted."""
    from_ms = holding.attempt.lost_from_ms
    if from_ms is None or from_ms >= window.end_ms:
        return 0
    return holding.held(Window(max(from_ms, window.start_ms), window.end_ms))


def _measure_nodes(into: Slice[K], metered: Metered, window: Window, key: KeyOfHolding[K]) -> None:
    for holding in metered.holdings:
        held_ms = window.overlap_ms(holding.seated_ms or 0, holding.end_ms)
        if not held_ms:
            continue
        whose = key(holding)
        for node, quantity in seats_of(holding, metered.pair):
            if whose is None:
                add(into.others_on, node, quantity * held_ms)
            else:
                add(into.held_on.setdefault(node, {}), whose, quantity * held_ms)


def add(quantities: dict[K, int], key: K, quantity: int) -> None:
    """Add a quantity under a key, unless it is zero."""
    if quantity:
        quantities[key] = quantities.get(key, 0) + quantity


def add_all(quantities: dict[K, int], more: Mapping[K, int]) -> None:
    """Add every quantity under its key."""
    for key, quantity in more.items():
        add(quantities, key, quantity)


def spans_by_pair(spans: Iterable[CapacitySpan]) -> dict[Pair, list[CapacitySpan]]:
    """Capacity by (flavor, resource)."""
    found: dict[Pair, list[CapacitySpan]] = {}
    for span in spans:
        found.setdefault((span.flavor, span.resource), []).append(span)
    return found
