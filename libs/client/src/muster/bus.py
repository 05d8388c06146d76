"""Jobs over the bus, for tools that speak NATS: publish a job, read its decisions.

    async with connect("nats://muster.example:4222", user="ci", password="...") as bus:
        sent = await bus.submit("team-a", manifest, key="run-42.1")
        admitted = await bus.wait(sent, until=is_admitted, timeout_s=1800)

A decision is the last message on its subject, so it is found however late one looks.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import nats
from nats.errors import Error as NatsError
from nats.js.errors import NotFoundError

from muster.errors import Unreachable
from muster_contracts import codec, subjects
from muster_contracts.envelope import IDEMPOTENCY_KEY, MESSAGE_ID, workload_id
from muster_contracts.jobs import (
    CancelJob,
    CheckpointJob,
    Decision,
    FinishJob,
    HeartbeatJob,
    SubmitJob,
)
from muster_contracts.streams import DECISIONS
from muster_contracts.subjects import JobVerb
from muster_domain.conditions import Outcome
from muster_domain.errors import InvalidValue
from muster_manifests import JobSubmission, LoadOptions, WorkloadRecord, load, load_objects

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

ACK_TIMEOUT_S = 10.0
FIRST_LOOK_S = 1.0
LOOK_AGAIN_S = 30.0
"""How often a waiting reader looks for itself at first and in the end.

What is on its way into the stream while one subscribes is neither heard nor found there yet.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A job that is on the bus, under the id that it will have."""

    id: str
    namespace: str
    name: str


class BusClient:
    """One connection to the bus. Every call raises `Unreachable`."""

    def __init__(self, client: "Client") -> None:
        self._client = client

    async def submit(
        self,
        namespace: str,
        manifest: str | Mapping[str, Any],
        *,
        key: str,
        user: str = "",
        external_lease_ms: int | None = None,
    ) -> Sent:
        """Send one job; the same `key` is the same submission.

        Raises `ManifestError` or `InvalidValue` for a manifest that Muster would not read.
        """
        text = manifest if isinstance(manifest, str) else ""
        job = SubmitJob(
            yaml=text,
            manifest=None if isinstance(manifest, str) else manifest,
            user=user,
            external_lease_ms=external_lease_ms,
        )
        sent = _named(namespace, manifest, key)
        headers = {MESSAGE_ID: sent.id, IDEMPOTENCY_KEY: key}
        await self._publish(namespace, JobVerb.SUBMIT, codec.encode(job), headers)
        return sent

    async def finish(self, sent: Sent, *, succeeded: bool, message: str = "") -> None:
        """Say that a job that one runs oneself has ended."""
        outcome = Outcome.SUCCEEDED if succeeded else Outcome.FAILED
        body = codec.encode(FinishJob(id=sent.id, outcome=outcome, message=message))
        await self._publish(sent.namespace, JobVerb.FINISH, body)

    async def cancel(self, sent: Sent, message: str = "") -> None:
        """Ask for a job to be ended."""
        body = codec.encode(CancelJob(id=sent.id, message=message))
        await self._publish(sent.namespace, JobVerb.CANCEL, body)

    async def heartbeat(self, sent: Sent) -> None:
        """Say that the holder of a job is alive."""
        body = codec.encode(HeartbeatJob(id=sent.id))
        await self._publish(sent.namespace, JobVerb.HEARTBEAT, body)

    async def checkpoint(self, sent: Sent, attempt: int = 0) -> None:
        """Say that a job has saved its work; `attempt` 0 means whichever runs."""
        body = codec.encode(CheckpointJob(id=sent.id, attempt=attempt))
        await self._publish(sent.namespace, JobVerb.CHECKPOINT, body)

    async def decision(self, sent: Sent) -> Decision | None:
        """The last decision about a job, or None while there is none."""
        subject = subjects.decision(sent.namespace, sent.name)
        try:
            found = await self._client.jetstream().get_last_msg(
                DECISIONS.name, subject, direct=True
            )
        except NotFoundError:
            return None
        except (NatsError, OSError, TimeoutError) as error:
            raise Unreachable(f"the bus did not answer: {error}") from error
        return _about(sent, found.data or b"")

    async def wait(
        self, sent: Sent, *, until: Callable[[Decision], bool], timeout_s: float
    ) -> Decision:
        """The first decision seen that `until` takes. Raises `TimeoutError`."""
        arrived: asyncio.Queue[Decision] = asyncio.Queue()

        async def on_decision(message: "Msg") -> None:
            decision = _about(sent, message.data)
            if decision is not None:
                arrived.put_nowait(decision)

        subject = subjects.decision(sent.namespace, sent.name)
        subscription = await self._client.subscribe(subject, cb=on_decision)
        try:
            async with asyncio.timeout(timeout_s):
                patience_s = FIRST_LOOK_S
                while True:
                    last = await self.decision(sent)
                    if last is not None and until(last):
                        return last
                    heard = await _next(arrived, patience_s)
                    if heard is not None and until(heard):
                        return heard
                    patience_s = min(2 * patience_s, LOOK_AGAIN_S)
        finally:
            await subscription.unsubscribe()

    async def _publish(
        self, namespace: str, verb: JobVerb, body: bytes, headers: dict[str, str] | None = None
    ) -> None:
        try:
            await self._client.jetstream().publish(
                subjects.job(namespace, verb), body, timeout=ACK_TIMEOUT_S, headers=headers
            )
        except (NatsError, OSError, TimeoutError) as error:
            raise Unreachable(f"the bus did not take the message: {error}") from error


@asynccontextmanager
async def connect(
    url: str, *, user: str = "", password: str = ""
) -> AsyncGenerator[BusClient, None]:
    """Connect to the bus until the block ends. Raises `Unreachable`."""
    try:
        client = await nats.connect(
            url,
            user=user or None,
            password=password or None,
            inbox_prefix=f"_INBOX.{user or 'muster'}".encode(),
            allow_reconnect=True,
            max_reconnect_attempts=-1,
        )
    except (NatsError, OSError, TimeoutError) as error:
        raise Unreachable(f"{url} does not answer: {error}") from error
    try:
        yield BusClient(client)
    finally:
        await client.close()


async def _next(arrived: "asyncio.Queue[Decision]", patience_s: float) -> Decision | None:
    try:
        async with asyncio.timeout(patience_s):
            return await arrived.get()
    except TimeoutError:
        return None


def _about(sent: Sent, body: bytes) -> Decision | None:
    """The decision, unless it is about another job of the same name."""
    try:
        decision = codec.decode(Decision, body)
    except InvalidValue:
        return None
    return decision if decision.id == sent.id else None


def _named(namespace: str, manifest: str | Mapping[str, Any], key: str) -> Sent:
    options = LoadOptions(default_namespace=namespace, name_seed=key)
    source = "manifest"
    loaded = (
        load(manifest, source=source, options=options)
        if isinstance(manifest, str)
        else load_objects((json.loads(json.dumps(manifest)),), source=source, options=options)
    )
    contents = [
        document.content.submission
        if isinstance(document.content, WorkloadRecord)
        else document.content
        for document in loaded.documents
    ]
    jobs = [content for content in contents if isinstance(content, JobSubmission)]
    if len(jobs) != 1 or len(contents) != 1:
        raise InvalidValue(
            f"the manifest holds {len(jobs)} jobs", field="manifest", fix="send one job at a time"
        )
    [job] = jobs
    identity = workload_id(namespace, job.owner.kind, job.name, key)
    return Sent(id=identity, namespace=namespace, name=job.name)
