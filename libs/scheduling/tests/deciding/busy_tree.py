"""A busy tree of queues, made from a seed; as a program, what is decided on some of them."""

from hashlib import sha256
from random import Random

from muster_domain.queues import (
    ClusterQueue,
    QueueingStrategy,
    ReclaimWithinCohort,
    WithinClusterQueue,
)
from muster_scheduling import AdmissionView, FairSharing, Policy
from muster_scheduling.admission import Decision, decide

from .builders import cohort, job, queue, running, view_of, waiting


def busy_view(seed: int, *, fair: bool, size: int = 60) -> AdmissionView:
    """Six queues in three cohorts, some running and `size` waiting."""
    random = Random(seed)
    cohorts = [cohort("root", random.randint(0, 6)), cohort("left", None, "root")]
    cohorts.append(cohort("right", (random.randint(0, 4), random.randint(0, 9), None), "root"))
    queues = [_queue(random, f"q{n}", random.choice(["root", "left", "right"])) for n in range(6)]
    view = view_of(queues, cohorts, policy=Policy(fair_sharing=FairSharing() if fair else None))
    for number in range(size // 3):
        name = f"q{random.randrange(6)}"
        workload = job(f"r{number}", name, random.randint(1, 4), priority=random.randint(0, 3))
        running(view, workload, reserved=random.randint(0, 50))
    for number in range(size):
        name = f"q{random.randrange(6)}"
        workload = job(
            f"w{number}",
            name,
            random.randint(1, 5),
            priority=random.randint(0, 3),
            created=random.randint(0, 50),
        )
        waiting(view, workload)
    return view


def _queue(random: Random, name: str, parent: str) -> ClusterQueue:
    return queue(
        name,
        (random.randint(0, 8), random.choice([None, 2, 9]), random.choice([None, 0, 3])),
        parent,
        within=random.choice(list(WithinClusterQueue)),
        reclaim=random.choice(list(ReclaimWithinCohort)),
        strategy=random.choice(list(QueueingStrategy)),
    )


def digest(decision: Decision) -> str:
    """Everything that was decided, in short."""
    said = (decision.groups, sorted(decision.explanations.items()), decision.requeues)
    return sha256(repr(said).encode()).hexdigest()


def main() -> None:
    """Print a digest for a few trees."""
    for seed in (1, 2):
        for fair in (False, True):
            print(digest(decide(busy_view(seed, fair=fair).snapshot(0))))  # noqa: T201 - output
