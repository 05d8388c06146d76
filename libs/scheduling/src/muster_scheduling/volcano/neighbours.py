"""Which pods are where, by topology domain: what affinity, anti-affinity and spreading count."""

from collections.abc import Callable, Sequence

import numpy as np

from muster_domain.selectors import Selector
from muster_domain.volcano import PodAffinityTerm
from muster_scheduling.placement.columns import Mask, Vector
from muster_scheduling.volcano.job import Task
from muster_scheduling.volcano.plan import TaskStatus
from muster_scheduling.volcano.session import Session


def count_by_domain(session: Session, key: str, counts: Callable[[Task], int]) -> Vector:
    """For each node the sum over the tasks in its domain; 0 for nodes without the label.

    Tasks that were told to stop do not count.
    """
    nodes = session.nodes
    on_node: Vector = np.array(
        [
            sum(counts(task) for task in tasks.values() if task.status is not TaskStatus.RELEASING)
            for tasks in nodes.tasks
        ],
        np.int64,
    )
    column = nodes.columns.label(key)
    by_value = np.zeros(len(column.values), np.int64)
    np.add.at(by_value, column.codes, on_node)
    return np.where(labelled(session, key), by_value[column.codes], 0)


def labelled(session: Session, key: str) -> Mask:
    """Nodes that carry a label."""
    column = session.nodes.columns.label(key)
    present = np.array([value is not None for value in column.values], np.bool_)
    return present[column.codes]


def meets(term: PodAffinityTerm, owner: Task, other: Task) -> bool:
    """Whether a pod is one that the owner's term speaks of."""
    namespaces = term.namespaces or (owner.pod.namespace,)
    return other.pod.namespace in namespaces and term.selector.matches(other.pod.labels)


def holders(session: Session, *, anti: bool, required: bool) -> list[tuple[Task, PodAffinityTerm]]:
    """The terms of one kind of all tasks that have a node and were not told to stop."""
    return [
        (task, term)
        for task in session.nodes.affine.values()
        if task.status is not TaskStatus.RELEASING
        for term in task.pod.affinity
        if term.anti is anti and (term.weight == 0) is required
    ]


def nodes_matching(session: Session, term: Selector) -> Mask:
    """Nodes whose labels meet every requirement; none where there is no requirement."""
    mask = np.full(len(session.nodes), bool(term.requirements), np.bool_)
    for requirement in term.requirements:
        column = session.nodes.columns.label(requirement.key)
        labels = ({} if value is None else {requirement.key: value} for value in column.values)
        mask &= np.array([requirement.matches(found) for found in labels], np.bool_)[column.codes]
    return mask


def in_domain_of(session: Session, key: str, node: str) -> Mask:
    """Nodes of one domain with a node; none where it lacks the label."""
    column = session.nodes.columns.label(key)
    code = column.codes[session.nodes.row[node]]
    if column.values[int(code)] is None:
        return np.zeros(len(session.nodes), np.bool_)
    return column.codes == code


def terms_of(task: Task, *, anti: bool, required: bool) -> Sequence[PodAffinityTerm]:
    """A task's own terms of one kind."""
    return [
        term for term in task.pod.affinity if term.anti is anti and (term.weight == 0) is required
    ]
