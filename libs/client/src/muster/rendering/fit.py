"""Where a waiting workload would find seats now: the same words on the page and in the terminal.

Pure. A place is a domain, or the whole floor, with what it would seat, what is free, why that does
not help, and who sits there.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from muster.rendering.floor import short_level
from muster.rendering.words import count, is_gpu
from muster_contracts.fit import DomainFit, FitPage, PodSetAsked, PodSetFit, Way
from muster_contracts.pod_environment import GPU_RESOURCE
from muster_domain.quantity import format_quantity

_PLACES_SHOWN = 16
"""Places that the terminal is told of, those with most room first."""
_TOO_FULL = "insufficient"
_OF_OTHERS = ("node selector", "node affinity", "topology label")
"""Refusals of nodes that are of another kind: of no interest where there are some of the right."""
_REFUSALS: Mapping[str, str] = {
    "excluded": "kept for another gang",
    "not ready": "{detail}",
    "node selector": "without {detail}",
    "node affinity": "refused by its node affinity",
    "untolerated taint": "with the taint {detail}",
    "topology label": "without the label {detail}",
    _TOO_FULL: "without enough of something else",
}
"""What refused nodes, as placement calls it, in the words of people."""


class Room(StrEnum):
    """What a place has for the gang: all of its pods, some, none, or no node that it may use."""

    ALL = "all"
    SOME = "some"
    NONE = "none"
    APART = "apart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One place in words; `path` names it from the widest domain down, the floor has none."""

    level: str
    path: tuple[str, ...]
    room: Room
    pods: int
    fits: str
    free: str
    why: str
    who: str
    seated: int
    inside: tuple["Place", ...] = ()

    @property
    def name(self) -> str:
        """Its own name, without those of the domains around it."""
        return self.path[-1] if self.path else "the whole floor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hall:
    """A topology with its levels from the widest, and its widest places."""

    name: str
    levels: tuple[str, ...]
    places: tuple[Place, ...]


def largest_lines(page: FitPage) -> list[str]:
    """The largest gang of this shape that fits now, for each way."""
    return [f"{_largest(way)}{_in_flavors(way, page)}{_together(way)}" for way in page.ways]


@dataclass(frozen=True, slots=True, kw_only=True)
class FitMap:
    """The places that are worth showing, and how many are left out: none seats more than `most`."""

    floor: Place | None
    halls: tuple[Hall, ...]
    left: int = 0
    most: int = 0


def fit_map(page: FitPage, shown: int) -> FitMap:
    """The floor and its topologies, those places first where it sits, then those with most room.

    Drawn are the topologies of the level that it asks for, else all with nodes that it may use. Of
    a workload that seeks no seats only the places where it sits. A place is never shown without
    those around it: they seat no fewer.
    """
    floor, halls = _floor(page), _halls(page)
    places = [found for hall in halls for widest in hall.places for found in _walk(widest, 1)]
    best = sorted(
        range(len(places)),
        key=lambda at: (-places[at][1].seated, -places[at][1].pods, places[at][0], at),
    )
    left = best[shown:]
    kept = {id(places[at][1]) for at in best[:shown]}
    return FitMap(
        floor=floor,
        halls=tuple(replace(hall, places=_only(hall.places, kept)) for hall in halls),
        left=len(left),
        most=max((places[at][1].pods for at in left), default=0),
    )


def left_out(found: FitMap) -> str:
    """How many places are not shown, and the most that fits in any; empty where all are."""
    if not found.left:
        return ""
    fits = f"no more than {found.most} fit in any of them" if found.most else "nothing fits in them"
    return f"{found.left} more places: {fits}"


def fit_lines(page: FitPage) -> list[str]:
    """The lines of `muster explain`: the largest gang, then place by place."""
    found = fit_map(page, _PLACES_SHOWN)
    if found.floor is None or not page.ways:
        return []
    lines = [f"largest  {text}" for text in largest_lines(page)]
    lines.append(f"place    {_line(found.floor)}")
    for hall in found.halls:
        for widest in hall.places:
            lines += [f"place    {'  ' * depth}{_line(place)}" for depth, place in _walk(widest, 1)]
    return lines + ([f"         {left_out(found)}"] if found.left else [])


def _floor(page: FitPage) -> Place | None:
    """All nodes; a gang that must share a domain has as much room here as in the best of them."""
    whole = page.domains[0] if page.domains else None
    if whole is None or not whole.nodes:
        return None
    place = _place(whole, page.ways, wider=bool(_required(page.ways)))
    if place.room is Room.ALL and all(way.largest < way.asked for way in page.ways):
        return replace(place, room=Room.SOME)
    return place


def _halls(page: FitPage) -> tuple[Hall, ...]:
    rows: dict[str, list[DomainFit]] = {}
    for row in page.domains:
        if row.path and (page.ways or row.seated):
            rows.setdefault(row.topology, []).append(row)
    levels = {asked.level for way in page.ways for asked in way.pod_sets if asked.level}
    asked_for = {name for name, found in rows.items() if levels & {row.level for row in found}}
    chosen = asked_for or {name for name, found in rows.items() if any(map(_matters, found))}
    return tuple(_hall(name, found, page.ways) for name, found in rows.items() if name in chosen)


def _only(places: Iterable[Place], kept: set[int]) -> tuple[Place, ...]:
    return tuple(
        replace(place, inside=_only(place.inside, kept)) for place in places if id(place) in kept
    )


def _line(place: Place) -> str:
    name = f"{short_level(place.level)} {place.name}".strip()
    who = "" if place.inside or not place.path else place.who
    return f"{name}: {'; '.join(part for part in (place.fits, place.free, place.why, who) if part)}"


def _walk(place: Place, depth: int) -> Iterator[tuple[int, Place]]:
    yield depth, place
    for inner in place.inside:
        yield from _walk(inner, depth + 1)


def _largest(way: Way) -> str:
    enough = f" (it starts with {way.enough})" if way.enough < way.asked else ""
    return f"gang of this shape that finds seats now: {way.largest} of {way.asked} pods{enough}"


def _in_flavors(way: Way, page: FitPage) -> str:
    names = ", ".join(_flavors(way))
    return f" in {names}" if names and len(page.ways) > 1 else ""


def _together(way: Way) -> str:
    level = next((asked.level for asked in way.pod_sets if asked.required), "")
    if not level:
        return ""
    where = f": {'/'.join(way.path)}" if way.path else ""
    return f", all in one {short_level(level)}{where}"


def _matters(row: DomainFit) -> bool:
    return row.seated > 0 or any(each.usable for fits in row.fits for each in fits)


def _hall(name: str, rows: Sequence[DomainFit], ways: Sequence[Way]) -> Hall:
    """The places of a topology; one around those that the gang must share has as much as they."""
    depths = [len(row.path) for row in rows if row.level in _required(ways)]
    shared = max(depths, default=0)
    inside: dict[tuple[str, ...], list[Place]] = {}
    for row in sorted(rows, key=lambda row: len(row.path), reverse=True):
        wider = len(row.path) < shared
        place = _place(row, ways, wider=wider)
        inner = tuple(sorted(inside.pop(row.path, ()), key=lambda place: place.path))
        if wider and place.room is Room.ALL and not any(one.room is Room.ALL for one in inner):
            place = replace(place, room=Room.SOME)
        inside.setdefault(row.path[:-1], []).append(replace(place, inside=inner))
    levels = {row.level: None for row in sorted(rows, key=lambda row: len(row.path))}
    return Hall(
        name=name,
        levels=tuple(map(short_level, levels)),
        places=tuple(sorted(inside.get((), ()), key=lambda place: place.path)),
    )


def _required(ways: Sequence[Way]) -> set[str]:
    return {asked.level for way in ways for asked in way.pod_sets if asked.required}


def _place(row: DomainFit, ways: Sequence[Way], *, wider: bool) -> Place:
    """A domain in words; `wider` when the gang must share one inside it."""
    counts = [sum(each.pods for each in fits) for fits in row.fits]
    best = max(range(len(counts)), key=lambda number: counts[number], default=None)
    pairs = tuple(zip(ways[best].pod_sets, row.fits[best], strict=True)) if best is not None else ()
    fits = _fits(row, ways)
    return Place(
        level=row.level,
        path=row.path,
        room=_room(pairs),
        pods=counts[best] if best is not None else 0,
        fits=f"{fits} in all of it" if wider and any(counts) else fits,
        free=_free(row, ways),
        why=_why(pairs),
        who=_who(row),
        seated=row.seated,
    )


def _room(pairs: Sequence[tuple[PodSetAsked, PodSetFit]]) -> Room:
    if not any(found.usable for _, found in pairs):
        return Room.APART
    if all(found.pods >= asked.pods for asked, found in pairs):
        return Room.ALL
    return Room.SOME if any(found.pods for _, found in pairs) else Room.NONE


def _fits(row: DomainFit, ways: Sequence[Way]) -> str:
    """The pods that fit, in the flavors that have nodes here."""
    told: list[str] = []
    for way, fits in zip(ways, row.fits, strict=True):
        if not any(found.usable for found in fits):
            continue
        sets = [
            f"{found.pods} of {asked.pods}{f' {asked.name}' if len(fits) > 1 else ''}"
            for asked, found in zip(way.pod_sets, fits, strict=True)
        ]
        flavors = ", ".join(_flavors(way)) if len(ways) > 1 else ""
        told.append(f"{' and '.join(sets)} fit{f' in {flavors}' if flavors else ''}")
    return ", ".join(told) or ("no node for it" if ways else "")


def _free(row: DomainFit, ways: Sequence[Way]) -> str:
    """What is free of the resources that it is short of first."""
    mains = dict.fromkeys(asked.main for way in ways for asked in way.pod_sets)
    names = list(mains) or list(row.allocatable_milli)
    cards = [name for name in names if is_gpu(name)] or names
    told = [
        f"{_number(name, row.free_milli.get(name, 0))} of {_number(name, total)} {_noun(name)}"
        for name in cards
        if (total := row.allocatable_milli.get(name, 0))
    ]
    return f"{', '.join(told)} free" if told else ""


def _why(pairs: Sequence[tuple[PodSetAsked, PodSetFit]]) -> str:
    """What stands in the way of the first pod set that does not fit."""
    short = next(((asked, found) for asked, found in pairs if found.pods < asked.pods), None)
    if short is None:
        return ""
    asked, found = short
    each = asked.requests_milli.get(asked.main, 0)
    crowded = found.usable > 0 and found.largest_free_milli < each
    told: list[str] = []
    if crowded:
        most, wanted = (_number(asked.main, n) for n in (found.largest_free_milli, each))
        told.append(f"at most {most} {_noun(asked.main)} on one node, {wanted} asked")
    for text, nodes in found.refused.items():
        predicate, _, detail = text.partition(": ")
        if (predicate in _OF_OTHERS and found.usable) or (predicate == _TOO_FULL and crowded):
            continue
        counted = f"{nodes} node{'' if nodes == 1 else 's'}"
        told.append(f"{counted} {_REFUSALS.get(predicate, text).format(detail=detail)}")
    return ", ".join(told)


def _who(row: DomainFit) -> str:
    left = row.sitting_total - len(row.sitting)
    more = f" and {left} more" if left > 0 else ""
    own = f"{row.seated} of its pods here" if row.seated else ""
    others = f"here: {', '.join(row.sitting)}{more}" if row.sitting else ""
    return "; ".join(part for part in (own, others) if part)


def _flavors(way: Way) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for asked in way.pod_sets for name in asked.flavors))


def _number(resource: str, milli: int) -> str:
    return count(milli) if is_gpu(resource) else format_quantity(milli)


def _noun(resource: str) -> str:
    return "GPUs" if resource == GPU_RESOURCE else resource
