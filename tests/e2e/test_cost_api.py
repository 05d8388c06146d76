"""The commands of docs/cost-api.md, run against the gateway and accounting over a real bus."""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from pydantic import SecretStr

from muster_accounting.meter import Meter
from muster_accounting.metrics import AccountingMetrics
from muster_accounting.store import SHARD, UsageStore
from muster_contracts.subjects import Service
from muster_gateway.access import token_digest
from muster_gateway.composition import compose
from muster_gateway.http.app import build_api
from muster_gateway.settings import GatewaySettings
from muster_rating.prices import HOUR_MS
from muster_runtime.bus import Bus
from muster_runtime.leases import Leases
from muster_runtime.publisher import Outgoing
from muster_runtime.reader import Received
from muster_runtime.service import Chassis
from muster_runtime.telemetry import Metrics, Tracing
from muster_testing.connection import connected_bus, until
from muster_testing.servers import KillableServer

from .month import Month
from .test_cost_article import JUNE_MS, LABELS, article, declared, models, prices
from .test_cost_tokens import spend_log

pytestmark = pytest.mark.servers

DOCUMENT = Path(__file__).parents[2] / "docs" / "cost-api.md"
NOW_MS = JUNE_MS + 730 * HOUR_MS
"""The first of July, ten in the morning."""
JUNE = "2026-06-01T00:00:00Z,2026-07-01T00:00:00Z"
TOKENS = {
    "finance": {"name": "fina", "role": "viewer", "namespaces": "*"},
    "litellm": {"name": "litellm", "role": "ci", "namespaces": "*"},
    "controller": {"name": "conny", "role": "admin", "namespaces": "*"},
    "tenant": {"name": "marta", "role": "user", "namespaces": ["ns-ia"]},
}


@dataclass(slots=True)
class House:
    """Where the gateway listens."""

    url: str

    async def get(
        self, path: str, caller: str = "finance", **parameters: str
    ) -> tuple[int, dict[str, Any]]:
        headers = {"Authorization": f"Bearer {caller}"}
        async with httpx.AsyncClient(base_url=self.url, headers=headers, timeout=30) as client:
            response = await client.get(path, params=parameters)
        return response.status_code, response.json()

    async def report_tokens(self, rows: list[dict[str, Any]]) -> None:
        """Hand over rows of a spend log."""
        headers = {"Authorization": "Bearer litellm"}
        async with httpx.AsyncClient(base_url=self.url, headers=headers, timeout=30) as client:
            response = await client.post("/v1/usage/tokens", json=rows)
        assert response.status_code == 202, response.text

    async def run(self, command: str) -> str:
        """What a command of the document prints."""
        process = await asyncio.create_subprocess_exec(
            "bash",
            "-c",
            command,
            env={
                **os.environ,
                "MUSTER": self.url,
                "MUSTER_TOKEN": "finance",
                "PROXY_TOKEN": "litellm",
            },
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        said, complaint = await process.communicate()
        assert process.returncode == 0, complaint.decode()
        return said.decode()


def outgoing(received: Received) -> Outgoing:
    return Outgoing(subject=received.subject, body=received.body, headers=received.headers)


@asynccontextmanager
async def metering(bus: Bus, folder: Path) -> AsyncIterator[Meter]:
    month = Month(JUNE_MS, declared())
    month.node("n1", 4, LABELS)
    article(month)
    month.run(730)
    await bus.publish([outgoing(received) for received in month.objects])
    await bus.publish([outgoing(received) for received in month.log.messages])
    store = UsageStore(f"sqlite+aiosqlite:///{folder / 'usage.db'}")
    await store.prepare()
    metrics = Metrics()
    meter = Meter(
        bus=bus,
        store=store,
        prices=prices(),
        terms=models(),
        metrics=AccountingMetrics(metrics.registry),
        chassis_metrics=metrics,
        clock=lambda: NOW_MS,
        lag_max=1000,
    )
    leases = Leases(bus.client, service=Service.ACCOUNTING, instance="one", shards=(SHARD,))
    task = asyncio.create_task(leases.run(meter.own))
    try:
        yield meter
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await store.close()


@asynccontextmanager
async def gateway_on(bus: Bus, nats_url: str) -> AsyncIterator[House]:
    tokens = {token_digest(token): entry for token, entry in TOKENS.items()}
    settings = GatewaySettings(nats_url=nats_url, tokens=SecretStr(json.dumps(tokens)))
    chassis = Chassis(
        settings=settings,
        service=Service.GATEWAY,
        bus=bus,
        metrics=Metrics(),
        tracing=Tracing(settings, Service.GATEWAY),
    )
    gateway = compose(chassis, settings)
    config = uvicorn.Config(build_api(gateway), port=0, log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    try:
        await until(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield House(f"http://127.0.0.1:{port}")
    finally:
        server.should_exit = True
        await serving
        chassis.tracing.shutdown()


@asynccontextmanager
async def open_house(nats_url: str, folder: Path) -> AsyncIterator[House]:
    async with (
        connected_bus(nats_url, Service.ACCOUNTING, fresh=True) as bus,
        connected_bus(nats_url, Service.GATEWAY) as other,
        metering(bus, folder),
        gateway_on(other, nats_url) as house,
    ):
        async with asyncio.timeout(60):
            while True:
                status, body = await house.get("/allocation", window=JUNE, aggregate="team")
                if status == 200 and len(body["data"][0]) == 3 and "provisional" not in body:
                    break
        yield house


@pytest.fixture
async def house(nats: KillableServer, tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(nats.url, tmp_path) as house:
        yield house


def transcript(text: str) -> list[tuple[str, str]]:
    """The commands of a document, each with what it prints."""
    found: list[tuple[str, str]] = []
    for block in text.split("```console\n")[1:]:
        command, _, said = block.partition("```")[0].removeprefix("$ ").partition("\n")
        found.append((command, said))
    return found


async def test_the_document_says_what_the_commands_print(house: House) -> None:
    for tool in ("bash", "curl", "jq"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    commands = transcript(DOCUMENT.read_text(encoding="utf-8"))

    await house.report_tokens(list(spend_log()))
    async with asyncio.timeout(60):
        while not (await house.get("/customCost/total", window=JUNE))[1]["data"]["customCosts"]:
            pass
    assert len(commands) >= 14
    for command, said in commands:
        assert await house.run(command) == said, command


REFUSED: tuple[tuple[str, dict[str, str], str], ...] = (
    ("/allocation", {}, "window"),
    ("/allocation", {"window": "soon"}, "window"),
    ("/allocation", {"window": "7d", "tz": "Mars/Base"}, "tz"),
    ("/allocation", {"window": "7d", "aggregate": "namespce"}, "aggregate"),
    ("/allocation", {"window": "7d", "includeIdle": "yes"}, "includeIdle"),
    ("/allocation", {"window": "7d", "shareIdle": "maybe"}, "shareIdle"),
    ("/allocation", {"window": "7d", "accumulate": "hour"}, "accumulate"),
    ("/allocation", {"window": "7d", "accumulateBy": "quarter"}, "accumulateBy"),
    ("/allocation", {"window": "7d", "accumulateBy": "day"}, "accumulateBy"),
    (
        "/allocation",
        {"window": "7d", "step": "1d", "accumulateBy": "week", "accumulate": "true"},
        "accumulateBy",
    ),
    ("/allocation", {"window": "7d", "step": "0d"}, "step"),
    ("/allocation", {"window": "7d", "resolution": "fine"}, "resolution"),
    ("/allocation", {"window": "7d", "filter": 'namespace="a"'}, "filter"),
    ("/allocation", {"window": "7d", "shareCost": "-1"}, "shareCost"),
    ("/allocation", {"window": "7d", "shareSplit": "fair"}, "shareSplit"),
    ("/allocation", {"window": "7d", "shareLabels": "app"}, "shareLabels"),
    ("/allocation", {"window": "7d", "idle": "true"}, "idle"),
    ("/allocation", {"window": "7d", "shareIdle": "true", "includeIdle": "0"}, "shareIdle"),
    ("/allocation/summary", {"window": "7d", "aggregat": "pod"}, "aggregat"),
    ("/assets", {"window": "7d", "aggregate": "node"}, "aggregate"),
    ("/assets", {}, "window"),
    ("/assets", {"window": "7d", "filter": 'namespace:"ns-ia"'}, "filter"),
    ("/allocation", {"window": "7d", "filter": "(" * 60 + 'pod:"a"' + ")" * 60}, "filter"),
    ("/allocation", {"window": "99999w offset 99999w"}, "window"),
    ("/allocation", {"window": "7d", "shareLabels": "app:"}, "shareLabels"),
    ("/allocation", {"window": "7d", "shareCost": "1e3"}, "shareCost"),
    ("/allNodePricing", {"window": "7d"}, "window"),
)


async def test_what_is_not_understood_is_refused_by_name(house: House) -> None:
    for path, parameters, param in REFUSED:
        status, body = await house.get(path, **parameters)
        told = (status, body["code"], body["status"], body.get("param"))
        assert told == (400, 400, "error", param), f"{path} {parameters}"


async def test_an_asset_has_its_labels_and_is_found_by_them(house: House) -> None:
    for text in ('name:"n1"', 'label[accelerator]:"h100-sxm" + node<~:"n"', 'cluster:"muster"'):
        _, found = await house.get("/assets", window=JUNE, filter=text)
        assert found["data"]["n1"]["labels"] == LABELS
    _, nothing = await house.get("/assets", window=JUNE, filter='name!:"n1"')
    assert nothing["data"] == {}


async def test_all_ways_of_sharing_come_to_the_node(house: House) -> None:
    ways = [
        {"includeIdle": "true"},
        {"shareIdle": "weighted"},
        {"shareIdle": "true", "idleByNode": "true", "shareNamespaces": "ns-ia"},
        {"includeIdle": "true", "shareNamespaces": "ns-ia, ns-datos", "shareSplit": "even"},
        {"shareIdle": "true", "shareLabels": "muster.dev/team:datos", "step": "1d"},
        {"includeIdle": "true", "step": "7d", "accumulate": "true", "aggregate": "pod,node"},
    ]
    for way in ways:
        _, found = await house.get("/allocation", window=JUNE, **{"aggregate": "team", **way})
        total = sum(row["totalCost"] for one in found["data"] for row in one.values())
        assert round(total, 2) == 4032.00, way
    _, found = await house.get(
        "/allocation", window=JUNE, aggregate="team", includeIdle="true", shareCost="730"
    )
    assert round(sum(row["totalCost"] for row in found["data"][0].values()), 2) == 4752.00


async def test_days_are_added_up_by_week(house: House) -> None:
    asked = {"window": JUNE, "aggregate": "team", "step": "1d", "shareIdle": "true"}

    _, weeks = await house.get("/allocation", accumulateBy="week", **asked)
    _, month = await house.get("/allocation", accumulate="true", **asked)

    starts = [next(iter(one.values()))["window"]["start"][:10] for one in weeks["data"]]
    assert starts == ["2026-06-01", "2026-06-08", "2026-06-15", "2026-06-22", "2026-06-29"]
    summed = sum(row["totalCost"] for one in weeks["data"] for row in one.values())
    assert summed == pytest.approx(sum(row["totalCost"] for row in month["data"][0].values()))
    assert round(summed, 2) == 4032.00


async def test_a_tenant_sees_its_own_and_pays_the_same(house: House) -> None:
    asked = {"window": JUNE, "aggregate": "namespace", "shareIdle": "true"}

    _, everybody = await house.get("/allocation/compute", **asked)
    _, alone = await house.get("/allocation/compute", "tenant", **asked)

    assert list(alone["data"][0]) == ["ns-ia"]
    assert alone["data"][0]["ns-ia"] == everybody["data"][0]["ns-ia"]
    assert (await house.get("/assets", "tenant", window="7d"))[0] == 403
    assert (await house.get("/allNodePricing", "tenant"))[0] == 403
    assert (await house.get("/allocation", "nobody", window="7d"))[0] == 401


async def muster_cost(house: House, *words: str) -> list[list[str]]:
    """The lines of `muster cost -o csv`."""
    environment = {**os.environ, "MUSTER_URL": house.url, "MUSTER_TOKEN": "finance"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "muster", "cost", "--from", "2026-06-01", "--to", "2026-07-01",
        "-o", "csv", *words, env=environment, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    return [line.split(",") for line in said.decode().splitlines()]


_SEEN, _UNSEEN = ("EFFICIENCY", "OBSERVED"), ("unknown", "0 %")


async def test_the_command_says_the_same(house: House) -> None:
    owned = await muster_cost(house, "--by", "cluster_queue", "--idle", "owner")
    quota = await muster_cost(house, "--by", "cluster_queue", "--basis", "both")
    left_out = await muster_cost(house, "--by", "team", "--idle", "none")

    assert owned == [
        ["CLUSTER_QUEUE", "GPU-H", "BORROWED", "LOST", "IDLE", "COST", "CURRENCY", *_SEEN],
        ["datos", "1080.00", "0.00", "0.00", "360.00", "2016.00", "EUR", *_UNSEEN],
        ["ia", "432.00", "0.00", "0.00", "288.00", "1008.00", "EUR", *_UNSEEN],
        ["plataforma", "252.00", "0.00", "0.00", "468.00", "1008.00", "EUR", *_UNSEEN],
        ["__total__", "1764.00", "0.00", "0.00", "1116.00", "4032.00", "EUR", *_UNSEEN],
    ]
    assert [line[0] for line in quota[1:]] == ["datos", "ia", "plataforma", "__total__"]
    assert quota[0][4:8] == ["NOMINAL", "LENT", "CHARGED", "COST"]
    assert [line[6:8] for line in quota[1:]] == [
        ["1440.00", "2016.00"],
        ["720.00", "1008.00"],
        ["720.00", "1008.00"],
        ["2880.00", "4032.00"],
    ]
    assert left_out[-1][:2] == ["__total__", "1764.00"]
    assert left_out[-1][4] == "2469.60"


async def test_an_allocation_has_every_field(house: House) -> None:
    _, body = await house.get("/allocation", window=JUNE)

    first = next(iter(body["data"][0].values()))
    assert set(first) >= {
        "name", "properties", "window", "start", "end", "minutes",
        "cpuCores", "cpuCoreRequestAverage", "cpuCoreUsageAverage", "cpuCoreHours", "cpuCost",
        "cpuCostAdjustment", "cpuCostIdle", "cpuEfficiency",
        "gpuCount", "gpuRequestAverage", "gpuUsageAverage", "gpuHours", "gpuCost",
        "gpuCostAdjustment", "gpuCostIdle", "gpuEfficiency", "gpuObservedHours",
        "networkTransferBytes", "networkReceiveBytes", "networkCost", "networkCrossZoneCost",
        "networkCrossRegionCost", "networkInternetCost", "networkCostAdjustment",
        "loadBalancerCost", "loadBalancerCostAdjustment",
        "pvBytes", "pvByteHours", "pvCost", "pvs", "pvCostAdjustment",
        "ramBytes", "ramByteRequestAverage", "ramByteUsageAverage", "ramByteHours", "ramCost",
        "ramCostAdjustment", "ramCostIdle", "ramEfficiency",
        "externalCost", "sharedCost", "totalCost", "totalEfficiency", "lbAllocations",
    }  # fmt: skip
