"""A sample that was ever committed is a message somebody may still have: it must stay readable."""

import json

import pytest

from muster_contracts import codec
from muster_contracts.generate import SAMPLES
from muster_contracts.registry import messages

SAMPLE_NAMES = sorted(path.name for path in SAMPLES.glob("*.json"))


def test_every_message_has_a_sample() -> None:
    assert {name.split(".", maxsplit=1)[0] for name in SAMPLE_NAMES} == set(messages())


def within(old: object, new: object) -> bool:
    """Whether everything in the old value is still in the new one."""
    if isinstance(old, dict):
        return isinstance(new, dict) and all(
            key in new and within(part, new[key]) for key, part in old.items()
        )
    if isinstance(old, list):
        return (
            isinstance(new, list)
            and len(old) == len(new)
            and all(within(part, other) for part, other in zip(old, new, strict=True))
        )
    return type(old) is type(new) and old == new


@pytest.mark.parametrize("name", SAMPLE_NAMES)
def test_a_sample_is_read_and_written_without_loss(name: str) -> None:
    body = (SAMPLES / name).read_bytes()
    value = codec.decode(messages()[name.split(".", maxsplit=1)[0]], body)
    written = codec.encode(value)
    assert within(json.loads(body), json.loads(written))
    assert codec.decode(type(value), written) == value


@pytest.mark.parametrize("name", SAMPLE_NAMES)
def test_a_reader_ignores_what_it_does_not_know(name: str) -> None:
    kind = messages()[name.split(".", maxsplit=1)[0]]
    body = json.loads((SAMPLES / name).read_bytes())
    later = {**body, "a_field_of_a_later_release": {"deep": [1, 2]}}
    assert codec.decode_object(kind, later) == codec.decode_object(kind, body)
