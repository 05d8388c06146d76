"""Which topology domain a pod set sits in, for the simple requests: required, preferred, none.

A domain is the full path of label values from the widest level down, so racks of one name in two
blocks are two domains (R-80). This module only narrows the rows that a pod set may use; slices and
pod set groups are not its business.
"""

from dataclasses import dataclass

import numpy as np

from muster_domain.workload import TopologyMode
from muster_scheduling.placement.columns import Columns, Vector
from muster_scheduling.placement.request import PodSetRequest
from muster_scheduling.placement.seating import domain_totals, fits_at_most


@dataclass(frozen=True, slots=True)
class Domains:
    """Each row's domain at each level, numbered in path order; -1 where a label is missing."""

    labels: tuple[str, ...]
    levels: tuple[Vector, ...]

    def number_of(self, label: str) -> int:
        """The number of a level, counted from the widest; an empty label means the lowest."""
        return self.labels.index(label) if label else len(self.labels) - 1

    def level_of(self, label: str) -> Vector:
        """Each row's domain at a level; an empty label means the lowest."""
        return self.levels[self.number_of(label)]

    def inner(self, above: int) -> tuple[Vector, ...]:
        """The levels below one, without a lowest level whose domains are single nodes."""
        below = self.levels[above + 1 :]
        if below and _one_node_each(below[-1]):
            return below[:-1]
        return below


@dataclass(frozen=True, slots=True)
class Narrowed:
    """Rows to use (as what fits there), how many pods they take, the levels to descend through.

    With `one_node` all pods go to one of the rows, whichever; each can take them all.
    """

    fits: Vector
    members: int
    inner: tuple[Vector, ...] = ()
    one_node: bool = False


def domains(columns: Columns, labels: tuple[str, ...]) -> Domains:
    """The domains of all nodes under these levels, widest first."""
    key = (Domains, labels)
    return columns.remembered(key, lambda: _number(columns, labels))


def narrow(found: Domains, pod_set: PodSetRequest, fits: Vector, count: int) -> Narrowed:
    """The domain in which most of `count` pods find seats, and of those the tightest.

    Required: one domain of the level asked for. Preferred: the same where it holds all, else one
    of the next wider level, else any nodes. Unconstrained or no request: any nodes.
    """
    limited, members = fits_at_most(fits, count)
    request = pod_set.topology
    anywhere = Narrowed(limited, members)
    if request is None or request.mode is TopologyMode.UNCONSTRAINED or not members:
        return anywhere
    level = found.number_of(request.node_label)
    if request.mode is TopologyMode.REQUIRED:
        return _inside(found, level, limited, count)
    for wider in range(level, -1, -1):
        inside = _inside(found, wider, limited, count)
        if inside.members == count:
            return inside
    return Narrowed(limited, members, found.inner(-1))


def _inside(found: Domains, level: int, fits: Vector, count: int) -> Narrowed:
    domain_of = found.levels[level]
    totals = domain_totals(domain_of, fits)
    if not len(totals):
        return Narrowed(np.zeros_like(fits), 0)
    best = min(count, int(totals.max()))
    able = totals >= best
    tightest = totals == totals[able].min()
    if _one_node_each(domain_of):
        return Narrowed(np.where(fits >= best, fits, 0), best, one_node=True)
    chosen = int(np.argmax(tightest))
    inside, members = fits_at_most(np.where(domain_of == chosen, fits, 0), best)
    return Narrowed(inside, members, found.inner(level))


def _number(columns: Columns, labels: tuple[str, ...]) -> Domains:
    levels: list[Vector] = []
    parent = np.zeros(len(columns), np.int64)
    for key in labels:
        column = columns.label(key)
        present = sorted(value for value in column.values if value is not None)
        place = {value: number for number, value in enumerate(present)}
        order = np.array([-1 if v is None else place[v] for v in column.values], np.int64)
        value = order[column.codes]
        path = np.where((parent >= 0) & (value >= 0), parent * len(place) + value, -1)
        numbers, parent = np.unique(path, return_inverse=True)
        parent -= int(len(numbers) > 0 and numbers[0] == -1)
        levels.append(parent)
    return Domains(labels, tuple(levels))


def _one_node_each(domain_of: Vector) -> bool:
    used = domain_of[domain_of >= 0]
    return len(used) == int(domain_of.max(initial=-1)) + 1
