"""Where eviction costs least: dry runs over the nodes, and who can be spared (X7)."""

from dataclasses import dataclass

import numpy as np

from muster_scheduling.placement.columns import Mask
from muster_scheduling.volcano.job import Task
from muster_scheduling.volcano.room import Claim, fits_now, victims_on
from muster_scheduling.volcano.session import Session
from muster_scheduling.volcano.statement import Statement

_TRIED_MAX = 100


@dataclass(frozen=True, slots=True)
class _Room:
    row: int
    victims: list[Task]


def cheapest_room(session: Session, nodes: Mask, claim: Claim) -> Statement | None:
    """Evict on the best of at most 100 nodes that could make room, and promise it to the task.

    Best has the lowest of: the highest priority among its victims, the sum of their priorities,
    how many they are; then the one whose first victim started last; then the first by name.
    A node that refuses the task as it stands counts only where a plugin looks again afterwards.
    """
    found: list[_Room] = []
    before = session.screen(claim.task).passed
    for row in np.flatnonzero(nodes).tolist():
        victims = _fewest(session, row, claim, refused=not before[row])
        if victims is not None:
            found.append(_Room(row, victims))
        if len(found) >= _TRIED_MAX:
            break
    if not found:
        return None
    best = min(found, key=_cost)
    statement = Statement(session)
    for victim in best.victims:
        statement.evict(victim, claim.reason, claim.task.gang.key)
    statement.pipeline(claim.task, session.nodes.names[best.row])
    return statement


def _fewest(session: Session, row: int, claim: Claim, *, refused: bool) -> list[Task] | None:
    """Take away everybody who may go, then return whom the task can bear, best first."""
    victims = victims_on(session, row, claim)
    if not victims or (refused and not session.points.second_look.all):
        return None
    statement = Statement(session)
    for victim in victims:
        statement.evict(victim, claim.reason)
    if not fits_now(session, claim.task, row):
        statement.discard()
        return None
    gone = list(victims)
    for spared in reversed(victims):
        statement.discard()
        tried = [victim for victim in gone if victim is not spared]
        for victim in tried:
            statement.evict(victim, claim.reason)
        if fits_now(session, claim.task, row):
            gone = tried
    statement.discard()
    return gone


def _cost(room: _Room) -> tuple[int, int, int, int, int]:
    priorities = [task.priority for task in room.victims]
    first_start = min((task.pod.scheduled_at_ms or 0 for task in room.victims), default=0)
    return (
        max(priorities, default=0),
        sum(priorities),
        len(priorities),
        -first_start,
        room.row,
    )
