"""CloudEvents 1.0 in NATS binary mode: attributes in headers, the payload as the body.

Ids are derived, never random, so that a retry after a crash repeats the same id.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from muster_contracts.subjects import Service
from muster_domain.errors import InvalidValue

MESSAGE_ID = "Nats-Msg-Id"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
IDEMPOTENCY_KEY = "Idempotency-Key"
"""Of a submission: the same key is the same submission. Without it the message's id is the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """What every message says about itself. `time_ms` is the owner's clock at the decision."""

    id: str
    source: str
    type: str
    time_ms: int
    causation_id: str = ""
    correlation_id: str = ""
    traceparent: str = ""
    extra: Mapping[str, str] = field(default_factory=dict[str, str])


def derived_id(*parts: str | int) -> str:
    """A stable id of what the parts name."""
    text = "\x1f".join(map(str, parts))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def workload_id(namespace: str, kind: str, name: str, key: str) -> str:
    """The id of a submission: the same submission under the same key has the same."""
    return derived_id("workload", namespace, kind, name, key)


def event_type(owner: Service, name: str) -> str:
    """The CloudEvents type of an event, for example `dev.muster.admission.v1.quota_reserved`."""
    return f"dev.muster.{owner}.v1.{name}"


def to_headers(envelope: Envelope) -> dict[str, str]:
    """NATS headers of an envelope."""
    headers = {
        MESSAGE_ID: envelope.id,
        "ce-specversion": "1.0",
        "ce-id": envelope.id,
        "ce-source": envelope.source,
        "ce-type": envelope.type,
        "ce-time": rfc3339(envelope.time_ms),
    }
    if envelope.causation_id:
        headers["ce-causationid"] = envelope.causation_id
    if envelope.correlation_id:
        headers["ce-correlationid"] = envelope.correlation_id
    if envelope.traceparent:
        headers["traceparent"] = envelope.traceparent
    return headers


def from_headers(headers: Mapping[str, str]) -> Envelope:
    """Read an envelope. Raises `InvalidValue` when the id is missing."""
    identity = headers.get("ce-id") or headers.get(MESSAGE_ID)
    if not identity:
        raise InvalidValue(
            "the message has no id", field="ce-id", fix=f"set the header ce-id or {MESSAGE_ID}"
        )
    return Envelope(
        id=identity,
        source=headers.get("ce-source", ""),
        type=headers.get("ce-type", ""),
        time_ms=_millis(headers.get("ce-time", "")),
        causation_id=headers.get("ce-causationid", ""),
        correlation_id=headers.get("ce-correlationid", ""),
        traceparent=headers.get("traceparent", ""),
    )


@lru_cache(maxsize=64)
def rfc3339(time_ms: int) -> str:
    """A time as CloudEvents writes it. All messages of one commit have the same."""
    seconds, millis = divmod(time_ms, 1000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{millis:03d}Z"


def _millis(text: str) -> int:
    if not text:
        return 0
    try:
        moment = datetime.fromisoformat(text)
        return (moment - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, TypeError) as error:
        raise InvalidValue(
            f"{text!r} is not a time", field="ce-time", fix="write RFC 3339 with an offset"
        ) from error
