"""enqueue: PodGroups leave Pending when every vote allows it (E1)."""

from muster_domain.queues import DequeueStrategy
from muster_scheduling.volcano.line import Turns, jobs_by_queue
from muster_scheduling.volcano.session import NOT_LET_IN, Session


def enqueue(session: Session) -> None:
    """Let jobs in, queue by queue and job by job.

    A job that is refused does not block those behind it, unless its queue says `fifo`. A gang
    without `minResources` is always let in.
    """
    lines = jobs_by_queue(
        session, (job for job in session.jobs.values() if job.phase in NOT_LET_IN)
    )
    queues = Turns(session.compare_queues, (session.queues[name] for name in sorted(lines)))
    while queues:
        queue = queues.pop()
        line = lines[queue.name]
        if not line:
            continue
        job = line.pop()
        if not job.group.min_resources or session.job_enqueueable(job):
            session.enqueue(job)
        else:
            job.kept_out = f"queue {queue.name} does not let it in"
            if queue.dequeue_strategy is DequeueStrategy.FIFO:
                continue
        queues.push(queue)
