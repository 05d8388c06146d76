"""What-ifs that are undone exactly.

Every change to the state of a decision is written here first: a key of a mapping with its old
value, or a function that takes a step back.
"""

from collections.abc import Callable, MutableMapping
from typing import Any

_ABSENT = object()
_CALL = object()


Step = tuple[Callable[..., object], tuple[object, ...]]
"""A function and its arguments."""

Undone = list[tuple[Any, Any, object]]
"""What was taken back, in order: the mapping, the key and the value, or two steps."""


class Journal:
    """Changes in order, newest last.

    `entries` are for those who write very many: the mapping, the key, and the value before.
    Mappings are asked by operators alone, which cost less than a call.
    """

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: list[tuple[Any, Any, object]] = []

    def checkpoint(self) -> int:
        """A mark to roll back to."""
        return len(self.entries)

    def put(self, mapping: MutableMapping[Any, Any], key: object, value: object) -> None:
        """Set a key of a mapping."""
        old = mapping[key] if key in mapping else _ABSENT  # noqa: SIM401 - a call costs more
        self.entries.append((mapping, key, old))
        mapping[key] = value

    def drop(self, mapping: MutableMapping[Any, Any], key: object) -> None:
        """Delete a key that is there."""
        self.entries.append((mapping, key, mapping[key]))
        del mapping[key]

    def called(self, undo: Step, redo: Step) -> None:
        """Say what takes back a step that was just made, and what makes it again."""
        self.entries.append((undo, redo, _CALL))

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
                target[0](*target[1])
            else:
                target[key] = old

    def take_back(self, mark: int) -> "Undone":
        """Undo everything since the mark, so that `do_again` can do it as it was."""
        undone: Undone = self.entries[mark:]
        del self.entries[mark:]
        for index in range(len(undone) - 1, -1, -1):
            target, key, old = undone[index]
            if old is _CALL:
                target[0](*target[1])
                continue
            new = target[key] if key in target else _ABSENT  # noqa: SIM401 - a call costs more
            undone[index] = (target, key, new)
            if old is _ABSENT:
                del target[key]
            else:
                target[key] = old
        return undone

    @staticmethod
    def do_again(undone: "Undone") -> None:
        """Do what was taken back, for good. The state must be as it was left then."""
        for target, key, new in undone:
            if new is _CALL:
                key[0](*key[1])
            elif new is _ABSENT:
                del target[key]
            else:
                target[key] = new

    def settle(self) -> None:
        """Keep everything done so far for good."""
        self.entries.clear()
