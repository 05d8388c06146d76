"""One budget, three partitions, and a log that delivers late, twice and out of order.

Checked after every step: what all partitions together have spent and hold never exceeds the limit.
"""

from dataclasses import dataclass

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from muster_contracts.partitions import PARTITIONS, home_of
from muster_domain.states import Admitted, Evicting, Pending, Reserved
from muster_runtime.machine import Changes
from muster_runtime.reader import Received

from .house import House
from .test_budgets import DAY, HERE, HOUR_MS, MORNING_MS, budget, declared, euros, job

LIMIT = euros(9)
STEP_MS = 5 * 60_000
ACCOUNT = f"{HERE}/{DAY.id}"
SHARDS = (home_of(HERE), *[name for name in PARTITIONS if name != home_of(HERE)][:2])


@dataclass(frozen=True)
class Letter:
    to: str
    received: Received


class Budgets(RuleBasedStateMachine):
    """Jobs come and go in each partition; letters are delivered as chance has it."""

    @initialize()
    def open(self) -> None:
        terms = declared(budget(LIMIT))
        self.houses = {name: House(terms, now_ms=MORNING_MS, partition=name) for name in SHARDS}
        self.letters: list[Letter] = []
        self.jobs = 0

    def settle(self, name: str) -> None:
        house = self.houses[name]
        for _ in range(3):
            self.post(house.cycle())

    def post(self, changes: Changes) -> None:
        for message in changes.outbox:
            _, _, place = message.subject.partition(".budget.")
            to = place.partition(".")[0]
            if to in self.houses:
                received = Received(
                    sequence=1,
                    subject=message.subject,
                    headers=dict(message.headers),
                    body=message.body,
                    published_ms=0,
                )
                self.letters.append(Letter(to, received))

    def of_state(self, *kinds: type) -> list[tuple[str, str]]:
        return [
            (name, identity)
            for name in SHARDS
            for identity, record in sorted(self.houses[name].machine.book.records.items())
            if isinstance(record.state, kinds)
        ]

    @rule(shard=st.sampled_from(SHARDS), gpus=st.integers(1, 3))
    def submit(self, shard: str, gpus: int) -> None:
        self.jobs += 1
        asked = job(f"w{self.jobs}", gpus=gpus)
        self.post(self.houses[shard].submit(asked))
        self.settle(shard)

    @precondition(lambda self: self.letters)
    @rule(chance=st.integers(0, 1000), again=st.booleans())
    def deliver(self, chance: int, again: bool) -> None:  # noqa: FBT001 - drawn by name
        place = chance % len(self.letters)
        letter = self.letters[place] if again else self.letters.pop(place)
        house = self.houses[letter.to]
        house.machine.ingest(letter.received, house.now_ms)
        self.settle(letter.to)

    @rule(chance=st.integers(0, 1000))
    def place(self, chance: int) -> None:
        there = self.of_state(Reserved)
        if there:
            name, identity = there[chance % len(there)]
            self.post(self.houses[name].place(identity))
            self.settle(name)

    @rule(chance=st.integers(0, 1000))
    def end(self, chance: int) -> None:
        there = self.of_state(Reserved, Admitted)
        if there:
            name, identity = there[chance % len(there)]
            self.post(self.houses[name].cancel(identity))
            self.post(self.houses[name].release(identity))
            self.settle(name)

    @rule(shard=st.sampled_from(SHARDS))
    def crash(self, shard: str) -> None:
        self.houses[shard].restart()
        self.settle(shard)

    @rule()
    def pass_time(self) -> None:
        for name, house in self.houses.items():
            for record in list(house.machine.book.records.values()):
                state = record.state
                if isinstance(state, Admitted):
                    if house.now_ms + STEP_MS > state.admitted_at_ms + HOUR_MS:
                        self.post(house.finish(record.workload.id))
                elif isinstance(state, Evicting):
                    self.post(house.release(record.workload.id))
            self.post(house.cycle(STEP_MS))
            self.settle(name)

    @invariant()
    def never_past_the_limit(self) -> None:
        used = 0
        for house in getattr(self, "houses", {}).values():
            book = house.machine.book.budgets
            kept = book.accounts.get(ACCOUNT)
            used += kept.settled_micros if kept is not None else 0
            used += sum(hold.amounts_micros.get(ACCOUNT, 0) for hold in book.holds.values())
        assert used <= LIMIT

    def teardown(self) -> None:
        """Once everything is delivered, nobody waits whom the budget has room for."""
        if not hasattr(self, "houses"):
            return
        for _ in range(200):
            if not self.letters:
                break
            letter = self.letters.pop(0)
            house = self.houses[letter.to]
            house.machine.ingest(letter.received, house.now_ms)
            self.settle(letter.to)
        assert not self.letters
        used = 0
        for house in self.houses.values():
            book = house.machine.book.budgets
            kept = book.accounts.get(ACCOUNT)
            used += kept.settled_micros if kept is not None else 0
            used += sum(hold.amounts_micros.get(ACCOUNT, 0) for hold in book.holds.values())
        for name, identity in self.of_state(Pending):
            workload = self.houses[name].machine.book.records[identity].workload
            assert used + euros(2) * workload.total_requests["nvidia.com/gpu"] // 1000 > LIMIT


TestBudgets = Budgets.TestCase
TestBudgets.settings = settings(
    max_examples=12,
    stateful_step_count=25,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
