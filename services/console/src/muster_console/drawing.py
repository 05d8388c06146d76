"""What the pages draw, as numbers: shares of a bar, points on a line, coloured cells.

Widths are thousandths of the whole, so that they are exact and the page only prints them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from muster.rendering.floor import Place, floor_map, short_level, team_of, teams_on
from muster.rendering.quota import Parts, parts_of
from muster.rendering.words import gpus_milli, is_gpu, main_resource
from muster_contracts.floor import DomainPage
from muster_contracts.queries import (
    CostLine,
    CostLineKind,
    CostReport,
    DeviceRow,
    NodePage,
    NodeRow,
    QueueRow,
    QuotaPage,
    QuotaRow,
)
from muster_domain.conditions import FlavorVerdict
from muster_domain.nodes import DeviceHealth

WHOLE = 1000
COLOURS = 12
"""Teams are told apart by this many colours; then they come again."""


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
    """Every cohort, sorted by name; bars of one resource of a cohort share their scale."""
    by_cohort: dict[str, list[QueueRow]] = {}
    for queue in page.queues:
        by_cohort.setdefault(queue.cohort, []).append(queue)
    rows: dict[str, list[QuotaRow]] = {}
    for row in page.rows:
        rows.setdefault(row.cluster_queue, []).append(row)
    return tuple(
        CohortCards(name=name, cards=_cards(queues, rows))
        for name, queues in sorted(by_cohort.items())
    )


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
class Part:
    """Part of a shared card: a team's colour, and how much of the card it is."""

    colour: int
    thousandths: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One card of a node: `kind` is free, held, shared, failed or others.

    A held one has a colour, a shared one parts.
    """

    kind: str
    title: str
    colour: int = 0
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCells:
    """One node and its cards."""

    node: NodeRow
    cells: tuple[Cell, ...]
    cpu: tuple[Segment, ...]
    memory: tuple[Segment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainBox:
    """A domain of a topology: what is free in it, those inside it, and the nodes of no other."""

    level: str
    name: str
    free_milli: int
    total_milli: int
    not_ready: int
    inside: tuple["DomainBox", ...]
    nodes: tuple[NodeCells, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyBoxes:
    """A topology with its levels and its widest domains."""

    name: str
    levels: tuple[str, ...]
    boxes: tuple[DomainBox, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """Every node in its domains, those in none, and the teams by the number of their colour."""

    topologies: tuple[TopologyBoxes, ...]
    outside: tuple[NodeCells, ...]
    teams: tuple[tuple[str, int], ...]
    shared: bool


def floor(page: NodePage, domains: DomainPage) -> Floor:
    """The nodes as a plan of the room; one colour for each team that holds a card."""
    cards = [card for node in page.nodes for card in node.devices]
    teams = sorted({team for card in cards for team in teams_on(card)})
    colours = {team: number % COLOURS for number, team in enumerate(teams)}
    found = floor_map(page, domains)
    return Floor(
        topologies=tuple(
            TopologyBoxes(
                name=topology.name,
                levels=tuple(map(short_level, topology.levels)),
                boxes=tuple(_box(place, colours) for place in topology.places),
            )
            for topology in found.topologies
        ),
        outside=tuple(_node(node, colours) for node in found.outside),
        teams=tuple(colours.items()),
        shared=any(card.shares for card in cards),
    )


def _box(place: Place, colours: Mapping[str, int]) -> DomainBox:
    row = place.row
    return DomainBox(
        level=short_level(row.level),
        name=place.name,
        free_milli=gpus_milli(row.free_milli),
        total_milli=gpus_milli(row.allocatable_milli),
        not_ready=row.nodes - row.ready,
        inside=tuple(_box(inner, colours) for inner in place.inside),
        nodes=tuple(_node(node, colours) for node in place.nodes),
    )


def _node(node: NodeRow, colours: Mapping[str, int]) -> NodeCells:
    cards = [card for card in node.devices if is_gpu(card.resource)]
    cards.sort(key=lambda card: (card.resource, card.index))
    return NodeCells(
        node=node,
        cells=tuple(_cell(card, colours) for card in cards),
        cpu=_used(node, "cpu"),
        memory=_used(node, "memory"),
    )


def _used(node: NodeRow, resource: str) -> tuple[Segment, ...]:
    total = node.allocatable_milli.get(resource, 0)
    free = node.free_milli.get(resource, 0)
    return segments({"own": total - free, "free": free}, total)


def _cell(card: DeviceRow, colours: Mapping[str, int]) -> Cell:
    name = " ".join(part for part in (card.model or card.resource, f"#{card.index}") if part)
    if card.health == DeviceHealth.FAILED:
        return Cell(kind="failed", title=f"{name}: failed")
    if card.shares:
        held = [f"{share.holder} {share.milli // 10} %" for share in card.shares]
        return Cell(
            kind="shared",
            title=f"{name}: {', '.join([*held, f'free {card.left_milli // 10} %'])}",
            parts=tuple(
                Part(colour=colours[team_of(share.holder)], thousandths=share.milli)
                for share in card.shares
            ),
        )
    if card.holder:
        colour = colours[team_of(card.holder)]
        return Cell(kind="held", title=f"{name}: {card.holder}", colour=colour)
    if card.health == DeviceHealth.HELD_BY_OTHERS:
        return Cell(kind="others", title=f"{name}: used outside Muster")
    return Cell(kind="free", title=f"{name}: free")


@dataclass(frozen=True, slots=True, kw_only=True)
class CostBar:
    """One line of a cost report with its part of the largest line."""

    line: CostLine
    bar: tuple[Segment, ...]


def cost_bars(report: CostReport) -> tuple[CostBar, ...]:
    """Every line, then what nobody used; a line without a price has no bar."""
    shown = report.idle.kind is CostLineKind.IDLE and report.idle.charged_time
    lines = [*report.lines, *([report.idle] if shown else [])]
    scale = max((line.cost_micros or 0 for line in lines), default=0)
    return tuple(CostBar(line=line, bar=_cost_bar(line, scale)) for line in lines)


def _cost_bar(line: CostLine, scale: int) -> tuple[Segment, ...]:
    cost = line.cost_micros or 0
    if line.kind is CostLineKind.IDLE:
        return segments({"free": cost}, scale)
    lost = min(line.lost_cost_micros, cost)
    idle = min(line.idle_cost_micros, cost - lost)
    return segments({"own": cost - lost - idle, "lost": lost, "idle": idle}, scale)
