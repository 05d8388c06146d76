"""All nodes of one process: takes in what happens, stores it, then acts on it.

One cycle: everything that happened since the last one goes to the nodes' machines, what they
changed and report is committed at once, and only then is anything started or stopped. A crash
between the two is made good at the next start, since what is to be done follows from the records.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import assert_never

from muster_agent import letters
from muster_agent.machine import NodeMachine, PodChanges, RestartRules
from muster_agent.pods import (
    Action,
    Commanded,
    CutOff,
    Happening,
    Run,
    RunBegan,
    RunEnded,
    Save,
    Stop,
    actions,
)
from muster_agent.runtimes import Runtime
from muster_agent.store import AgentStore, CycleRecord, Letter, NodeImage
from muster_contracts.commands import NodeHeartbeat, PodCommand, RunPod
from muster_contracts.events import NodeRegistered
from muster_contracts.observations import DevicesObserved
from muster_domain.nodes import Node

BATCH_MAX = 2048
INBOX_MAX = 20_000
IDLE_WAIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Arrived:
    """A command came from the stream."""

    sequence: int
    command: PodCommand


@dataclass(frozen=True, slots=True)
class Seen:
    """The machine of the node is what it is now."""

    node: Node


@dataclass(frozen=True, slots=True)
class Observed:
    """So busy the devices of the node's pods were."""

    fact: DevicesObserved


@dataclass(frozen=True, slots=True)
class PowerCut:
    """A simulated node loses power. `lose` takes the uid of a pod that is gone with it."""

    lose: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class PowerBack:
    """A simulated node boots."""

    cut_off: CutOff | None


Entry = Arrived | Seen | Observed | PowerCut | PowerBack | Happening


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTerms:
    """What holds for every node. `refusal` says why no pods are run; empty if they are."""

    restarts: RestartRules
    heartbeat_interval_ms: int
    refusal: str = ""


@dataclass(slots=True)
class _Seat:
    """One node as it lives now. While it has no power, commands wait in `mailbox`."""

    machine: NodeMachine
    image: NodeImage
    position: int
    node: Node | None = None
    revision: int = 0
    powered: bool = True
    fresh: bool = True
    mailbox: dict[str, Arrived] = field(default_factory=dict[str, Arrived])


class Host:
    """The nodes of this process and the cycle that serves them."""

    def __init__(
        self,
        store: AgentStore,
        terms: NodeTerms,
        *,
        now_ms: Callable[[], int],
        committed: Callable[[], None],
    ) -> None:
        self._store = store
        self._terms = terms
        self._now_ms = now_ms
        self._committed = committed
        self._seats: dict[str, _Seat] = {}
        self._origins: dict[str, int] = {}
        self._homes: dict[str, str] = {}
        self._demanded: dict[str, tuple[Action, ...]] = {}
        self._inbox: deque[tuple[str, Entry]] = deque()
        self._something = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    def boot(self, name: str, *, origin: int, cut_off: CutOff | None) -> None:
        """Take a node on with what is stored about it. It is reported when it is `Seen`.

        `origin` is the last command before the records began, if they begin now; `cut_off` says
        that the node was silent for too long before.
        """
        self._origins[name] = origin
        self._open(name)
        if cut_off is not None:
            self.offer(name, cut_off)

    def report_again(self) -> None:
        """Say again what every node is: the log forgets."""
        for name, seat in self._seats.items():
            if seat.node is not None:
                self.offer(name, Seen(seat.node))

    def offer(self, node: str, entry: Entry) -> None:
        """Say that something happened on a node."""
        self._inbox.append((node, entry))
        self._something.set()
        if len(self._inbox) >= INBOX_MAX:
            self._room.clear()

    def observe(self, seen: RunBegan | RunEnded) -> None:
        """As `Observe`: something happened to a run."""
        home = self._homes.get(seen.id.pod_uid)
        if home is not None:
            self.offer(home, seen)

    def cut_off(self, happening: CutOff) -> None:
        """No node of this process reaches the bus."""
        for name in self._seats:
            self.offer(name, happening)

    async def room(self) -> None:
        """Wait until the inbox is no longer full."""
        await self._room.wait()

    @property
    def names(self) -> tuple[str, ...]:
        """All nodes, sorted."""
        return tuple(sorted(self._seats))

    @property
    def position(self) -> int:
        """Up to here every node has taken in its commands."""
        return min((seat.position for seat in self._seats.values()), default=0)

    def pods_alive(self) -> tuple[str, ...]:
        """The pods that are not over, on all nodes."""
        return tuple(uid for seat in self._seats.values() for uid in seat.machine.pods)

    def active_pods(self, node: str) -> dict[str, RunPod]:
        """What is not over on a node, by pod uid."""
        return {uid: pod.command for uid, pod in self._seats[node].machine.pods.items()}

    def living(self) -> Iterable[NodeHeartbeat]:
        """A sign of life of every node that has power."""
        for name, seat in self._seats.items():
            if seat.powered and seat.node is not None:
                yield NodeHeartbeat(node=name, incarnation=seat.image.incarnation)

    async def run(self, runtime: Runtime) -> None:
        """Serve until cancelled."""
        while True:
            record, touched = self._take_in(self._now_ms())
            if record is not None:
                await asyncio.to_thread(self._store.commit, record)
                self._committed()
            for name, changes in touched:
                self._act(runtime, name, changes)
            await self._wait()

    def _take_in(self, now_ms: int) -> tuple[CycleRecord | None, list[tuple[str, PodChanges]]]:
        outbox: list[Letter] = []
        positions: dict[str, int] = {}
        for name, entry in self._next_entries():
            self._dispatch(name, entry, now_ms, outbox)
            if isinstance(entry, Arrived):
                positions[name] = self._seats[name].position
        touched: list[tuple[str, PodChanges]] = []
        for name, seat in self._seats.items():
            due_ms = seat.machine.wake_at_ms()
            if seat.powered and due_ms is not None and due_ms <= now_ms:
                seat.machine.tick(now_ms)
            changes = seat.machine.take_changes()
            if seat.powered and (changes or seat.fresh):
                touched.append((name, changes))
        outbox += [
            letters.report(fact, now_ms) for _, changes in touched for fact in changes.reports
        ]
        record = CycleRecord(
            positions=positions,
            pods=tuple((name, pod) for name, changes in touched for pod in changes.pods),
            ended=tuple((name, ended) for name, changes in touched for ended in changes.ended),
            letters=tuple(outbox),
        )
        return (record if record != CycleRecord() else None), touched

    def _next_entries(self) -> Iterable[tuple[str, Entry]]:
        """Entries for one commit. Power comes and goes between commits, never within one."""
        for taken in range(min(BATCH_MAX, len(self._inbox))):
            power = isinstance(self._inbox[0][1], PowerCut | PowerBack)
            if power and taken:
                break
            yield self._inbox.popleft()
            if power:
                break
        if len(self._inbox) < INBOX_MAX // 2:
            self._room.set()

    def _dispatch(self, name: str, entry: Entry, now_ms: int, outbox: list[Letter]) -> None:
        seat = self._seats[name]
        match entry:
            case Arrived():
                self._arrived(seat, entry, now_ms)
            case Seen():
                if seat.powered:
                    outbox.append(self._registration(seat, entry.node, now_ms))
            case Observed():
                incarnation = seat.image.incarnation
                outbox.append(letters.observation(entry.fact, incarnation, now_ms))
            case PowerCut():
                self._cut_power(seat, entry)
            case PowerBack():
                if not seat.powered:
                    self._power_back(name, seat, entry, now_ms, outbox)
            case _:
                if seat.powered:
                    seat.machine.handle(entry, now_ms)

    def _arrived(self, seat: _Seat, entry: Arrived, now_ms: int) -> None:
        if entry.sequence <= seat.position:
            return
        uid = entry.command.pod_uid
        if not seat.powered:
            seat.mailbox[uid] = entry
            return
        seat.position = entry.sequence
        self._homes[uid] = seat.machine.node
        recorded = entry.sequence > seat.image.origin
        seat.machine.handle(Commanded(entry.command, recorded=recorded), now_ms)
        if uid not in seat.machine.pods:
            del self._homes[uid]

    def _registration(self, seat: _Seat, node: Node, now_ms: int) -> Letter:
        seat.node = node
        seat.revision += 1
        fact = NodeRegistered(
            node=node,
            incarnation=seat.image.incarnation,
            heartbeat_interval_ms=self._terms.heartbeat_interval_ms,
            running_pods=tuple(sorted(seat.machine.pods)),
        )
        return letters.registration(fact, seat.revision, now_ms)

    def _cut_power(self, seat: _Seat, entry: PowerCut) -> None:
        seat.powered = False
        for uid in seat.machine.pods:
            entry.lose(uid)
            self._demanded.pop(uid, None)
            self._homes.pop(uid, None)

    def _power_back(
        self, name: str, before: _Seat, entry: PowerBack, now_ms: int, outbox: list[Letter]
    ) -> None:
        seat = self._open(name)
        if before.node is not None:
            outbox.append(self._registration(seat, before.node, now_ms))
        if entry.cut_off is not None:
            seat.machine.handle(entry.cut_off, now_ms)
        for missed in sorted(before.mailbox.values(), key=lambda missed: missed.sequence):
            self._arrived(seat, missed, now_ms)

    def _open(self, name: str) -> _Seat:
        image = self._store.open_node(name, origin=self._origins[name], now_ms=self._now_ms())
        machine = NodeMachine(
            name,
            self._terms.restarts,
            refusal=self._terms.refusal,
            pods=image.pods,
            ended=image.ended,
        )
        seat = _Seat(machine=machine, image=image, position=image.position)
        self._seats[name] = seat
        self._homes.update(dict.fromkeys(machine.pods, name))
        return seat

    def _act(self, runtime: Runtime, name: str, changes: PodChanges) -> None:
        """Do what the stored state of the changed pods demands and was not demanded before."""
        seat = self._seats[name]
        changed = tuple(seat.machine.pods.values()) if seat.fresh else changes.pods
        seat.fresh = False
        for ended in changes.ended:
            uid = ended.report.pod_uid
            self._demanded.pop(uid, None)
            self._homes.pop(uid, None)
            runtime.forget(uid)
        for pod in changed:
            demanded = actions(pod)
            before = self._demanded.get(pod.uid, ())
            self._demanded[pod.uid] = demanded
            for action in demanded:
                if action in before:
                    continue
                match action:
                    case Run(task):
                        runtime.run(task)
                    case Save(task):
                        runtime.checkpoint(task)
                    case Stop(task, kill=kill):
                        runtime.stop(task, kill=kill)
                    case _:
                        assert_never(action)

    async def _wait(self) -> None:
        if self._inbox:
            return
        due_ms = min(
            (
                wake_ms
                for seat in self._seats.values()
                if seat.powered and (wake_ms := seat.machine.wake_at_ms()) is not None
            ),
            default=None,
        )
        wait_s = IDLE_WAIT_S if due_ms is None else max(0, due_ms - self._now_ms()) / 1000
        self._something.clear()
        try:
            async with asyncio.timeout(min(IDLE_WAIT_S, wait_s)):
                await self._something.wait()
        except TimeoutError:
            return
