"""Applying a live workload again changes the little of it that may change.

A Workload with another `active` is taken out of the line, or put back. An elastic job with other
numbers of pods is scaled while it runs. Everything else of a live workload is fixed: whoever
changes that as well is refused, as any job is whose name is in use.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

from muster_contracts import codec, subjects
from muster_contracts.api import AppliedObject
from muster_contracts.events import ActivationRequested, ScaleRequested, WorkloadSubmitted
from muster_contracts.jobs import Decision
from muster_contracts.streams import EVENTS
from muster_contracts.subjects import Service
from muster_domain.workload import Workload
from muster_gateway import events
from muster_gateway.access import Caller, Right
from muster_gateway.changes import Effect
from muster_gateway.decisions import ENDED, DecisionFeed
from muster_gateway.events import Cause, Target
from muster_gateway.intake import Job
from muster_gateway.locating import wish_key
from muster_manifests import WorkloadRecord
from muster_runtime.bus import Bus
from muster_runtime.publisher import Outgoing

_ACTIVE = "active"


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """A live workload of which something else is wanted now."""

    target: Target
    kind: str
    name: str
    wish: ActivationRequested | ScaleRequested

    @property
    def view(self) -> AppliedObject:
        """What the caller is told."""
        return AppliedObject(
            kind=self.kind,
            namespace=self.target.namespace,
            name=self.name,
            effect=Effect.CONFIGURED,
        )

    def message(self, caller: Caller, cause: Cause) -> Outgoing:
        """The wish; of several about one workload the latest holds."""
        wish = replace(self.wish, at_ms=cause.at_ms, by=caller.name)
        return events.about_job(wish, self.target, cause, wish_key(wish, ""))


class Switching:
    """Tells the workloads of a file that are changed from the jobs that are submitted."""

    def __init__(self, bus: Bus, decisions: DecisionFeed) -> None:
        self._bus = bus
        self._decisions = decisions

    async def part(self, jobs: list[Job], caller: Caller) -> tuple[list[Job], list[Switch]]:
        """What of a file is submitted, and what is changed. Raises `Forbidden`, `Transient`."""
        found = await asyncio.gather(*(self._switch(job) for job in jobs))
        switches = [switch for switch in found if switch is not None]
        for switch in switches:
            caller.need(Right.END, switch.target.namespace)
        return [job for job, switch in zip(jobs, found, strict=True) if switch is None], switches

    async def _switch(self, job: Job) -> Switch | None:
        workload = job.resolved.workload
        names_active = isinstance(job.document.content, WorkloadRecord) and (
            _ACTIVE in _spec(job.document.manifest)
        )
        if not (workload.is_scalable or names_active):
            return None
        last = await self._decisions.last(workload.namespace, workload.name)
        if last is None or last.decision in ENDED:
            return None
        target = Target(id=last.id, namespace=workload.namespace, partition=last.partition)
        submitted = await self._submitted(target)
        wish = None if submitted is None else _wish(job, last, submitted)
        if wish is None:
            return None
        return Switch(target=target, kind=job.document.kind, name=workload.name, wish=wish)

    async def _submitted(self, target: Target) -> WorkloadSubmitted | None:
        """What was submitted, as long as the log remembers it."""
        name = codec.EVENT_NAMES[WorkloadSubmitted]
        subject = subjects.workload_event(
            Service.GATEWAY, name, target.partition, target.namespace, target.id
        )
        found = await self._bus.last(EVENTS.name, subject)
        fact = codec.decode_event(name, found.body) if found is not None else None
        return fact if isinstance(fact, WorkloadSubmitted) else None


def _wish(
    job: Job, last: Decision, submitted: WorkloadSubmitted
) -> ActivationRequested | ScaleRequested | None:
    """What is wanted of the live workload; None where the job is another, or the same again."""
    workload, manifest = job.resolved.workload, job.document.manifest
    again = last.id == workload.id
    if not again and _ACTIVE in _spec(manifest) and _fixed(submitted.manifest) == _fixed(manifest):
        return ActivationRequested(workload_id=last.id, active=workload.active, at_ms=0)
    before = submitted.workload
    counts = {pod_set.name: pod_set.count for pod_set in workload.pod_sets}
    is_same = counts == {pod_set.name: pod_set.count for pod_set in before.pod_sets}
    if (again and is_same) or not before.is_scalable or not _differs_in_counts(workload, before):
        return None
    return ScaleRequested(workload_id=last.id, counts=counts, at_ms=0)


def _differs_in_counts(workload: Workload, before: Workload) -> bool:
    """Whether nothing but the numbers of pods is another, and who sends it when."""
    alike = replace(workload, id=before.id, created_at_ms=before.created_at_ms, user=before.user)
    return alike.scaled({pod_set.name: pod_set.count for pod_set in before.pod_sets}) == before


def _spec(manifest: Mapping[str, object]) -> Mapping[str, object]:
    spec = manifest.get("spec")
    return cast("Mapping[str, object]", spec) if isinstance(spec, Mapping) else {}


def _fixed(manifest: Mapping[str, object]) -> dict[str, object]:
    """A manifest less what may change while the workload lives."""
    spec = {name: value for name, value in _spec(manifest).items() if name != _ACTIVE}
    return {**{name: value for name, value in manifest.items() if name != "status"}, "spec": spec}
