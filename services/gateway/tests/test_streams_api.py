import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from muster_contracts import codec, subjects
from muster_contracts.commands import PodOutput
from muster_contracts.jobs import Verdict
from muster_gateway import decisions
from muster_testing.connection import until
from muster_testing.servers import KillableServer

from .house import ADMIN, House, job_manifest, open_house

pytestmark = pytest.mark.servers


class Stream:
    def __init__(self, response: httpx.Response) -> None:
        self._lines = response.aiter_lines()

    async def next(self) -> tuple[str, str, Any]:
        """(event, id, data) of the next event that is no comment."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(60):
            async for line in self._lines:
                if not line and "event" in fields:
                    break
                name, _, value = line.partition(": ")
                if name:
                    fields[name] = value
        data = fields.get("data", "")
        return fields["event"], fields.get("id", ""), json.loads(data) if data else None


@asynccontextmanager
async def streaming(
    house: House, path: str, token: str = ADMIN, after: str = ""
) -> AsyncIterator[Stream]:
    headers = {"Last-Event-ID": after} if after else {}
    async with house.client(token) as client, client.stream("GET", path, headers=headers) as got:
        assert got.status_code == 200
        watchers = house.gateway.watchers
        await until(lambda: watchers.count > 0)
        yield Stream(got)


async def live_job(house: House, name: str = "train", namespace: str = "team-a") -> str:
    await house.apply()
    queue = "main" if namespace == "team-a" else "default"
    manifest = job_manifest(name, namespace=namespace, queue=queue)
    async with house.client() as client:
        response = await client.post(
            "/v1/jobs", json=manifest, params={"wait": "decision", "wait_s": 10}
        )
    return response.json()["jobs"][0]["id"]


async def test_a_workload_is_watched_from_its_last_decision_to_its_end(house: House) -> None:
    identity = await live_job(house)
    fact = house.admission.submitted[identity]
    async with streaming(house, f"/v1/watch?workload={identity}") as stream:
        event, _, decision = await stream.next()
        assert (event, decision["decision"]) == ("decision", "queued")
        await house.admission.decide(fact, Verdict.ADMITTED)
        event, sequence, decision = await stream.next()
        assert (event, decision["decision"]) == ("decision", "admitted")
        assert int(sequence) > 0
        await house.admission.decide(fact, Verdict.FINISHED)
        assert (await stream.next())[2]["decision"] == "finished"
        assert (await stream.next())[0] == "end"
    await until(lambda: house.gateway.watchers.count == 0)


async def test_a_broken_stream_is_taken_up_where_it_broke(house: House) -> None:
    identity = await live_job(house)
    fact = house.admission.submitted[identity]
    async with streaming(house, "/v1/watch") as stream:
        await house.admission.decide(fact, Verdict.ADMITTED)
        _, sequence, _ = await stream.next()
    for verdict in (Verdict.EVICTED, Verdict.REQUEUED):
        await house.admission.decide(fact, verdict)
    known = house.gateway.decisions
    await until(lambda: (found := known.find(identity)) and found.verdict == "requeued")
    async with streaming(house, "/v1/watch", after=sequence) as stream:
        assert (await stream.next())[2]["decision"] == "evicted"
        assert (await stream.next())[2]["decision"] == "requeued"


async def test_callers_hear_of_their_namespaces_only(house: House) -> None:
    mine = await live_job(house)
    other = await live_job(house, "other", "team-b")
    async with streaming(house, "/v1/watch", "anna-token") as stream:
        await house.admission.decide(house.admission.submitted[other], Verdict.ADMITTED)
        await house.admission.decide(house.admission.submitted[mine], Verdict.ADMITTED)
        assert (await stream.next())[2]["namespace"] == "team-a"
    async with house.client("anna-token") as client:
        assert (await client.get("/v1/watch?namespace=team-b")).status_code == 403
        assert (await client.get(f"/v1/watch?workload={other}")).status_code == 404


async def test_queues_can_be_watched_by_either_name(house: House) -> None:
    identity = await live_job(house)
    for queue in ("main", "gpus"):
        async with streaming(house, f"/v1/watch?queue={queue}") as stream:
            await house.admission.decide(house.admission.submitted[identity], Verdict.ADMITTED)
            assert (await stream.next())[0] == "decision"


async def test_output_is_passed_on_until_the_job_ends(house: House) -> None:
    identity = await live_job(house)
    output = PodOutput(workload_id=identity, pod_uid="u", rank=0, stream="stdout", text="epoch 1\n")
    async with streaming(house, f"/v1/workloads/{identity}/output") as stream:
        asking = asyncio.create_task(stream.next())
        while not asking.done():
            await house.bus.sample(subjects.pod_output("n1", identity), b"not output")
            await house.bus.sample(subjects.pod_output("n1", identity), codec.encode(output))
            await asyncio.wait([asking], timeout=0.05)
        event, _, data = asking.result()
        assert (event, data["text"]) == ("output", "epoch 1\n")
        await house.admission.decide(house.admission.submitted[identity], Verdict.FINISHED)
        while event == "output":
            event, _, _ = await stream.next()
        assert event == "end"


async def test_streams_are_bounded(nats: KillableServer) -> None:
    async with open_house(nats.url, watchers_max=1) as house, streaming(house, "/v1/watch"):
        async with house.client() as client:
            response = await client.get("/v1/watch")
        assert response.status_code == 503


async def test_a_listener_that_does_not_keep_up_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decisions, "BACKLOG_MAX", 2)
    listener = decisions.Listener(lambda _heard: True)
    heard = decisions.Heard(
        sequence=1,
        id="a",
        namespace="n",
        name="j",
        queue="q",
        cluster_queue="c",
        partition="p00",
        verdict="queued",
    )
    for _ in range(5):
        listener.offer(heard)
    assert listener.lagging
    assert [await listener.next(0) for _ in range(3)] == [heard, heard, None]


async def test_a_stream_id_that_is_no_number_is_refused(house: House) -> None:
    async with house.client() as client:
        response = await client.get("/v1/watch", headers={"Last-Event-ID": "x"})
    assert response.status_code == 422
