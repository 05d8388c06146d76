"""How much of one (flavor, resource) an attempt held, and when."""

from collections.abc import Iterable
from dataclasses import dataclass

from muster_rating.attempts import Attempt, Charge, Owner, Pair
from muster_rating.windows import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """Milli-units of a pair: `waiting_milli` of quota until there are seats, then `held_milli`.

    The two differ where the quota was charged elsewhere than in the flavor of the seats.
    `seated_ms` is None where there were never seats. Ends before their beginnings count as zero.
    """

    attempt: Attempt
    owner: Owner
    waiting_milli: int
    held_milli: int
    reserved_ms: int
    seated_ms: int | None
    end_ms: int | None

    def held(self, window: Window) -> int:
        """Milli-unit-milliseconds that it held in the window."""
        if self.seated_ms is None:
            return 0
        return self.held_milli * window.overlap_ms(self.seated_ms, self.end_ms)

    def waiting(self, window: Window) -> int:
        """Milli-unit-milliseconds of quota that it kept without seats in the window."""
        return self.waiting_milli * window.overlap_ms(self.reserved_ms, self.waited_until_ms)

    @property
    def waited_until_ms(self) -> int | None:
        """When waiting for seats ended; None while it goes on."""
        if self.seated_ms is None or self.end_ms is None:
            return self.seated_ms if self.end_ms is None else self.end_ms
        return min(self.seated_ms, self.end_ms)

    @property
    def yields_before(self) -> tuple[int, int, str, int]:
        """Sorts by who would be asked first to give back: low priority, then latest admitted."""
        return (self.owner.priority, -(self.seated_ms or 0), *self.attempt.key)


def holdings_by_pair(attempts: Iterable[Attempt]) -> dict[Pair, list[Holding]]:
    """The holdings of all attempts, by pair in order, then in the order of the attempts.

    An attempt whose opening was not heard of yet has no owner, and is left out.
    """
    found: dict[Pair, list[Holding]] = {}
    for attempt in attempts:
        opening, seating = attempt.opening, attempt.seating
        if opening is None:
            continue
        waiting = _by_pair(opening.charges)
        held = {} if seating is None else _by_pair(seating.charges)
        for pair in sorted({*waiting, *held}):
            holding = Holding(
                attempt=attempt,
                owner=opening.owner,
                waiting_milli=waiting.get(pair, 0),
                held_milli=held.get(pair, 0),
                reserved_ms=opening.at_ms,
                seated_ms=None if seating is None else seating.at_ms,
                end_ms=attempt.end_ms,
            )
            found.setdefault(pair, []).append(holding)
    return dict(sorted(found.items()))


def _by_pair(charges: Iterable[Charge]) -> dict[Pair, int]:
    total: dict[Pair, int] = {}
    for charge in charges:
        pair = charge.flavor, charge.resource
        total[pair] = total.get(pair, 0) + charge.quantity_milli
    return total
