"""From what people call a workload to where it is decided about."""

import re
from dataclasses import dataclass, replace

from muster_contracts.api import Noted
from muster_contracts.events import (
    ActivationRequested,
    CancelRequested,
    CheckAnswered,
    CheckpointReported,
    FinishReported,
    JobWish,
    LeaseRenewed,
    ScaleRequested,
)
from muster_contracts.partitions import EVERY_PARTITION, PARTITIONS
from muster_contracts.queries import WorkloadRow, WorkloadsQuestion
from muster_domain.errors import Conflict, NotFound, Transient
from muster_gateway import events
from muster_gateway.access import Caller, Right
from muster_gateway.bodies import is_id, is_name
from muster_gateway.decisions import DecisionFeed, Heard
from muster_gateway.events import Cause, Target
from muster_gateway.owners import Owners
from muster_runtime.bus import Bus

NAME_SEPARATOR = ":"
"""Between namespace and name in a reference; neither can hold it."""
_PREFIX = re.compile(r"[0-9a-f]{4,31}")
_MATCHES_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """A workload and who decides about it; the partition is `all` where nobody has said yet."""

    id: str
    namespace: str
    name: str
    partition: str

    @property
    def target(self) -> Target:
        """Where to say something about it."""
        return Target(id=self.id, namespace=self.namespace, partition=self.partition)


class Locating:
    """Finds workloads by id, by the beginning of an id, or by `namespace:name`."""

    def __init__(self, decisions: DecisionFeed, owners: Owners) -> None:
        self._decisions = decisions
        self._owners = owners

    async def find(self, reference: str, caller: Caller) -> Located:
        """Find the workload that the caller means.

        What the caller does not see does not exist. Raises `NotFound`, `Conflict` where several
        begin so, `Transient`.
        """
        namespace, separator, name = reference.partition(NAME_SEPARATOR)
        if separator and not (is_name(namespace) and is_name(name)):
            raise NotFound(f"{reference[:60]!r} is not namespace{NAME_SEPARATOR}name")
        found = await self._by_name(namespace, name) if separator else await self._by_id(reference)
        visible = [located for located in found if caller.sees(located.namespace)]
        if not visible:
            raise NotFound(f"there is no workload {reference.replace(NAME_SEPARATOR, '/')!r}")
        if len(visible) > 1:
            names = ", ".join(
                f"{located.id[:12]} ({located.namespace}/{located.name})"
                for located in visible[:_MATCHES_SHOWN]
            )
            raise Conflict(f"{len(visible)} workloads begin with {reference!r}: {names}")
        return visible[0]

    async def _by_name(self, namespace: str, name: str) -> list[Located]:
        last = await self._decisions.last(namespace, name)
        if last is None or not last.partition:
            return []
        return [Located(id=last.id, namespace=namespace, name=name, partition=last.partition)]

    async def owner_of(self, identity: str) -> Located | None:
        """Where the workload of that full id is, or None where nobody knows it.

        Raises `Transient` while not everybody has answered.
        """
        heard = self._decisions.find(identity)
        if heard is not None:
            return _located(heard)
        answer = await self._owners.workloads(WorkloadsQuestion(id_prefix=identity, limit=1))
        if answer.value.rows:
            return _row_located(answer.value.rows[0])
        if answer.silent:
            raise Transient(f"{', '.join(answer.silent)} did not say whether they have it")
        return None

    async def _by_id(self, reference: str) -> list[Located]:
        if is_id(reference):
            heard = self._decisions.find(reference)
            if heard is not None:
                return [_located(heard)]
        elif not _PREFIX.fullmatch(reference):
            raise NotFound(
                f"{reference[:60]!r} is neither an id, nor 4 or more characters of one, nor "
                f"namespace{NAME_SEPARATOR}name"
            )
        question = WorkloadsQuestion(id_prefix=reference, limit=_MATCHES_SHOWN * 2)
        answer = await self._owners.workloads(question)
        by_id = {heard.id: _located(heard) for heard in self._decisions.begin_with(reference)}
        by_id.update({row.id: _row_located(row) for row in answer.value.rows})
        return [by_id[identity] for identity in sorted(by_id)]


class Wishes:
    """What callers want of workloads that are there already."""

    def __init__(self, bus: Bus, locating: Locating) -> None:
        self._bus = bus
        self._locating = locating

    async def say(self, reference: str, wish: JobWish, caller: Caller, cause: Cause) -> Noted:
        """Put a wish on the log; its own `workload_id` does not count.

        Raises as `Locating.find` does, and `Forbidden`.
        """
        located = await self._locating.find(reference, caller)
        answers = isinstance(wish, CheckAnswered)
        caller.need(Right.ANSWER_CHECKS if answers else Right.END, located.namespace)
        fact = replace(wish, workload_id=located.id)
        key = wish_key(fact, str(cause.at_ms))
        await self._bus.publish([events.about_job(fact, located.target, cause, key)])
        return Noted(id=located.id, namespace=located.namespace, name=located.name)


def wish_key(wish: JobWish, once: str) -> str:
    """What tells two wishes about one workload apart: signs of life and of work all differ."""
    match wish:
        case CancelRequested():
            return ""
        case FinishReported(outcome=outcome):
            return outcome
        case LeaseRenewed() | CheckpointReported():
            return once
        case ActivationRequested(active=active, at_ms=at_ms):
            return f"{active} {at_ms}"
        case ScaleRequested(counts=counts, at_ms=at_ms):
            return f"{sorted(counts.items())} {at_ms}"
        case CheckAnswered(attempt=attempt, resize=resize, check=check, state=state):
            return f"{attempt}.{resize} {check} {state}"


def _located(heard: Heard) -> Located:
    return Located(
        id=heard.id,
        namespace=heard.namespace,
        name=heard.name,
        partition=heard.partition or EVERY_PARTITION,
    )


def _row_located(row: WorkloadRow) -> Located:
    partition = row.partition if row.partition in PARTITIONS else EVERY_PARTITION
    return Located(id=row.id, namespace=row.namespace, name=row.name, partition=partition)
