"""Topology rules over the rows of the node vectors, so that what is chosen are seats on nodes."""

from dataclasses import dataclass

import numpy as np

from muster_scheduling.placement.columns import Columns, Vector
from muster_scheduling.placement.seating import NO_SEATS, Seats
from muster_scheduling.placement.topology.balanced import choose
from muster_scheduling.placement.topology.counts import count_up, leaf_counts
from muster_scheduling.placement.topology.terms import Terms, TopologyOptions
from muster_scheduling.placement.topology.tree import TopologyTree, grow_tree

_NODE = "node"


@dataclass(frozen=True, slots=True)
class RowTree:
    """The topology with single nodes as its lowest level; `rows[leaf]` is the leaf's row.

    Where the topology's own lowest domains are larger, the nodes are one level more, so that what
    is counted fits on real nodes.
    """

    tree: TopologyTree
    rows: Vector


@dataclass(frozen=True, slots=True)
class RowFits:
    """What fits on each row: workers alone, the leader (0 or 1), workers beside the leader."""

    workers: Vector
    leader: Vector
    beside: Vector


def row_tree(columns: Columns, labels: tuple[str, ...]) -> RowTree:
    """The tree over all nodes that carry every label."""
    return columns.remembered((RowTree, labels), lambda: _grow(columns, labels))


def seat_rows(
    found: RowTree, terms: Terms, fits: RowFits, options: TopologyOptions
) -> tuple[Seats, Seats]:
    """Seats for the workers and for the leader. Raises `NotFitting`."""
    rows = found.rows
    leaves = leaf_counts(
        fits.workers[rows], fits.beside[rows], fits.leader[rows], np.zeros(len(rows), np.int64)
    )
    counts = count_up(found.tree, leaves, terms)
    chosen = choose(found.tree, counts, terms, options)
    workers = Seats(
        rows[np.fromiter(chosen.pods, np.int64)], np.fromiter(chosen.pods.values(), np.int64)
    )
    if chosen.leader is None:
        return workers, NO_SEATS
    return workers, Seats(rows[[chosen.leader]], np.ones(1, np.int64))


def _grow(columns: Columns, labels: tuple[str, ...]) -> RowTree:
    by_label = [columns.label(label) for label in labels]
    row_of: dict[tuple[str, ...], int] = {}
    for row, record in enumerate(columns.records):
        path = tuple(column.values[int(column.codes[row])] for column in by_label)
        if None not in path:
            row_of[(*(value for value in path if value is not None), record.name)] = row
    if len({path[:-1] for path in row_of}) == len(row_of):
        row_of = {path[:-1]: row for path, row in row_of.items()}
        tree = grow_tree(labels, row_of)
    else:
        tree = grow_tree((*labels, _NODE), row_of)
    return RowTree(tree, np.array([row_of[path] for path in tree.leaves], np.int64))
