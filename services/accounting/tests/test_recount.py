"""Intervals that nobody ended: found against admission, closed by what is recorded, and counted."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from prometheus_client import generate_latest

from muster_accounting.rebuild import compare, rebuild
from muster_accounting.recount import HOLDING, Recount, ended
from muster_accounting.store import UsageStore
from muster_contracts import codec, subjects
from muster_contracts.envelope import MESSAGE_ID
from muster_contracts.partitions import PARTITIONS
from muster_contracts.queries import (
    Phase,
    Query,
    QueueRow,
    QuotaPage,
    WorkloadDetail,
    WorkloadPage,
    WorkloadRow,
)
from muster_contracts.subjects import Service
from muster_domain.conditions import Explanation
from muster_domain.errors import NotFound, Transient
from muster_domain.nodes import NodeCondition
from muster_rating.attempts import Attempt, Opening, Owner, Seat, Seating
from muster_rating.capacity import NodeTurn
from muster_runtime.bus import Bus
from muster_testing.connection import until

from .homes import Home
from .log import Job, Log, clock
from .test_meter import NOW_MS, bus, metering, outgoing

__all__ = ["bus"]
MINE = Job(team="a", gpus=2)
OTHER = Job(team="b", gpus=1)
HOME = PARTITIONS[2]


def row_of(job: Job, phase: Phase, **more: Any) -> WorkloadRow:  # noqa: ANN401 - fields
    workload = job.workload
    return WorkloadRow(
        id=workload.id,
        namespace=workload.namespace,
        name=workload.name,
        kind="Job",
        queue="main",
        cluster_queue=f"cq-{job.team}",
        phase=phase,
        reason="",
        message="",
        priority=0,
        requests_milli={},
        pods=1,
        created_at_ms=0,
        attempt=job.attempt,
        **more,
    )


@dataclass(slots=True)
class Admission:
    """Answers as admission does, from rows; a silent one does not."""

    rows: list[WorkloadRow] = field(default_factory=list[WorkloadRow])
    listed: int = 0

    @asynccontextmanager
    async def answering(self, bus: Bus, *, silent: Sequence[str] = ()) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for partition in PARTITIONS:
                mine = partition == HOME
                for query in (Query.QUOTA, Query.WORKLOADS, Query.WORKLOAD):
                    if partition not in silent:
                        answer = self._answer(query, mine=mine)
                        subject = subjects.query(Service.ADMISSION, query, partition)
                        stack.push_async_callback(await bus.answer(subject, answer))
            yield

    def _answer(self, query: Query, *, mine: bool) -> Any:  # noqa: ANN401 - the bus' own type
        async def answer(question: Mapping[str, Any]) -> bytes:
            held = [row for row in self.rows if mine and row.phase in HOLDING]
            match query:
                case Query.QUOTA:
                    return codec.encode(QuotaPage(queues=_queues(held), rows=()))
                case Query.WORKLOADS:
                    self.listed += 1
                    return codec.encode(WorkloadPage(rows=tuple(held), total=len(held)))
                case _:
                    found = [row for row in self.rows if mine and row.id == question["id"]]
                    if not found:
                        raise NotFound(f"no workload {question['id']}")
                    why = Explanation(reason="", message="")
                    return codec.encode(WorkloadDetail(row=found[0], explanation=why))

        return answer


def _queues(held: Sequence[WorkloadRow]) -> tuple[QueueRow, ...]:
    names = sorted({row.cluster_queue for row in held})
    return tuple(
        QueueRow(
            name=name,
            cohort="",
            strategy="BestEffortFIFO",
            active=True,
            reason="",
            pending=0,
            inadmissible=0,
            reserving=sum(row.cluster_queue == name for row in held),
            admitted=0,
            local_queues=(),
        )
        for name in names
    )


def attempt(number: int = 1, nodes: tuple[str, ...] = ("n1", "n2")) -> Attempt:
    owner = Owner(namespace="ns-a", workload="train", cluster_queue="cq-a")
    seats = tuple(Seat(node=node, pods=1, devices=1, charges=()) for node in nodes)
    return Attempt(
        workload_id=MINE.workload.id,
        number=number,
        opening=Opening(at_ms=100, version=1, owner=owner, charges=()),
        seating=Seating(at_ms=200, version=2, seats=seats),
    )


def turn(node: str, at_ms: int, condition: NodeCondition = NodeCondition.FENCED) -> NodeTurn:
    return NodeTurn(node=node, at_ms=at_ms, id=f"{node}-{at_ms}", condition=condition)


@pytest.mark.parametrize(
    ("row", "turns", "at_ms"),
    [
        (row_of(MINE, Phase.FINISHED, finished_at_ms=700), [turn("n1", 500)], 700),
        (None, [turn("n2", 600), turn("n1", 500), turn("n9", 300)], 500),
        (None, [turn("n1", 150), turn("n1", 800, NodeCondition.SUSPECT)], 999),
        (row_of(replace(MINE, attempt=2), Phase.FINISHED, finished_at_ms=700), [], 999),
        (row_of(MINE, Phase.PENDING), [], 999),
    ],
    ids=["it finished", "a node was fenced", "fenced before it came", "a later one", "requeued"],
)
def test_the_end_is_what_is_recorded(
    row: WorkloadRow | None, turns: list[NodeTurn], at_ms: int
) -> None:
    assert ended(attempt(), row, turns, 999)[0] == at_ms


@pytest.mark.servers
async def test_what_agrees_is_not_looked_at_further(bus: Bus) -> None:
    admission = Admission([row_of(MINE, Phase.RUNNING)])
    async with admission.answering(bus):
        assert await Recount(bus).look([attempt()], [], 999) == (0, [])
    assert admission.listed == 0


@pytest.mark.servers
async def test_only_what_differs_twice_differs(bus: Bus) -> None:
    admission = Admission([row_of(OTHER, Phase.RUNNING)])
    recount = Recount(bus)
    async with admission.answering(bus):
        assert await recount.look([attempt()], [], 999) == (0, [])
        difference, (closing,) = await recount.look([attempt()], [], 999)
        assert difference == 2, "one interval too many, and one too few"
        assert "id-a-train" in closing.subject
        admission.rows = [row_of(MINE, Phase.ADMITTED)]
        assert await recount.look([attempt()], [], 999) == (0, [])


@pytest.mark.servers
async def test_a_workload_that_admission_knows_after_all_stays_open(bus: Bus) -> None:
    admission = Admission([])
    recount = Recount(bus)
    async with admission.answering(bus):
        await recount.look([attempt()], [], 999)
        admission.rows = [row_of(MINE, Phase.RUNNING), row_of(OTHER, Phase.RUNNING)]
        recount.suspects = frozenset({attempt().key})
        _, closing = await recount.look([attempt()], [], 999)
    assert closing == []


@pytest.mark.servers
async def test_a_zombie_is_told_until_it_is_booked_and_counted_once(bus: Bus) -> None:
    recount = Recount(bus)
    async with Admission([]).answering(bus):
        looks = [await recount.look([attempt()], [], now_ms) for now_ms in (999, 1000, 1001)]
    told = [closing[0].headers for _, closing in looks if closing]
    assert [headers[MESSAGE_ID] for headers in told] == [told[0][MESSAGE_ID]] * 2
    assert recount.found == 1


@pytest.mark.servers
async def test_nothing_is_closed_while_a_partition_is_silent(bus: Bus) -> None:
    async with Admission([]).answering(bus, silent=PARTITIONS[-1:]):
        with pytest.raises(Transient):
            await Recount(bus).look([attempt()], [], 999)


@pytest.mark.servers
async def test_a_zombie_is_closed_at_the_end_of_its_nodes_lease_in_any_books(
    bus: Bus, home: Home
) -> None:
    log = Log()
    log.declare_house({"a": 4})
    log.node("n1", 4)
    log.admit(MINE, 10)
    log.condition("n1", NodeCondition.FENCED, 50)
    await bus.publish([outgoing(received) for received in (*log.objects, *log.messages)])
    async with Admission([]).answering(bus), metering(bus, home, recount_every_s=0.1) as meter:

        def shown() -> bool:
            text = generate_latest(meter.chassis_metrics.registry).decode()
            counted = "muster_accounting_zombies_total 1.0" in text
            return counted and "muster_accounting_recount_difference 0.0" in text

        await until(shown)
        (closed,) = await meter.store.all_attempts()
        assert closed.end_ms == clock(50) < NOW_MS
        fresh = UsageStore(home.another().url)
        try:
            await rebuild(bus, fresh)
            assert (await compare(meter.store, fresh)).differences == ()
            assert await fresh.all_attempts() == [closed]
        finally:
            await fresh.close()
