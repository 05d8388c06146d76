"""The floor as a tree: topologies, the domains inside each other, and the nodes in them. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from muster_contracts.floor import DomainPage, DomainRow
from muster_contracts.queries import DeviceRow, NodePage, NodeRow
from muster_domain.nodes import NodeCondition


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """All that the map is drawn from."""

    nodes: NodePage
    domains: DomainPage


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A domain: those inside it, and the nodes that no narrower one holds."""

    row: DomainRow
    inside: list["Place"] = field(default_factory=list["Place"])
    nodes: list[NodeRow] = field(default_factory=list[NodeRow])

    @property
    def name(self) -> str:
        """Its own name, without those of the domains around it."""
        return self.row.path[-1]

    def everybody(self) -> Iterator[NodeRow]:
        """All nodes in it, those in narrower domains too."""
        yield from self.nodes
        for inner in self.inside:
            yield from inner.everybody()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyMap:
    """One topology, its levels from the widest, and its widest domains."""

    name: str
    levels: tuple[str, ...]
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorMap:
    """All topologies, and the nodes that are in none of them."""

    topologies: tuple[TopologyMap, ...]
    outside: tuple[NodeRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Largest:
    """The largest gang of a pod: anywhere, and in one domain of each level with its path."""

    pod: Mapping[str, int]
    anywhere: int
    in_one: tuple[tuple[str, int, tuple[str, ...]], ...]


def floor_map(page: NodePage, domains: DomainPage) -> FloorMap:
    """The nodes in their domains. A topology without nodes is left out."""
    rows: dict[str, list[DomainRow]] = {}
    for row in domains.domains:
        if row.path:
            rows.setdefault(row.topology, []).append(row)
    return FloorMap(
        topologies=tuple(_topology(name, found, page.nodes) for name, found in rows.items()),
        outside=tuple(node for node in page.nodes if not node.domains.keys() & rows.keys()),
    )


def largest_gangs(domains: DomainPage) -> tuple[Largest, ...]:
    """For each pod that was asked about, the best domain of every level; the first of equals."""
    whole = domains.domains[0].largest if domains.domains else ()
    found: list[Largest] = []
    for number, (pod, anywhere) in enumerate(zip(domains.pods, whole, strict=True)):
        best: dict[str, DomainRow] = {}
        for row in domains.domains[1:]:
            known = best.setdefault(row.level, row)
            if row.largest[number] > known.largest[number]:
                best[row.level] = row
        in_one = tuple((level, row.largest[number], row.path) for level, row in best.items())
        found.append(Largest(pod=pod, anywhere=anywhere, in_one=in_one))
    return tuple(found)


def conditions(nodes: Iterable[NodeRow]) -> dict[NodeCondition, int]:
    """How many nodes are in each condition but ready."""
    found: dict[NodeCondition, int] = {}
    for node in nodes:
        if node.condition is not NodeCondition.READY:
            found[node.condition] = found.get(node.condition, 0) + 1
    return dict(sorted(found.items()))


def teams_on(device: DeviceRow) -> tuple[str, ...]:
    """The namespaces that sit on a card, sorted."""
    holders = [share.holder for share in device.shares] or [device.holder]
    return tuple(sorted({team_of(holder) for holder in holders if holder}))


def team_of(holder: str) -> str:
    """The namespace of somebody who sits on a card."""
    return holder.partition("/")[0]


def short_level(level: str) -> str:
    """A label without its domain name."""
    return level.rpartition("/")[2]


def _topology(name: str, rows: Iterable[DomainRow], nodes: Iterable[NodeRow]) -> TopologyMap:
    places: dict[tuple[str, ...], Place] = {}
    widest: list[Place] = []
    for row in rows:
        place = places[row.path] = Place(row=row)
        around = places.get(row.path[:-1])
        (around.inside if around is not None else widest).append(place)
    for node in nodes:
        place = places.get(node.domains.get(name, ()))
        if place is not None:
            place.nodes.append(node)
    levels = dict.fromkeys(
        place.row.level for _, place in sorted(places.items(), key=lambda each: len(each[0]))
    )
    return TopologyMap(name=name, levels=tuple(levels), places=tuple(widest))
