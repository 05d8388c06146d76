"""A commit's identity and the packing of its messages."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_domain.errors import InvalidValue
from muster_ledger.encoding import CHUNK_BYTES_MAX, CHUNK_MESSAGES_MAX, commit_id, encode, unpack
from muster_ledger.store import (
    COMMIT_ENTRIES_MAX,
    EXACT_MAX,
    NAME_BYTES_MAX,
    VALUE_BYTES_MAX,
    Commit,
    OutboxEntry,
    OutboxMessage,
    OutboxPosition,
)

header_text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
messages = st.builds(
    OutboxMessage,
    subject=st.text(max_size=8),
    message_id=st.text(max_size=8),
    body=st.binary(max_size=20),
    headers=st.dictionaries(header_text, header_text, max_size=3),
)
BASE = Commit(
    shard="p01",
    epoch=3,
    expected_version=8,
    watermark=70,
    puts={"a": b"1", "b": b"2"},
    deletes=("c", "d"),
    outbox=(OutboxMessage(subject="s", message_id="m", body=b"x", headers={"k": "v"}),),
)


def read_back(commit: Commit) -> list[OutboxEntry]:
    chunks = encode(commit).chunks
    return [
        entry
        for chunk in chunks
        for entry in unpack(f"{commit.version}-{chunk.last_ordinal}", chunk.lengths, chunk.data)
    ]


@given(st.lists(messages, max_size=3 * CHUNK_MESSAGES_MAX).map(tuple))
def test_messages_read_as_written_in_order(outbox: tuple[OutboxMessage, ...]) -> None:
    commit = replace(BASE, outbox=outbox)

    assert read_back(commit) == [
        OutboxEntry(OutboxPosition(9, ordinal), message)
        for ordinal, message in enumerate(outbox, start=1)
    ]


def test_a_chunk_is_bounded_by_number_and_by_size() -> None:
    many = tuple(
        OutboxMessage(subject="s", message_id=str(n), body=b"")
        for n in range(2 * CHUNK_MESSAGES_MAX + 1)
    )
    large = (OutboxMessage(subject="s", message_id="1", body=bytes(CHUNK_BYTES_MAX)),) * 3

    assert [c.last_ordinal for c in encode(replace(BASE, outbox=many)).chunks] == [64, 128, 129]
    assert [c.last_ordinal for c in encode(replace(BASE, outbox=large)).chunks] == [1, 2, 3]
    assert encode(replace(BASE, outbox=())).chunks == []


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(replace(BASE, epoch=4), id="epoch"),
        pytest.param(replace(BASE, expected_version=9), id="version"),
        pytest.param(replace(BASE, watermark=71), id="watermark"),
        pytest.param(replace(BASE, puts={"a": b"1", "b": b"3"}), id="value"),
        pytest.param(replace(BASE, puts={"a": b"1b", "": b"2"}), id="value runs into name"),
        pytest.param(replace(BASE, puts={"a": b"1"}), id="put missing"),
        pytest.param(replace(BASE, deletes=("cd",)), id="name boundaries"),
        pytest.param(replace(BASE, deletes=()), id="deletes"),
        pytest.param(replace(BASE, outbox=BASE.outbox * 2), id="messages"),
        pytest.param(replace(BASE, outbox=(replace(BASE.outbox[0], body=b"y"),)), id="body"),
        pytest.param(replace(BASE, outbox=(replace(BASE.outbox[0], headers={}),)), id="headers"),
    ],
)
def test_another_commit_has_another_id(other: Commit) -> None:
    assert commit_id(other) != commit_id(BASE)


def test_the_same_commit_has_the_same_id() -> None:
    assert commit_id(replace(BASE)) == commit_id(BASE)
    assert commit_id(BASE).startswith("3/8/")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"shard": "P 1"}, id="shard"),
        pytest.param({"shard": "p{1}"}, id="hash tag"),
        pytest.param({"epoch": -1}, id="negative epoch"),
        pytest.param({"epoch": EXACT_MAX + 1}, id="inexact epoch"),
        pytest.param({"expected_version": EXACT_MAX}, id="inexact version"),
        pytest.param({"watermark": EXACT_MAX + 1}, id="inexact watermark"),
        pytest.param({"deletes": ("a",)}, id="put and deleted"),
        pytest.param({"puts": {"x" * (NAME_BYTES_MAX + 1): b""}}, id="long name"),
        pytest.param({"puts": {"x": bytes(VALUE_BYTES_MAX + 1)}}, id="large value"),
        pytest.param({"puts": {str(n): bytes(VALUE_BYTES_MAX) for n in range(65)}}, id="large"),
        pytest.param({"deletes": tuple(map(str, range(COMMIT_ENTRIES_MAX)))}, id="many"),
    ],
)
def test_a_commit_beyond_its_bounds_cannot_be_made(change: dict[str, object]) -> None:
    with pytest.raises(InvalidValue):
        replace(BASE, **change)


def test_a_header_with_nul_is_refused() -> None:
    message = OutboxMessage(subject="s", message_id="m", body=b"", headers={"a\0b": "c"})

    with pytest.raises(InvalidValue, match="NUL"):
        encode(replace(BASE, outbox=(message,)))


@pytest.mark.parametrize("text", ["", "1", "1-", "-1", "1-2-3", "a-1", "1-b"])
def test_what_is_not_a_position_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match="not an outbox position"):
        OutboxPosition.parse(text)


def test_positions_are_ordered_as_numbers() -> None:
    assert OutboxPosition.parse("9-10") < OutboxPosition.parse("10-2") < OutboxPosition(10, 11)
