"""Every action by the name that a configuration gives it."""

from collections.abc import Callable, Mapping

from muster_scheduling.volcano.actions.allocate import allocate
from muster_scheduling.volcano.actions.enqueue import enqueue
from muster_scheduling.volcano.session import Session

Action = Callable[[Session], None]

ACTIONS: Mapping[str, Action] = {
    "enqueue": enqueue,
    "allocate": allocate,
}
