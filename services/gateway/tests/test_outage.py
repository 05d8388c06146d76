"""The bus goes away and comes back; what was said in between is said once."""

import asyncio
from pathlib import Path

import httpx
import pytest

from muster_contracts import subjects
from muster_contracts.subjects import JobVerb
from muster_domain.errors import Transient
from muster_runtime.publisher import Outgoing
from muster_testing.connection import until
from muster_testing.servers import NatsServer

from .house import House, job_manifest, open_house

pytestmark = pytest.mark.servers


async def submit(house: House, key: str) -> httpx.Response:
    async with house.client() as client:
        return await client.post(
            "/v1/jobs", json=job_manifest(key), headers={"Idempotency-Key": key}
        )


async def published(house: House, name: str) -> None:
    message = Outgoing(
        subject=subjects.job("team-a", JobVerb.SUBMIT),
        body=httpx.Request("POST", "http://x", json=job_manifest(name)).content,
        headers={"Nats-Msg-Id": name},
    )
    async with asyncio.timeout(60):
        while True:
            try:
                await house.bus.publish([message])
            except Transient:
                continue
            return


async def test_both_doors_open_again_after_the_bus_was_killed(tmp_path: Path) -> None:
    with NatsServer(tmp_path) as server:
        async with open_house(server.url) as house:
            await house.apply()
            assert (await submit(house, "before")).status_code == 202
            await house.seen(1)
            server.kill()
            await until(lambda: not house.gateway.bus.client.is_connected)
            assert house.chassis.troubles()["bus"]
            answer = await submit(house, "between")
            assert answer.status_code == 503
            assert answer.headers["retry-after"]
            server.restart()
            await until(lambda: house.gateway.bus.client.is_connected, 60)
            answer = await submit(house, "between")
            assert answer.status_code == 202, answer.text
            await published(house, "by-bus")
            await house.seen(3)
            assert len(house.admission.events) == 3
            await until(lambda: not house.chassis.troubles(), 60)
