"""The bus client of the `muster` package against the real front door."""

import asyncio

import pytest

from muster.bus import BusClient, Sent, connect
from muster.following import has_ended, is_admitted
from muster_contracts.jobs import Verdict
from muster_domain.conditions import Outcome
from muster_domain.errors import InvalidValue
from muster_testing.connection import until
from muster_testing.servers import KillableServer

from .house import BASE, House, job_manifest

pytestmark = pytest.mark.servers


async def sent_job(house: House, bus: BusClient, name: str = "train") -> Sent:
    await house.apply()
    return await bus.submit("team-a", job_manifest(name), key=f"run-{name}", user="anna")


async def test_a_job_is_sent_and_its_decisions_are_read(house: House, nats: KillableServer) -> None:
    async with connect(nats.url) as bus:
        sent = await sent_job(house, bus)
        await house.seen(1)
        assert list(house.admission.submitted) == [sent.id]
        waiting = asyncio.create_task(bus.wait(sent, until=is_admitted, timeout_s=20))
        fact = house.admission.submitted[sent.id]
        await house.admission.decide(fact, Verdict.ADMITTED)
        assert (await waiting).decision is Verdict.ADMITTED
        late = await bus.wait(sent, until=is_admitted, timeout_s=5)
        assert late.id == sent.id


async def test_one_key_may_send_several_jobs_once_each(house: House, nats: KillableServer) -> None:
    async with connect(nats.url) as bus:
        await house.apply()
        for _ in range(2):
            for name in ("one", "two"):
                await bus.submit("team-a", job_manifest(name), key="run-42")
        await house.seen(2)
        names = sorted(fact.workload.name for fact in house.admission.submitted.values())
        assert names == ["one", "two"]
        assert len(house.admission.events) == 2


async def test_a_refusal_at_the_door_is_found_under_the_id(
    house: House, nats: KillableServer
) -> None:
    async with connect(nats.url) as bus:
        await house.apply()
        sent = await bus.submit("team-a", job_manifest(queue="nope"), key="k")
        decision = await bus.wait(sent, until=has_ended, timeout_s=20)
        assert (decision.outcome, decision.reason) == (Outcome.REFUSED, "NoQueue")


async def test_the_decision_about_an_earlier_job_of_that_name_does_not_count(
    house: House, nats: KillableServer
) -> None:
    async with connect(nats.url) as bus:
        first = await sent_job(house, bus)
        await house.seen(1)
        await house.admission.decide(house.admission.submitted[first.id], Verdict.FINISHED)
        await until(lambda: (found := house.gateway.decisions.find(first.id)) and found.ended)
        house.admission.deciding = False
        second = await bus.submit("team-a", job_manifest(), key="another run")
        await house.seen(2)
        assert await bus.decision(second) is None
        with pytest.raises(TimeoutError):
            await bus.wait(second, until=has_ended, timeout_s=0.3)


async def test_what_one_says_about_a_job_reaches_the_log(
    house: House, nats: KillableServer
) -> None:
    async with connect(nats.url) as bus:
        sent = await sent_job(house, bus)
        await until(lambda: house.gateway.decisions.find(sent.id))
        await bus.heartbeat(sent)
        await bus.checkpoint(sent)
        await bus.finish(sent, succeeded=False, message="exit 1")
        await bus.cancel(sent)
        await until(lambda: len(house.admission.events) == 5)
    names = {subject.split(".")[4] for subject, _ in house.admission.events}
    assert names == {
        "workload_submitted",
        "lease_renewed",
        "checkpoint_reported",
        "finish_reported",
        "cancel_requested",
    }


async def test_a_message_carries_one_job(house: House, nats: KillableServer) -> None:
    async with connect(nats.url) as bus:
        with pytest.raises(InvalidValue):
            await bus.submit("team-a", BASE, key="k")
        assert house.admission.events == []
