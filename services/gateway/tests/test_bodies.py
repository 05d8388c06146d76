import base64
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_contracts import codec
from muster_contracts.jobs import SubmitJob
from muster_domain.errors import InvalidValue
from muster_gateway.bodies import Body, is_id, is_name, read_body

JOB: dict[str, Any] = {"apiVersion": "batch/v1", "kind": "Job"}


def event(**changes: object) -> bytes:
    known: dict[str, object] = {"specversion": "1.0", "id": "e1", "source": "/ci", "data": JOB}
    return json.dumps({**known, **changes}).encode()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"kind: Job\n", Body(text="kind: Job\n")),
        (b"\xef\xbb\xbfkind: Job\n", Body(text="kind: Job\n")),
        (json.dumps(JOB).encode(), Body(manifest=JOB)),
        (b"{kind: Job}", Body(text="{kind: Job}")),
        (b"[1]", Body(text="[1]")),
        (
            codec.encode(SubmitJob(yaml="a: 1", user="anna", external_lease_ms=9000)),
            Body(text="a: 1", user="anna", external_lease_ms=9000),
        ),
        (
            codec.encode(SubmitJob(manifest=JOB, labels={"a": "b"})),
            Body(manifest=JOB, labels={"a": "b"}),
        ),
        (event(), Body(manifest=JOB, key="/ci#e1")),
        (event(source=None), Body(manifest=JOB, key="e1")),
        (event(data="kind: Job\n"), Body(text="kind: Job\n", key="/ci#e1")),
        (
            event(data=None, data_base64=base64.b64encode(b"kind: Job").decode()),
            Body(text="kind: Job", key="/ci#e1"),
        ),
    ],
)
def test_what_a_body_may_be(body: bytes, expected: Body) -> None:
    assert read_body(body, {}) == expected


@pytest.mark.parametrize(
    "body",
    [
        b"\xff",
        b'{"a": ' * 100_000,
        b"{}",
        codec.encode(SubmitJob()),
        codec.encode(SubmitJob(yaml="a", manifest=JOB)),
        codec.encode(SubmitJob(yaml="a", external_lease_ms=1)),
        codec.encode(SubmitJob(yaml="a", user="u" * 257)),
        event(id=""),
        event(id=7),
        event(data=7),
        event(data=None, data_base64="%"),
        event(data=json.loads(event())),
        b"x" * (codec.BODY_BYTES_MAX + 1),
    ],
)
def test_what_a_body_may_not_be(body: bytes) -> None:
    with pytest.raises(InvalidValue):
        read_body(body, {})


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ({"Idempotency-Key": "a", "Nats-Msg-Id": "b", "ce-id": "c"}, "a"),
        ({"nats-msg-id": "b", "ce-id": "c"}, "b"),
        ({"CE-ID": "c"}, "c"),
        ({"ce-id": ""}, "/ci#e1"),
        ({}, "/ci#e1"),
    ],
)
def test_where_the_key_comes_from(headers: dict[str, str], key: str) -> None:
    assert read_body(event(), headers).key == key


def test_a_key_is_bounded() -> None:
    with pytest.raises(InvalidValue):
        read_body(b"a: 1", {"ce-id": "x" * 257})


@given(st.binary(max_size=200))
def test_reading_is_total(body: bytes) -> None:
    with suppress(InvalidValue):
        assert isinstance(read_body(body, {}), Body)


@pytest.mark.parametrize(
    ("text", "good"),
    [("a", True), ("a-b.c9", True), ("", False), ("A", False), ("-a", False), ("a" * 254, False)],
)
def test_names(text: str, good: bool) -> None:  # noqa: FBT001 - a column of the table
    assert is_name(text) is good


@pytest.mark.parametrize(
    ("text", "good"), [("0" * 32, True), ("0" * 31, False), ("G" * 32, False), ("0" * 33, False)]
)
def test_ids(text: str, good: bool) -> None:  # noqa: FBT001 - a column of the table
    assert is_id(text) is good
