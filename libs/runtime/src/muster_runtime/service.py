"""Starting and stopping a service: FastStream's lifespan, health, metrics, the work itself.

A service is crash-only: when its work fails the process ends with status 1 and whoever supervises
it starts it again. It stops on SIGTERM by cancelling its work, which gives leases back.
"""

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import structlog
import uvicorn
from faststream.asgi import AsgiFastStream, AsgiResponse, get
from faststream.asgi.types import ASGIApp, Receive, Scope, Send
from faststream.nats import NatsBroker
from faststream.nats.security import NatsUserPassword
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from muster_contracts.subjects import Service
from muster_runtime.bus import Bus
from muster_runtime.cancellation import end
from muster_runtime.settings import ServiceSettings
from muster_runtime.telemetry import Metrics, Tracing, configure_logs

CONNECT_TIMEOUT_S = 5
STOP_TIMEOUT_S = 10
NEW_OBJECTS_MAX = 50_000
HEALTH_PATHS = ("/healthz", "/readyz", "/metrics")

_log = structlog.get_logger()

Check = Callable[[], str]
"""Why the service is not ready; empty when it is."""


@dataclass(slots=True, kw_only=True)
class Chassis:
    """What the work of a service gets."""

    settings: ServiceSettings
    service: Service
    bus: Bus
    metrics: Metrics
    tracing: Tracing
    checks: dict[str, Check] = field(default_factory=dict[str, Check])
    before_scrape: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])

    def troubles(self) -> dict[str, str]:
        """What keeps the service from being ready, by check."""
        return {name: trouble for name, check in self.checks.items() if (trouble := check())}


Work = Callable[[Chassis], Awaitable[None]]


def run(
    service: Service,
    settings: ServiceSettings,
    work: Work,
    http_app: Callable[[Chassis], ASGIApp] | None = None,
) -> None:
    """Run a service until it is told to stop. Ends the process with 1 when its work fails."""
    if not settings.instance:
        name = f"{socket.gethostname()}-{os.getpid()}".replace(".", "-")
        settings = settings.model_copy(update={"instance": name})
    configure_logs(settings, service)
    _collect_rarely()
    runner = _Runner(service, settings, work, http_app)
    config = uvicorn.Config(
        runner,
        host=settings.http_host,
        port=settings.http_port,
        loop="uvloop",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=STOP_TIMEOUT_S,
    )
    server = uvicorn.Server(config)
    for number in (signal.SIGTERM, signal.SIGINT):
        # uvicorn raises what it was stopped by once more when it is done, for whoever came before
        signal.signal(number, server.handle_exit)
    server.run()
    sys.exit(1 if runner.failed else 0)


def _collect_rarely() -> None:
    """Look for cycles among new objects only once there are many.

    Owners hold hundreds of thousands of values that refer to each other in no circle; looking
    through them as often as Python does by default cost admission a tenth of its time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS_MAX, 10, 10)


class _Runner:
    """The ASGI application of a service: lifespan and health here, the rest to its own app."""

    def __init__(
        self,
        service: Service,
        settings: ServiceSettings,
        work: Work,
        http_app: Callable[[Chassis], ASGIApp] | None,
    ) -> None:
        self.failed = False
        self._service = service
        self._settings = settings
        self._work = work
        self._build_http = http_app
        self._http: ASGIApp | None = None
        self._chassis: Chassis | None = None
        self._task: asyncio.Task[None] | None = None
        self._broker = _broker(settings, service)
        self._app = AsgiFastStream(
            self._broker,
            lifespan=self._lifespan,
            on_shutdown=[self._end_work],
            logger=None,
            asgi_routes=[
                ("/healthz", get(self._healthz)),
                ("/readyz", get(self._readyz)),
                ("/metrics", get(self._scrape)),
            ],
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._http and scope["type"] != "lifespan" and scope["path"] not in HEALTH_PATHS:
            await self._http(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    @asynccontextmanager
    async def _lifespan(self) -> AsyncGenerator[None]:
        client = await self._broker.connect()
        chassis = Chassis(
            settings=self._settings,
            service=self._service,
            bus=Bus(client, self._service, api_prefix=self._settings.nats_api_prefix),
            metrics=Metrics(),
            tracing=Tracing(self._settings, self._service),
        )
        chassis.checks["bus"] = lambda: "" if client.is_connected else "not connected"
        self._chassis = chassis
        if self._build_http is not None:
            self._http = self._build_http(chassis)
        self._task = asyncio.create_task(self._supervised(chassis), name=f"{self._service} work")
        try:
            yield
        finally:
            await self._end_work()
            chassis.tracing.shutdown()

    async def _end_work(self) -> None:
        """End the work while the bus is still there, so that leases can be given back.

        Work that does not end is left behind with the process, as after a crash.
        """
        task, self._task = self._task, None
        if task is None:
            return
        try:
            await asyncio.wait_for(end(task), STOP_TIMEOUT_S)
        except TimeoutError:
            _log.error("work does not end", after_s=STOP_TIMEOUT_S)
            os._exit(1)

    async def _supervised(self, chassis: Chassis) -> None:
        _log.info("service starts")
        try:
            await self._work(chassis)
        except asyncio.CancelledError:
            _log.info("service stops")
            raise
        except Exception:  # noqa: BLE001 - the top of the service
            self.failed = True
            _log.exception("service failed")
            signal.raise_signal(signal.SIGTERM)

    async def _healthz(self, _scope: Scope) -> AsgiResponse:
        return AsgiResponse(b"alive\n", 200)

    async def _readyz(self, _scope: Scope) -> AsgiResponse:
        troubles = {"start": "starting"} if self._chassis is None else self._chassis.troubles()
        if not troubles:
            return AsgiResponse(b"ready\n", 200)
        lines = "".join(f"{name}: {trouble}\n" for name, trouble in sorted(troubles.items()))
        return AsgiResponse(lines.encode(), 503)

    async def _scrape(self, _scope: Scope) -> AsgiResponse:
        if self._chassis is None:
            return AsgiResponse(b"", 503)
        for refresh in self._chassis.before_scrape:
            refresh()
        return AsgiResponse(
            generate_latest(self._chassis.metrics.registry),
            200,
            headers={"Content-Type": CONTENT_TYPE_LATEST},
        )


def _broker(settings: ServiceSettings, service: Service) -> NatsBroker:
    user = settings.nats_user
    return NatsBroker(
        [settings.nats_url],
        name=f"muster-{service}-{settings.instance}",
        inbox_prefix=f"_INBOX.{user or service}",
        connect_timeout=CONNECT_TIMEOUT_S,
        max_reconnect_attempts=-1,
        reconnect_time_wait=1,
        security=NatsUserPassword(user, settings.nats_password.get_secret_value())
        if user
        else None,
        logger=None,
    )
