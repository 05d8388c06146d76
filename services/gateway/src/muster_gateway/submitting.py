"""What callers of the API may do with files of jobs and objects."""

import asyncio
from dataclasses import dataclass, replace

from muster_contracts.api import Accepted, AcceptedJob, PlannedJob, Plans
from muster_contracts.queries import PlanQuestion
from muster_domain.errors import InvalidValue
from muster_domain.job_flow import JobFlow, JobTemplate
from muster_domain.volcano import PodGroup
from muster_gateway import events
from muster_gateway.access import Caller, Right
from muster_gateway.applying import Applied, Applying, as_applied
from muster_gateway.bodies import Body, checked_lease
from muster_gateway.decisions import DecisionFeed, Heard, Listener
from muster_gateway.events import Cause
from muster_gateway.intake import Job, check_names, job_of, load_body, resolve_jobs
from muster_gateway.owners import Owners
from muster_gateway.resolution import Sender
from muster_gateway.switching import Switching
from muster_manifests import LoadResult
from muster_runtime.bus import Bus
from muster_runtime.objects import ObjectFeed

OF_SUBMITTERS = (PodGroup, JobTemplate, JobFlow)
"""Objects that belong to those who submit jobs."""
DECISION_WAIT_MAX_S = 10.0
CATALOGUE_WAIT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call: who, what, when, and how it is to be served.

    `wait_s` above zero waits for the first decision about each job.
    """

    caller: Caller
    body: Body
    namespace: str
    cause: Cause
    source: str = "request"
    dry_run: bool = False
    wait_s: float = 0.0


class Submitting:
    """Takes files: objects are applied whole, then jobs go to the log together."""

    def __init__(self, bus: Bus, feed: ObjectFeed, decisions: DecisionFeed, owners: Owners) -> None:
        self._bus = bus
        self._feed = feed
        self._decisions = decisions
        self._owners = owners
        self._applying = Applying(bus, feed, owners)
        self._switching = Switching(bus, decisions)

    async def accept(self, request: Request) -> Accepted:
        """Take a file. Everything that can be refused is, before anything is published.

        Raises `ManifestError`, `InvalidValue`, `Forbidden`, `Conflict`, `Transient`.
        """
        loaded = await self._load(request)
        objects = tuple(document for document in loaded.documents if job_of(document) is None)
        _check_rights(request.caller, loaded)
        change = await self._applying.plan(objects)
        jobs = resolve_jobs(loaded.documents, _sender(request), change.after)
        jobs, switches = await self._switching.part(jobs, request.caller)
        jobs = await check_names(jobs, self._decisions)
        planned = as_applied(change, self._feed.catalogue.sequence)
        if not request.dry_run:
            for job in jobs:
                events.submitted(job.resolved, job.document, 0, request.cause)
            if objects:
                planned = await self._applying.apply(
                    objects, by=request.caller.name, cause=request.cause
                )
            await self._bus.publish(
                [switch.message(request.caller, request.cause) for switch in switches]
            )
            jobs = await self._publish(jobs, planned.sequence, request)
        accepted = _accepted(request, loaded, planned, jobs)
        switched = tuple(switch.view for switch in switches)
        return replace(accepted, objects=(*accepted.objects, *switched))

    async def plan(self, request: Request) -> Plans:
        """See what would become of a file's jobs. Raises as `accept` does."""
        loaded = await self._load(request)
        jobs = resolve_jobs(loaded.documents, _sender(request), self._feed.catalogue)
        if not jobs:
            raise InvalidValue("the file has no job", fix="give a Job, not only objects")
        for job in jobs:
            request.caller.need(Right.READ, job.resolved.workload.namespace)
        planned = await asyncio.gather(*(self._plan(job) for job in jobs))
        return Plans(jobs=tuple(planned), warnings=_warnings(loaded, jobs))

    async def _plan(self, job: Job) -> PlannedJob:
        resolved = job.resolved
        question = PlanQuestion(workload=resolved.workload, cluster_queue=resolved.cluster_queue)
        plan = await self._owners.plan(question, resolved.partition)
        return PlannedJob(
            namespace=resolved.workload.namespace,
            name=resolved.workload.name,
            kind=resolved.workload.owner.kind,
            queue=resolved.workload.queue.name,
            cluster_queue=resolved.cluster_queue,
            requests_milli=resolved.workload.total_requests,
            plan=plan,
        )

    async def _load(self, request: Request) -> LoadResult:
        await self._feed.abreast(CATALOGUE_WAIT_S)
        body = request.body
        loaded = await load_body(
            body,
            self._feed.catalogue,
            namespace=request.namespace,
            seed=_key(request),
            source=request.source,
        )
        if not loaded.documents:
            raise InvalidValue("the body holds no object", fix="send a manifest")
        return loaded

    async def _publish(self, jobs: list[Job], sequence: int, request: Request) -> list[Job]:
        ids = {job.resolved.workload.id for job in jobs}
        with self._decisions.listen(lambda heard: heard.id in ids) as listener:
            await self._bus.publish(
                [
                    events.submitted(job.resolved, job.document, sequence, request.cause)
                    for job in jobs
                ]
            )
            for job in jobs:
                self._decisions.remember(_remembered(job))
            if request.wait_s > 0:
                return await self._await_decisions(jobs, listener, request.wait_s)
        return jobs

    async def _await_decisions(
        self, jobs: list[Job], listener: Listener, wait_s: float
    ) -> list[Job]:
        undecided = {job.resolved.workload.id for job in jobs if job.decided is None}
        decided: set[str] = set()
        loop = asyncio.get_running_loop()
        until_s = loop.time() + min(wait_s, DECISION_WAIT_MAX_S)
        while undecided - decided:
            heard = await listener.next(until_s - loop.time())
            if heard is None or listener.lagging:
                break
            decided.add(heard.id)
        return [await self._with_decision(job) for job in jobs]

    async def _with_decision(self, job: Job) -> Job:
        workload = job.resolved.workload
        last = await self._decisions.last(workload.namespace, workload.name)
        return replace(job, decided=last if last and last.id == workload.id else None)


def _key(request: Request) -> str:
    """What makes a repetition of the request the same; without one each request is its own."""
    return request.body.key or f"{request.caller.name}@{request.cause.at_ms}"


def _sender(request: Request) -> Sender:
    caller, body = request.caller, request.body
    if body.user and body.user != caller.name:
        caller.need(Right.SPEAK_FOR_OTHERS)
    return Sender(
        key=_key(request),
        received_ms=request.cause.at_ms,
        user=body.user or caller.name,
        external_lease_ms=checked_lease(body.external_lease_ms),
        labels=body.labels,
    )


def _check_rights(caller: Caller, loaded: LoadResult) -> None:
    for document in loaded.documents:
        if job_of(document) is not None or isinstance(document.content, OF_SUBMITTERS):
            caller.need(Right.SUBMIT, document.namespace)
        else:
            caller.need(Right.CONFIGURE)


def _remembered(job: Job) -> Heard:
    resolved = job.resolved
    return Heard(
        sequence=0,
        id=resolved.workload.id,
        namespace=resolved.workload.namespace,
        name=resolved.workload.name,
        queue=resolved.workload.queue.name,
        cluster_queue=resolved.cluster_queue,
        partition=resolved.partition,
        verdict="",
    )


def _accepted(request: Request, loaded: LoadResult, applied: Applied, jobs: list[Job]) -> Accepted:
    return Accepted(
        jobs=tuple(_job_view(job) for job in jobs),
        objects=applied.objects,
        warnings=(*_warnings(loaded, jobs), *applied.warnings),
        dry_run=request.dry_run,
    )


def _job_view(job: Job) -> AcceptedJob:
    workload = job.resolved.workload
    return AcceptedJob(
        id=workload.id,
        namespace=workload.namespace,
        name=workload.name,
        kind=workload.owner.kind,
        queue=workload.queue.name,
        cluster_queue=job.resolved.cluster_queue,
        partition=job.resolved.partition,
        priority=workload.priority,
        decision=job.decided,
    )


def _warnings(loaded: LoadResult, jobs: list[Job]) -> tuple[str, ...]:
    of_jobs = [warning for job in jobs for warning in job.warnings]
    return (*(str(warning) for warning in loaded.warnings), *of_jobs)
