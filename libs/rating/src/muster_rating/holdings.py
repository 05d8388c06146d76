"""How much of one (flavor, resource) an attempt held, and when."""

from collections.abc import Iterable
from dataclasses import dataclass

from muster_rating.attempts import Attempt, Pair
from muster_rating.windows import Window


@dataclass(frozen=True, slots=True)
class Holding:
    """`quantity_milli` of a pair: waiting until it is held, held until it is given back.

    `held_ms` is None where there were never seats. Ends before their beginnings count as zero.
    """

    attempt: Attempt
    quantity_milli: int
    reserved_ms: int
    held_ms: int | None
    end_ms: int | None

    def held(self, window: Window) -> int:
        """Milli-unit-milliseconds that it held in the window."""
        if self.held_ms is None:
            return 0
        return self.quantity_milli * window.overlap_ms(self.held_ms, self.end_ms)

    def waiting(self, window: Window) -> int:
        """Milli-unit-milliseconds of quota that it kept without seats in the window."""
        return self.quantity_milli * window.overlap_ms(self.reserved_ms, self.waited_until_ms)

    @property
    def waited_until_ms(self) -> int | None:
        """When waiting for seats ended; None while it goes on."""
        return self.end_ms if self.held_ms is None else self.held_ms

    @property
    def yields_before(self) -> tuple[int, int, str, int]:
        """Sorts by who would be asked first to give back: low priority, then latest admitted."""
        opening = self.attempt.opening
        priority = opening.owner.priority if opening is not None else 0
        return (priority, -(self.held_ms or 0), self.attempt.workload_id, self.attempt.number)


def holdings_by_pair(attempts: Iterable[Attempt]) -> dict[Pair, list[Holding]]:
    """The holdings of all attempts, by pair in order, then in the order of the attempts.

    An attempt whose opening was not heard of yet has no owner and no quantity, and is left out.
    """
    found: dict[Pair, list[Holding]] = {}
    for attempt in attempts:
        opening = attempt.opening
        if opening is None:
            continue
        seating = attempt.seating
        for charge in opening.charges:
            holding = Holding(
                attempt=attempt,
                quantity_milli=charge.quantity_milli,
                reserved_ms=opening.at_ms,
                held_ms=None if seating is None else seating.at_ms,
                end_ms=attempt.end_ms,
            )
            found.setdefault((charge.flavor, charge.resource), []).append(holding)
    return dict(sorted(found.items()))
