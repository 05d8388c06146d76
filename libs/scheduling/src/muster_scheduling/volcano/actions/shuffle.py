"""shuffle: evicts every running task that a plugin names, of the first tier that names any."""

from muster_scheduling.volcano.plan import EvictionReason
from muster_scheduling.volcano.session import Session
from muster_scheduling.volcano.statement import Statement


def shuffle(session: Session) -> None:
    """Evict the named tasks, each once."""
    for tier in session.points.victim_tasks.tiers:
        victims = {task.key: task for named in tier for task in named()}
        if victims:
            statement = Statement(session)
            for key in sorted(victims):
                statement.evict(victims[key], EvictionReason.SHUFFLE)
            statement.commit()
            return
