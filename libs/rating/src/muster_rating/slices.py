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
from muster_rating.metering import EMPTY, Balance, balance, balances_by_node, seats_of
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
    """What was measured of a pair by key.

    `balance_on`, `held_on`, `lost_on` and `others_on` are by node, and only there where they are
    asked for.
    """

    balance: Balance = EMPTY
    cells: dict[K, Cell] = field(default_factory=dict[K, Cell])
    quotas: Quotas = field(default_factory=Quotas)
    balance_on: dict[str, Balance] = field(default_factory=dict[str, Balance])
    held_on: dict[str, dict[K, int]] = field(default_factory=dict[str, dict[K, int]])
    lost_on: dict[str, dict[K, int]] = field(default_factory=dict[str, dict[K, int]])
    others_on: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def held(self) -> dict[K, int]:
        """What each key held."""
        return {key: cell.held for key, cell in self.cells.items()}

    @property
    def others(self) -> int:
        """What was held by those that have no key."""
        return self.balance.held - sum(cell.held for cell in self.cells.values())

    @property
    def nodes(self) -> set[str]:
        """The nodes that it tells apart."""
        return {*self.balance_on, *self.held_on, *self.others_on}

    def on(self, nodes: Sequence[str]) -> "Slice[K]":
        """What was held and lost, and where capacity went, on some of its nodes."""
        found: Slice[K] = Slice()
        for node in nodes:
            of_node = self.balance_on.get(node, EMPTY)
            found.balance += of_node
            found.balance_on[node] = of_node
            found.held_on[node] = self.held_on.get(node, {})
            add(found.others_on, node, self.others_on.get(node, 0))
            for key, held in self.held_on.get(node, {}).items():
                lost = self.lost_on.get(node, {}).get(key, 0)
                found.cells.setdefault(key, Cell()).add(Cell(held=held, lost=lost))
        return found


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
        add_balances(
            into.balance_on, balances_by_node(pair, metered.holdings, metered.capacity, window)
        )
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
    return holding.held(_lost_window(holding, window))


def _lost_window(holding: Holding, window: Window) -> Window:
    """The part of a window of which what was held was lost."""
    from_ms = holding.attempt.lost_from_ms
    return window.clip(window.end_ms if from_ms is None else from_ms, None)


def _measure_nodes(into: Slice[K], metered: Metered, window: Window, key: KeyOfHolding[K]) -> None:
    for holding in metered.holdings:
        held_ms = window.overlap_ms(holding.seated_ms or 0, holding.end_ms)
        if not held_ms:
            continue
        whose = key(holding)
        lost_ms = _lost_window(holding, window).overlap_ms(holding.seated_ms or 0, holding.end_ms)
        for node, quantity in seats_of(holding, metered.pair):
            if whose is None:
                add(into.others_on, node, quantity * held_ms)
            else:
                add(into.held_on.setdefault(node, {}), whose, quantity * held_ms)
                if lost_ms:
                    add(into.lost_on.setdefault(node, {}), whose, quantity * lost_ms)


def add(quantities: dict[K, int], key: K, quantity: int) -> None:
    """Add a quantity under a key, unless it is zero."""
    if quantity:
        quantities[key] = quantities.get(key, 0) + quantity


def add_balances(balances: dict[str, Balance], more: Mapping[str, Balance]) -> None:
    """Add every balance under its node."""
    for node, of_node in more.items():
        balances[node] = balances.get(node, EMPTY) + of_node


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
