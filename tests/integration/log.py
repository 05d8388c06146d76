"""Small facts for the log, and reading it back."""

import asyncio

from muster_contracts.streams import EVENTS
from muster_runtime.bus import Bus
from muster_runtime.publisher import Outgoing
from muster_runtime.reader import Reader, Received

ANY = "muster.evt.>"


def event(name: str, number: int, body: bytes = b"", *, partition: str = "p00") -> Outgoing:
    """A fact of the gateway about a workload, under an id of its own."""
    subject = f"muster.evt.gateway.v1.{name}.{partition}.team-a.w{number}"
    return Outgoing(
        subject=subject,
        body=body or b"%d" % number,
        headers={"Nats-Msg-Id": f"{name}-{partition}-{number}", "ce-id": f"{name}-{number}"},
    )


def events(name: str, count: int, *, first: int = 0, partition: str = "p00") -> list[Outgoing]:
    """So many facts, numbered in order."""
    return [event(name, number, partition=partition) for number in range(first, first + count)]


async def take(reader: Reader, count: int, deadline_s: float = 30.0) -> list[Received]:
    """The next messages; never more than asked for."""
    found: list[Received] = []
    async with asyncio.timeout(deadline_s):
        while len(found) < count:
            found += await reader.next_batch(count - len(found), 0.5)
    return found


async def everything(bus: Bus, subject: str = ANY) -> list[Received]:
    """What is in the log now."""
    return await bus.read_to_end(EVENTS.name, subject)
