import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from muster_contracts import codec, events
from muster_contracts.generate import SAMPLES
from muster_contracts.jobs import Decision, SubmitJob
from muster_contracts.registry import messages
from muster_domain.errors import InvalidValue

KINDS = sorted(messages())
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats()
    | st.text()
    | st.sampled_from(("pending", "worker", "p03", "-1", "NaN")),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(), parts, max_size=3),
    max_leaves=6,
)


def read(kind: type, body: bytes) -> None:
    """Reads, or says what is wrong; anything else that is raised fails the test."""
    with suppress(InvalidValue):
        codec.decode(kind, body)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'"text"',
        b"{",
        b"\xff\xfe",
        b'{"a": NaN}',
        b"1e999999",
        b"[" * 100_000,
        b'{"workload": ' * 20_000,
        b'{"version": ' + b"9" * 10_000 + b"}",
        b'{"id": "\\ud800"}',
    ],
    ids=lambda body: repr(body[:16]),
)
def test_hostile_bytes_are_refused(name: str, body: bytes) -> None:
    read(messages()[name], body)


@given(st.sampled_from(KINDS), st.binary(max_size=200))
def test_noise_is_refused(name: str, body: bytes) -> None:
    read(messages()[name], body)


@given(st.data())
def test_a_wrong_value_anywhere_is_refused_and_named(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(path.name for path in SAMPLES.glob("*.json"))))
    body = json.loads((SAMPLES / name).read_text())
    holder: Any = body
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            break
        key = data.draw(st.sampled_from(keys))
        if isinstance(holder[key], dict | list) and data.draw(st.booleans()):
            holder = holder[key]
            continue
        holder[key] = data.draw(values)
        break
    read(messages()[name.split(".", maxsplit=1)[0]], json.dumps(body).encode())


def test_the_first_wrong_field_is_named() -> None:
    with pytest.raises(InvalidValue) as refused:
        codec.decode(events.PodStarted, b'{"pod_uid": 7, "workload_id": "w"}')
    assert refused.value.field == "pod_uid"
    with pytest.raises(InvalidValue) as refused:
        codec.decode(SubmitJob, b"3")
    assert refused.value.field == "body"


def test_a_field_below_is_named_by_its_path() -> None:
    sample = json.loads((SAMPLES / "decision.json").read_text())
    sample["assignments"][1]["devices"]["nvidia.com/gpu"][0] = "zero"
    with pytest.raises(InvalidValue) as refused:
        codec.decode_object(Decision, sample)
    assert refused.value.field == "assignments.1.devices.nvidia.com/gpu.0"


def test_a_message_that_is_too_large_is_not_even_read() -> None:
    body = b" " * (codec.BODY_BYTES_MAX + 1)
    with pytest.raises(InvalidValue, match="has 524289 bytes"):
        codec.decode(SubmitJob, body)
    codec.decode(SubmitJob, b" " * (codec.BODY_BYTES_MAX - 2) + b"{}")


def test_an_unknown_event_is_refused() -> None:
    with pytest.raises(InvalidValue, match="no event 'quota_stolen'"):
        codec.decode_event("quota_stolen", b"{}")


@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.glob("*.json")))
def test_what_is_put_together_from_parts_is_what_is_written_whole(name: str) -> None:
    kind: type[object] = messages()[name.split(".", maxsplit=1)[0]]
    value = codec.decode(kind, (SAMPLES / name).read_bytes())
    whole = TypeAdapter(kind).dump_python(value, mode="json")
    assert json.loads(codec.encode(value)) == whole
    assert json.loads(codec.encode(value)) == whole


def test_no_workload_is_taken_for_one_that_was_written_before() -> None:
    reserved = codec.decode(events.QuotaReserved, (SAMPLES / "quota_reserved.json").read_bytes())
    for number in range(10_000):
        name = f"job-{number}"
        fact = replace(reserved, workload=replace(reserved.workload, name=name))
        assert json.loads(codec.encode(fact))["workload"]["name"] == name
