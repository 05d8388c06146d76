"""Jobs that are published on the bus: each message to what it causes.

The namespace is the subject's, since that is what the bus lets a submitter publish to; a body that
names another is refused.
"""

from dataclasses import dataclass, replace
from typing import cast

from muster_contracts import codec
from muster_contracts.envelope import workload_id
from muster_contracts.events import (
    CancelRequested,
    CheckpointReported,
    FinishReported,
    LeaseRenewed,
)
from muster_contracts.jobs import CancelJob, CheckpointJob, FinishJob, HeartbeatJob
from muster_contracts.subjects import JobAddress, JobVerb, parse_job
from muster_domain.conditions import RefusalReason
from muster_domain.errors import Conflict, Forbidden, InvalidValue, MusterError, Transient
from muster_gateway import events
from muster_gateway.bodies import Body, checked_id, checked_name, is_name, read_body
from muster_gateway.decisions import ENDED, DecisionFeed
from muster_gateway.events import Cause, JobWord, Refused, Target
from muster_gateway.intake import Job, check_names, job_of, load_body, resolve_jobs
from muster_gateway.locating import Locating, wish_key
from muster_gateway.resolution import Sender
from muster_gateway.token_rows import read_rows, reported
from muster_manifests import Document, LoadResult
from muster_runtime.objects import ObjectFeed
from muster_runtime.publisher import Outgoing
from muster_runtime.reader import Received
from muster_runtime.telemetry import TRACEPARENT, Tracing
from muster_runtime.worker import Delivery, Unusable

CATALOGUE_WAIT_S = 5.0
NAME_TRIES_MAX = 6
"""Deliveries in which a job that is named must have been heard of: about half a minute."""


@dataclass(frozen=True, slots=True)
class _Letter:
    """One message with everything that its handling derives from it."""

    delivery: Delivery
    address: JobAddress
    cause: Cause
    key: str

    @property
    def received(self) -> Received:
        return self.delivery.received


class FrontDoor:
    """Digests messages of the stream of jobs; what it returns is published, then they are acked."""

    def __init__(
        self, feed: ObjectFeed, decisions: DecisionFeed, locating: Locating, tracing: Tracing
    ) -> None:
        self._feed = feed
        self._decisions = decisions
        self._locating = locating
        self._tracing = tracing

    async def digest(self, delivery: Delivery) -> list[Outgoing]:
        """What a message causes. Raises `Unusable` for one that is refused, `Transient`."""
        received = delivery.received
        address = parse_job(received.subject)
        checked_name(address.namespace, "subject")
        headers = {name.lower(): value for name, value in received.headers.items()}
        key = headers.get("nats-msg-id") or headers.get("ce-id") or f"seq-{received.sequence}"
        span, traceparent = self._tracing.start(f"job {address.verb}", headers.get(TRACEPARENT, ""))
        cause = Cause(at_ms=received.published_ms, causation_id=key, traceparent=traceparent)
        letter = _Letter(delivery, address, cause, key)
        with span:
            if address.verb is JobVerb.SUBMIT:
                return await self._submit(letter)
            if address.verb is JobVerb.TOKENS:
                return self._report_tokens(letter)
            return await self._wish(letter)

    async def _submit(self, letter: _Letter) -> list[Outgoing]:
        await self._feed.wait_complete(CATALOGUE_WAIT_S)
        body: Body | None = None
        loaded: LoadResult | None = None
        try:
            body = read_body(letter.received.body, letter.received.headers)
            loaded = await load_body(
                body,
                self._feed.catalogue,
                namespace=letter.address.namespace,
                seed=body.key or letter.key,
                source=f"message {letter.received.sequence}",
            )
            jobs = await self._take(letter, body, loaded)
        except Transient:
            raise
        except MusterError as error:
            raise await self._refused(letter, body, loaded, error) from error
        return [
            events.submitted(
                job.resolved, job.document, self._feed.catalogue.sequence, letter.cause
            )
            for job in jobs
        ]

    async def _take(self, letter: _Letter, body: Body, loaded: LoadResult) -> list[Job]:
        for document in loaded.documents:
            _check_document(document, letter.address.namespace)
        sender = Sender(
            key=body.key or letter.key,
            received_ms=letter.received.published_ms,
            user=body.user,
            external_lease_ms=body.external_lease_ms,
            labels=body.labels,
        )
        jobs = await self._resolve(loaded, sender)
        if not jobs:
            raise InvalidValue("the message holds no job", fix="send one manifest of a job")
        return await check_names(jobs, self._decisions)

    async def _resolve(self, loaded: LoadResult, sender: Sender) -> list[Job]:
        """The jobs of a message; an object that another gateway has just taken counts, too."""
        catalogue = self._feed.catalogue
        seen = catalogue.sequence
        try:
            return resolve_jobs(loaded.documents, sender, catalogue)
        except InvalidValue:
            await self._feed.abreast(CATALOGUE_WAIT_S)
            if catalogue.sequence == seen:
                raise
            return resolve_jobs(loaded.documents, sender, catalogue)

    async def _refused(
        self, letter: _Letter, body: Body | None, loaded: LoadResult | None, error: MusterError
    ) -> Unusable:
        """The refusal of a whole message, said about every job in it whose name is free."""
        namespace = letter.address.namespace
        key = (body.key if body is not None else "") or letter.key
        answers: list[Outgoing] = []
        for kind, name in _jobs_named(body, loaded):
            last = await self._decisions.last(namespace, name)
            if last is not None and last.decision not in ENDED:
                continue
            refused = Refused(
                id=workload_id(namespace, kind, name, key),
                namespace=namespace,
                name=name,
                reason=_reason(error),
                message=str(error),
            )
            answers.append(events.refusal(refused, letter.cause))
        return Unusable(str(error), tuple(answers))

    def _report_tokens(self, letter: _Letter) -> list[Outgoing]:
        namespace = letter.address.namespace
        uses = read_rows(letter.received.body, namespace=namespace)
        elsewhere = sorted({use.namespace for use in uses} - {namespace})
        if elsewhere:
            raise Unusable(f"rows of {elsewhere[0]!r} on the subject of {namespace!r}")
        return reported(uses, by="", cause=letter.cause)

    async def _wish(self, letter: _Letter) -> list[Outgoing]:
        wish, name = _read_wish(letter)
        target = (
            await self._by_id(letter, wish.workload_id)
            if wish.workload_id
            else await self._by_name(letter, wish, name)
        )
        if target is None:
            return []
        fact = replace(wish, workload_id=target.id)
        key = wish_key(fact, letter.key)
        return [events.about_job(fact, target, letter.cause, key)]

    async def _by_id(self, letter: _Letter, identity: str) -> Target:
        located = await self._locating.owner_of(identity)
        namespace = letter.address.namespace
        if located is None:
            return Target(id=identity, namespace=namespace)
        if located.namespace != namespace:
            raise Unusable(f"{identity} is not a workload of the namespace {namespace!r}")
        return located.target

    async def _by_name(self, letter: _Letter, wish: JobWord, name: str) -> Target | None:
        """Who has the name; None for a sign of life, or saved work, of one that has ended."""
        namespace = letter.address.namespace
        last = await self._decisions.last(namespace, name)
        if last is not None and last.decision not in ENDED:
            return Target(id=last.id, namespace=namespace, partition=last.partition)
        if last is not None and isinstance(wish, LeaseRenewed | CheckpointReported):
            return None
        if letter.delivery.attempt >= NAME_TRIES_MAX:
            raise Unusable(f"no live workload is named {namespace}/{name}")
        raise Transient(f"no live workload is named {namespace}/{name} yet")


def _check_document(document: Document, namespace: str) -> None:
    if job_of(document) is None:
        raise InvalidValue(
            f"{document.key} is an object, not a job",
            field="kind",
            fix="apply objects over HTTP: muster apply -f FILE",
        )
    if document.namespace != namespace:
        raise Forbidden(
            f"{document.key} names the namespace {document.namespace!r}, the subject "
            f"{namespace!r}; leave metadata.namespace out or publish to that namespace's subject"
        )


def _reason(error: MusterError) -> RefusalReason:
    match error:
        case Conflict():
            return RefusalReason.NAME_IN_USE
        case Forbidden():
            return RefusalReason.WRONG_NAMESPACE
        case InvalidValue(field=field) if "queue" in field:
            return RefusalReason.NO_QUEUE
        case _:
            return RefusalReason.INVALID_MANIFEST


def _jobs_named(body: Body | None, loaded: LoadResult | None) -> list[tuple[str, str]]:
    """Kinds and names of the jobs in a message, as far as it could be read."""
    if loaded is not None:
        found = {
            (submission.owner.kind, submission.name)
            for document in loaded.documents
            if (submission := job_of(document)) is not None
        }
        return sorted(found)
    if body is None or body.manifest is None:
        return []
    metadata: object = body.manifest.get("metadata")
    if not isinstance(metadata, dict):
        return []
    kind: object = body.manifest.get("kind")
    name = cast("dict[str, object]", metadata).get("name")
    if not isinstance(kind, str) or not isinstance(name, str) or not is_name(name):
        return []
    return [(kind, name)]


def _read_wish(letter: _Letter) -> tuple[JobWord, str]:
    """The wish in a message, and the name it gives where it gives no id."""
    body = letter.received.body
    match letter.address.verb:
        case JobVerb.FINISH:
            read = codec.decode(FinishJob, body)
            wish: JobWord = FinishReported(
                workload_id=read.id, outcome=read.outcome, message=read.message
            )
        case JobVerb.CANCEL:
            read = codec.decode(CancelJob, body)
            wish = CancelRequested(workload_id=read.id, message=read.message)
        case JobVerb.CHECKPOINT:
            read = codec.decode(CheckpointJob, body)
            wish = CheckpointReported(
                workload_id=read.id, at_ms=letter.cause.at_ms, attempt=read.attempt
            )
        case JobVerb.HEARTBEAT | JobVerb.SUBMIT | JobVerb.TOKENS:
            read = codec.decode(HeartbeatJob, body)
            wish = LeaseRenewed(workload_id=read.id)
    if read.id:
        checked_id(read.id)
    elif read.name:
        checked_name(read.name, "name")
    else:
        raise InvalidValue("the message names no job", field="id", fix="set id or name")
    return wish, read.name
