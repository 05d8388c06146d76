"""Accounting: facts that the live service books per second, and a report on many intervals.

The service runs as a process on a real NATS server. The intervals of the report are those of one
day, made attempt by attempt, and the same again on each of the other days, shifted by the database;
their rolls are made by the code of the service for the first day, and shifted for the others. One
hour of another day is rolled by that code too and has to be equal to the shifted one. What is timed
is the report itself, as the service answers it.
"""

import asyncio
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import nats
import psutil
from prometheus_client import CollectorRegistry

from muster_accounting.bookkeeper import Bookkeeper
from muster_accounting.metrics import AccountingMetrics
from muster_accounting.roller import DAY_MS, HOURS_AT_ONCE, Roller
from muster_accounting.store import UsageStore
from muster_accounting.token_answers import TokenTerms
from muster_contracts.queries import CostQuestion
from muster_contracts.subjects import Service
from muster_rating.capacity import NodeReport
from muster_rating.model_prices import ModelPrices
from muster_rating.price_lists import read_price_list
from muster_rating.prices import HOUR_MS
from muster_rating.rollups import Roll, merged
from muster_rating.windows import Window
from muster_runtime.bus import Bus
from muster_runtime.declare import declare
from muster_testing.connection import until
from muster_testing.servers import NatsServer

from . import cost_facts

START_MS = 20_000 * DAY_MS
DAYS = 30
NODES = 500
TEAMS = 20
GPU = "nvidia.com/gpu"
REPORTS = 3
DIMENSIONS = ("team", "cluster_queue", "label:project")
DEADLINE_S = 240.0
PRICES = read_price_list({"flavors": {"h100": {GPU: {"hourly": "1.40"}}}}, default_currency="EUR")

Say = Callable[[str], None]
Figures = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostPlan:
    """How much to measure with."""

    jobs: int = 10_000
    intervals: int = 10_000_000


def measure(folder: Path, plan: CostPlan, say: Say) -> Figures:
    """Both figures, one after the other."""
    for name in ("metering", "report"):
        (folder / name).mkdir(parents=True)
    return {
        "metering": asyncio.run(_metering(folder / "metering", plan.jobs, say)),
        "report": asyncio.run(_report(folder / "report", plan.intervals, say)),
    }


async def _metering(folder: Path, jobs: int, say: Say) -> Figures:
    database = folder / "books.db"
    messages = cost_facts.of_jobs(jobs)
    with NatsServer(folder / "nats") as server:
        client = await nats.connect(server.url)
        await declare(client)
        bus = Bus(client, Service.ACCOUNTING)
        last = (await bus.publish(messages))[-1]
        environment = {
            **os.environ,
            "MUSTER_NATS_URL": server.url,
            "MUSTER_ACCOUNTING_URL": f"sqlite+aiosqlite:///{database}",
            "MUSTER_HTTP_PORT": "0",
        }
        with (folder / "log").open("wb") as log:
            service = subprocess.Popen(  # noqa: ASYNC220 - our own words
                [sys.executable, "-m", "muster_accounting"],
                env=environment,
                stdout=log,
                stderr=log,
            )
        try:
            figures = await _watch(service.pid, database, last)
        finally:
            service.terminate()
            service.wait()
        await client.close()
    say(f"  {figures['facts']} facts, {figures['facts_per_second']}/s")
    return figures


async def _watch(pid: int, database: Path, last: int) -> Figures:
    process = psutil.Process(pid)
    await until(lambda: _booked(database), DEADLINE_S)
    first, start, cpu = _booked(database), time.monotonic(), sum(process.cpu_times()[:2])
    await until(lambda: _booked(database) >= last, DEADLINE_S)
    elapsed, spent = time.monotonic() - start, sum(process.cpu_times()[:2]) - cpu
    facts = last - first
    return {
        "facts": facts,
        "facts_per_second": round(facts / elapsed) if elapsed else 0,
        "cpu_us_per_fact": round(spent * 1e6 / facts) if facts else 0,
    }


def _booked(database: Path) -> int:
    if not database.exists():
        return 0
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        try:
            row = connection.execute("SELECT events_sequence FROM progress").fetchone()
        except sqlite3.OperationalError:
            return 0
    return row[0] if row else 0


async def _report(folder: Path, intervals: int, say: Say) -> Figures:
    database = folder / "books.db"
    store = UsageStore(f"sqlite+aiosqlite:///{database}")
    try:
        await store.prepare()
        start = time.monotonic()
        a_day = max(1, intervals // DAYS)
        keeper = await _keeper(store)
        _fill(database, a_day)
        filled_s = time.monotonic() - start
        say(f"  {a_day * DAYS:,} intervals in {filled_s:.0f} s")
        cpu = time.process_time()
        await _roll(keeper)
        rolled_s = time.process_time() - cpu
        say(f"  a day of {a_day:,} rolled in {rolled_s:.1f} CPU s")
        by = {name: await _timed(keeper, name) for name in DIMENSIONS}
    finally:
        await store.close()
    say("  a month's report: " + ", ".join(f"by {name} {ms} ms" for name, ms in by.items()))
    return {
        "intervals": a_day * DAYS,
        "fill_s": round(filled_s, 1),
        "roll_cpu_us_an_interval": round(rolled_s * 1e6 / a_day, 1),
        "report_ms": by,
        "file_mib": round(database.stat().st_size / 2**20),
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


async def _keeper(store: UsageStore) -> Bookkeeper:
    metrics = AccountingMetrics(CollectorRegistry())
    terms = TokenTerms(prices=ModelPrices("EUR"))
    keeper = await Bookkeeper.claim(store, PRICES, terms, metrics, 1, 0)
    await keeper.take_facts(
        [
            NodeReport(
                node=f"n{number}",
                at_ms=START_MS,
                id=f"n{number}",
                allocatable={GPU: 8_000},
                labels={"gpu": "h100"},
                devices=frozenset({GPU}),
            )
            for number in range(NODES)
        ],
        1,
    )
    await keeper.take_objects(cost_facts.objects(START_MS, TEAMS))
    return keeper


def _fill(database: Path, a_day: int) -> None:
    """One day's attempts, and the same on the other days; indices are made when all are there."""
    with sqlite3.connect(database) as connection:
        indices = connection.execute(
            "SELECT name, sql FROM sqlite_master "
            "WHERE type = 'index' AND tbl_name = 'attempts' AND sql IS NOT NULL"
        ).fetchall()
        for name, _ in indices:
            connection.execute(f"DROP INDEX {name}")
        columns = [row[1] for row in connection.execute("PRAGMA table_info(attempts)")]
        marks = ",".join("?" * len(columns))
        connection.execute("PRAGMA synchronous=OFF")
        insert = f"INSERT INTO attempts VALUES ({marks})"  # noqa: S608 - question marks
        connection.executemany(insert, _rows(columns, a_day))
        shifted = [
            f"{name} + :shift" if name.endswith("_ms") else name
            for name in columns
            if name != "workload_id"
        ]
        for day in range(1, DAYS):
            connection.execute(
                f"INSERT INTO attempts SELECT 'd' || :day || workload_id, {', '.join(shifted)} "  # noqa: S608 - columns of our own
                "FROM attempts WHERE rowid <= :first_day",
                {"day": day, "shift": day * DAY_MS, "first_day": a_day},
            )
            connection.commit()
        for _, statement in indices:
            connection.execute(statement)
    connection.close()


def _rows(columns: list[str], a_day: int) -> Iterator[list[object]]:
    """Jobs of one GPU and up to half an hour, over by midnight."""
    random = Random(7)
    for number in range(a_day):
        team = number % TEAMS
        length_ms = random.randint(60_000, 1_800_000)
        opened = START_MS + random.randint(0, DAY_MS - length_ms)
        row = cost_facts.attempt_columns(
            f"w{number}", team, f"n{number % NODES}", opened, opened + length_ms
        )
        yield [row[name] for name in columns]


async def _roll(keeper: Bookkeeper) -> None:
    """Roll the first day, shift it to the others, and compare one hour of another day."""
    roller = Roller(keeper=keeper)
    store = keeper.store
    watch = await store.watch_changes()
    hours = [Window(at, at + HOUR_MS) for at in range(START_MS, START_MS + DAY_MS, HOUR_MS)]
    for start in range(0, len(hours), HOURS_AT_ONCE):
        await roller.measure(hours[start : start + HOURS_AT_ONCE])
    first = await store.rolls(hours)
    day = merged(first, Window(START_MS, START_MS + DAY_MS))
    others = [_shifted(day, number) for number in range(DAYS)]
    await store.add_rolls(keeper.epoch, others, watch)
    late = _shifted(first[12], DAYS - 1)
    if await roller.rolled(late.window) != late:
        raise AssertionError("the days are not alike")


def _shifted(roll: Roll, days: int) -> Roll:
    window = roll.window
    shift = days * DAY_MS
    return replace(roll, window=Window(window.start_ms + shift, window.end_ms + shift))


async def _timed(keeper: Bookkeeper, by: str) -> float:
    end_ms = START_MS + DAYS * DAY_MS
    question = CostQuestion(by=by, start_ms=START_MS, end_ms=end_ms)
    took: list[float] = []
    for _ in range(REPORTS):
        start = time.monotonic()
        await keeper.report(question, end_ms)
        took.append(time.monotonic() - start)
    return round(statistics.median(took) * 1000, 1)
