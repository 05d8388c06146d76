"""A proxy's rows: read in every spelling, refused whole, on the log once."""

import json
from typing import Any

import pytest

from muster_contracts import codec, subjects
from muster_contracts.streams import EVENTS
from muster_contracts.subjects import JobVerb, Service
from muster_contracts.tokens import TokensReported
from muster_domain.errors import InvalidValue
from muster_domain.tokens import TokenUse
from muster_gateway.events import Cause
from muster_gateway.token_rows import ROWS_MAX, read_rows, reported

from .house import House
from .test_front_door import dead_letters, send, settled

ROW: dict[str, Any] = {
    "request_id": "r-1",
    "model_group": "llama",
    "team_id": "team-a",
    "prompt_tokens": 7,
    "completion_tokens": 3,
    "spend": 3.5e-07,
    "endTime": "2026-06-15T10:20:30Z",
}
CAUSE = Cause(at_ms=1)
TOKENS = subjects.facts_of(Service.GATEWAY, "tokens_reported")


def body(*rows: dict[str, Any]) -> bytes:
    return json.dumps(rows).encode()


@pytest.mark.parametrize(
    "sent",
    [
        body(ROW),
        json.dumps(ROW).encode(),
        json.dumps({"rows": [ROW]}).encode(),
        f"{json.dumps(ROW)}\n\n".encode(),
        b"\xef\xbb\xbf" + body(ROW),
    ],
)
def test_one_row_in_any_form_is_the_same_use(sent: bytes) -> None:
    assert read_rows(sent) == (
        TokenUse(
            request_id="r-1",
            at_ms=1_781_518_830_000,
            model="llama",
            namespace="team-a",
            team="team-a",
            prompt_tokens=7,
            completion_tokens=3,
            reported_nanos=350,
        ),
    )


def test_a_row_on_each_line() -> None:
    lines = "\n".join(json.dumps({**ROW, "request_id": f"r-{n}"}) for n in range(3))

    assert [use.request_id for use in read_rows(lines.encode())] == ["r-0", "r-1", "r-2"]


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        (b"", "rows"),
        (b"[]", "rows"),
        (b"3", "rows"),
        (b'{"rows": 3}', "rows"),
        (b"not json", "rows[0]"),
        (b"[3]", "rows[0]"),
        (body(ROW, {**ROW, "prompt_tokens": -1}), "rows[1].prompt_tokens"),
        (body({**ROW, "spend": "-0.1"}), "rows[0].spend"),
        (body({**ROW, "spend": "much"}), "rows[0].spend"),
        (body({**ROW, "endTime": "yesterday"}), "rows[0].endTime"),
        (body({**ROW, "request_id": ""}), "rows[0].request_id"),
        (body({**ROW, "model_group": "m" * 300}), "rows[0].model_group"),
        (body({**ROW, "team_id": None}), "rows[0].namespace"),
        (b"[" * 100_000, "rows[0]"),
    ],
)
def test_a_body_with_a_bad_row_is_refused_by_its_place(sent: bytes, field: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        read_rows(sent)
    assert caught.value.field == field


def test_too_many_rows_are_refused() -> None:
    with pytest.raises(InvalidValue, match="5001 rows"):
        read_rows(body(*([ROW] * (ROWS_MAX + 1))))


def test_the_same_rows_are_the_same_messages() -> None:
    rows = [{**ROW, "request_id": f"r-{n}", "team_id": f"team-{n % 2}"} for n in range(450)]
    first = reported(read_rows(body(*rows)), by="one", cause=CAUSE)
    again = reported(read_rows(body(*rows)), by="two", cause=Cause(at_ms=2))

    ids = [fact.headers["Nats-Msg-Id"] for fact in first]
    assert len(set(ids)) == len(first) == 4
    assert ids == [fact.headers["Nats-Msg-Id"] for fact in again]


async def facts(house: House) -> list[TokensReported]:
    found = await house.bus.read_to_end(EVENTS.name, TOKENS)
    return [codec.decode(TokensReported, received.body) for received in found]


@pytest.mark.servers
async def test_rows_over_http_are_on_the_log_once(house: House) -> None:
    async with house.client() as client:
        for _ in range(2):
            answer = await client.post("/v1/usage/tokens", content=body(ROW))
            assert (answer.status_code, answer.json()) == (202, {"uses": 1, "messages": 1})

    (fact,) = await facts(house)
    assert fact.uses == read_rows(body(ROW))


@pytest.mark.servers
async def test_rows_of_a_namespace_that_is_not_ones_own_are_refused(house: House) -> None:
    foreign = {**ROW, "request_id": "r-2", "team_id": "team-b"}
    async with house.client("anna-token") as client:
        refused = await client.post("/v1/usage/tokens", content=body(ROW, foreign))
        bad = await client.post("/v1/usage/tokens", content=b"[]")

    assert (refused.status_code, bad.status_code) == (403, 422)
    assert await facts(house) == []


@pytest.mark.servers
async def test_rows_over_the_bus_are_on_the_log_once(house: House) -> None:
    for _ in range(2):
        await send(house, json.dumps({"rows": [ROW]}).encode(), verb=JobVerb.TOKENS)
    await settled(house)

    (fact,) = await facts(house)
    assert [use.request_id for use in fact.uses] == ["r-1"]


@pytest.mark.servers
async def test_rows_of_another_namespace_than_the_subjects_are_buried(house: House) -> None:
    foreign = {**ROW, "metadata": {"namespace": "team-b"}}
    await send(house, body(foreign), verb=JobVerb.TOKENS)
    await settled(house)

    assert len(await dead_letters(house)) == 1
    assert await facts(house) == []
