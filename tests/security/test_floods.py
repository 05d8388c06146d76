"""Messages that are too large, too many or no messages at all: the bus takes none of them."""

import pytest
from nats.aio.client import Client
from nats.errors import MaxPayloadError
from nats.js.api import DiscardPolicy
from nats.js.errors import APIError

from muster_contracts import streams
from muster_contracts.subjects import JobVerb, job

from .conftest import Doors

pytestmark = pytest.mark.servers

SUBMIT = job("team-a", JobVerb.SUBMIT)


@pytest.mark.parametrize("stream", streams.STREAMS, ids=lambda stream: stream.name)
async def test_every_stream_is_bounded(doors: Doors, stream: streams.Stream) -> None:
    operator = await doors.enter("operator")
    config = (await operator.jetstream().stream_info(stream.name)).config
    assert config.max_bytes == stream.max_bytes > 0
    assert config.max_msg_size == stream.max_message_bytes


async def test_a_message_above_the_bound_is_refused_and_the_next_is_taken(doors: Doors) -> None:
    ci = await doors.enter("ci-builds")
    with pytest.raises(APIError, match="message size exceeds maximum"):
        await ci.jetstream().publish(SUBMIT, bytes(streams.JOBS.max_message_bytes + 1))
    with pytest.raises(MaxPayloadError):
        await ci.jetstream().publish(SUBMIT, bytes(2 * 1024 * 1024))
    assert (await ci.jetstream().publish(SUBMIT, b"{}")).seq > 0


async def test_a_full_front_door_turns_away_and_opens_again(doors: Doors) -> None:
    operator = await doors.enter("operator")
    ci = await doors.enter("ci-builds")
    await resize(operator, 64 * 1024)
    try:
        with pytest.raises(APIError, match="maximum bytes exceeded"):
            await fill(ci)
        waiting = (await operator.jetstream().stream_info(streams.JOBS.name)).state.messages
        gateway = await doors.enter("gateway")
        inbox = await gateway.subscribe(gateway.new_inbox())
        await gateway.publish(
            f"$JS.API.CONSUMER.MSG.NEXT.{streams.JOBS.name}.{streams.FRONT_DOOR.name}",
            str(waiting).encode(),
            reply=inbox.subject,
        )
        for _ in range(waiting):
            message = await inbox.next_msg(5)
            await gateway.request(message.reply, b"+ACK", timeout=5)
        assert (await operator.jetstream().stream_info(streams.JOBS.name)).state.messages == 0
        assert (await ci.jetstream().publish(SUBMIT, bytes(2048))).seq > waiting
    finally:
        await operator.jetstream().purge_stream(streams.JOBS.name)
        await resize(operator, streams.JOBS.max_bytes)


async def test_what_says_no_to_new_messages_keeps_the_old(doors: Doors) -> None:
    operator = await doors.enter("operator")
    for stream in streams.STREAMS:
        config = (await operator.jetstream().stream_info(stream.name)).config
        assert config.discard == (DiscardPolicy.NEW if stream.refuses else DiscardPolicy.OLD)


async def fill(ci: Client) -> None:
    for _ in range(100):
        await ci.jetstream().publish(SUBMIT, bytes(2048))


async def resize(operator: Client, size: int) -> None:
    config = (await operator.jetstream().stream_info(streams.JOBS.name)).config
    await operator.jetstream().update_stream(config.evolve(max_bytes=size))
