"""Holding the books against admission: whoever holds quota there has an open interval here.

An interval that stays open though its attempt is over is a zombie: the fact that ended it never
reached these books. What says when it ended is, in this order, admission's own word, the moment
when placement fenced a node of it, and the moment when it was found. It is closed by a fact of
accounting's on the log, so that books made anew from the log close it too; an earlier end that is
heard later still holds.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from muster_contracts import codec, envelope, subjects
from muster_contracts.intervals import IntervalClosed
from muster_contracts.partitions import PARTITIONS
from muster_contracts.queries import (
    PAGE_MAX,
    Phase,
    Query,
    QuotaPage,
    WorkloadDetail,
    WorkloadPage,
    WorkloadRow,
)
from muster_contracts.subjects import Service
from muster_domain.errors import NotFound
from muster_domain.nodes import NodeCondition
from muster_rating.attempts import Attempt
from muster_rating.capacity import NodeFact, NodeTurn
from muster_runtime.bus import Bus
from muster_runtime.publisher import Outgoing

HOLDING = (Phase.RESERVED, Phase.ADMITTED, Phase.RUNNING, Phase.EVICTING)
_NAME = codec.EVENT_NAMES[IntervalClosed]
_log = structlog.get_logger()

Key = tuple[str, int]
"""(workload id, attempt)."""


@dataclass(slots=True)
class Recount:
    """Looks again and again; what differs twice in a row differs.

    The end of a zombie is told at every look until it is booked, and counted in `found` once.
    """

    bus: Bus
    suspects: frozenset[Key] = frozenset()
    missing: frozenset[Key] = frozenset()
    told: frozenset[Key] = frozenset()
    found: int = 0

    async def look(
        self, open_attempts: Sequence[Attempt], facts: Iterable[NodeFact], now_ms: int
    ) -> tuple[int, list[Outgoing]]:
        """How many intervals differ, and the facts that close those that are zombies.

        Raises `Transient` where a partition does not answer.
        """
        books = {attempt.key: attempt for attempt in open_attempts if attempt.is_open}
        if _by_queue(books.values()) == await self._holders():
            self.suspects = self.missing = self.told = frozenset()
            return 0, []
        held = await self._held()
        suspects = frozenset(key for key in books if key not in held)
        missing = frozenset(key for key in held if key not in books)
        zombies = sorted(suspects & self.suspects)
        difference = len(zombies) + len(missing & self.missing)
        self.suspects, self.missing = suspects, missing
        turns = [fact for fact in facts if isinstance(fact, NodeTurn)]
        looked_up = [await self._closed(books[key], turns, now_ms) for key in zombies]
        closed = [fact for fact in looked_up if fact is not None]
        told = frozenset((fact.workload_id, fact.attempt) for fact in closed)
        self.found += len(told - self.told)
        self.told = told
        return difference, [message(fact, books) for fact in closed]

    async def _holders(self) -> Counter[str]:
        """How many workloads hold quota, by ClusterQueue."""
        found: Counter[str] = Counter()
        for partition in PARTITIONS:
            page = codec.decode(QuotaPage, await self._ask(Query.QUOTA, partition, {}))
            found.update({queue.name: queue.reserving for queue in page.queues if queue.reserving})
        return found

    async def _held(self) -> set[Key]:
        found: set[Key] = set()
        for partition in PARTITIONS:
            offset, total = 0, 1
            while offset < total:
                asked: dict[str, object] = {
                    "phases": HOLDING,
                    "limit": PAGE_MAX,
                    "offset": offset,
                }
                body = await self._ask(Query.WORKLOADS, partition, asked)
                page = codec.decode(WorkloadPage, body, bytes_max=codec.ANSWER_BYTES_MAX)
                found |= {(row.id, row.attempt) for row in page.rows}
                offset, total = offset + PAGE_MAX, page.total
        return found

    async def _closed(
        self, attempt: Attempt, turns: Sequence[NodeTurn], now_ms: int
    ) -> IntervalClosed | None:
        """When an attempt that nobody lists was over; None if admission knows it after all."""
        row = await self._row(attempt.workload_id)
        if row is not None and row.attempt == attempt.number and row.phase in HOLDING:
            return None
        at_ms, message = ended(attempt, row, turns, now_ms)
        _log.warning("zombie", workload=attempt.workload_id, attempt=attempt.number, why=message)
        return IntervalClosed(
            workload_id=attempt.workload_id, attempt=attempt.number, at_ms=at_ms, message=message
        )

    async def _row(self, workload_id: str) -> WorkloadRow | None:
        for partition in PARTITIONS:
            try:
                body = await self._ask(Query.WORKLOAD, partition, {"id": workload_id})
            except NotFound:
                continue
            return codec.decode(WorkloadDetail, body, bytes_max=codec.ANSWER_BYTES_MAX).row
        return None

    async def _ask(self, query: Query, partition: str, question: dict[str, object]) -> bytes:
        return await self.bus.ask(subjects.query(Service.ADMISSION, query, partition), question)


def _by_queue(attempts: Iterable[Attempt]) -> Counter[str]:
    return Counter(
        attempt.opening.owner.cluster_queue for attempt in attempts if attempt.opening is not None
    )


def ended(
    attempt: Attempt, row: WorkloadRow | None, turns: Iterable[NodeTurn], now_ms: int
) -> tuple[int, str]:
    """When an attempt was over at the latest, and what says so."""
    last = row is not None and row.attempt == attempt.number
    if row is not None and last and row.finished_at_ms is not None:
        return row.finished_at_ms, "admission says that it finished"
    seated_ms = None if attempt.seating is None else attempt.seating.at_ms
    nodes = () if attempt.seating is None else tuple(seat.node for seat in attempt.seating.seats)
    fenced = sorted(
        (turn.at_ms, turn.node)
        for turn in turns
        if turn.condition is NodeCondition.FENCED
        and turn.node in nodes
        and seated_ms is not None
        and turn.at_ms >= seated_ms
    )
    if fenced:
        return fenced[0][0], f"node {fenced[0][1]} was fenced"
    return now_ms, "admission does not hold it any more"


def message(fact: IntervalClosed, books: Mapping[Key, Attempt]) -> Outgoing:
    """The fact as it goes onto the log; said again it has the same id."""
    opening = books[fact.workload_id, fact.attempt].opening
    namespace = "" if opening is None else opening.owner.namespace
    headers = envelope.to_headers(
        envelope.Envelope(
            id=envelope.derived_id(Service.ACCOUNTING, _NAME, fact.workload_id, fact.attempt),
            source="/muster/accounting",
            type=envelope.event_type(Service.ACCOUNTING, _NAME),
            time_ms=fact.at_ms,
        )
    )
    subject = subjects.interval_event(_NAME, namespace, fact.workload_id)
    return Outgoing(subject=subject, body=codec.encode(fact), headers=headers)
