"""Changing declared objects: a whole file or nothing, checked against what lives under them."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from muster_contracts.api import AppliedObject
from muster_contracts.partitions import partition_of
from muster_contracts.queries import Phase, QueueRow, WorkloadsQuestion
from muster_domain.errors import Conflict, NotFound
from muster_gateway import events
from muster_gateway.changes import (
    ChangeSet,
    Move,
    Planned,
    check_deletable,
    moves,
    plan_changes,
    without,
)
from muster_gateway.events import Cause
from muster_gateway.owners import Owners
from muster_manifests.catalogue import ObjectCatalogue, ObjectKey
from muster_manifests.document import Document
from muster_runtime.bus import Bus
from muster_runtime.objects import ObjectFeed

RACES_MAX = 5
"""How often a change is planned anew because somebody else changed objects meanwhile."""
SEEN_TIMEOUT_S = 5.0
UNFINISHED = (Phase.PENDING, Phase.RESERVED, Phase.ADMITTED, Phase.RUNNING, Phase.EVICTING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What was done to a file's objects. `sequence` is where the stream stands after it."""

    objects: tuple[AppliedObject, ...]
    catalogue: ObjectCatalogue
    sequence: int
    warnings: tuple[str, ...] = ()


class Applying:
    """Writes the stream of objects; every change is made from a catalogue that is abreast of it."""

    def __init__(self, bus: Bus, feed: ObjectFeed, owners: Owners) -> None:
        self._bus = bus
        self._feed = feed
        self._owners = owners

    async def plan(self, documents: Iterable[Document]) -> ChangeSet:
        """See what applying would do.

        Raises `Conflict` when a ClusterQueue with live workloads would change its tree, and
        `Transient` when its owner does not say.
        """
        change = plan_changes(documents, self._feed.catalogue)
        await self._check_moves(change.moves)
        return change

    async def apply(self, documents: tuple[Document, ...], *, by: str, cause: Cause) -> Applied:
        """Apply a file's objects, all or none. Raises as `plan` does, and `InvalidValue`."""
        for _ in range(RACES_MAX):
            seen = self._feed.catalogue.sequence
            change = await self.plan(documents)
            messages = [
                events.object_applied(plan.document, by=by, text=plan.document.text, cause=cause)
                for plan in change.changed
            ]
            if not messages:
                return as_applied(change, seen)
            try:
                last = await self._bus.publish_together(messages, expected_last=seen)
            except Conflict:
                await self._feed.wait_for(seen + 1, SEEN_TIMEOUT_S)
                continue
            await self._feed.wait_for(last, SEEN_TIMEOUT_S)
            return as_applied(change, last)
        raise Conflict("objects are being changed by somebody else; try again")

    async def delete(self, key: ObjectKey, *, by: str, cause: Cause) -> None:
        """Delete an object. Raises `NotFound`, and `Conflict` while something uses it."""
        for _ in range(RACES_MAX):
            catalogue = self._feed.catalogue
            seen = catalogue.sequence
            if catalogue.get(key) is None:
                raise NotFound(f"there is no {key}")
            check_deletable(key, catalogue)
            await self._check_unused(key)
            await self._check_moves(moves(catalogue, without(key, catalogue)))
            message = events.object_deleted(key, by=by, cause=cause)
            try:
                last = await self._bus.publish_together([message], expected_last=seen)
            except Conflict:
                await self._feed.wait_for(seen + 1, SEEN_TIMEOUT_S)
                continue
            await self._feed.wait_for(last, SEEN_TIMEOUT_S)
            return
        raise Conflict("objects are being changed by somebody else; try again")

    async def _check_moves(self, found: tuple[Move, ...]) -> None:
        rows = await asyncio.gather(
            *(self._queue(move.cluster_queue, move.old_partition) for move in found)
        )
        for move, row in zip(found, rows, strict=True):
            if row is not None and _live(row):
                raise Conflict(
                    f"ClusterQueue {move.cluster_queue} would move from the tree {move.old_root} "
                    f"to {move.new_root} while it has {_live(row)} live workloads; stop it (muster "
                    f"stop {move.cluster_queue} --drain), wait until they are gone, apply again"
                )

    async def _check_unused(self, key: ObjectKey) -> None:
        if key.kind == "ClusterQueue":
            partition = partition_of(self._feed.catalogue.root_of(key.name))
            row = await self._queue(key.name, partition)
            if row is not None and _live(row):
                raise Conflict(
                    f"{key} has {_live(row)} live workloads; stop it (muster stop {key.name} "
                    "--drain), wait until they are gone, delete again"
                )
        if key.kind == "LocalQueue":
            await self._check_local_queue(key)

    async def _check_local_queue(self, key: ObjectKey) -> None:
        question = WorkloadsQuestion(
            namespaces=(key.namespace,), queue=key.name, phases=UNFINISHED, limit=1
        )
        found = await self._owners.workloads(question)
        if found.value.total:
            first = found.value.rows[0]
            raise Conflict(
                f"{key} has {found.value.total} live workloads, {first.namespace}/{first.name} "
                "among them; cancel them or wait for them, then delete again"
            )

    async def _queue(self, cluster_queue: str, partition: str) -> QueueRow | None:
        found = await self._owners.quota(cluster_queue, partition)
        return next((row for row in found.value.queues if row.name == cluster_queue), None)


def _live(row: QueueRow) -> int:
    return row.pending + row.inadmissible + row.reserving + row.admitted


def as_applied(change: ChangeSet, sequence: int) -> Applied:
    """What was done, or would be done, when the stream stands at `sequence`."""
    return Applied(
        objects=tuple(_view(plan) for plan in change.planned),
        catalogue=change.after,
        sequence=sequence,
        warnings=change.warnings,
    )


def _view(plan: Planned) -> AppliedObject:
    return AppliedObject(
        kind=plan.key.kind, namespace=plan.key.namespace, name=plan.key.name, effect=plan.effect
    )
