"""sla: a job that has waited longer than promised goes first, is let in, and keeps what it gets.

Argument `sla-waiting-time`: a Go duration for every job; a PodGroup's annotation of that name, with
or without the prefix `volcano.sh/`, wins. Without either nothing is promised.
"""

from muster_domain.volcano_scheduler import PluginOption
from muster_scheduling.volcano.arguments import Arguments, duration_ms
from muster_scheduling.volcano.job import Job
from muster_scheduling.volcano.points import Vote
from muster_scheduling.volcano.session import Session

_KEY = "sla-waiting-time"
_ANNOTATIONS = (_KEY, f"volcano.sh/{_KEY}")


def open_sla(session: Session, option: PluginOption) -> None:
    """Register the order by deadline and what holds after it."""
    promised_ms = Arguments(option.arguments).duration_ms(_KEY)

    def deadline_ms(job: Job) -> int | None:
        own = [duration_ms(job.group.annotations.get(key, "")) for key in _ANNOTATIONS]
        waiting_ms = next((found for found in own if found is not None), promised_ms)
        return None if waiting_ms is None else job.group.created_at_ms + waiting_ms

    def order(left: Job, right: Job) -> int:
        mine, other = deadline_ms(left), deadline_ms(right)
        if mine is None or other is None:
            return (mine is None) - (other is None)
        return (mine > other) - (mine < other)

    def vote(job: Job) -> Vote:
        deadline = deadline_ms(job)
        late = deadline is not None and session.now_ms > deadline
        return Vote.PERMIT if late else Vote.ABSTAIN

    session.points.job_order.add(option, order)
    session.points.job_enqueueable.add(option, vote)
    session.points.job_pipelined.add(option, vote)
