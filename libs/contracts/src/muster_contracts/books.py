"""What a partition keeps beside the states of its workloads, said on the log field by field.

Use lately, claims, budgets and tombstones follow from the moments at which admission counted and
from what was declared then, which no later reader knows to the unit. So the commit that writes
them says them, and they can be made again from the log alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

PART_BYTES_MAX = 128 * 1024
"""A fact closes once it has so many bytes of values; one value is never divided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BooksKept:
    """admission: what a commit wrote beside the states of workloads. The last word holds.

    `kept` are values as they are stored, by field; `dropped` are fields that are no more. A commit
    that wrote much says it in several facts of one version.
    """

    partition: str
    version: int
    kept: Mapping[str, str]
    dropped: tuple[str, ...] = ()


def books_kept(
    partition: str, version: int, changes: Mapping[str, bytes | None]
) -> Iterator[BooksKept]:
    """What to say of a commit's changes, where None is a field that is dropped."""
    dropped = tuple(sorted(name for name, value in changes.items() if value is None))
    kept: dict[str, str] = {}
    size = 0
    for name, value in sorted(changes.items()):
        if value is None:
            continue
        kept[name] = value.decode()
        size += len(value)
        if size >= PART_BYTES_MAX:
            yield BooksKept(partition=partition, version=version, kept=kept, dropped=dropped)
            kept, size, dropped = {}, 0, ()
    if kept or dropped:
        yield BooksKept(partition=partition, version=version, kept=kept, dropped=dropped)


Told = dict[str, bytes | None]
"""What the log says of each field; None where the field was dropped."""


def note(told: Told, fact: BooksKept) -> None:
    """Take one more fact in, in the order of the log."""
    told.update(dict.fromkeys(fact.dropped))
    told.update((name, text.encode()) for name, text in fact.kept.items())


def told_otherwise(told: Told, stored: Mapping[str, bytes]) -> tuple[str, ...]:
    """Fields, sorted, that the log tells otherwise than they are stored, or not at all."""
    return tuple(name for name in sorted({*told, *stored}) if told.get(name) != stored.get(name))
