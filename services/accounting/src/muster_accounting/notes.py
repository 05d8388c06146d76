"""Noting declared objects on the log, whose own stream keeps only the last version of each.

A note is published before the version is booked and under an id that follows from its place in the
stream, so that none is missing and one that is said twice is the same.
"""

from muster_accounting.store import ObjectVersion
from muster_contracts import codec, envelope, subjects
from muster_contracts.declarations import DeclarationNoted
from muster_contracts.subjects import Service
from muster_runtime.publisher import Outgoing

NAME = codec.EVENT_NAMES[DeclarationNoted]
NOTES = subjects.facts_of(Service.ACCOUNTING, NAME)
"""The subjects on which notes stand."""


def note(version: ObjectVersion, *, from_beginning: bool) -> Outgoing:
    """The note of a version."""
    fact = DeclarationNoted(
        sequence=version.sequence,
        at_ms=version.at_ms,
        subject=version.subject,
        type=version.type,
        body=version.body.decode("utf-8", "surrogateescape"),
        from_beginning=from_beginning,
    )
    kind = subjects.parse_object(version.subject).kind
    headers = envelope.to_headers(
        envelope.Envelope(
            id=envelope.derived_id(Service.ACCOUNTING, NAME, version.sequence, version.at_ms),
            source="/muster/accounting",
            type=envelope.event_type(Service.ACCOUNTING, NAME),
            time_ms=version.at_ms,
        )
    )
    return Outgoing(
        subject=subjects.declaration_event(NAME, kind), body=codec.encode(fact), headers=headers
    )


def noted(body: bytes) -> tuple[ObjectVersion, bool]:
    """The version of a note, and whether it holds from the beginning. Raises `InvalidValue`."""
    fact = codec.decode(DeclarationNoted, body)
    version = ObjectVersion(
        sequence=fact.sequence,
        at_ms=fact.at_ms,
        subject=fact.subject,
        type=fact.type,
        body=fact.body.encode("utf-8", "surrogateescape"),
    )
    return version, fact.from_beginning
