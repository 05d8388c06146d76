"""Applying a live Workload again with another `active` takes it out of the line, or puts it back.

Everything else of a live workload is fixed: whoever changes that as well is refused, as any job is
whose name is in use.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from muster_contracts import codec, subjects
from muster_contracts.api import AppliedObject
from muster_contracts.events import ActivationRequested, WorkloadSubmitted
from muster_contracts.streams import EVENTS
from muster_contracts.subjects import Service
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
    """A live workload that is to be active, or not to be."""

    target: Target
    kind: str
    name: str
    active: bool

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
        wish = ActivationRequested(
            workload_id=self.target.id, active=self.active, at_ms=cause.at_ms, by=caller.name
        )
        return events.about_job(wish, self.target, cause, wish_key(wish, ""))


class Switching:
    """Tells the Workloads of a file that are switched from the jobs that are submitted."""

    def __init__(self, bus: Bus, decisions: DecisionFeed) -> None:
        self._bus = bus
        self._decisions = decisions

    async def part(self, jobs: list[Job], caller: Caller) -> tuple[list[Job], list[Switch]]:
        """What of a file is submitted, and what is switched. Raises `Forbidden`, `Transient`."""
        found = await asyncio.gather(*(self._switch(job) for job in jobs))
        switches = [switch for switch in found if switch is not None]
        for switch in switches:
            caller.need(Right.END, switch.target.namespace)
        return [job for job, switch in zip(jobs, found, strict=True) if switch is None], switches

    async def _switch(self, job: Job) -> Switch | None:
        workload, manifest = job.resolved.workload, job.document.manifest
        if not isinstance(job.document.content, WorkloadRecord) or _ACTIVE not in _spec(manifest):
            return None
        last = await self._decisions.last(workload.namespace, workload.name)
        if last is None or last.decision in ENDED or last.id == workload.id:
            return None
        target = Target(id=last.id, namespace=workload.namespace, partition=last.partition)
        submitted = await self._submitted(target)
        if submitted is None or _fixed(submitted.manifest) != _fixed(manifest):
            return None
        return Switch(
            target=target, kind=job.document.kind, name=workload.name, active=workload.active
        )

    async def _submitted(self, target: Target) -> WorkloadSubmitted | None:
        """What was submitted, as long as the log remembers it."""
        name = codec.EVENT_NAMES[WorkloadSubmitted]
        subject = subjects.workload_event(
            Service.GATEWAY, name, target.partition, target.namespace, target.id
        )
        found = await self._bus.last(EVENTS.name, subject)
        fact = codec.decode_event(name, found.body) if found is not None else None
        return fact if isinstance(fact, WorkloadSubmitted) else None


def _spec(manifest: Mapping[str, object]) -> Mapping[str, object]:
    spec = manifest.get("spec")
    return cast("Mapping[str, object]", spec) if isinstance(spec, Mapping) else {}


def _fixed(manifest: Mapping[str, object]) -> dict[str, object]:
    """A manifest less what may change while the workload lives."""
    spec = {name: value for name, value in _spec(manifest).items() if name != _ACTIVE}
    return {**{name: value for name, value in manifest.items() if name != "status"}, "spec": spec}
