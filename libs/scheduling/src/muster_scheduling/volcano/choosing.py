"""Which node a task gets, among those that may have it (A4 to A6)."""

from dataclasses import dataclass
from zlib import crc32

import numpy as np

from muster_scheduling.placement.columns import Mask, Vector
from muster_scheduling.volcano.job import Task
from muster_scheduling.volcano.plan import Refusal
from muster_scheduling.volcano.session import Session

_MIX = 0x5BD1E995
_MIX_MASK = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Found:
    """Nodes that may have a task, now or once others have left; if none, why."""

    nodes: Mask
    refusals: tuple[Refusal, ...]


def feasible(session: Session, task: Task, among: Mask) -> Found:
    """The nodes that nobody refuses and that have or will have what a task needs."""
    problem = session.precheck(task)
    if problem is not None:
        refusal = Refusal(reason=problem, nodes=int(among.sum()))
        return Found(np.zeros(len(session.nodes), np.bool_), (refusal,))
    screening = session.screen(task)
    fits = session.nodes.fits_future(task.init_requests)
    nodes = among & fits & screening.passed
    if nodes.any():
        return Found(nodes, ())
    for name in sorted(task.init_requests):
        if task.init_requests[name]:
            enough = session.nodes.fits_future({name: task.init_requests[name]})
            screening.refuse(~enough, f"Insufficient {name}")
    return Found(nodes, screening.refusals(among))


def best_node(session: Session, task: Task, nodes: Mask) -> str:
    """The best of some nodes that fit: one that is free now before one that will be (A6).

    In a soft shard the shard's own nodes come first. Equal scores are told apart by a hash of the
    names, so that the choice is spread and yet always the same.
    """
    idle = nodes & session.nodes.fits_idle(task.init_requests)
    own = session.own_shard
    groups = [idle, nodes] if own is None else [idle & own, idle & ~own, nodes & own, nodes & ~own]
    candidates = next(group for group in groups if group.any())
    return highest(session, task, candidates, session.node_scores(task, candidates))


def highest(session: Session, task: Task, nodes: Mask, scores: Vector) -> str:
    """The node of the mask with the highest score."""
    rows = np.flatnonzero(nodes)
    tied = rows[scores[rows] == scores[rows].max()]
    return session.nodes.names[_pick(session, task, tied)]


def _pick(session: Session, task: Task, tied: Vector) -> int:
    if len(tied) == 1:
        return int(tied[0])
    own = crc32(task.key.encode())
    mixed = (session.nodes.hashes[tied] ^ own) * _MIX & _MIX_MASK
    return int(tied[int(np.argmin(mixed))])
