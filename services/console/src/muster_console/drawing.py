"""What the pages draw, as numbers: shares of a bar and points on a line.

Widths are thousandths of the whole, so that they are exact and the page only prints them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from muster.rendering.cost import cost_columns, cost_lines, cost_rows
from muster.rendering.quota import Parts, parts_of
from muster.rendering.words import main_resource
from muster_contracts.queries import (
    CostLine,
    CostLineKind,
    CostReport,
    QueueRow,
    QuotaPage,
    QuotaRow,
)
from muster_domain.conditions import FlavorVerdict

WHOLE = 1000
QUEUES_DRAWN = 60
"""More queues are not drawn on one page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Part of a bar: what it is, how long it is in thousandths, and the quantity it stands for."""

    kind: str
    thousandths: int
    quantity: int


def segments(parts: Mapping[str, int], scale: int) -> tuple[Segment, ...]:
    """The parts that are there, drawn to `scale`; together never longer than the whole.

    What is rounded away is given back to the largest remainders, so that a bar that fills its scale
    has no gap.
    """
    shown = {kind: quantity for kind, quantity in parts.items() if quantity > 0}
    if scale <= 0 or not shown:
        return ()
    total = max(scale, sum(shown.values()))
    exact = {kind: divmod(quantity * WHOLE, total) for kind, quantity in shown.items()}
    lacking = sum(shown.values()) * WHOLE // total - sum(whole for whole, _ in exact.values())
    favoured = sorted(exact, key=lambda kind: (-exact[kind][1], kind))[:lacking]
    return tuple(
        Segment(kind=kind, thousandths=exact[kind][0] + (kind in favoured), quantity=quantity)
        for kind, quantity in shown.items()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaBar:
    """One quota: its numbers and the bar that shows them."""

    row: QuotaRow
    parts: Parts
    bar: tuple[Segment, ...]
    nominal_thousandths: int
    """Where on the bar the nominal quota ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCard:
    """One ClusterQueue with its quota, the main resource first."""

    queue: QueueRow
    bars: tuple[QuotaBar, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortCards:
    """The queues that lend to each other; queues without a cohort stand under an empty name."""

    name: str
    cards: tuple[QueueCard, ...]


def cohorts(page: QuotaPage) -> tuple[CohortCards, ...]:
    """Every cohort, sorted by name, then the queues in none.

    Bars of one resource of a cohort share their scale. Quota of nothing that nobody uses has none.
    """
    by_cohort: dict[str, list[QueueRow]] = {}
    for queue in page.queues:
        by_cohort.setdefault(queue.cohort, []).append(queue)
    rows: dict[str, list[QuotaRow]] = {}
    for row in page.rows:
        rows.setdefault(row.cluster_queue, []).append(row)
    return tuple(
        CohortCards(name=name, cards=_cards(queues, rows))
        for name, queues in sorted(by_cohort.items(), key=lambda found: (not found[0], found[0]))
    )


def part_of(found: tuple[CohortCards, ...], name: str, offset: int) -> tuple[CohortCards, ...]:
    """The page of queues that begins at `offset`, of those with `name` in theirs."""
    chosen: list[CohortCards] = []
    skipped, room = 0, QUEUES_DRAWN
    for cohort in found:
        cards = [card for card in cohort.cards if name in card.queue.name]
        start = max(0, offset - skipped)
        skipped += len(cards)
        cards = cards[start : start + room]
        room -= len(cards)
        if cards:
            chosen.append(replace(cohort, cards=tuple(cards)))
    return tuple(chosen)


def _cards(
    queues: Sequence[QueueRow], rows: Mapping[str, Sequence[QuotaRow]]
) -> tuple[QueueCard, ...]:
    scale: dict[str, int] = {}
    for queue in queues:
        for row in rows.get(queue.name, ()):
            whole = row.nominal_milli + row.borrowed_milli
            scale[row.resource] = max(scale.get(row.resource, 0), whole, row.used_milli)
    return tuple(
        QueueCard(queue=queue, bars=_bars(rows.get(queue.name, ()), scale))
        for queue in sorted(queues, key=lambda each: each.name)
    )


def _bars(rows: Sequence[QuotaRow], scale: Mapping[str, int]) -> tuple[QuotaBar, ...]:
    main = main_resource(tuple(row.resource for row in rows))
    rows = [row for row in rows if row.nominal_milli or row.used_milli or row.max_milli]
    ordered = sorted(rows, key=lambda row: (row.resource != main, row.resource, row.flavor))
    return tuple(_bar(row, scale[row.resource]) for row in ordered)


def _bar(row: QuotaRow, scale: int) -> QuotaBar:
    parts = parts_of(row)
    shown = {
        "own": parts.own,
        "lent": parts.lent,
        "free": parts.free,
        "borrowed": parts.borrowed,
    }
    return QuotaBar(
        row=row,
        parts=parts,
        bar=segments(shown, scale),
        nominal_thousandths=row.nominal_milli * WHOLE // scale if scale else 0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictBar:
    """What one flavor said, and where the request would end on its bar."""

    verdict: FlavorVerdict
    bar: tuple[Segment, ...]


def verdicts(found: Iterable[FlavorVerdict]) -> tuple[VerdictBar, ...]:
    """One bar for each distinct verdict: used by others, what would be enough, what is missing."""
    return tuple(
        VerdictBar(verdict=verdict, bar=_verdict_bar(verdict)) for verdict in dict.fromkeys(found)
    )


def _verdict_bar(verdict: FlavorVerdict) -> tuple[Segment, ...]:
    lacking = verdict.short_by_milli
    granted = verdict.requested_milli - lacking
    left = verdict.available_milli - granted
    shown = {
        "others": verdict.used_milli,
        "own": granted,
        "free": left,
        "lacking": lacking,
    }
    return segments(shown, sum(quantity for quantity in shown.values() if quantity > 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A step of a workload's life: how long it lasted, and its share of the whole life."""

    name: str
    at_ms: int
    lasted_ms: int
    thousandths: int


def stages(timeline: Iterable[tuple[str, int]], now_ms: int, *, over: bool) -> tuple[Stage, ...]:
    """The steps in order; the last one lasts until now unless the workload has ended."""
    points = sorted(timeline, key=lambda point: point[1])
    if not points:
        return ()
    end_ms = points[-1][1] if over else max(now_ms, points[-1][1])
    ends = [at_ms for _, at_ms in points[1:]] + [end_ms]
    whole_ms = max(1, end_ms - points[0][1])
    return tuple(
        Stage(
            name=name,
            at_ms=at_ms,
            lasted_ms=until_ms - at_ms,
            thousandths=(until_ms - at_ms) * WHOLE // whole_ms,
        )
        for (name, at_ms), until_ms in zip(points, ends, strict=True)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CostBar:
    """One line of a cost report: its cells, and its part of the largest line."""

    cells: tuple[str, ...]
    bar: tuple[Segment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostBars:
    """A cost report as the command prints it, with a bar for each line but the sum."""

    columns: tuple[str, ...]
    lines: tuple[CostBar, ...]
    total: tuple[str, ...]


def cost_bars(report: CostReport) -> CostBars:
    """The lines of a report; one without a price has no bar."""
    lines = cost_lines(report)
    scale = max((line.cost_micros or 0 for line in lines), default=0)
    *rows, total = map(tuple, cost_rows(report))
    return CostBars(
        columns=tuple(cost_columns(report)),
        lines=tuple(
            CostBar(cells=cells, bar=_cost_bar(line, scale))
            for line, cells in zip(lines, rows, strict=True)
        ),
        total=total,
    )


def _cost_bar(line: CostLine, scale: int) -> tuple[Segment, ...]:
    cost = line.cost_micros or 0
    if line.kind is not CostLineKind.USAGE:
        return segments({"free": cost}, scale)
    lost = min(line.lost_cost_micros, cost)
    idle = min(line.idle_cost_micros, cost - lost)
    return segments({"own": cost - lost - idle, "lost": lost, "idle": idle}, scale)
