"""A service as a process: ready when all is there, red when it is not, gone when told to go."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from nats.js.errors import BucketNotFoundError

from muster_contracts.streams import LEASES
from muster_runtime.bus import Bus
from muster_runtime.declare import declare
from muster_runtime.embedded import free_ports
from muster_testing.connection import connected_bus
from muster_testing.servers import KillableServer
from muster_testing.waiting import wait_until, wait_until_async

from .counting import COUNTED
from .log import events, everything

pytestmark = pytest.mark.servers

SCRIPT = Path(__file__).parent / "small_service.py"
DEADLINE_S = 90.0


@dataclass
class Running:
    process: subprocess.Popen[bytes]
    url: str
    log: Path

    def get(self, path: str) -> tuple[int, str]:
        try:
            answer = httpx.get(f"{self.url}{path}", timeout=5.0)
        except httpx.TransportError:
            return 0, ""
        return answer.status_code, answer.text

    def wait_status(self, path: str, status: int) -> str:
        def found() -> bool:
            return self.get(path)[0] == status

        wait_until(found, DEADLINE_S, lambda: f"{self.get(path)}\n{self.log.read_text()[-2000:]}")
        return self.get(path)[1]

    def wait_ended(self) -> int:
        return self.process.wait(DEADLINE_S)


@contextmanager
def running(
    mode: str, nats: KillableServer, valkey: KillableServer, folder: Path
) -> Iterator[Running]:
    (port,) = free_ports(1)
    log = folder / f"{mode}.log"
    environment = {
        **os.environ,
        "MUSTER_NATS_URL": nats.url,
        "MUSTER_REDIS_URL": valkey.url,
        "MUSTER_HTTP_PORT": str(port),
        "MUSTER_INSTANCE": f"small-{port}",
    }
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), mode], env=environment, stdout=out, stderr=out
        )
    try:
        yield Running(process, f"http://127.0.0.1:{port}", log)
    finally:
        process.kill()
        process.wait()


@pytest.fixture(autouse=True)
async def fresh(bus: Bus, valkey: KillableServer) -> None:
    del valkey
    jetstream = bus.client.jetstream()
    try:
        await jetstream.delete_key_value(LEASES.name)
    except BucketNotFoundError:
        return
    finally:
        await declare(bus.client)


async def leases_of(url: str) -> list[str]:
    async with connected_bus(url) as bus:
        bucket = await bus.client.jetstream().key_value(LEASES.name)
        watcher = await bucket.watchall()
        found: list[str] = []
        async for entry in watcher:
            if entry is None:
                break
            if entry.operation is None and ".shard." in entry.key:
                found.append(entry.key)
        await watcher.stop()
        return found


async def test_a_service_tells_the_truth_about_itself_until_it_is_told_to_stop(
    nats: KillableServer, valkey: KillableServer, tmp_path: Path
) -> None:
    with running("own", nats, valkey, tmp_path) as service:
        service.wait_status("/healthz", 200)
        service.wait_status("/readyz", 200)
        wait_until(
            lambda: 'muster_log_pending{shard="p01"}' in service.get("/metrics")[1],
            DEADLINE_S,
            lambda: service.get("/metrics")[1],
        )

        nats.kill()
        assert "bus: not connected" in service.wait_status("/readyz", 503)
        assert service.get("/healthz")[0] == 200
        nats.restart()
        service.wait_status("/readyz", 200)

        valkey.kill()
        assert "cycle: no cycle for" in service.wait_status("/readyz", 503)
        assert service.get("/healthz")[0] == 200
        valkey.restart()
        service.wait_status("/readyz", 200)

        async with connected_bus(nats.url) as bus:
            await bus.publish(events("seen", 3))

            async def are_counted() -> bool:
                return len(await everything(bus, f"{COUNTED}.p00.>")) == 3

            await wait_until_async(are_counted, DEADLINE_S, service.log.read_text)

        assert len(await leases_of(nats.url)) == 2
        service.process.send_signal(signal.SIGTERM)
        assert service.wait_ended() == 0
        assert await leases_of(nats.url) == []


def test_a_service_whose_work_fails_ends_with_1(
    nats: KillableServer, valkey: KillableServer, tmp_path: Path
) -> None:
    with running("fail", nats, valkey, tmp_path) as service:
        assert service.wait_ended() == 1
        assert "the work failed" in service.log.read_text()


def test_work_that_does_not_end_is_not_waited_for_for_ever(
    nats: KillableServer, valkey: KillableServer, tmp_path: Path
) -> None:
    with running("linger", nats, valkey, tmp_path) as service:
        service.wait_status("/readyz", 200)
        service.process.send_signal(signal.SIGTERM)
        assert service.wait_ended() == 1
        assert "work does not end" in service.log.read_text()
