"""A sorted list with types: `sortedcontainers` comes without."""

from collections.abc import Iterator
from typing import Protocol, TypeVar, cast

from sortedcontainers import SortedList

Key = TypeVar("Key")


class Line(Protocol[Key]):
    """Keys in order; every operation is O(log n)."""

    def add(self, value: Key) -> None:
        """Put a key in its place."""
        ...

    def remove(self, value: Key) -> None:
        """Take a key out that is there."""
        ...

    def bisect_left(self, value: Key) -> int:
        """How many keys are smaller."""
        ...

    def __getitem__(self, index: int) -> Key: ...

    def __iter__(self) -> Iterator[Key]: ...

    def __len__(self) -> int: ...


def empty_line(kind: type[Key]) -> Line[Key]:
    """An empty line of keys of that kind."""
    del kind
    return cast("Line[Key]", SortedList())
