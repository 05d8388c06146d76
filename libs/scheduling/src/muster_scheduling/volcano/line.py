"""A line of things in an order that is asked anew for every comparison."""

from collections.abc import Callable, Iterable, Iterator
from functools import cmp_to_key
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from muster_scheduling.volcano.job import Job
from muster_scheduling.volcano.session import Session

T = TypeVar("T")


class Line(Generic[T]):
    """Pops the first by a comparison.

    What a waiting thing compares by must not change; what has changed is pushed anew.
    """

    def __init__(self, compare: Callable[[T, T], int], things: Iterable[T] = ()) -> None:
        self._compare = compare
        self._key = cmp_to_key(compare)
        self._heap = [(self._key(thing), thing) for thing in things]
        heapify(self._heap)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[T]:
        """What waits, in no order."""
        return (thing for _, thing in self._heap)

    def push(self, thing: T) -> None:
        """Let a thing wait."""
        heappush(self._heap, (self._key(thing), thing))

    def pop(self) -> T:
        """Take out the first. Raises `IndexError` when nothing waits."""
        return heappop(self._heap)[1]

    def copy(self) -> "Line[T]":
        """Another line of the same things."""
        twin: Line[T] = Line(self._compare)
        twin.replace(self)
        return twin

    def replace(self, things: Iterable[T]) -> None:
        """Let these things wait instead of those that do."""
        self._heap = [(self._key(thing), thing) for thing in things]
        heapify(self._heap)


class Turns(Generic[T]):
    """Pops the first by a comparison that may change while things wait: it looks at them all."""

    def __init__(self, compare: Callable[[T, T], int], things: Iterable[T] = ()) -> None:
        self._key = cmp_to_key(compare)
        self._waiting = list(things)

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def push(self, thing: T) -> None:
        """Let a thing wait."""
        self._waiting.append(thing)

    def pop(self) -> T:
        """Take out the first. Raises `ValueError` when nothing waits."""
        first = min(self._waiting, key=self._key)
        self._waiting.remove(first)
        return first


def jobs_by_queue(session: Session, jobs: Iterable[Job]) -> dict[str, Line[Job]]:
    """The jobs of queues that exist, in job order, by the name of their queue."""
    lines: dict[str, Line[Job]] = {}
    for job in jobs:
        if job.queue in session.queues:
            lines.setdefault(job.queue, Line(session.compare_jobs)).push(job)
    return lines
