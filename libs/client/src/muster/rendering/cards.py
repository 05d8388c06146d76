"""The cards of a node in numbers and words: how many are free, how they are divided. Pure."""

from collections.abc import Iterable

from muster.rendering.words import count, gpus_milli, is_gpu
from muster_contracts.floor import DomainRow
from muster_contracts.queries import DeviceRow, InstanceRow, NodeRow
from muster_domain.mig import MIG_PREFIX
from muster_domain.nodes import DeviceHealth, NodeCondition
from muster_domain.time_slicing import replicas_on

_HEALTHY = str(DeviceHealth.HEALTHY)
_WITHOUT_HOLDER = {
    _HEALTHY: "idle",
    str(DeviceHealth.HELD_BY_OTHERS): "used outside Muster",
}


def cards_on(node: NodeRow) -> list[DeviceRow]:
    """The cards of a node, or the replicas of them, in their order."""
    found = (card for card in node.devices if is_gpu(card.resource))
    return sorted(found, key=lambda card: (card.resource, card.index))


def cards_of(node: NodeRow) -> tuple[int, int]:
    """Cards that are free, and all of them, in milli-units; a divided one by its free slices.

    What a divided card could be is in many resources, of which it can be only some.
    """
    divided = [device for device in node.devices if device.slices]
    if not divided:
        return gpus_milli(node.free_milli), gpus_milli(node.allocatable_milli)
    others = {name for name in node.allocatable_milli if not name.startswith(MIG_PREFIX)}
    free = gpus_milli({name: node.free_milli.get(name, 0) for name in others})
    total = gpus_milli({name: node.allocatable_milli[name] for name in others})
    fixed = [device for device in node.devices if device.resource.startswith(MIG_PREFIX)]
    free += sum(1000 for device in fixed if not device.holder and device.health == _HEALTHY)
    return free + sum(d.left_milli for d in divided), total + 1000 * len(fixed + divided)


def cards_in(nodes: Iterable[NodeRow]) -> tuple[int, int]:
    """Cards of several nodes in milli-units: those free on nodes that take pods, and all."""
    free = total = 0
    for node in nodes:
        here, all_here = cards_of(node)
        free += here if node.condition is NodeCondition.READY else 0
        total += all_here
    return free, total


def cards_of_all(row: DomainRow) -> tuple[int, int]:
    """Cards of a whole domain in milli-units, free and all, without those that are divided."""
    free, total = (
        gpus_milli({name: found for name, found in of.items() if not name.startswith(MIG_PREFIX)})
        for of in (row.free_milli, row.allocatable_milli)
    )
    return free, total


def of_cards(free_milli: int, total_milli: int) -> str:
    """So many of so many cards, parts as decimals: `2.375/4`; a dash where there are none."""
    return f"{count(free_milli)}/{count(total_milli)}" if total_milli else "-"


def geometry(node: NodeRow) -> str:
    """How each divided card is divided: `0: 1g.10gb@6 team/job, 3g.40gb@0 idle, 3 of 8 free`."""
    divided = [f"{card.index}: {geometry_of(card)}" for card in node.devices if card.slices]
    return "; ".join(divided) or "-"


def geometry_of(card: DeviceRow) -> str:
    """The MIG instances of a divided card, with who holds each, and the slices that are free."""
    parts = [f"{one.profile}@{one.start} {holder_of(one)}" for one in card.instances]
    held = sum(one.slices for one in card.instances if one.holder or one.health != _HEALTHY)
    return ", ".join([*parts, f"{card.slices - held} of {card.slices} slices free"])


def holder_of(instance: InstanceRow) -> str:
    """Who holds a MIG instance, or why nobody does."""
    return instance.holder or _WITHOUT_HOLDER.get(instance.health, instance.health)


def parts_of_card(card: DeviceRow) -> str:
    """Who has which part of a card that is shared or divided."""
    if card.slices:
        return geometry_of(card)
    held = [f"{share.holder} {_percent(share.milli)}" for share in card.shares]
    return ", ".join([*held, f"free {_percent(card.left_milli)}"])


def turns_on(node: NodeRow) -> str:
    """That pods take turns on the cards of a node, where they do."""
    turns = replicas_on(node.labels)
    return f"{turns} pods take turns on each card" if turns > 1 else ""


def _percent(milli: int) -> str:
    return f"{milli // 10} %"
