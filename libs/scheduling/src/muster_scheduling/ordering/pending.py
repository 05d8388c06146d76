"""Who waits for a ClusterQueue, in order, and who need not be looked at.

Workloads of one shape stand in line together: when one of them has no chance, none of its shape
has, and the whole class is set aside in one step (R-48). So an operation costs O(log n) whatever
waits, and a trigger costs as much as there are classes, not workloads.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from heapq import merge

from muster_scheduling.fairness.history import NOTHING, UsageKey
from muster_scheduling.ordering.keys import OrderKey, backoff_expired
from muster_scheduling.ordering.line import Line, empty_line
from muster_scheduling.quota import Journal
from muster_scheduling.snapshot.workloads import PendingWorkload, ScanBookmark

_Head = tuple[OrderKey, str]
_Place = tuple[UsageKey, bool, OrderKey]


class _ShapeClass:
    """Workloads that differ only in age, oldest first."""

    __slots__ = ("blocked", "head", "local_queue", "members", "shape")

    def __init__(self, shape: str, local_queue: str, *, blocked: bool) -> None:
        self.shape = shape
        self.local_queue = local_queue
        self.members: Line[OrderKey] = empty_line(OrderKey)
        self.head: OrderKey | None = None
        self.blocked = blocked


class PendingQueue:
    """The line of one ClusterQueue.

    Where LocalQueues take turns (`usage_of`), each has classes of its own, and the one that used
    least goes first (R-73).

    A workload is in exactly one place: in line (active), set aside alone (`park`), or set aside
    with its class (`park_class`). What is set aside comes back with `flush`.
    """

    def __init__(
        self, name: str, journal: Journal, usage_of: Callable[[str], UsageKey] | None = None
    ) -> None:
        self.name = name
        self._usage_of = usage_of
        self.workloads: dict[str, PendingWorkload] = {}
        self.bookmarks: dict[str, ScanBookmark] = {}
        self.sticky: dict[str, str] = {}
        self._journal = journal
        self._classes: dict[str, _ShapeClass] = {}
        self._blocked: dict[str, None] = {}
        self._heads: list[_Head] = []
        self._parked: dict[str, None] = {}
        self._active = 0

    def __len__(self) -> int:
        return len(self.workloads)

    @property
    def active(self) -> int:
        """How many are in line."""
        return self._active

    def add(self, workload: PendingWorkload, *, held_back: bool = False) -> None:
        """Put a workload in line, or aside while it is `held_back`."""
        self._journal.put(self.workloads, workload.id, workload)
        if held_back:
            self._journal.put(self._parked, workload.id, None)
        else:
            self._enter(workload)

    def discard(self, workload_id: str) -> PendingWorkload | None:
        """Take a workload out for good."""
        workload = self.workloads.get(workload_id)
        if workload is None:
            return None
        if workload_id in self._parked:
            self._journal.drop(self._parked, workload_id)
        else:
            self._leave(workload)
        self._journal.drop(self.workloads, workload_id)
        if workload_id in self.bookmarks:
            self._journal.drop(self.bookmarks, workload_id)
        if self.sticky.get(self.name) == workload_id:
            self._journal.drop(self.sticky, self.name)
        return workload

    def head(self) -> PendingWorkload | None:
        """Whose turn it is (R-41): the sticky preemptor, else the first in order."""
        sticky = self.sticky.get(self.name)
        if sticky is not None and not self.is_active(sticky):
            sticky = None
        if self._usage_of is not None:
            return self._head_by_usage(sticky)
        if sticky is not None:
            return self.workloads[sticky]
        return self.workloads[self._heads[0][0][2]] if self._heads else None

    def line(self) -> Iterator[PendingWorkload]:
        """Everybody in line, in order: the head first. Stale once the queue changes."""
        sticky = self.sticky.get(self.name)
        first = [] if sticky is None or not self.is_active(sticky) else [sticky]
        groups = [group for group in self._classes.values() if not group.blocked]
        places: list[Iterable[_Place]] = [
            [self._place(self.workloads[workload_id]) for workload_id in first],
            *(
                ((self._usage_key(group.local_queue), True, key) for key in group.members)
                for group in groups
            ),
        ]
        for _, behind, key in merge(*places):
            if not behind or key[2] not in first:
                yield self.workloads[key[2]]

    def is_active(self, workload_id: str) -> bool:
        """Whether it is in line."""
        workload = self.workloads.get(workload_id)
        if workload is None or workload_id in self._parked:
            return False
        return workload.shape not in self._blocked

    def park(self, workload_id: str) -> None:
        """Set one workload aside until something changes."""
        if workload_id not in self._parked:
            self._leave(self.workloads[workload_id])
            self._journal.put(self._parked, workload_id, None)

    def park_class(self, shape: str) -> None:
        """Set a whole shape aside, and whoever of that shape comes later."""
        if shape not in self._blocked:
            self._set_blocked(shape, blocked=True)

    def is_class_parked(self, shape: str) -> bool:
        """Whether the shape was set aside since the last flush."""
        return shape in self._blocked

    def unpark(self, workload_id: str) -> None:
        """Put one workload back in line."""
        workload = self.workloads.get(workload_id)
        if workload is None:
            return
        if workload_id in self._parked:
            self._journal.drop(self._parked, workload_id)
            self._enter(workload)

    def flush(self, now_ms: int) -> bool:
        """Something changed: everybody who is not held back stands in line again (R-43)."""
        before = self._active
        for shape in list(self._blocked):
            self._set_blocked(shape, blocked=False)
        for workload_id in list(self._parked):
            parked = self.workloads[workload_id]
            if backoff_expired(parked.requeue_at_ms, now_ms, held_back=parked.held_back):
                self.unpark(workload_id)
        return self._active > before

    def stick(self, workload_id: str | None) -> None:
        """Let a workload that waits for its victims stay first, or nobody."""
        if workload_id is not None:
            self._journal.put(self.sticky, self.name, workload_id)
        elif self.name in self.sticky:
            self._journal.drop(self.sticky, self.name)

    def bookmark(self, workload_id: str, mark: ScanBookmark | None) -> None:
        """Remember where the flavor scan of a workload goes on, or start over."""
        if mark is not None:
            self._journal.put(self.bookmarks, workload_id, mark)
        elif workload_id in self.bookmarks:
            self._journal.drop(self.bookmarks, workload_id)

    def position(self, workload_id: str) -> int:
        """How many stand before it, set aside or not; O(classes x log n)."""
        workload = self.workloads[workload_id]
        mine = self._place(workload)
        ahead = sum(self._ahead(group, mine, workload) for group in self._classes.values())
        ahead += sum(self._place(self.workloads[other]) < mine for other in self._parked)
        sticky = self.workloads.get(self.sticky.get(self.name, ""))
        if sticky is None or sticky is workload or sticky.id in self._parked:
            return ahead
        behind = (self._usage(sticky), True, sticky.order) > mine
        return ahead + (self._place(sticky) < mine and behind)

    def in_order(self) -> Iterator[PendingWorkload]:
        """Everybody, set aside or not, in queue order."""
        waiting = [self.workloads[workload_id] for workload_id in self._parked]
        sticky = self.workloads.get(self.sticky.get(self.name, ""))
        if sticky is not None and sticky.id not in self._parked:
            waiting.append(sticky)
        places = sorted(self._place(workload) for workload in waiting)
        lines = [
            [(self._usage_key(group.local_queue), True, key) for key in group.members]
            for group in self._classes.values()
        ]
        seen = sticky.id if sticky is not None else ""
        for place in merge(places, *lines):
            workload_id = place[2][2]
            if workload_id != seen or not place[1] or workload_id in self._parked:
                yield self.workloads[workload_id]

    def active_ids(self) -> list[str]:
        """Ids in line, in order of arrival."""
        return [workload_id for workload_id in self.workloads if self.is_active(workload_id)]

    def parked_ids(self) -> list[str]:
        """Ids set aside, in order of arrival."""
        return [workload_id for workload_id in self.workloads if not self.is_active(workload_id)]

    def _head_by_usage(self, sticky: str | None) -> PendingWorkload | None:
        places = [
            (self._usage_key(self._classes[line].local_queue), True, key)
            for key, line in self._heads
        ]
        if sticky is not None:
            places.append(self._place(self.workloads[sticky]))
        return self.workloads[min(places)[2][2]] if places else None

    def _usage_key(self, local_queue: str) -> UsageKey:
        return NOTHING if self._usage_of is None else self._usage_of(local_queue)

    def _usage(self, workload: PendingWorkload) -> UsageKey:
        return self._usage_key(workload.local_queue)

    def _place(self, workload: PendingWorkload) -> _Place:
        sticks = self.sticky.get(self.name) == workload.id
        return (self._usage(workload), not sticks, workload.order)

    def _ahead(self, group: _ShapeClass, mine: _Place, workload: PendingWorkload) -> int:
        usage = self._usage_key(group.local_queue)
        if usage != mine[0]:
            return len(group.members) if usage < mine[0] else 0
        if not mine[1]:
            return 0
        return group.members.bisect_left(workload.order)

    def _line(self, workload: PendingWorkload) -> str:
        """The class of a workload where LocalQueues take turns; its shape alone elsewhere."""
        return f"{workload.shape} {workload.local_queue}"

    def _enter(self, workload: PendingWorkload) -> None:
        self._enter_quietly(workload)
        self._journal.called((self._leave_quietly, (workload,)), (self._enter_quietly, (workload,)))

    def _leave(self, workload: PendingWorkload) -> None:
        self._leave_quietly(workload)
        self._journal.called((self._enter_quietly, (workload,)), (self._leave_quietly, (workload,)))

    def _enter_quietly(self, workload: PendingWorkload) -> None:
        line = workload.shape if self._usage_of is None else self._line(workload)
        group = self._classes.get(line)
        if group is None:
            group = _ShapeClass(
                workload.shape, workload.local_queue, blocked=workload.shape in self._blocked
            )
            self._classes[line] = group
        key, head = workload.order, group.head
        group.members.add(key)
        self._active += not group.blocked
        if head is None or key < head:
            self._lead(line, group, key)

    def _leave_quietly(self, workload: PendingWorkload) -> None:
        line = workload.shape if self._usage_of is None else self._line(workload)
        group = self._classes[line]
        members = group.members
        members.remove(workload.order)
        self._active -= not group.blocked
        if workload.order == group.head:
            self._lead(line, group, members[0] if len(members) else None)
            if group.head is None:
                del self._classes[line]

    def _lead(self, line: str, group: _ShapeClass, head: OrderKey | None) -> None:
        """Let another of its members, or none, stand for a class."""
        if not group.blocked:
            heads = self._heads
            if group.head is not None:
                del heads[bisect_left(heads, (group.head, line))]
            if head is not None:
                insort(heads, (head, line))
        group.head = head

    def _set_blocked(self, shape: str, *, blocked: bool) -> None:
        self._block_quietly(shape, blocked)
        undo, redo = (shape, not blocked), (shape, blocked)
        self._journal.called((self._block_quietly, undo), (self._block_quietly, redo))

    def _block_quietly(self, shape: str, blocked: bool) -> None:  # noqa: FBT001 - undo argument
        if blocked:
            self._blocked[shape] = None
        else:
            del self._blocked[shape]
        for line in self._lines_of(shape):
            group = self._classes[line]
            group.blocked = blocked
            self._active += -len(group.members) if blocked else len(group.members)
            if group.head is None:
                continue
            head = (group.head, line)
            if blocked:
                del self._heads[bisect_left(self._heads, head)]
            else:
                insort(self._heads, head)

    def _lines_of(self, shape: str) -> list[str]:
        if self._usage_of is None:
            return [shape] if shape in self._classes else []
        return [line for line, group in self._classes.items() if group.shape == shape]
