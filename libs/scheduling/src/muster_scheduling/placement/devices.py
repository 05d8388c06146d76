"""Which devices of a node a pod gets, by index."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from muster_domain.nodes import Device
from muster_scheduling.placement.shares import Cards, Numbers, Share


def pick_devices(free: Sequence[Device], count: int) -> tuple[int, ...]:
    """Indices of `count` of the free devices, as near to each other as the node allows.

    All from one NUMA node if one can: the one with the fewest free that suffice, so that whole
    NUMA nodes stay free. Otherwise from the NUMA nodes with the most free, so that few are
    involved. Within a NUMA node the lowest indices first, of replicas of one card a second one only
    when every other card has given one. `count` must not exceed `len(free)`.
    """
    by_numa: dict[int, list[tuple[int, int]]] = {}
    given: Counter[str] = Counter()
    for device in sorted(free, key=lambda device: device.index):
        by_numa.setdefault(device.numa_node, []).append((given[device.pci_bus], device.index))
        given[device.pci_bus] += bool(device.pci_bus)
    enough = [(len(found), numa) for numa, found in by_numa.items() if len(found) >= count]
    if enough:
        return tuple(sorted(index for _, index in sorted(by_numa[min(enough)[1]])[:count]))
    taken: list[int] = []
    for _, numa in sorted((-len(found), numa) for numa, found in by_numa.items()):
        taken += [index for _, index in sorted(by_numa[numa])[: count - len(taken)]]
    return tuple(sorted(taken))


def pick_cards(cards: Cards, share: Share, loss: Numbers) -> tuple[int, ...]:
    """Positions of the cards of one node that a pod shares, and gives it its share of them.

    One card: the one with room where the loss is least. Several: those with most room, so that as
    many pods as fit in number fit in fact; equal ones by loss. Ties go to the lowest position.
    """
    room = cards.room(share)
    rank = loss if share.cards == 1 else np.zeros_like(room)
    order = np.lexsort((loss, -room if share.cards > 1 else rank, room == 0))
    chosen = sorted(int(position) for position in order[: share.cards])
    for position in chosen:
        cards.give(position, share)
    return tuple(chosen)
