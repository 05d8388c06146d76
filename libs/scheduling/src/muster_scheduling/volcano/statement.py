"""What a session tries, and takes back or keeps (S1 to S5).

A statement changes the session at once and remembers how to undo it; nothing is copied. Committed
evictions and allocations become part of the plan; a pipelined task only keeps its place.
"""

from dataclasses import dataclass, field
from enum import Enum

from muster_scheduling.volcano.job import Task
from muster_scheduling.volcano.plan import Bind, Eviction, EvictionReason, TaskStatus
from muster_scheduling.volcano.session import Session


class Deed(Enum):
    """What a statement did to a task."""

    EVICT = "evict"
    PIPELINE = "pipeline"
    ALLOCATE = "allocate"


@dataclass(frozen=True, slots=True)
class Operation:
    """One deed, and the status that it replaced."""

    deed: Deed
    task: Task
    node: str
    before: TaskStatus
    reason: EvictionReason | None = None
    by: str = ""


@dataclass(slots=True)
class Statement:
    """A list of deeds on one session that stand or fall together."""

    session: Session
    operations: list[Operation] = field(default_factory=list[Operation])

    def evict(self, task: Task, reason: EvictionReason, by: str = "") -> None:
        """Tell a task to stop; its node counts on getting back what it holds."""
        self._do(Operation(Deed.EVICT, task, task.node, task.status, reason, by))

    def pipeline(self, task: Task, node: str) -> None:
        """Give a pending task a place that is about to become free."""
        self._do(Operation(Deed.PIPELINE, task, node, task.status))

    def allocate(self, task: Task, node: str) -> None:
        """Give a pending task a place that is free."""
        self._do(Operation(Deed.ALLOCATE, task, node, task.status))

    def replay(self, operations: list[Operation]) -> None:
        """Do again what another statement did and undid."""
        for operation in operations:
            self._do(operation)

    def merge(self, other: "Statement") -> None:
        """Take over another statement's deeds; it must not be used any more."""
        self.operations += other.operations
        other.operations = []

    def discard(self) -> None:
        """Undo everything, last first."""
        for operation in reversed(self.operations):
            _undo(self.session, operation)
        self.operations = []

    def commit(self) -> None:
        """Put evictions and allocations into the plan."""
        for operation in self.operations:
            task = operation.task
            if operation.deed is Deed.EVICT and operation.reason is not None:
                self.session.evictions.append(
                    Eviction(
                        pod=task.key,
                        job=task.gang.key,
                        node=operation.node,
                        reason=operation.reason,
                        by=operation.by,
                    )
                )
            elif operation.deed is Deed.ALLOCATE:
                task.gang.set_status(task, TaskStatus.BINDING)
                self.session.binds.append(
                    Bind(
                        pod=task.key,
                        job=task.gang.key,
                        node=operation.node,
                        cards=self.session.cards.get(task.key, ()),
                    )
                )
        self.operations = []

    def _do(self, operation: Operation) -> None:
        _apply(self.session, operation)
        self.operations.append(operation)


_STATUS = {
    Deed.EVICT: TaskStatus.RELEASING,
    Deed.PIPELINE: TaskStatus.PIPELINED,
    Deed.ALLOCATE: TaskStatus.ALLOCATED,
}


def _apply(session: Session, operation: Operation) -> None:
    task = operation.task
    if operation.deed is Deed.EVICT:
        session.nodes.remove(task)
        task.gang.set_status(task, _STATUS[operation.deed])
        session.nodes.add(task)
        session.tell(session.points.deallocated, task)
    else:
        task.node = operation.node
        task.gang.set_status(task, _STATUS[operation.deed])
        session.nodes.add(task)
        session.tell(session.points.allocated, task)


def _undo(session: Session, operation: Operation) -> None:
    task = operation.task
    session.nodes.remove(task)
    task.gang.set_status(task, operation.before)
    if operation.deed is Deed.EVICT:
        session.nodes.add(task)
        session.tell(session.points.allocated, task)
    else:
        session.tell(session.points.deallocated, task)
        task.node = ""
