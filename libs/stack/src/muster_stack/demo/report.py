"""Whether everything held: the log, the books and the bill, read back after the end."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster_contracts import subjects
from muster_contracts.partitions import PARTITIONS, PLACEMENT_SHARD
from muster_contracts.stored import records_of
from muster_contracts.streams import EVENTS
from muster_contracts.subjects import Service
from muster_domain.states import Finished
from muster_ledger.redis_store import RedisStore
from muster_ledger.store import OUTBOX_READ_MAX, OUTBOX_START, Image
from muster_manifests.catalogue import ObjectCatalogue
from muster_runtime.bus import Bus
from muster_runtime.objects import ObjectFeed
from muster_runtime.reader import Received
from muster_simulation.audit import Audit
from muster_stack.bus import joined
from muster_stack.demo.api import FINISHED, Api, Json
from muster_stack.stack import Login, Stack

CHECKED = (
    "INV-1",
    "INV-2",
    "INV-3",
    "INV-4",
    "INV-5",
    "INV-6",
    "INV-7",
    "INV-8",
    "INV-9",
    "INV-10",
)
OBJECTS_WAIT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """`broken` names each invariant that does not hold, with what broke it."""

    audit: Audit
    broken: dict[str, str]

    @property
    def invariants(self) -> dict[str, str]:
        """`ok`, or what broke it, for each invariant that can be checked from outside."""
        return {name: self.broken.get(name, "ok") for name in CHECKED}


def examine(stack: Stack, api: Api) -> Findings:
    """Read the whole log and every store, and compare them with what the API says."""
    return asyncio.run(_examine(stack.bus_login("operator"), stack.ledger_login("operator"), api))


async def _examine(bus_login: Login, ledger_login: Login, api: Api) -> Findings:
    store = RedisStore(ledger_login.full_url)
    try:
        async with joined(bus_login) as client:
            return await _read_back(Bus(client, Service.GATEWAY), store, api)
    finally:
        await store.close()


async def _read_back(bus: Bus, store: RedisStore, api: Api) -> Findings:
    catalogue = ObjectCatalogue()
    feed = ObjectFeed(bus, catalogue)
    reading = asyncio.create_task(feed.run())
    await feed.wait_complete(OBJECTS_WAIT_S)
    reading.cancel()
    images = {partition: await store.load(partition) for partition in PARTITIONS}
    unsaid = [said for partition in PARTITIONS for said in await _outbox(store, partition)]
    log = await bus.read_to_end(EVENTS.name, *EVENTS.subjects)
    versions = {partition: image.version for partition, image in images.items()}
    audit = Audit(dict(catalogue.cluster_queues), versions).read([*log, *unsaid])
    broken = dict(audit.conclude())
    await _compare_stores(store, images, audit, broken)
    await asyncio.to_thread(_compare_answers, api, broken)
    return Findings(audit=audit, broken=broken)


async def _outbox(store: RedisStore, partition: str) -> list[Received]:
    """What a partition has committed and not yet published: the log is read after it."""
    entries = await store.read_outbox(partition, OUTBOX_START, OUTBOX_READ_MAX)
    return [
        Received(
            sequence=0,
            subject=entry.message.subject,
            headers=entry.message.headers,
            body=entry.message.body,
            published_ms=0,
        )
        for entry in entries
        if entry.message.subject == subjects.books_kept(partition)
    ]


async def _compare_stores(
    store: RedisStore, images: Mapping[str, Image], audit: Audit, broken: dict[str, str]
) -> None:
    """The store must be what follows from the log, and hold nothing once all has ended."""
    for partition, image in images.items():
        for name in audit.kept_otherwise(partition, image.fields):
            broken.setdefault("INV-9", f"{partition}: {name} differs from the log")
        for identity, record in records_of(image.fields).items():
            again = audit.records.get(identity)
            if again is None or again.state != record.state:
                broken.setdefault("INV-9", f"{identity} differs from the log")
            if not isinstance(record.state, Finished):
                broken.setdefault("INV-5", f"{identity} has not ended")
    seats = await store.load(PLACEMENT_SHARD)
    held = sorted(name for name in seats.fields if name.startswith("g/"))
    if held:
        broken.setdefault("INV-3", f"seats were never given back: {held[:3]}")


def _compare_answers(api: Api, broken: dict[str, str]) -> None:
    for report in api.verify():
        if report["discrepancies"] or report["holds"]:
            broken.setdefault("INV-8", f"{report['partition']}: {report['discrepancies']}")
    waiting: dict[str, int] = {}
    for row in api.workloads():
        if row["phase"] == "Pending":
            waiting[row["cluster_queue"]] = waiting.get(row["cluster_queue"], 0) + 1
    for queue in api.quota()["queues"]:
        if queue["pending"] != waiting.get(queue["name"], 0):
            broken.setdefault("INV-7", f"{queue['name']} counts {queue['pending']}")
    difference = unbalanced(api.cost("team"))
    if difference:
        broken.setdefault("INV-10", difference)


def unbalanced(report: Json) -> str:
    """Which column of a cost report does not sum to its total row; empty when all do."""
    rows = [*report["lines"], report["idle"]]
    money = sum(row["cost_micros"] or 0 for row in rows)
    if money != (report["total"]["cost_micros"] or 0):
        return f"rows cost {money}, the total row says {report['total']['cost_micros']}"
    for resource, total in report["total"]["resource_time"].items():
        amount = sum(row["resource_time"].get(resource, 0) for row in rows)
        if amount != total:
            return f"rows hold {amount} of {resource}, the total row says {total}"
    return ""


def write(path: Path, findings: Findings, api: Api, wall_s: float) -> dict[str, Any]:
    """Write the report, and return it."""
    rows = api.workloads()
    counts = findings.audit.counts
    outcomes: dict[str, int] = {}
    for row in rows:
        outcomes[row["outcome"]] = outcomes.get(row["outcome"], 0) + 1
    cost = api.cost("team")
    preempted = sum(reason == "Preempted" for reason in findings.audit.eviction_reasons)
    report = {
        "submitted": len(findings.audit.submitted),
        "admitted": counts.get("workload_admitted", 0),
        "preempted": preempted,
        "requeued": counts.get("workload_requeued", 0),
        "finished": sum(row["phase"] == FINISHED for row in rows),
        "lost": len(
            findings.audit.submitted - {row["id"] for row in rows if row["phase"] == FINISHED}
        ),
        "outcomes": outcomes,
        "invariants": findings.invariants,
        "cost": [*cost["lines"], cost["idle"], cost["total"]],
        "currency": cost["currency"],
        "events": sum(counts.values()),
        "wall_seconds": round(wall_s, 1),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return report
