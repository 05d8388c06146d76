"""A connection for a command that comes, does its work and goes; services have the chassis."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import nats

from muster_contracts.subjects import Service
from muster_runtime.bus import Bus
from muster_runtime.settings import ServiceSettings

RECONNECTS_MAX = 30


@asynccontextmanager
async def visiting(settings: ServiceSettings, service: Service) -> AsyncGenerator[Bus, None]:
    """The bus that the settings name, for the length of the block."""
    client = await nats.connect(
        settings.nats_url,
        user=settings.nats_user or None,
        password=settings.nats_password.get_secret_value() or None,
        inbox_prefix=f"_INBOX.{settings.nats_user or service}".encode(),
        max_reconnect_attempts=RECONNECTS_MAX,
    )
    try:
        yield Bus(client, service)
    finally:
        await client.close()
