"""The whole floor in numbers, whether or not its nodes are at hand. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from muster.rendering.cards import cards_in, cards_of_all, of_cards
from muster.rendering.floor import conditions
from muster_contracts.floor import DomainPage
from muster_contracts.queries import NodePage


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The whole floor in numbers: nodes, those that take no pods by why, and cards."""

    nodes: int
    away: Mapping[str, int]
    free: str


def head(page: NodePage, domains: DomainPage) -> Head:
    """The whole floor; of a large one it is not known why nodes take no pods."""
    if not domains.domains:
        return Head(nodes=0, away={}, free="")
    whole = domains.domains[0]
    if len(page.nodes) == whole.nodes:
        away = {found.value: number for found, number in conditions(page.nodes).items()}
        return Head(nodes=whole.nodes, away=away, free=of_cards(*cards_in(page.nodes)))
    missing = whole.nodes - whole.ready
    away = {"not ready": missing} if missing else {}
    return Head(nodes=whole.nodes, away=away, free=of_cards(*cards_of_all(whole)))
