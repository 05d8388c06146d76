"""Who waits for a ClusterQueue, in order, and who need not be looked at.

Workloads of one shape stand in line together: when one of them has no chance, none of its shape
has, and the whole class is set aside in one step (R-48). So an operation costs O(log n) whatever
waits, and a trigger costs as much as there are classes, not workloads.
"""

from collections.abc import Iterator
from heapq import merge

from muster_scheduling.ordering.keys import OrderKey, backoff_expired
from muster_scheduling.ordering.line import Line, empty_line
from muster_scheduling.quota import Journal
from muster_scheduling.snapshot.workloads import PendingWorkload, ScanBookmark

_Head = tuple[OrderKey, str]


class _ShapeClass:
    """Workloads that differ only in age, oldest first."""

    __slots__ = ("blocked", "members")

    def __init__(self) -> None:
        self.members: Line[OrderKey] = empty_line(OrderKey)
        self.blocked = False


class PendingQueue:
    """The line of one ClusterQueue.

    A workload is in exactly one place: in line (active), set aside alone (`park`), or set aside
    with its class (`park_class`). What is set aside comes back with `flush`.
    """

    def __init__(self, name: str, journal: Journal) -> None:
        self.name = name
        self.workloads: dict[str, PendingWorkload] = {}
        self.bookmarks: dict[str, ScanBookmark] = {}
        self.sticky: dict[str, str] = {}
        self._journal = journal
        self._classes: dict[str, _ShapeClass] = {}
        self._heads: Line[_Head] = empty_line(_Head)
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
        if sticky is not None and self.is_active(sticky):
            return self.workloads[sticky]
        if not len(self._heads):
            return None
        key = self._heads[0][0]
        return self.workloads[key[2]]

    def is_active(self, workload_id: str) -> bool:
        """Whether it is in line."""
        workload = self.workloads.get(workload_id)
        if workload is None or workload_id in self._parked:
            return False
        return not self._classes[workload.shape].blocked

    def park(self, workload_id: str) -> None:
        """Set one workload aside until something changes."""
        if workload_id not in self._parked:
            self._leave(self.workloads[workload_id])
            self._journal.put(self._parked, workload_id, None)

    def park_class(self, shape: str) -> None:
        """Set a whole shape aside, and whoever of that shape comes later."""
        members = self._classes.get(shape)
        if members is not None and not members.blocked:
            self._set_blocked(shape, blocked=True)

    def is_class_parked(self, shape: str) -> bool:
        """Whether the shape was set aside since the last flush."""
        members = self._classes.get(shape)
        return members is not None and members.blocked

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
        for shape in [name for name, members in self._classes.items() if members.blocked]:
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
        if self.sticky.get(self.name) == workload_id:
            return 0
        key = workload.order
        ahead = sum(members.members.bisect_left(key) for members in self._classes.values())
        ahead += sum(self.workloads[other].order < key for other in self._parked)
        sticky = self.workloads.get(self.sticky.get(self.name, ""))
        return ahead + (sticky is not None and sticky.order > key)

    def in_order(self) -> Iterator[PendingWorkload]:
        """Everybody, set aside or not, in queue order; the sticky preemptor first."""
        parked = sorted(self.workloads[workload_id].order for workload_id in self._parked)
        lines = [group.members for group in self._classes.values()]
        ordered = (self.workloads[key[2]] for key in merge(parked, *lines))
        sticky = self.sticky.get(self.name)
        if sticky in self.workloads:
            yield self.workloads[sticky]
        yield from (workload for workload in ordered if workload.id != sticky)

    def active_ids(self) -> list[str]:
        """Ids in line, in order of arrival."""
        return [workload_id for workload_id in self.workloads if self.is_active(workload_id)]

    def parked_ids(self) -> list[str]:
        """Ids set aside, in order of arrival."""
        return [workload_id for workload_id in self.workloads if not self.is_active(workload_id)]

    def _enter(self, workload: PendingWorkload) -> None:
        members = self._classes.get(workload.shape)
        if members is None:
            members = self._classes[workload.shape] = _ShapeClass()
        self._swap_head(workload.shape, members, workload.order, entering=True)
        self._journal.called(self._leave_quietly, workload)

    def _leave(self, workload: PendingWorkload) -> None:
        self._leave_quietly(workload)
        self._journal.called(self._enter_quietly, workload)

    def _enter_quietly(self, workload: PendingWorkload) -> None:
        members = self._classes.get(workload.shape)
        if members is None:
            members = self._classes[workload.shape] = _ShapeClass()
        self._swap_head(workload.shape, members, workload.order, entering=True)

    def _leave_quietly(self, workload: PendingWorkload) -> None:
        members = self._classes[workload.shape]
        self._swap_head(workload.shape, members, workload.order, entering=False)
        if not len(members.members) and not members.blocked:
            del self._classes[workload.shape]

    def _swap_head(self, shape: str, group: _ShapeClass, key: OrderKey, *, entering: bool) -> None:
        members = group.members
        before = members[0] if len(members) else None
        if entering:
            members.add(key)
        else:
            members.remove(key)
        if group.blocked:
            return
        self._active += 1 if entering else -1
        after = members[0] if len(members) else None
        if before != after:
            if before is not None:
                self._heads.remove((before, shape))
            if after is not None:
                self._heads.add((after, shape))

    def _set_blocked(self, shape: str, *, blocked: bool) -> None:
        self._block_quietly(shape, blocked)
        self._journal.called(self._block_quietly, shape, not blocked)

    def _block_quietly(self, shape: str, blocked: bool) -> None:  # noqa: FBT001 - undo argument
        group = self._classes.get(shape)
        if group is None:
            group = self._classes[shape] = _ShapeClass()
        group.blocked = blocked
        if not len(group.members):
            if not blocked:
                del self._classes[shape]
            return
        self._active += -len(group.members) if blocked else len(group.members)
        head = (group.members[0], shape)
        if blocked:
            self._heads.remove(head)
        else:
            self._heads.add(head)
