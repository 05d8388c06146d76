"""Accounting over a real bus: one writer, redelivery, restart, questions."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest
from prometheus_client import generate_latest

from muster_accounting.bookkeeper import Bookkeeper
from muster_accounting.facts import Told
from muster_accounting.meter import DRIFT_EVERY_S, RECOUNT_EVERY_S, Meter
from muster_accounting.metrics import AccountingMetrics
from muster_accounting.rebuild import Comparison, compare, rebuild
from muster_accounting.store import SHARD, UsageStore
from muster_accounting.token_answers import TokenTerms
from muster_contracts import codec, subjects
from muster_contracts.queries import CostQuestion, CostReport, PriceList
from muster_contracts.streams import DEAD_LETTERS
from muster_contracts.subjects import Service
from muster_contracts.tokens import TokensReported
from muster_domain.errors import InvalidValue, Transient
from muster_domain.money import MICROS
from muster_domain.teams import TEAM_LABEL
from muster_domain.tokens import TokenUse
from muster_rating.attempts import Attempt
from muster_runtime.bus import Bus
from muster_runtime.leases import Leases
from muster_runtime.publisher import Outgoing
from muster_runtime.reader import Received
from muster_runtime.telemetry import Metrics
from muster_testing.connection import connected_bus, until
from muster_testing.servers import KillableServer

from .homes import Home
from .log import GPU, NO_MODELS, PRICES, Job, Log, clock, three_teams

pytestmark = pytest.mark.servers

COST = subjects.query(Service.ACCOUNTING, "cost")
MONTH = {"by": "team", "start_ms": clock(0), "end_ms": clock(720)}
NOW_MS = clock(10_000)


@pytest.fixture
async def bus(nats: KillableServer) -> AsyncIterator[Bus]:
    async with connected_bus(nats.url, Service.ACCOUNTING, fresh=True) as bus:
        yield bus


@asynccontextmanager
async def metering(
    bus: Bus,
    home: Home,
    instance: str = "one",
    drift_every_s: float = DRIFT_EVERY_S,
    recount_every_s: float = RECOUNT_EVERY_S,
    terms: TokenTerms = NO_MODELS,
) -> AsyncIterator[Meter]:
    """A replica from its start to a clean stop."""
    store = UsageStore(home.url)
    await store.prepare()
    chassis_metrics = Metrics()
    meter = Meter(
        bus=bus,
        store=store,
        prices=PRICES,
        terms=terms,
        metrics=AccountingMetrics(chassis_metrics.registry, [TEAM_LABEL]),
        chassis_metrics=chassis_metrics,
        clock=lambda: NOW_MS,
        lag_max=1000,
        drift_every_s=drift_every_s,
        recount_every_s=recount_every_s,
    )
    leases = Leases(bus.client, service=Service.ACCOUNTING, instance=instance, shards=(SHARD,))
    task = asyncio.create_task(leases.run(meter.own))
    try:
        yield meter
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await store.close()


def outgoing(received: Received) -> Outgoing:
    return Outgoing(subject=received.subject, body=received.body, headers=received.headers)


def again(received: Received, number: int) -> Outgoing:
    """The same message as a relay would send it after the bus has forgotten its id."""
    headers = {**received.headers, "Nats-Msg-Id": f"again-{number}"}
    return Outgoing(subject=received.subject, body=received.body, headers=headers)


async def ask(bus: Bus, question: dict[str, object]) -> CostReport:
    return codec.decode(CostReport, await bus.ask(COST, question))


async def final_report(bus: Bus) -> CostReport:
    """The report once all three teams have ended and everything is read."""
    async with asyncio.timeout(60):
        while True:
            try:
                report = await ask(bus, MONTH)
            except Transient:
                continue
            if len(report.lines) == 3 and not report.provisional:
                assert report.total.cost_micros == 4032 * MICROS
                return report


async def test_the_log_becomes_a_report(bus: Bus, home: Home) -> None:
    log = three_teams()
    async with metering(bus, home) as meter:
        await bus.publish([outgoing(received) for received in log.objects])
        await bus.publish([outgoing(received) for received in log.messages])
        report = await final_report(bus)
        assert {line.key: line.cost_micros for line in (*report.lines, report.idle)} == {
            "datos": 1512 * MICROS,
            "ia": 604_800_000,
            "plataforma": 352_800_000,
            "__idle__": 1_562_400_000,
        }
        assert meter.trouble() == ""
        prices = codec.decode(
            PriceList, await bus.ask(subjects.query(Service.ACCOUNTING, "prices"), {})
        )
        assert [(row.flavor, row.resource, row.hourly, row.currency) for row in prices.rows] == [
            ("h100", GPU, "1.4", "EUR")
        ]
        with pytest.raises(InvalidValue, match="costs are not kept by"):
            await ask(bus, {**MONTH, "by": "colour"})
        with pytest.raises(InvalidValue, match="Field required"):
            await ask(bus, {"by": "team"})


async def test_messages_that_come_twice_and_in_disorder_change_nothing(
    bus: Bus, home: Home
) -> None:
    log = three_teams()
    await bus.publish([outgoing(received) for received in log.objects])
    twice = [again(received, number) for number, received in enumerate(log.messages)]
    await bus.publish([*reversed(twice), *(outgoing(received) for received in log.messages)])
    async with metering(bus, home):
        report = await final_report(bus)
    assert len(report.lines) == 3


async def test_a_restart_goes_on_where_it_stopped(bus: Bus, home: Home) -> None:
    log = three_teams()
    await bus.publish([outgoing(received) for received in log.objects])
    await bus.publish([outgoing(received) for received in log.messages[:5]])
    async with metering(bus, home) as meter:
        await until(lambda: meter._keeper and len(meter._keeper.view.open) == 2)
    await bus.publish([outgoing(received) for received in log.messages[5:]])
    async with metering(bus, home, "two"):
        await final_report(bus)


async def test_the_books_are_rebuilt_from_the_log_alone(bus: Bus, home: Home) -> None:
    """I11, with a quota that changed and whose first version no stream of objects has any more."""
    log = three_teams()
    log.declare_house({"datos": 1, "ia": 2, "plataforma": 1}, at_h=300)
    use = TokenUse(request_id="r-1", at_ms=NOW_MS, model="m", namespace="ns-a", prompt_tokens=5)
    fact = TokensReported(uses=(use,))
    log.say(Service.GATEWAY, fact, subjects.tokens_event("tokens_reported", "ns-a"), NOW_MS)
    async with metering(bus, home) as meter:
        async with asyncio.timeout(60):
            for number, received in enumerate(log.objects, 1):
                await bus.publish([outgoing(received)])
                while len(await meter.store.object_versions()) < number:
                    pass
        await bus.publish([outgoing(received) for received in log.messages])
        await final_report(bus)
        lent = await ask(bus, {**MONTH, "by": "cluster_queue"})
        fresh = UsageStore(home.another().url)
        try:
            await rebuild(bus, fresh)
            found = await compare(meter.store, fresh)
            assert found == Comparison(rows=3 + 1 + 1 + len(log.objects), differences=())
            books = await Bookkeeper.claim(fresh, PRICES, NO_MODELS, meter.metrics, 2, 0)
            question = codec.decode(CostQuestion, json.dumps(MONTH).encode())
            again = await books.report(replace(question, by="cluster_queue"), NOW_MS)
            assert again == lent
            lost = Told(attempts=(Attempt(workload_id="x", number=1),))
            await fresh.apply_facts(2, 10**6, 0, lost)
            assert len((await compare(meter.store, fresh)).differences) == 1
        finally:
            await fresh.close()


async def test_one_replica_writes_and_the_other_takes_over(bus: Bus, home: Home) -> None:
    log = three_teams()
    await bus.publish([outgoing(received) for received in log.objects])
    async with AsyncExitStack() as first:
        one = await first.enter_async_context(metering(bus, home, "one"))
        await until(lambda: one._keeper is not None)
        async with metering(bus, home, "two") as two:
            await bus.publish([outgoing(received) for received in log.messages[:5]])
            await until(lambda: one._keeper and len(one._keeper.view.open) == 2)
            assert two._keeper is None
            assert two.trouble() == ""
            await first.aclose()
            await until(lambda: two._keeper is not None)
            await bus.publish([outgoing(received) for received in log.messages[5:]])
            await final_report(bus)


async def test_a_broken_message_is_buried_and_the_rest_goes_on(bus: Bus, home: Home) -> None:
    log = three_teams()
    await bus.publish([outgoing(received) for received in log.objects])
    broken = Outgoing(subject=log.messages[1].subject, body=b"{", headers={"ce-id": "broken"})
    await bus.publish([broken, *(outgoing(received) for received in log.messages)])
    async with metering(bus, home):
        await final_report(bus)
        letter = await bus.last(DEAD_LETTERS.name, "muster.dlq.accounting.MUSTER_EVENTS")
    assert letter is not None
    assert letter.body == b"{"
    assert letter.headers["Muster-Subject"] == broken.subject


async def test_prices_and_allocations_are_metrics(bus: Bus, home: Home) -> None:
    log = Log()
    log.declare_house({"a": 6})
    log.node("n1", 4)
    log.admit(Job(team="a", gpus=2), 0)
    await bus.publish([outgoing(received) for received in (*log.objects, *log.messages)])
    async with metering(bus, home) as meter:
        await until(lambda: meter._keeper and meter._keeper.view.open)
        await until(
            lambda: meter._keeper and "h100" in {s.flavor for s in meter._keeper.view.spans}
        )
        meter.measure()
        text = generate_latest(meter.chassis_metrics.registry).decode()
    assert "muster_accounting_intervals_open 1.0" in text
    [cost] = [line for line in text.splitlines() if line.startswith("node_gpu_hourly_cost{")]
    assert 'node="n1"' in cost
    assert cost.endswith(" 1.4")
    [held] = [line for line in text.splitlines() if line.startswith("container_gpu_allocation{")]
    assert 'label_team="a"' in held
    assert 'label_muster_dev_team="a"' in held
    assert held.endswith(" 2.0")
    [total] = [line for line in text.splitlines() if line.startswith("node_total_hourly_cost{")]
    assert total.endswith(" 5.6")
    quota = 'muster_accounting_nominal_quota{flavor="h100",resource="nvidia.com/gpu"}'
    usable = quota.replace("nominal_quota", "usable_capacity")
    assert f"{quota} 6.0" in text
    assert f"{usable} 4.0" in text


async def test_tokens_of_this_month_are_compared_with_their_hardware(bus: Bus, home: Home) -> None:
    use = TokenUse(
        request_id="r-1", at_ms=NOW_MS - 1, model="mystery", namespace="ns-a", prompt_tokens=5
    )
    fact = TokensReported(uses=(use,))
    log = Log()
    log.say(Service.GATEWAY, fact, subjects.tokens_event("tokens_reported", "ns-a"), NOW_MS)
    async with metering(bus, home, drift_every_s=0.1) as meter:
        await bus.publish([outgoing(received) for received in log.messages])

        def shown() -> bool:
            text = generate_latest(meter.chassis_metrics.registry).decode()
            return "muster_tokens_unpriced 1.0" in text

        await until(shown)
