"""JobFlows: each job is submitted once those it depends on have completed.

Nothing is kept: how far a flow is follows from the last decisions about its jobs, whose ids follow
from the flow as it was applied. Every gateway may submit the same step; it is the same workload.
A flow that is applied in another form is another run of it.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import structlog

from muster_contracts.api import FlowStepView, FlowView
from muster_contracts.jobs import Decision, Verdict
from muster_domain.conditions import Outcome
from muster_domain.errors import Conflict, InvalidValue, Transient
from muster_domain.job_flow import FlowPhase, FlowStep, JobFlow, JobTemplate, StepState
from muster_gateway import events
from muster_gateway.decisions import DecisionFeed, Heard
from muster_gateway.events import Cause
from muster_gateway.intake import Job, check_names, resolve_jobs
from muster_gateway.resolution import Sender
from muster_manifests import LoadOptions, ManifestError, load_objects
from muster_manifests.catalogue import Change, ObjectKey, StoredObject
from muster_runtime.bus import Bus
from muster_runtime.clock import now_ms
from muster_runtime.objects import ObjectFeed
from muster_scheduling.jobs.flow import FlowProgress, progress

FLOW_LABEL = "volcano.sh/job-flow-name"
LOOK_EVERY_S = 10.0
"""How often flows are looked at while nothing is heard: an outage may have swallowed a step."""

_STATES: Mapping[Verdict, StepState] = {
    Verdict.ADMITTED: StepState.RUNNING,
    Verdict.REFUSED: StepState.FAILED,
}

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """A step with its job, or with what stands in its way."""

    step: FlowStep
    job: Job | None
    message: str = ""


class Flows:
    """Follows every JobFlow that is declared."""

    def __init__(self, bus: Bus, feed: ObjectFeed, decisions: DecisionFeed) -> None:
        self._bus = bus
        self._feed = feed
        self._decisions = decisions
        self._over: dict[str, int] = {}
        """Flows that have ended, with the sequence they were applied at."""
        self._jobs: frozenset[str] = frozenset()
        """`namespace/name` of every job that a flow may have."""
        self._moved = asyncio.Event()
        feed.catalogue.listeners.append(self._declared)

    async def run(self) -> None:
        """Submit steps as they come to be ready, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._hear())
            while True:
                self._moved.clear()
                for flow in list(self._feed.catalogue.job_flows.values()):
                    await self._try(flow)
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_EVERY_S):
                        await self._moved.wait()

    async def _hear(self) -> None:
        while True:
            with self._decisions.listen(self._concerns) as listener:
                while not listener.lagging:
                    if await listener.next(LOOK_EVERY_S) is not None:
                        self._moved.set()
            self._moved.set()

    def _concerns(self, heard: Heard) -> bool:
        return heard.ended and f"{heard.namespace}/{heard.name}" in self._jobs

    def _declared(self, change: Change) -> None:
        if isinstance(change.before or change.after, JobFlow | JobTemplate):
            flows = self._feed.catalogue.job_flows.values()
            self._jobs = frozenset(
                f"{flow.namespace}/{flow.job_name(step)}" for flow in flows for step in flow.steps
            )
            self._moved.set()

    async def look(self, namespace: str, name: str) -> FlowView | None:
        """How far a flow is; None where there is none. Raises `Transient`."""
        flow = self._feed.catalogue.job_flows.get(f"{namespace}/{name}")
        stored = None if flow is None else self._stored(flow)
        if flow is None or stored is None:
            return None
        steps = self._steps(flow, stored)
        found = await self._progress(flow, steps)
        return FlowView(
            namespace=namespace,
            name=name,
            phase=found.phase,
            steps=tuple(
                FlowStepView(
                    name=each.step.name,
                    job=flow.job_name(each.step),
                    state=found.states[each.step.name],
                    message=each.message,
                )
                for each in steps
            ),
        )

    async def _try(self, flow: JobFlow) -> None:
        stored = self._stored(flow)
        if stored is None or self._over.get(flow.key) == stored.sequence:
            return
        try:
            steps = self._steps(flow, stored)
            found = await self._progress(flow, steps)
            if found.phase in (FlowPhase.SUCCEED, FlowPhase.FAILED):
                self._over[flow.key] = stored.sequence
            await self._submit([each.job for each in steps if each.step.name in found.ready])
        except (Conflict, InvalidValue, Transient) as error:
            _log.warning("a step of a flow waits", flow=flow.key, error=str(error))

    async def _submit(self, ready: list[Job | None]) -> None:
        jobs = await check_names([job for job in ready if job is not None], self._decisions)
        cause = Cause(at_ms=now_ms())
        sequence = self._feed.catalogue.sequence
        await self._bus.publish(
            [events.submitted(job.resolved, job.document, sequence, cause) for job in jobs]
        )

    def _stored(self, flow: JobFlow) -> StoredObject | None:
        return self._feed.catalogue.get(ObjectKey("JobFlow", flow.namespace, flow.name))

    def _steps(self, flow: JobFlow, stored: StoredObject) -> list[_Step]:
        return [self._step(flow, stored, step) for step in flow.steps]

    def _step(self, flow: JobFlow, stored: StoredObject, step: FlowStep) -> _Step:
        template = self._feed.catalogue.get(ObjectKey("JobTemplate", flow.namespace, step.name))
        if template is None:
            missing = f"there is no JobTemplate {flow.namespace}/{step.name}"
            return _Step(step=step, job=None, message=missing)
        manifest = {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {
                "name": flow.job_name(step),
                "namespace": flow.namespace,
                "labels": {FLOW_LABEL: flow.name},
            },
            "spec": template.document.manifest["spec"],
        }
        sender = Sender(
            key=f"jobflow/{flow.key}@{stored.sequence}", received_ms=now_ms(), user=stored.by
        )
        try:
            options = LoadOptions(default_namespace=flow.namespace)
            loaded = load_objects((manifest,), source=f"JobTemplate {step.name}", options=options)
            (job,) = resolve_jobs(loaded.documents, sender, self._feed.catalogue)
        except (ManifestError, InvalidValue) as error:
            return _Step(step=step, job=None, message=str(error))
        return _Step(step=step, job=job)

    async def _progress(self, flow: JobFlow, steps: list[_Step]) -> FlowProgress:
        lasts = await asyncio.gather(*(self._state(each.job) for each in steps))
        states = {each.step.name: state for each, state in zip(steps, lasts, strict=True) if state}
        return progress(flow, states)

    async def _state(self, job: Job | None) -> StepState | None:
        """How far a job is, once it was submitted."""
        if job is None:
            return None
        workload = job.resolved.workload
        last = await self._decisions.last(workload.namespace, workload.name)
        return _state_of(last) if last is not None and last.id == workload.id else None


def _state_of(decision: Decision) -> StepState:
    if decision.decision is Verdict.FINISHED:
        succeeded = decision.outcome is Outcome.SUCCEEDED
        return StepState.COMPLETED if succeeded else StepState.FAILED
    return _STATES.get(decision.decision, StepState.PENDING)
