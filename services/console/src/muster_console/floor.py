"""The floor as a plan of the room: domains in each other, nodes in them, each card a cell.

A floor of many nodes is drawn as its domains, each of which opens; nodes are drawn where few enough
are left.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_lowercase

from muster.rendering.cards import (
    cards_in,
    cards_of_all,
    cards_on,
    geometry_of,
    of_cards,
    parts_of_card,
    turns_on,
)
from muster.rendering.floor import Place, floor_map, short_level, team_of, teams_on
from muster_console.drawing import WHOLE, Segment, segments
from muster_contracts.floor import DomainPage, DomainRow
from muster_contracts.queries import DeviceRow, NodePage, NodeRow
from muster_domain.nodes import DeviceHealth
from muster_domain.quantity import format_quantity

COLOURS = 12
"""Teams are told apart by a letter, and by this many colours; then they come again."""
NODES_DRAWN = 200
"""More nodes are not drawn on one page."""
BOXES_DRAWN = 200
_MORE = "+"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Which part of the floor: a domain of a topology, nodes with `name` in theirs, a page of them.

    `offset` counts the nodes that are in no topology, or those that were found by name.
    """

    topology: str = ""
    path: tuple[str, ...] = ()
    name: str = ""
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """A namespace that holds cards: its letter, and the number of its colour."""

    name: str
    letter: str
    colour: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Part of a card: who has it, or `idle`, `others`, `failed`, `free`; how much of the card."""

    kind: str
    thousandths: int
    colour: int = 0
    letter: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One card of a node: `kind` is free, held, shared, divided, failed or others.

    A held one has a colour and a letter, a shared or divided one parts.
    """

    kind: str
    words: str
    colour: int = 0
    letter: str = ""
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCells:
    """One node and its cards; `free` is of its cards, `turns` says that pods share them in time."""

    node: NodeRow
    cells: tuple[Cell, ...]
    free: str
    turns: str
    cpu: tuple[Segment, ...]
    cpu_words: str
    memory: tuple[Segment, ...]
    memory_words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainBox:
    """A domain of a topology: what is free in it, those inside it, and the nodes of no other.

    `closed` when there is more in it than is drawn.
    """

    topology: str
    level: str
    path: tuple[str, ...]
    free_milli: int
    total_milli: int
    count: int
    not_ready: int
    inside: tuple["DomainBox", ...] = ()
    nodes: tuple[NodeCells, ...] = ()
    closed: bool = False

    @property
    def name(self) -> str:
        """Its own name, without those of the domains around it."""
        return self.path[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyBoxes:
    """A topology with its levels and its widest domains; `left` of them are not drawn."""

    name: str
    levels: tuple[str, ...]
    boxes: tuple[DomainBox, ...]
    left: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """The chosen part: topologies, a page of the nodes in none or found by name, and the teams.

    `listed_total` counts all nodes of that list.
    """

    topologies: tuple[TopologyBoxes, ...]
    listed: tuple[NodeCells, ...]
    listed_total: int
    teams: tuple[Team, ...]
    kinds: frozenset[str]


def wanted(domains: DomainPage, view: View) -> dict[str, str]:
    """The nodes that are drawn of a part of the floor, as the API is asked for them."""
    page = {"limit": str(NODES_DRAWN), "offset": str(view.offset)}
    if view.name:
        return {**page, "contains": view.name}
    if view.topology:
        return {"limit": str(NODES_DRAWN), "topology": view.topology, "in": "/".join(view.path)}
    return page if _is_small(domains.domains[:1]) else {**page, "outside": "true"}


def floor(page: NodePage, domains: DomainPage, view: View) -> Floor:
    """The nodes as a plan of the room; one letter and colour for each team that holds a card.

    `page` has the nodes that are `wanted`.
    """
    teams = _teams(page.nodes)
    draw = _Drawing({team.name: team for team in teams})
    found = floor_map(page, domains)
    topologies: list[TopologyBoxes] = []
    for topology in found.topologies if not view.name else ():
        places = topology.places
        if view.topology:
            places = _at(places, view.path) if topology.name == view.topology else ()
        if places:
            levels = tuple(map(short_level, topology.levels))
            topologies.append(draw.topology(topology.name, levels, places))
    listed: Sequence[NodeRow] = page.nodes if view.name else found.outside
    listed_total = len(listed)
    if view.name or not _is_small(domains.domains[:1]):
        listed_total = page.total
    if view.topology:
        listed, listed_total = (), 0
    return Floor(
        topologies=tuple(topologies),
        listed=tuple(draw.node(node) for node in listed),
        listed_total=listed_total,
        teams=teams,
        kinds=frozenset(draw.kinds),
    )


def _is_small(rows: Iterable[DomainRow]) -> bool:
    return sum(row.nodes for row in rows) <= NODES_DRAWN


def _teams(nodes: Iterable[NodeRow]) -> tuple[Team, ...]:
    names = sorted({team for node in nodes for card in node.devices for team in teams_on(card)})
    return tuple(
        Team(
            name=name,
            letter=ascii_lowercase[number] if number < len(ascii_lowercase) else _MORE,
            colour=number % COLOURS,
        )
        for number, name in enumerate(names)
    )


def _at(places: Iterable[Place], path: Sequence[str]) -> tuple[Place, ...]:
    """The place with this path, if there is one."""
    for place in places:
        if place.row.path == tuple(path):
            return (place,)
        if place.row.path == tuple(path)[: len(place.row.path)]:
            return _at(place.inside, path)
    return ()


class _Drawing:
    """Boxes and cells that share their teams; remembers the kinds of cells that it has drawn."""

    def __init__(self, teams: Mapping[str, Team]) -> None:
        self._teams = teams
        self.kinds: set[str] = set()

    def topology(
        self, name: str, levels: tuple[str, ...], places: Sequence[Place]
    ) -> TopologyBoxes:
        with_nodes = _is_small(place.row for place in places)
        depth = _levels_drawn(places)
        boxes = [self._box(place, depth - 1, with_nodes) for place in places[:BOXES_DRAWN]]
        return TopologyBoxes(
            name=name, levels=levels, boxes=tuple(boxes), left=max(0, len(places) - BOXES_DRAWN)
        )

    def _box(self, place: Place, depth: int, with_nodes: bool) -> DomainBox:  # noqa: FBT001 - handed down
        row = place.row
        free, total = cards_in(place.everybody()) if with_nodes else cards_of_all(row)
        inside = place.inside[:BOXES_DRAWN] if depth > 0 else []
        return DomainBox(
            topology=row.topology,
            level=short_level(row.level),
            path=row.path,
            free_milli=free,
            total_milli=total,
            count=row.nodes,
            not_ready=row.nodes - row.ready,
            inside=tuple(self._box(each, depth - 1, with_nodes) for each in inside),
            nodes=tuple(self.node(node) for node in place.nodes) if with_nodes else (),
            closed=not with_nodes,
        )

    def node(self, node: NodeRow) -> NodeCells:
        return NodeCells(
            node=node,
            cells=tuple(self._cell(card) for card in cards_on(node)),
            free=of_cards(*cards_in([node])),
            turns=turns_on(node),
            cpu=_used(node, "cpu"),
            cpu_words=_used_words(node, "cpu"),
            memory=_used(node, "memory"),
            memory_words=_used_words(node, "memory"),
        )

    def _cell(self, card: DeviceRow) -> Cell:
        cell = self._drawn(card)
        self.kinds |= {cell.kind, *(part.kind for part in cell.parts)}
        return cell

    def _drawn(self, card: DeviceRow) -> Cell:
        name = " ".join(part for part in (card.model or card.resource, f"#{card.index}") if part)
        if card.health == DeviceHealth.FAILED:
            return Cell(kind="failed", words=f"{name}: failed", letter="x")
        if card.instances:
            return Cell(
                kind="divided", words=f"{name}: {geometry_of(card)}", parts=self._instances(card)
            )
        if card.shares:
            shares = tuple(self._part(share.holder, share.milli) for share in card.shares)
            return Cell(kind="shared", words=f"{name}: {parts_of_card(card)}", parts=shares)
        if card.holder:
            team = self._teams[team_of(card.holder)]
            words = f"{name}: {card.holder}"
            return Cell(kind="held", words=words, colour=team.colour, letter=team.letter)
        if card.health == DeviceHealth.HELD_BY_OTHERS:
            return Cell(kind="others", words=f"{name}: used outside Muster", letter="?")
        return Cell(kind="free", words=f"{name}: free")

    def _instances(self, card: DeviceRow) -> tuple[Part, ...]:
        """The MIG instances in the order of their slices, with the gaps between them."""
        parts: list[Part] = []
        end = 0
        for one in card.instances:
            if one.start > end:
                parts.append(_gap(one.start - end, card.slices))
            milli = one.slices * WHOLE // card.slices
            if one.holder:
                parts.append(self._part(one.holder, milli))
            else:
                parts.append(Part(kind=_WITHOUT_HOLDER[one.health], thousandths=milli))
            end = one.start + one.slices
        if end < card.slices:
            parts.append(_gap(card.slices - end, card.slices))
        return tuple(parts)

    def _part(self, holder: str, milli: int) -> Part:
        team = self._teams[team_of(holder)]
        return Part(kind="held", thousandths=milli, colour=team.colour, letter=team.letter)


_WITHOUT_HOLDER: Mapping[str, str] = {
    DeviceHealth.HEALTHY: "idle",
    DeviceHealth.HELD_BY_OTHERS: "others",
    DeviceHealth.FAILED: "failed",
}


def _gap(slices: int, of: int) -> Part:
    return Part(kind="free", thousandths=slices * WHOLE // of)


def _levels_drawn(places: Sequence[Place]) -> int:
    """How many levels are drawn: as many as are few boxes, and what is in one that was opened."""
    level, boxes, depth = list(places), 0, 0
    while level and (boxes + len(level) <= BOXES_DRAWN or boxes <= 1):
        boxes, depth = boxes + len(level), depth + 1
        level = [inner for place in level for inner in place.inside]
    return depth


def _used(node: NodeRow, resource: str) -> tuple[Segment, ...]:
    total = node.allocatable_milli.get(resource, 0)
    free = node.free_milli.get(resource, 0)
    return segments({"own": total - free, "free": free}, total)


def _used_words(node: NodeRow, resource: str) -> str:
    total = node.allocatable_milli.get(resource, 0)
    free = node.free_milli.get(resource, 0)
    return f"{format_quantity(free)} of {format_quantity(total)} {resource} free"
