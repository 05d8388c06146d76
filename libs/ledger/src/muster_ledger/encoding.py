"""How a commit is written: its identity, and its messages packed into chunks.

A thousand stream entries cost a server more than the bytes in them, so messages of one commit are
packed together. Nothing here knows a store.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise

from muster_domain.errors import InvalidValue
from muster_ledger.store import Commit, OutboxEntry, OutboxMessage, OutboxPosition

CHUNK_MESSAGES_MAX = 64
CHUNK_BYTES_MAX = 256 * 1024
"""A chunk is closed when it is at least this large, so one message more may go beyond it."""
_PARTS = 4


@dataclass(frozen=True, slots=True)
class Chunk:
    """Messages up to `last_ordinal`: the lengths of their parts, and the parts themselves."""

    last_ordinal: int
    lengths: bytes
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedCommit:
    """`puts` holds names and values in turn."""

    id: str
    puts: list[bytes]
    deletes: list[bytes]
    chunks: list[Chunk]


def encode(commit: Commit) -> EncodedCommit:
    """Write a commit. Raises `InvalidValue` for a header that contains NUL."""
    puts = list(chain.from_iterable((k.encode(), v) for k, v in commit.puts.items()))
    deletes = [name.encode() for name in commit.deletes]
    chunks = list(_pack(commit.outbox))
    return EncodedCommit(
        id=_identity(commit, puts, deletes, chunks), puts=puts, deletes=deletes, chunks=chunks
    )


def commit_id(commit: Commit) -> str:
    """`epoch/expected_version/digest`: equal for the very same commit, however often it is sent."""
    return encode(commit).id


def unpack(position: str, lengths: bytes, data: bytes) -> Iterator[OutboxEntry]:
    """Read the chunk whose last message stands at `position`."""
    last = OutboxPosition.parse(position)
    ends = accumulate(map(int, lengths.split(b",")), initial=0)
    parts = [data[start:end] for start, end in pairwise(ends)]
    first_ordinal = last.ordinal - len(parts) // _PARTS + 1
    for index in range(0, len(parts), _PARTS):
        subject, message_id, headers, body = parts[index : index + _PARTS]
        yield OutboxEntry(
            OutboxPosition(last.version, first_ordinal + index // _PARTS),
            OutboxMessage(
                subject=subject.decode(),
                message_id=message_id.decode(),
                headers=_decode_headers(headers),
                body=body,
            ),
        )


def _pack(messages: tuple[OutboxMessage, ...]) -> Iterator[Chunk]:
    parts: list[bytes] = []
    size = 0
    for ordinal, message in enumerate(messages, start=1):
        parts += (
            message.subject.encode(),
            message.message_id.encode(),
            _encode_headers(message.headers),
            message.body,
        )
        size += len(message.body)
        full = len(parts) == CHUNK_MESSAGES_MAX * _PARTS or size >= CHUNK_BYTES_MAX
        if full or ordinal == len(messages):
            yield Chunk(ordinal, _lengths(parts), b"".join(parts))
            parts = []
            size = 0


def _lengths(parts: list[bytes]) -> bytes:
    return ",".join([str(len(part)) for part in parts]).encode()


def _identity(commit: Commit, puts: list[bytes], deletes: list[bytes], chunks: list[Chunk]) -> str:
    numbers = (commit.watermark, len(puts), len(deletes), len(chunks))
    parts = [",".join(map(str, numbers)).encode(), *puts, *deletes]
    parts += chain.from_iterable((chunk.lengths, chunk.data) for chunk in chunks)
    digest = hashlib.sha256(_lengths(parts))
    digest.update(b"".join(parts))
    return f"{commit.epoch}/{commit.expected_version}/{digest.hexdigest()}"


def _encode_headers(headers: Mapping[str, str]) -> bytes:
    """Names and values in turn, divided by NUL, which no header may contain."""
    text = "\0".join(chain.from_iterable(headers.items()))
    if text.count("\0") != max(0, 2 * len(headers) - 1):
        raise InvalidValue("a header contains NUL", field="headers")
    return text.encode()


def _decode_headers(encoded: bytes) -> dict[str, str]:
    if not encoded:
        return {}
    parts = encoded.decode().split("\0")
    return dict(zip(parts[::2], parts[1::2], strict=True))
