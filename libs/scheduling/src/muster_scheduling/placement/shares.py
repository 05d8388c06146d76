"""Parts of a card: what Volcano's users ask for, and whether a card has room for it.

A pod that asks for `volcano.sh/vgpu-number` gets that many different cards and shares each of them:
`vgpu-cores` percent of its processors, and of its memory `vgpu-memory` MiB or
`vgpu-memory-percentage`, or all of it when it names neither. `volcano.sh/gpu-memory` is a part of
one card's memory, `volcano.sh/gpu-number` whole cards. Cards are the devices of `nvidia.com/gpu`; a
shared card is not given out whole, and the other way round. One container of a pod asks for shares:
requests are kept by pod, so those of several would add up as if one card had to hold them.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from muster_domain.quantity import Resources

GPU = "nvidia.com/gpu"
VGPU_NUMBER = "volcano.sh/vgpu-number"
VGPU_CORES = "volcano.sh/vgpu-cores"
VGPU_MEMORY = "volcano.sh/vgpu-memory"
VGPU_MEMORY_PERCENTAGE = "volcano.sh/vgpu-memory-percentage"
GPU_MEMORY = "volcano.sh/gpu-memory"
GPU_NUMBER = "volcano.sh/gpu-number"
SHARE_RESOURCES = frozenset(
    {VGPU_NUMBER, VGPU_CORES, VGPU_MEMORY, VGPU_MEMORY_PERCENTAGE, GPU_MEMORY, GPU_NUMBER}
)

WHOLE = 1000
"""Thousandths of a card."""

PODS_ON_A_CARD_MAX = 10
"""How many pods share one card, as in HAMi and Volcano."""

_MIB = 2**20
_PERCENT = 10
_NO_LIMIT = 2**31

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A part of each of `cards` different cards.

    `memory_bytes`, or `memory_milli` thousandths of the card's memory where that is 0.
    """

    cards: int = 1
    cores_milli: int = 0
    memory_bytes: int = 0
    memory_milli: int = 0

    def memory_on(self, card_memory: Numbers | int) -> Numbers:
        """What it takes of a card with so much memory, rounded up."""
        if self.memory_bytes:
            return np.full_like(card_memory, self.memory_bytes)
        return -(-np.asarray(card_memory) * self.memory_milli // WHOLE)

    def milli_of(self, card_memory: int) -> int:
        """The larger of its parts of such a card, at most all of it."""
        memory = self.memory_milli
        if self.memory_bytes:
            memory = -(-self.memory_bytes * WHOLE // max(1, card_memory))
        return min(WHOLE, max(self.cores_milli, memory))


@dataclass(frozen=True, slots=True)
class Cards:
    """Cards as vectors of one shape: all memory, free memory, cores and pods that are given out.

    Memory is in bytes; a card that does not say how much it has counts as one of 1000 units, of
    which only percentages can be given out. A card that takes no pods has as many as it can.
    """

    memory: Numbers
    free_memory: Numbers
    cores_milli: Numbers
    pods: Numbers

    @classmethod
    def none(cls, *shape: int) -> "Cards":
        """No cards at all these places."""
        nothing = np.zeros(shape, np.int64)
        pods = np.full(shape, PODS_ON_A_CARD_MAX, np.int64)
        return cls(np.full(shape, WHOLE, np.int64), nothing, nothing.copy(), pods)

    def at(self, rows: Numbers | int) -> "Cards":
        """A copy of some rows."""
        places = (self.memory, self.free_memory, self.cores_milli, self.pods)
        return Cards(*(np.array(column[rows]) for column in places))

    @property
    def left_milli(self) -> Numbers:
        """The part of each card that is free, by cores or memory, whichever is less."""
        memory = self.free_memory * WHOLE // self.memory
        left = np.minimum(WHOLE - self.cores_milli, memory)
        return np.where(self.pods < PODS_ON_A_CARD_MAX, left, 0)

    def give(self, place: tuple[int, ...] | int, share: Share) -> None:
        """Give a share of one card to one pod."""
        self.free_memory[place] -= share.memory_on(int(self.memory[place]))
        self.cores_milli[place] += share.cores_milli
        self.pods[place] += 1

    def room(self, share: Share) -> Numbers:
        """How many pods with such a share each card takes."""
        memory = share.memory_on(self.memory)
        room = np.minimum(PODS_ON_A_CARD_MAX - self.pods, _NO_LIMIT)
        asked = memory > 0
        np.minimum(room, self.free_memory // np.maximum(memory, 1), out=room, where=asked)
        if share.cores_milli:
            np.minimum(room, (WHOLE - self.cores_milli) // share.cores_milli, out=room)
        else:
            room[self.cores_milli >= WHOLE] = 0
        if share.cores_milli >= WHOLE:
            room[self.pods > 0] = 0
        return np.maximum(room, 0, out=room)


def share_of(requests: Resources) -> Share | None:
    """The share that a pod asks for in milli-units, if any."""
    number = requests.get(VGPU_NUMBER, 0) // 1000
    if number:
        memory_bytes = requests.get(VGPU_MEMORY, 0) // 1000 * _MIB
        percentage = requests.get(VGPU_MEMORY_PERCENTAGE, 0) // 1000 or 100
        return Share(
            cards=number,
            cores_milli=min(WHOLE, requests.get(VGPU_CORES, 0) // 1000 * _PERCENT),
            memory_bytes=memory_bytes,
            memory_milli=0 if memory_bytes else min(WHOLE, percentage * _PERCENT),
        )
    whole = requests.get(GPU_NUMBER, 0) // 1000
    if whole:
        return Share(cards=whole, cores_milli=WHOLE, memory_milli=WHOLE)
    memory = requests.get(GPU_MEMORY, 0) // 1000
    return Share(memory_bytes=memory * _MIB) if memory else None


def pods_sharing(cards: Cards, share: Share) -> Numbers:
    """How many pods with such a share fit on the cards of each row.

    So many pods that each has its `cards` different ones: `k` pods fit if and only if the rooms,
    none counted above `k`, add up to `cards * k`.
    """
    room = cards.room(share)
    most = room.sum(axis=1)
    if share.cards == 1:
        return most
    pods = most // share.cards
    while True:
        fewer = np.minimum(room, pods[:, None]).sum(axis=1) // share.cards
        if (fewer >= pods).all():
            return pods
        pods = np.minimum(pods, fewer)
