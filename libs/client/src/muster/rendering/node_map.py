"""`muster nodes --map`: the machines by topology, each card a letter and a colour of its team."""

from collections.abc import Iterator, Mapping
from string import ascii_lowercase

from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from muster.rendering.cards import cards_in, cards_of, cards_on, of_cards, parts_of_card, turns_on
from muster.rendering.floor import (
    FloorMap,
    Largest,
    Place,
    conditions,
    floor_map,
    largest_gangs,
    short_level,
    teams_on,
)
from muster.rendering.tables import plain_table
from muster.rendering.words import asks
from muster_contracts.floor import DomainPage
from muster_contracts.queries import DeviceRow, NodePage, NodeRow
from muster_domain.nodes import DeviceHealth, NodeCondition

Mark = tuple[str, str]
"""What a card is drawn as: a letter and a style."""

_COLOURS = ("green", "cyan", "magenta", "yellow", "blue", "red")
_FREE, _FAILED, _OTHERS = ("·", "dim"), ("x", "bold red"), ("?", "bold yellow")
_SEVERAL: Mark = ("&", "bold")
_MORE = "+"
_TABLE_MIN = 72
"""Columns below which lines are written instead of a table."""
_NAME_MAX = 28
_CARDS_IN_A_LINE = 16
_WHO_MIN = 16
"""Columns below which it is not said who sits on a node."""


def largest_gang_table(domains: DomainPage, width: int) -> RenderableType | None:
    """The largest gangs that would find seats now, by what a pod asks for; None without pods."""
    gangs = largest_gangs(domains)
    if not gangs:
        return None
    if width < _TABLE_MIN:
        return Text("\n").join(_largest_line(gang) for gang in gangs)
    levels = [short_level(level) for level, _, _ in gangs[0].in_one]
    table = plain_table(
        ["LARGEST GANG NOW OF", "ANYWHERE", *(f"IN ONE {level}" for level in levels)]
    )
    for gang in gangs:
        cells = [f"{pods} ({'/'.join(path)})" if pods else "0" for _, pods, path in gang.in_one]
        table.add_row(asks(gang.pod), str(gang.anywhere), *cells)
    return table


def _largest_line(gang: Largest) -> Text:
    text = Text(f"{gang.anywhere} of {asks(gang.pod)}", style="bold")
    for level, pods, _ in gang.in_one:
        text.append(f", {pods} in one {short_level(level)}", style="not bold")
    return text


def node_map(page: NodePage, domains: DomainPage, width: int, *, wide: bool) -> Text:
    """Every topology with its domains and nodes, `width` columns wide, and a legend."""
    found = floor_map(page, domains)
    drawing = _Drawing(page, domains, width, wide=wide)
    text = Text("\n").join([*drawing.lines(found), drawing.legend()])
    text.no_wrap = True
    return text


class _Drawing:
    """Lines of a map that share their columns and their letters."""

    def __init__(self, page: NodePage, domains: DomainPage, width: int, *, wide: bool) -> None:
        self._page = page
        self._domains = domains
        self._width = width
        self._wide = wide
        self._letters = _letters(page)
        longest = max((cell_len(node.name) for node in page.nodes), default=0)
        self._name = min(longest, _NAME_MAX, max(8, width // 3))
        most = max((len(cards_on(node)) for node in page.nodes), default=0)
        self._cells = max(1, min(most, _CARDS_IN_A_LINE, (width - self._name - 12) // 2))

    def lines(self, found: FloorMap) -> Iterator[Text]:
        yield from self._head()
        for topology in found.topologies:
            yield Text()
            levels = " > ".join(map(short_level, topology.levels))
            yield self._cut(Text(f"{topology.name}  {levels}", style="bold"))
            for place in topology.places:
                yield from self._place(place, 0)
        if found.outside:
            if found.topologies:
                yield Text()
                yield Text("in no topology", style="bold")
            for node in found.outside:
                yield from self._node(node, 1 if found.topologies else 0)
        yield Text()

    def _head(self) -> Iterator[Text]:
        nodes = self._page.nodes
        away = ", ".join(f"{count} {condition}" for condition, count in conditions(nodes).items())
        parts = [f"{len(nodes)} nodes{f' ({away})' if away else ''}"]
        if nodes:
            parts.append(f"GPUs free {of_cards(*cards_in(nodes))}")
        line = ", ".join(parts)
        for text in [line] if cell_len(line) <= self._width else parts:
            yield self._cut(Text(text))

    def _cut(self, text: Text) -> Text:
        text.truncate(self._width, overflow="ellipsis")
        return text

    def _place(self, place: Place, depth: int) -> Iterator[Text]:
        row = place.row
        free = of_cards(*cards_in(place.everybody()))
        text = Text(f"{'  ' * depth}{short_level(row.level)} ", style="dim")
        text.append(place.name, style="bold")
        text.append(f"  {free} GPUs free" if free != "-" else f"  {row.nodes} nodes")
        if row.ready < row.nodes:
            text.append(f", {row.nodes - row.ready} of {row.nodes} nodes not ready", style="red")
        yield self._cut(text)
        for inner in place.inside:
            yield from self._place(inner, depth + 1)
        for node in place.nodes:
            yield from self._node(node, depth + 1)

    def _node(self, node: NodeRow, depth: int) -> Iterator[Text]:
        indent = "  " * depth
        name = Text(node.name)
        name.truncate(self._name, overflow="ellipsis", pad=True)
        cards = cards_on(node)
        rows = [cards[at : at + self._cells] for at in range(0, len(cards), self._cells)] or [[]]
        for number, row in enumerate(rows):
            text = Text(indent)
            text.append_text(name if number == 0 else Text(" " * self._name))
            text.append(" ")
            for device in row:
                letter, style = _mark(device, self._letters)
                text.append(f" {letter}", style=style)
            if number == len(rows) - 1:
                text.append("  " * (self._cells - len(row)))
                self._tell(text, node)
            yield self._cut(text)
        if self._wide:
            yield from self._shared(node, len(indent))

    def _tell(self, text: Text, node: NodeRow) -> None:
        """After the cards: what is free, what is wrong with the node, who is there."""
        text.append(f"  {of_cards(*cards_of(node)):>5}")
        if node.condition is not NodeCondition.READY:
            text.append(f"  {node.condition}", style="bold red")
        if turns_on(node):
            text.append(f"  {turns_on(node)}", style="yellow")
        left = self._width - text.cell_len - 2
        if node.workloads and (left >= _WHO_MIN or self._wide):
            text.append(f"  {', '.join(node.workloads)}", style="dim")

    def _shared(self, node: NodeRow, indent: int) -> Iterator[Text]:
        for device in cards_on(node):
            if device.shares or device.instances:
                parts = parts_of_card(device)
                yield Text(f"{' ' * indent}  card {device.index}: {parts}", style="dim")

    def legend(self) -> Text:
        cards = [card for node in self._page.nodes for card in cards_on(node)]
        marks = [(_FREE, "free"), (_FAILED, "failed"), (_OTHERS, "used outside Muster")]
        marks += [(mark, team) for team, mark in self._letters.items()]
        if any(card.shares for card in cards):
            marks.append((("A", "bold"), "part of a card"))
        if any(len(teams_on(card)) > 1 for card in cards):
            marks.append((_SEVERAL, "parts of several teams"))
        text = Text()
        used = 0
        for (letter, style), meaning in marks:
            entry = len(letter) + 1 + cell_len(meaning)
            if used and used + 3 + entry > self._width:
                text.append("\n")
                used = 0
            elif used:
                text.append("   ")
                used += 3
            text.append(f"{letter} ", style=style)
            text.append(meaning)
            used += entry
        return text


def _letters(page: NodePage) -> Mapping[str, Mark]:
    teams = sorted(
        {team for node in page.nodes for card in cards_on(node) for team in teams_on(card)}
    )
    return {
        team: (
            ascii_lowercase[number] if number < len(ascii_lowercase) else _MORE,
            _COLOURS[number % len(_COLOURS)],
        )
        for number, team in enumerate(teams)
    }


def _mark(device: DeviceRow, letters: Mapping[str, Mark]) -> Mark:
    if device.health == DeviceHealth.FAILED:
        return _FAILED
    teams = teams_on(device)
    if len(teams) > 1:
        return _SEVERAL
    if teams:
        letter, style = letters[teams[0]]
        return (letter.upper() if device.shares else letter), style
    return _OTHERS if device.health == DeviceHealth.HELD_BY_OTHERS else _FREE
