"""What the console measures about itself, and the way to read it."""

import time

from fastapi import FastAPI
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram
from prometheus_client.exposition import generate_latest
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_METHODS = frozenset({"GET", "HEAD", "POST"})
_UNMATCHED, _OTHER = "unmatched", "other"


class Measures:
    """Counters in a registry of their own; labels are bounded by the pages there are."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "muster_console_requests_total",
            "Requests by page, method and status",
            ["page", "method", "status"],
            registry=self.registry,
        )
        self.request_seconds = Histogram(
            "muster_console_request_seconds",
            "Time to answer a request, what the gateway took included",
            ["page"],
            buckets=_BUCKETS_S,
            registry=self.registry,
        )


class Measured:
    """Counts the requests of the app below."""

    def __init__(self, app: ASGIApp, measures: Measures) -> None:
        self._app = app
        self._measures = measures

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

        start_s = time.monotonic()
        try:
            await self._app(scope, receive, seen)
        finally:
            route = scope.get("route")
            page = route.path if isinstance(route, Route) else _UNMATCHED
            method = scope["method"] if scope["method"] in _METHODS else _OTHER
            self._measures.request_seconds.labels(page).observe(time.monotonic() - start_s)
            self._measures.requests.labels(page, method, status).inc()


def install(app: FastAPI, measures: Measures) -> None:
    """Count every request from here on, and show the counts at `/metrics`."""
    app.add_middleware(Measured, measures=measures)

    @app.get("/metrics")
    def metrics() -> Response:
        text = generate_latest(measures.registry)
        return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})
