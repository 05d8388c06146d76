"""The HTTP API as one ASGI application."""

import asyncio

from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster_contracts.api import RefusalAnswer
from muster_contracts.codec import BODY_BYTES_MAX
from muster_gateway.composition import Gateway
from muster_gateway.http import (
    custom_cost,
    jobs,
    money,
    objects,
    opencost,
    pending,
    problems,
    reads,
    streams,
    tokens,
)
from muster_gateway.http.problems import TooLarge
from muster_runtime.telemetry import TRACEPARENT

VERSION = "1"
# A label is bounded: strangers make up paths and methods.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
_UNMATCHED, _OTHER = "unmatched", "other"
_REFUSED: dict[int | str, dict[str, object]] = {
    status: {"model": RefusalAnswer} for status in (401, 403, 404, 409, 413, 422, 503)
}


def build_api(gateway: Gateway) -> ASGIApp:
    """Build the API of a gateway."""
    api = FastAPI(
        title="Muster",
        version=VERSION,
        description="Quota, gang placement, preemption and cost for shared GPU servers",
        responses=_REFUSED,
        openapi_url="/openapi.json",
        redoc_url=None,
    )
    api.state.gateway = gateway
    problems.install(api)
    for part in (jobs, objects, reads, pending, streams, opencost, custom_cost, tokens, money):
        api.include_router(part.router)
    return Observed(api, gateway)


class Observed:
    """Counts requests and puts each into a trace."""

    def __init__(self, app: ASGIApp, gateway: Gateway) -> None:
        self._app = app
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = "500"

        async def seen(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        headers = dict(scope["headers"])
        loop = asyncio.get_running_loop()
        start_s = loop.time()
        span, below = self._gateway.tracing.start(
            f"{scope['method']} request", headers.get(TRACEPARENT.encode(), b"").decode("latin-1")
        )
        scope.setdefault("state", {})[TRACEPARENT] = below
        try:
            with span:
                await self._app(scope, bounded(receive), seen)
        finally:
            route = scope.get("route")
            path = route.path if isinstance(route, Route) else _UNMATCHED
            method = scope["method"] if scope["method"] in _METHODS else _OTHER
            self._gateway.measures.request_seconds.labels(path).observe(loop.time() - start_s)
            self._gateway.measures.requests.labels(path, method, status).inc()


def bounded(receive: Receive) -> Receive:
    """The same body, but no longer than a body may be. Raises `TooLarge` where it would be."""
    size = 0

    async def next_message() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > BODY_BYTES_MAX:
            raise TooLarge(
                f"the body has more than {BODY_BYTES_MAX} bytes", fix="send less, or several files"
            )
        return message

    return next_message
