"""A fact that comes after its month was closed: the statement stays, the next one puts it right.

Facts go over a real bus, months are closed and read with the commands that finance uses.
"""

import asyncio
import csv
import io
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from muster_accounting.meter import Meter
from muster_accounting.metrics import AccountingMetrics
from muster_accounting.store import SHARD, UsageStore
from muster_contracts.subjects import Service
from muster_rating.prices import HOUR_MS
from muster_runtime.bus import Bus
from muster_runtime.leases import Leases
from muster_runtime.reader import Received
from muster_runtime.telemetry import Metrics
from muster_testing.connection import connected_bus
from muster_testing.servers import KillableServer

from .month import Month
from .test_cost_api import House, gateway_on, outgoing
from .test_cost_article import JUNE_MS, LABELS, article, declared, job, models, prices

pytestmark = pytest.mark.servers

LATE = "forgotten"
JULY_2, AUGUST_2 = 30 * 24 + 25, 61 * 24 + 25
"""Hours after the first of June at which June and July can be closed."""


@dataclass(slots=True)
class Books:
    """Accounting on a bus, with a clock that the test sets."""

    bus: Bus
    house: House
    hour: int = JULY_2
    facts: list[Received] = field(default_factory=list[Received])

    def now_ms(self) -> int:
        return JUNE_MS + self.hour * HOUR_MS

    async def tell(self, *, late: bool) -> None:
        """Publish the facts about the late job, or all others."""
        chosen = [fact for fact in self.facts if (f"ns-ia-{LATE}" in fact.subject) is late]
        assert chosen
        await self.bus.publish([outgoing(fact) for fact in chosen])

    async def muster(self, *words: str) -> str:
        """What a command prints."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "muster", *words),
            env={**os.environ, "MUSTER_URL": self.house.url, "MUSTER_TOKEN": "controller"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        said, complaint = await process.communicate()
        assert process.returncode == 0, complaint.decode()
        return said.decode()

    async def statement(self, month: str) -> dict[str, tuple[int, int]]:
        """Of each team the cents that it owes, and those that put earlier months right."""
        _, told = await self.house.get(f"/v1/cost/statements/{month}", by="team")
        assert sum(row["cents"] for row in told["rows"]) == told["total_cents"]
        return {row["key"]: (row["cents"], row.get("correction_cents", 0)) for row in told["rows"]}

    async def until_june_costs(self, *, ia: int, idle: int) -> None:
        """Wait until a report on June says so, in cents."""
        june = {"from": "2026-06-01", "to": "2026-07-01"}
        async with asyncio.timeout(60):
            while True:
                _, told = await self.house.get("/v1/cost", by="team", **june)
                costs = {row["key"]: row["cost_micros"] for row in told.get("lines", ())}
                found = costs.get("ia"), told.get("idle", {}).get("cost_micros")
                if found == (ia * 10_000, idle * 10_000):
                    return


@asynccontextmanager
async def opened(nats_url: str, folder: Path) -> AsyncIterator[Books]:
    month = Month(JUNE_MS, declared())
    month.node("n1", 4, LABELS)
    article(month)
    month.submit(job("ia", LATE, 1, 10), "ia", 600)
    month.run(730)
    store = UsageStore(f"sqlite+aiosqlite:///{folder / 'usage.db'}")
    await store.prepare()
    metrics = Metrics()
    async with (
        connected_bus(nats_url, Service.ACCOUNTING, fresh=True) as bus,
        connected_bus(nats_url, Service.GATEWAY) as other,
        gateway_on(other, nats_url) as house,
    ):
        books = Books(bus, house, facts=month.log.messages)
        await bus.publish([outgoing(received) for received in month.objects])
        meter = Meter(
            bus=bus,
            store=store,
            prices=prices(),
            terms=models(),
            metrics=AccountingMetrics(metrics.registry),
            chassis_metrics=metrics,
            clock=books.now_ms,
            lag_max=1000,
        )
        leases = Leases(bus.client, service=Service.ACCOUNTING, instance="one", shards=(SHARD,))
        task = asyncio.create_task(leases.run(meter.own))
        try:
            yield books
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await store.close()


async def test_what_comes_after_the_close_is_a_correction_of_the_next_month(
    nats: KillableServer, tmp_path: Path
) -> None:
    async with opened(nats.url, tmp_path) as books:
        await books.tell(late=False)
        await books.until_june_costs(ia=60480, idle=156240)
        await books.muster("close-month", "2026-06")
        june = await books.statement("2026-06")
        await books.tell(late=True)
        await books.until_june_costs(ia=61880, idle=154840)

        assert await books.statement("2026-06") == june
        assert june["ia"] == (60480, 0)
        books.hour = AUGUST_2
        assert (await books.statement("2026-07"))["ia"] == (1400, 1400)
        await books.muster("close-month", "2026-07")
        july = await books.statement("2026-07")
        assert july == {"ia": (1400, 1400), "__idle__": (416640 - 1400, -1400)}
        june_now = await books.muster(
            "cost", "--by", "team", "--from", "2026-06-01", "--to", "2026-07-01", "-o", "csv"
        )
        table = await books.muster("statement", "2026-07")
        lines = await books.muster("statement", "2026-07", "-o", "csv")
        focus = await books.muster("statement", "2026-07", "-o", "focus")

    assert ["ia", "10.00", "0.00", "0.00", "14.00", "14.00"] in [
        line.split() for line in table.splitlines()
    ]
    costs = {row["TEAM"]: row["COST"] for row in csv.DictReader(io.StringIO(june_now))}
    assert (costs["ia"], costs["__idle__"], costs["__total__"]) == ("618.80", "1548.40", "4032.00")
    corrections = [row for row in csv.DictReader(io.StringIO(lines)) if row["corrects"]]
    assert {row["corrects"] for row in corrections} == {"2026-06@UTC"}
    assert sum(int(row["micros"]) for row in corrections) == 0
    rows = [row for row in csv.DictReader(io.StringIO(focus)) if row["ChargeClass"]]
    assert {row["ChargeClass"] for row in rows} == {"Correction"}
    assert {row["BillingPeriodStart"] for row in rows} == {"2026-07-01T00:00:00Z"}
    of_job = [row for row in rows if row["ResourceName"] == LATE]
    assert [(row["BilledCost"], row["ChargePeriodStart"]) for row in of_job] == [
        ("14.000000", "2026-06-26T00:00:00Z")
    ]
