"""The messages that the gateway publishes, with ids derived from what they say."""

from dataclasses import dataclass, replace

from muster_contracts import codec, envelope, subjects
from muster_contracts.events import (
    CancelRequested,
    CheckAnswered,
    CheckpointReported,
    DrainRequested,
    Event,
    FinishReported,
    JobWish,
    LeaseRenewed,
    ObjectApplied,
    ObjectDeleted,
    WorkloadSubmitted,
)
from muster_contracts.jobs import Decision, Verdict
from muster_contracts.partitions import EVERY_PARTITION
from muster_contracts.subjects import Service
from muster_contracts.tokens import TokensReported
from muster_domain.conditions import Outcome, RefusalReason
from muster_domain.errors import InvalidValue
from muster_domain.tokens import TokenUse
from muster_domain.workload import Workload
from muster_gateway.resolution import Resolved
from muster_manifests.catalogue import ObjectKey
from muster_manifests.document import Document
from muster_runtime.publisher import Outgoing

SOURCE = "/muster/gateway"
WORKLOAD_BYTES_MAX = codec.BODY_BYTES_MAX // 2
"""Of a workload on the log; owners repeat it with more around it."""

MESSAGE_LENGTH_MAX = 2_000
"""Of what a caller says about an end; the rest is cut off."""

JobWord = CancelRequested | FinishReported | LeaseRenewed | CheckpointReported
"""What may be said of a job on the bus."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Where a message comes from: when, after what, in which trace."""

    at_ms: int
    causation_id: str = ""
    traceparent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A workload as far as it is known here; an unknown partition is everybody's."""

    id: str
    namespace: str
    partition: str = EVERY_PARTITION


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A job that is not taken, under the id that it would have had."""

    id: str
    namespace: str
    name: str
    reason: RefusalReason
    message: str


def submitted(
    resolved: Resolved, document: Document, objects_sequence: int, cause: Cause
) -> Outgoing:
    """Say that a job was accepted. Raises `InvalidValue` when it is too large for the log.

    The message's id follows from the workload's id and what was asked for, so the same submission
    is stored once and another body under the same key is seen by admission.
    """
    workload = resolved.workload
    asked = _without_moment(workload)
    if len(asked) > WORKLOAD_BYTES_MAX:
        raise InvalidValue(
            f"the job has {len(asked)} bytes once defaults are filled in",
            field=document.key,
            fix=f"keep it below {WORKLOAD_BYTES_MAX}; put scripts into the image",
        )
    fact = WorkloadSubmitted(
        workload=workload,
        cluster_queue=resolved.cluster_queue,
        objects_sequence=objects_sequence,
        manifest=dict(document.manifest),
    )
    body = codec.encode(fact)
    if len(body) > codec.BODY_BYTES_MAX:
        body = codec.encode(replace(fact, manifest={}))
    return Outgoing(
        subject=subjects.workload_event(
            Service.GATEWAY,
            codec.EVENT_NAMES[WorkloadSubmitted],
            resolved.partition,
            workload.namespace,
            workload.id,
        ),
        body=body,
        headers=_headers(fact, cause, workload.id, workload.id, asked.decode()),
    )


def _without_moment(workload: Workload) -> bytes:
    """JSON of a workload as if it had been sent at 0.

    The workload is written once, for this and for the fact. Quotes within texts are escaped, so the
    name of the field is found in no text.
    """
    moment = b'"created_at_ms":'
    return codec.encode(workload).replace(
        b"%b%d," % (moment, workload.created_at_ms), moment + b"0,", 1
    )


def about_job(fact: JobWish, target: Target, cause: Cause, key: str) -> Outgoing:
    """Say what somebody wants of a workload; the same `key` is the same wish."""
    if isinstance(fact, CancelRequested | FinishReported | CheckAnswered):
        fact = replace(fact, message=fact.message[:MESSAGE_LENGTH_MAX])
    name = codec.EVENT_NAMES[type(fact)]
    return Outgoing(
        subject=subjects.workload_event(
            Service.GATEWAY, name, target.partition, target.namespace, target.id
        ),
        body=codec.encode(fact),
        headers=_headers(fact, cause, target.id, target.id, target.partition, key),
    )


def drain(node: str, *, drained: bool, by: str, cause: Cause) -> Outgoing:
    """Say that a node is to be kept empty, or used again."""
    fact = DrainRequested(node=node, drained=drained, by=by)
    return Outgoing(
        subject=subjects.node_request(codec.EVENT_NAMES[DrainRequested], node),
        body=codec.encode(fact),
        headers=_headers(fact, cause, node, node, str(drained), cause.at_ms),
    )


def tokens_reported(
    uses: tuple[TokenUse, ...], *, by: str, namespace: str, cause: Cause
) -> Outgoing:
    """Say what models that are served in a namespace used; the same uses are the same message."""
    fact = TokensReported(uses=uses, by=by)
    asked = codec.encode(TokensReported(uses=uses)).decode()
    return Outgoing(
        subject=subjects.tokens_event(codec.EVENT_NAMES[TokensReported], namespace),
        body=codec.encode(fact),
        headers=_headers(fact, cause, namespace, namespace, asked),
    )


def object_applied(document: Document, *, by: str, text: str, cause: Cause) -> Outgoing:
    """Say that an object was declared. Raises `InvalidValue` for one too large for the stream."""
    fact = ObjectApplied(
        kind=document.kind,
        namespace=document.namespace,
        name=document.name,
        document=dict(document.manifest),
        by=by,
        text=text,
    )
    body = codec.encode(fact)
    if len(body) > codec.BODY_BYTES_MAX:
        body = codec.encode(replace(fact, text=""))
    if len(body) > codec.BODY_BYTES_MAX:
        raise InvalidValue(f"the object has {len(body)} bytes", field=document.key, fix="split it")
    key = ObjectKey(document.kind, document.namespace, document.name)
    return _object_message(fact, key, body, cause)


def object_deleted(key: ObjectKey, *, by: str, cause: Cause) -> Outgoing:
    """Say that an object is no longer wanted."""
    fact = ObjectDeleted(kind=key.kind, namespace=key.namespace, name=key.name, by=by)
    return _object_message(fact, key, codec.encode(fact), cause)


def _object_message(
    fact: ObjectApplied | ObjectDeleted, key: ObjectKey, body: bytes, cause: Cause
) -> Outgoing:
    headers = _headers(fact, cause, str(key), str(key), cause.at_ms)
    del headers[envelope.MESSAGE_ID]
    return Outgoing(
        subject=subjects.declared_object(key.kind, key.namespace, key.name),
        body=body,
        headers=headers,
    )


def refusal(refused: Refused, cause: Cause) -> Outgoing:
    """Say in public that a job was not taken."""
    identity = envelope.derived_id("refused", refused.id, refused.message)
    decision = Decision(
        id=refused.id,
        namespace=refused.namespace,
        name=refused.name,
        decision=Verdict.REFUSED,
        reason=refused.reason,
        message=refused.message,
        queue="",
        cluster_queue="",
        partition="",
        attempt=0,
        at_ms=cause.at_ms,
        outcome=Outcome.REFUSED,
    )
    headers = envelope.to_headers(
        envelope.Envelope(
            id=identity,
            source=SOURCE,
            type=envelope.event_type(Service.GATEWAY, "decision"),
            time_ms=cause.at_ms,
            causation_id=cause.causation_id,
            correlation_id=refused.id,
            traceparent=cause.traceparent,
        )
    )
    subject = subjects.decision(refused.namespace, refused.name)
    return Outgoing(subject=subject, body=codec.encode(decision), headers=headers)


def _headers(fact: Event, cause: Cause, correlation: str, *identity: str | int) -> dict[str, str]:
    name = codec.EVENT_NAMES[type(fact)]
    return envelope.to_headers(
        envelope.Envelope(
            id=envelope.derived_id(Service.GATEWAY, name, *identity),
            source=SOURCE,
            type=envelope.event_type(Service.GATEWAY, name),
            time_ms=cause.at_ms,
            causation_id=cause.causation_id,
            correlation_id=correlation,
            traceparent=cause.traceparent,
        )
    )
