"""An owner of the ledger lives through moves, commits, lost answers, crashes and rivals.

One machine, run over the memory store and over a real server. Beside it stands an oracle, written
apart from the ledger: one row per hold and no sums. What is committed is compared after every step.
"""

import asyncio
import copy
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from muster_ledger.holds import Balance, BalanceKey, hold_id
from muster_ledger.memory_store import Fault, MemoryStore
from muster_ledger.model import Ledger, Result
from muster_ledger.redis_store import RedisStore
from muster_ledger.store import (
    OUTBOX_START,
    Commit,
    Committed,
    FencedOff,
    Image,
    OutboxMessage,
    StaleVersion,
    Store,
)
from muster_ledger.verify import Charge, verify

T = TypeVar("T")
_shards = count()

# Few ids, queues and sizes, so that they meet; one size that a double cannot hold.
ids = st.builds(hold_id, st.sampled_from(["wl-a", "wl/b", "wl%c"]), st.integers(1, 2))
queues = st.sampled_from(["red", "blue/green"])
quotas = st.sampled_from([("spot", "cpu"), ("spot", "nvidia.com/gpu"), ("on-demand", "cpu")])
amounts = st.dictionaries(quotas, st.sampled_from([0, 1, 2, 2**60 + 1]), max_size=2)


@dataclass
class Row:
    """One hold as the oracle sees it. `phase` is a word, `held` counts while it is live."""

    queue: str
    asked: Counter[tuple[str, str]]
    held: Counter[tuple[str, str]]
    phase: str
    until_ms: int | None


@dataclass
class Oracle:
    """What must be so, in the plainest words."""

    rows: dict[str, Row] = field(default_factory=dict[str, Row])

    def reserve(
        self, identity: str, queue: str, asked: Counter[tuple[str, str]], until_ms: int | None
    ) -> str:
        row = self.rows.get(identity)
        if row is None:
            self.rows[identity] = Row(queue, asked, Counter(asked), "pending", until_ms)
            return "created"
        if row.phase not in ("pending", "posted"):
            return f"already_{row.phase}"
        if row.queue != queue:
            return "exists_with_different_queue"
        return "exists" if row.asked == asked else "exists_with_different_amount"

    def move(self, identity: str, source: str, target: str) -> str:
        row = self.rows.get(identity)
        if row is None:
            return "not_found"
        if row.phase == source:
            row.phase = target
            return target
        return "not_posted" if row.phase == "pending" else f"already_{row.phase}"

    def shrink(self, identity: str, held: Counter[tuple[str, str]]) -> str:
        row = self.rows.get(identity)
        if row is None:
            return "not_found"
        if row.phase not in ("pending", "posted"):
            return f"already_{row.phase}"
        if not held <= row.held:
            return "amount_not_smaller"
        if held == row.held:
            return "exists"
        row.held = Counter(held)
        return "shrunk"

    def expire(self, now_ms: int) -> list[str]:
        due = [
            (row.until_ms, identity)
            for identity, row in self.rows.items()
            if row.phase == "pending" and row.until_ms is not None and row.until_ms <= now_ms
        ]
        for _, identity in due:
            self.rows[identity].phase = "expired"
        return [identity for _, identity in sorted(due)]

    def live(self) -> dict[str, Row]:
        return {k: row for k, row in self.rows.items() if row.phase in ("pending", "posted")}

    def balances(self) -> dict[BalanceKey, Balance]:
        reserved: Counter[BalanceKey] = Counter()
        used: Counter[BalanceKey] = Counter()
        for row in self.live().values():
            sums = reserved if row.phase == "pending" else used
            for (flavor, resource), milli in row.held.items():
                sums[BalanceKey(row.queue, flavor, resource)] += milli
        keys = [key for key in {**reserved, **used} if reserved[key] or used[key]]
        return {key: Balance(reserved[key], used[key]) for key in keys}

    def phases(self) -> dict[str, str]:
        return {identity: row.phase for identity, row in self.rows.items()}


@dataclass
class World:
    """What an owner decided since it started: its ledger, the oracle, what it will publish."""

    oracle: Oracle
    sent: list[str]

    def copy(self) -> "World":
        return copy.deepcopy(self)


class OwnerMachine(RuleBasedStateMachine):
    """`make_store` says over which store; hypothesis chooses the steps."""

    make_store: Callable[[], Store]

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.store = self.make_store()
        self.shard = f"stateful-{next(_shards)}"
        self.now_ms = 0
        self.epoch = 0
        self.version = 0
        self.decided = World(Oracle(), [])
        self.durable = World(Oracle(), [])
        self.trimmed = 0
        self.last: Commit | None = None
        self.zombie: Commit | None = None

    @initialize()
    def start(self) -> None:
        self.reload()

    def teardown(self) -> None:
        self.run(self.store.close())
        self.runner.close()

    # The moves of the ledger. Each answer is compared with the oracle's.

    @rule(identity=ids, queue=queues, asked=amounts, wait_ms=st.none() | st.integers(0, 30))
    def reserve(
        self, identity: str, queue: str, asked: dict[tuple[str, str], int], wait_ms: int | None
    ) -> None:
        until_ms = None if wait_ms is None else self.now_ms + wait_ms
        result = self.ledger.reserve(identity, queue, asked, until_ms)
        expected = self.decided.oracle.reserve(identity, queue, +Counter(asked), until_ms)
        self.compare(result, expected, identity)

    @rule(identity=ids)
    def post(self, identity: str) -> None:
        result = self.ledger.post(identity)
        self.compare(result, self.decided.oracle.move(identity, "pending", "posted"), identity)

    @rule(identity=ids)
    def void(self, identity: str) -> None:
        result = self.ledger.void(identity, self.now_ms)
        self.compare(result, self.decided.oracle.move(identity, "pending", "voided"), identity)

    @rule(identity=ids)
    def release(self, identity: str) -> None:
        result = self.ledger.release(identity, self.now_ms)
        self.compare(result, self.decided.oracle.move(identity, "posted", "released"), identity)

    @rule(identity=ids, held=amounts)
    def shrink(self, identity: str, held: dict[tuple[str, str], int]) -> None:
        result = self.ledger.shrink(identity, held)
        self.compare(result, self.decided.oracle.shrink(identity, +Counter(held)), identity)

    @rule(elapsed_ms=st.integers(1, 20))
    def tick(self, elapsed_ms: int) -> None:
        self.now_ms += elapsed_ms

    @rule()
    def expire(self) -> None:
        expired = [hold.id for hold in self.ledger.expire(self.now_ms)]
        assert expired == self.decided.oracle.expire(self.now_ms)
        self.decided.sent += [f"{identity} expired" for identity in expired]

    @rule()
    def prune(self) -> None:
        live = self.decided.oracle.live()
        assert self.ledger.prune(before_ms=0, keep_max=0) == (
            len(self.decided.oracle.rows) - len(live)
        )
        self.decided.oracle.rows = live

    # What happens to an owner between two cycles.

    @rule()
    def commit(self) -> None:
        commit = self.prepare()
        assert self.run(self.store.commit(commit)) == Committed(commit.version)
        self.settle(commit)

    @rule(fault=st.sampled_from(Fault))
    def commit_without_answer(self, fault: Fault) -> None:
        """The owner repeats what it sent until it is answered."""
        commit = self.prepare()
        self.send_without_answer(commit, fault)
        assert self.run(self.store.commit(commit)) == Committed(commit.version)
        self.settle(commit)

    @rule(fault=st.sampled_from(Fault))
    def crash_before_the_answer(self, fault: Fault) -> None:
        """Nobody is left to repeat it; the next owner finds it whole or not at all."""
        commit = self.prepare()
        self.send_without_answer(commit, fault)
        if fault is Fault.AFTER:
            self.settle(commit)
        self.zombie = commit
        self.reload()

    @rule()
    def crash(self) -> None:
        self.zombie = self.prepare()
        self.reload()

    @rule()
    def duplicate(self) -> None:
        if self.last is not None:
            answer = self.run(self.store.commit(self.last))
            owned = self.last.epoch == self.epoch
            assert answer == (Committed(self.version) if owned else FencedOff(self.epoch))

    @rule()
    def rival_of_the_past(self) -> None:
        """An owner that was replaced wakes up and goes on."""
        if self.zombie is not None:
            assert self.run(self.store.commit(self.zombie)) == FencedOff(self.epoch)
            assert self.run(self.store.claim(self.shard, self.zombie.epoch)) == FencedOff(
                self.epoch
            )

    @rule(behind=st.integers(1, 3))
    def stale_version(self, behind: int) -> None:
        for expected_version in {max(0, self.version - behind), self.version + behind}:
            if expected_version != self.version:
                wrong = Commit(
                    shard=self.shard,
                    epoch=self.epoch,
                    expected_version=expected_version,
                    watermark=999,
                    puts={"h/intruder#1": b"x"},
                )
                assert self.run(self.store.commit(wrong)) == StaleVersion(self.version)

    @rule()
    def trim(self) -> None:
        entries = self.run(self.store.read_outbox(self.shard, OUTBOX_START, 10_000))
        if entries:
            self.run(self.store.trim_outbox(self.shard, entries[-1].position))
            self.trimmed = len(self.durable.sent)

    # What holds after every step.

    @invariant()
    def decided_ledger_is_the_oracles(self) -> None:
        assert dict(self.ledger.balances()) == self.decided.oracle.balances()
        assert all(min(balance) >= 0 for balance in self.ledger.balances().values())
        held = {hold.id for hold in self.ledger.holds()}
        assert held == set(self.decided.oracle.live())

    @invariant()
    def stored_ledger_is_what_was_committed(self) -> None:
        image = self.run(self.store.load(self.shard))
        assert (image.epoch, image.version) == (self.epoch, self.version)
        assert image.watermark == len(self.durable.sent)
        assert verify(image.fields, charges(self.durable.oracle)) == ()
        assert phases(Ledger.from_fields(image.fields)) == self.durable.oracle.phases()

    @invariant()
    def outbox_is_what_was_committed_once_and_in_order(self) -> None:
        entries = self.run(self.store.read_outbox(self.shard, OUTBOX_START, 10_000))
        waiting = self.durable.sent[self.trimmed :]
        assert [entry.message.body.decode() for entry in entries] == waiting

    # The owner.

    def compare(self, result: Result, expected: str, identity: str) -> None:
        assert result == expected
        if result.changed:
            self.decided.sent.append(f"{identity} {expected}")

    def prepare(self) -> Commit:
        changes = self.ledger.take_changes()
        unsent = self.decided.sent[len(self.durable.sent) :]
        return Commit(
            shard=self.shard,
            epoch=self.epoch,
            expected_version=self.version,
            watermark=len(self.decided.sent),
            puts={name: value for name, value in changes.items() if value is not None},
            deletes=tuple(name for name, value in changes.items() if value is None),
            outbox=tuple(
                OutboxMessage(subject="moves", message_id=f"{n}", body=text.encode())
                for n, text in enumerate(unsent, start=len(self.durable.sent))
            ),
        )

    def settle(self, commit: Commit) -> None:
        self.version = commit.version
        self.durable = self.decided.copy()
        self.last = commit

    def send_without_answer(self, commit: Commit, fault: Fault) -> None:
        """A commit that never arrives, or whose answer never does, whatever the store."""
        if fault is Fault.AFTER:
            assert self.run(self.store.commit(commit)) == Committed(commit.version)

    def reload(self) -> None:
        self.epoch += 3
        image = self.run(self.store.claim(self.shard, self.epoch))
        assert isinstance(image, Image)
        self.ledger = Ledger.from_fields(image.fields)
        self.decided = self.durable.copy()

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(call)


def charges(oracle: Oracle) -> dict[str, Charge]:
    return {k: Charge(row.queue, dict(row.held)) for k, row in oracle.live().items()}


def phases(ledger: Ledger) -> dict[str, str]:
    return {identity: entry.state.value for identity, entry in entries(ledger)}


def entries(ledger: Ledger) -> Iterator[tuple[str, Any]]:
    for workload in ("wl-a", "wl/b", "wl%c"):
        for attempt in (1, 2):
            entry = ledger.get(hold_id(workload, attempt))
            if entry is not None:
                yield entry.id, entry


def test_over_the_memory_store() -> None:
    run_over(MemoryStore, examples=100)


@pytest.mark.servers
def test_over_a_real_server(request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("valkey").url
    run_over(lambda: RedisStore(url), examples=30)


def run_over(make: Callable[[], Store], examples: int) -> None:
    class Machine(OwnerMachine):
        make_store = staticmethod(make)

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
