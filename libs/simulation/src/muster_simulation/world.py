"""Time, chance and the things that processes share."""

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from muster_contracts.streams import DECISIONS, EVENTS, PODS
from muster_ledger.memory_store import MemoryShards
from muster_simulation.log import VirtualLog


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Chances in thousandths, each per occasion."""

    crash_before_commit: int = 0
    crash_after_commit: int = 0
    crash_in_relay: int = 0
    takeover: int = 0
    duplicate: int = 0
    lost_heartbeat: int = 0
    node_down: int = 0
    node_cut_off: int = 0


NO_FAULTS = Faults()


@dataclass(slots=True)
class World:
    """One run. Events at the same moment happen in the order in which they were planned."""

    seed: int
    faults: Faults
    log: VirtualLog
    shards: MemoryShards = field(default_factory=MemoryShards)
    now_ms: int = 1_000_000
    pods: dict[str, tuple[Mapping[str, str], bytes]] = field(
        default_factory=dict[str, tuple[Mapping[str, str], bytes]]
    )
    decisions: dict[str, bytes] = field(default_factory=dict[str, bytes])
    occurred: Counter[str] = field(default_factory=Counter[str])
    pod_listeners: list[Callable[[str, bytes], None]] = field(
        default_factory=list[Callable[[str, bytes], None]]
    )
    heartbeat_listeners: list[Callable[[str, int], None]] = field(
        default_factory=list[Callable[[str, int], None]]
    )
    _events: list[tuple[int, int, Callable[[], None]]] = field(
        default_factory=list[tuple[int, int, Callable[[], None]]]
    )
    _order: "itertools.count[int]" = field(default_factory=itertools.count)
    _chances: dict[str, random.Random] = field(default_factory=dict[str, random.Random])
    _epochs: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def chance(self, stream: str) -> random.Random:
        """The dice of one purpose, so that one more throw here does not shift those elsewhere."""
        dice = self._chances.get(stream)
        if dice is None:
            dice = self._chances[stream] = random.Random(f"{self.seed}/{stream}")  # noqa: S311 - a simulation
        return dice

    def happens(self, stream: str, per_mille: int) -> bool:
        """Whether something that happens so many times in a thousand does now."""
        if not per_mille or self.chance(stream).randrange(1000) >= per_mille:
            return False
        self.occurred[stream] += 1
        return True

    def next_epoch(self) -> int:
        """A fencing token above all before it."""
        return next(self._epochs)

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Plan something."""
        heapq.heappush(self._events, (self.now_ms + max(0, delay_ms), next(self._order), action))

    def run(self, until_ms: int, done: Callable[[], bool] = lambda: False) -> bool:
        """Let time pass until a moment, or until `done`; returns whether it was done."""
        while self._events and self._events[0][0] <= until_ms:
            self.now_ms, _, action = heapq.heappop(self._events)
            action()
            if done():
                return True
        self.now_ms = max(self.now_ms, until_ms)
        return done()

    def publish(self, subject: str, headers: Mapping[str, str], body: bytes) -> None:
        """Put a message where its subject belongs."""
        if EVENTS.holds(subject):
            self.log.append(subject, headers, body, self.now_ms)
        elif PODS.holds(subject):
            self.pods[subject] = (headers, body)
            for listener in self.pod_listeners:
                listener(subject, body)
        elif DECISIONS.holds(subject):
            self.decisions[subject] = body
