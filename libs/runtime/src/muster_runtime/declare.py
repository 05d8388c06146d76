"""`python -m muster_runtime.declare`: create or check all streams, consumers and buckets.

Needs the operator's bus user. A stream whose subjects differ from the declaration is an error, not
something to change in passing.
"""

import asyncio
import sys

import nats
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DiscardPolicy,
    KeyValueConfig,
    RetentionPolicy,
    StorageType,
    StreamConfig,
)
from nats.js.errors import BucketNotFoundError, NotFoundError

from muster_contracts import streams
from muster_domain.errors import Conflict, Transient
from muster_runtime.settings import ServiceSettings

_NATURE = ("retention", "discard", "max_msgs_per_subject", "allow_direct", "allow_atomic")
"""What decides which messages a stream keeps and how it is read."""


def main() -> None:
    """Declare everything on the bus that the environment names."""
    asyncio.run(_connect_and_declare(ServiceSettings()))


async def _connect_and_declare(settings: ServiceSettings) -> None:
    client = await nats.connect(
        settings.nats_url,
        user=settings.nats_user or None,
        password=settings.nats_password.get_secret_value() or None,
        inbox_prefix=f"_INBOX.{settings.nats_user or 'operator'}".encode(),
        max_reconnect_attempts=30,
    )
    try:
        await declare(client)
    finally:
        await client.close()


async def declare(client: Client) -> None:
    """Create what is missing. Raises `Conflict` where what exists is not what is declared."""
    jetstream = client.jetstream()
    for stream in streams.STREAMS:
        await _declare_stream(jetstream, stream)
    for durable in streams.DURABLES:
        await jetstream.add_consumer(
            durable.stream,
            ConsumerConfig(
                durable_name=durable.name,
                filter_subject=durable.filter_subject,
                ack_policy=AckPolicy.EXPLICIT,
                ack_wait=durable.ack_wait_s,
                max_deliver=-1,
                max_ack_pending=durable.max_ack_pending,
            ),
        )
    for bucket in streams.BUCKETS:
        try:
            await jetstream.key_value(bucket.name)
        except BucketNotFoundError:
            await jetstream.create_key_value(
                KeyValueConfig(bucket=bucket.name, ttl=bucket.ttl_s, storage=StorageType.FILE)
            )


async def _declare_stream(jetstream: JetStreamContext, stream: streams.Stream) -> None:
    config = StreamConfig(
        name=stream.name,
        subjects=list(stream.subjects),
        description=stream.description,
        max_age=stream.max_age_s or None,
        max_bytes=stream.max_bytes,
        max_msgs_per_subject=1 if stream.last_value else -1,
        max_msg_size=stream.max_message_bytes,
        duplicate_window=stream.duplicate_window_s,
        discard=DiscardPolicy.NEW if stream.refuses else DiscardPolicy.OLD,
        retention=(RetentionPolicy.WORK_QUEUE if stream.until_settled else RetentionPolicy.LIMITS),
        allow_direct=True,
        allow_atomic=stream.atomic or None,
        storage=StorageType.FILE,
    )
    try:
        existing = await jetstream.stream_info(stream.name)
    except NotFoundError:
        await jetstream.add_stream(config)
        return
    _refuse_drift(config, existing.config)


def _refuse_drift(declared: StreamConfig, existing: StreamConfig) -> None:
    """Limits of size and age may be set otherwise by an operator; what a stream is may not."""
    if sorted(existing.subjects or []) != sorted(declared.subjects or []):
        raise Conflict(
            f"stream {declared.name} takes {existing.subjects}, declared is "
            f"{declared.subjects}; move its messages or remove it"
        )
    for name in _NATURE:
        found, wanted = getattr(existing, name), getattr(declared, name)
        if (found or None) != (wanted or None):
            raise Conflict(
                f"stream {declared.name} has {name} {found}, declared is {wanted}; move its "
                "messages or remove it"
            )


async def check_declared(client: Client) -> None:
    """Raise `Transient` while a declared stream is missing."""
    jetstream = client.jetstream()
    try:
        for stream in streams.STREAMS:
            await jetstream.stream_info(stream.name)
    except (NotFoundError, NatsError, OSError, TimeoutError) as error:
        raise Transient(f"the streams are not declared: {error}") from error


if __name__ == "__main__":
    sys.exit(main())
