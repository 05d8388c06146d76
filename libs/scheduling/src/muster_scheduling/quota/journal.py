"""What-ifs that are undone exactly.

Every change to the state of a decision is written here first: a key of a mapping with its old
value, or a function that takes a step back.
"""

from collections.abc import Callable, MutableMapping
from typing import Any

_ABSENT = object()
_CALL = object()


class Journal:
    """Changes in order, newest last.

    `entries` are for those who write very many: the mapping, the key, and the value before.
    """

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: list[tuple[Any, Any, object]] = []

    def checkpoint(self) -> int:
        """A mark to roll back to."""
        return len(self.entries)

    def put(self, mapping: MutableMapping[Any, Any], key: object, value: object) -> None:
        """Set a key of a mapping."""
        self.entries.append((mapping, key, mapping.get(key, _ABSENT)))
        mapping[key] = value

    def drop(self, mapping: MutableMapping[Any, Any], key: object) -> None:
        """Delete a key that is there."""
        self.entries.append((mapping, key, mapping[key]))
        del mapping[key]

    def called(self, undo: Callable[..., object], *arguments: object) -> None:
        """Say what takes back a step that was just made."""
        self.entries.append((undo, arguments, _CALL))

    def rollback(self, mark: int) -> None:
        """Undo everything since the mark."""
        entries = self.entries
        if len(entries) == mark:
            return
        undone = entries[mark:]
        del entries[mark:]
        for target, key, old in reversed(undone):
            if old is _ABSENT:
                del target[key]
            elif old is _CALL:
                target(*key)
            else:
                target[key] = old

    def settle(self) -> None:
        """Keep everything done so far for good."""
        self.entries.clear()
