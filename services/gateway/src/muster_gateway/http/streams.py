"""Event streams: decisions as they fall, output as it is written."""

from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Header, Query
from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import EventSourceResponse

from muster_contracts import codec
from muster_domain.errors import InvalidValue
from muster_gateway.access import Right
from muster_gateway.composition import Gateway
from muster_gateway.decisions import Heard, Wanted
from muster_gateway.http.dependencies import Gate, Who
from muster_gateway.locating import Located
from muster_gateway.outputs import listen_to

router = APIRouter(tags=["streams"])

PING_S = 15
SEND_TIMEOUT_S = 30
QUIET_S = 1.0
"""How often a quiet stream looks whether it has come to its end."""
_TEXT_MAX = 253

Events = AsyncGenerator[ServerSentEvent, None]


@router.get("/v1/watch")
async def watch(
    gateway: Gate,
    caller: Who,
    workload: Annotated[str, Query(max_length=_TEXT_MAX * 2)] = "",
    namespace: Annotated[str, Query(max_length=_TEXT_MAX)] = "",
    queue: Annotated[str, Query(max_length=_TEXT_MAX)] = "",
    last_event_id: Annotated[str, Header(max_length=20)] = "",
) -> EventSourceResponse:
    """Decisions as they fall, one event each, named `decision`; its id takes up a broken stream.

    With `workload` the last decision comes first and the stream ends with the workload. `lagging`
    ends the stream of a reader that is too slow.
    """
    caller.need(Right.READ)
    gateway.watchers.check_room()
    if namespace:
        caller.need(Right.READ, namespace)
    located = await gateway.locating.find(workload, caller) if workload else None
    after = _sequence(last_event_id)

    def wanted(heard: Heard) -> bool:
        if located is not None and heard.id != located.id:
            return False
        if namespace not in ("", heard.namespace):
            return False
        return queue in ("", heard.queue, heard.cluster_queue) and caller.sees(heard.namespace)

    return _stream(_counted(gateway, _decisions(gateway, wanted, located, after)))


async def _decisions(
    gateway: Gateway,
    wanted: Wanted,
    located: Located | None,
    after: int | None,
) -> Events:
    with gateway.decisions.listen(wanted, after=after) as listener:
        if located is not None and after is None:
            last = await gateway.decisions.last(located.namespace, located.name)
            if last is not None and last.id == located.id:
                yield ServerSentEvent(codec.encode(last).decode(), event="decision")
        while True:
            if located is not None and _has_ended(gateway, located) and listener.idle:
                yield ServerSentEvent("", event="end")
                return
            heard = await listener.next(QUIET_S if located is not None else PING_S)
            if heard is not None:
                yield ServerSentEvent(heard.body.decode(), event="decision", id=str(heard.sequence))
            elif listener.lagging:
                yield ServerSentEvent("", event="lagging")
                return


@router.get("/v1/workloads/{reference}/output")
async def output(reference: str, gateway: Gate, caller: Who) -> EventSourceResponse:
    """What the workload's pods write from now on, one event each, named by pod and stream.

    `dropped` says how much a slow reader has missed. The stream ends with the workload.
    """
    caller.need(Right.READ)
    gateway.watchers.check_room()
    located = await gateway.locating.find(reference, caller)
    return _stream(_counted(gateway, _output(gateway, located)))


async def _counted(gateway: Gateway, events: Events) -> Events:
    with gateway.watchers.one_more():
        async for event in events:
            yield event


async def _output(gateway: Gateway, located: Located) -> Events:
    dropped = 0
    async with listen_to(gateway.bus, located.id) as listener:
        while True:
            piece = await listener.next(QUIET_S)
            if piece is None:
                if _has_ended(gateway, located):
                    yield ServerSentEvent("", event="end")
                    return
                continue
            if listener.dropped > dropped:
                dropped = listener.dropped
                yield ServerSentEvent(str(dropped), event="dropped")
            yield ServerSentEvent(codec.encode(piece).decode(), event="output")


def _has_ended(gateway: Gateway, located: Located) -> bool:
    heard = gateway.decisions.find(located.id)
    return heard is not None and heard.ended


def _sequence(last_event_id: str) -> int | None:
    if not last_event_id:
        return None
    if not last_event_id.isascii() or not last_event_id.isdecimal():
        raise InvalidValue(f"{last_event_id!r} is not the id of an event", field="Last-Event-ID")
    return int(last_event_id)


def _stream(events: Events) -> EventSourceResponse:
    return EventSourceResponse(events, ping=PING_S, send_timeout=SEND_TIMEOUT_S)
