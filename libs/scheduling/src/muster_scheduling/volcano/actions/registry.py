"""Every action by the name that a configuration gives it."""

from collections.abc import Callable, Mapping

from muster_scheduling.volcano.actions.allocate import allocate
from muster_scheduling.volcano.actions.backfill import backfill
from muster_scheduling.volcano.actions.enqueue import enqueue
from muster_scheduling.volcano.actions.gangpreempt import gangpreempt
from muster_scheduling.volcano.actions.gangreclaim import gangreclaim
from muster_scheduling.volcano.actions.preempt import preempt
from muster_scheduling.volcano.actions.reclaim import reclaim
from muster_scheduling.volcano.actions.shuffle import shuffle
from muster_scheduling.volcano.session import Session

Action = Callable[[Session], None]

ACTIONS: Mapping[str, Action] = {
    "enqueue": enqueue,
    "allocate": allocate,
    "backfill": backfill,
    "gangpreempt": gangpreempt,
    "gangreclaim": gangreclaim,
    "preempt": preempt,
    "reclaim": reclaim,
    "shuffle": shuffle,
}
