"""Those who stop, resume and scale workloads, and those who answer for admission checks.

Each draws from dice of its own, so that a seed's other draws stay what they were.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from muster_contracts import codec, events, subjects
from muster_contracts.jobs import Decision, Verdict
from muster_domain.checks import CheckState, CheckStatus
from muster_domain.queues import AdmissionCheck, AdmissionCheckRule
from muster_domain.workload import TopologyMode, Workload
from muster_scheduling.snapshot.catalog import Configuration
from muster_simulation.swarm import GPU, GPUS_PER_NODE, Job
from muster_simulation.world import World

CHECK = "approval"
LOOK_EVERY_MS = 1_500
_OVER = (Verdict.FINISHED, Verdict.REFUSED)
_ANSWERS = (CheckState.READY,) * 16 + (CheckState.RETRY,) * 3 + (CheckState.REJECTED,)

Say = Callable[[Job, str, events.JobWish, str], None]


def with_checks(configuration: Configuration, seed: int) -> Configuration:
    """The configuration, with an admission check on its first queue for every fourth seed."""
    if seed % 4:
        return configuration
    name = min(configuration.cluster_queues)
    checked = replace(
        configuration.cluster_queues[name], admission_checks=(AdmissionCheckRule(name=CHECK),)
    )
    return replace(
        configuration,
        cluster_queues={**configuration.cluster_queues, name: checked},
        admission_checks={CHECK: AdmissionCheck(name=CHECK, controller="simulated")},
    )


@dataclass(slots=True)
class People:
    """What they want, said as the gateway says it."""

    world: World
    checks: Mapping[str, AdmissionCheck]
    say: Say

    def plan(self, job: Job) -> None:
        """Plan what they do about a job."""
        dice = random.Random(f"{self.world.seed}/activity/{job.workload.id}")  # noqa: S311 - a simulation
        if dice.randrange(8) == 0:
            stop_ms = job.at_ms + dice.randrange(20_000)
            self._turn(job, stop_ms, active=False)
            self._turn(job, stop_ms + dice.randrange(1, 20_000), active=True)
        if job.workload.is_scalable:
            self._scale(job)
        if self.checks:
            self.world.after(job.at_ms, lambda: self._look(job))

    def _turn(self, job: Job, at_ms: int, *, active: bool) -> None:
        fact = events.ActivationRequested(
            workload_id=job.workload.id, active=active, at_ms=at_ms + 1
        )
        key = f"{job.workload.id}/activity/{at_ms}"
        self.world.after(at_ms, lambda: self.say(job, "activation_requested", fact, key))

    def _scale(self, job: Job) -> None:
        """Want it larger and smaller, sometimes twice in a moment, whatever it is doing then."""
        dice = random.Random(f"{self.world.seed}/scale/{job.workload.id}")  # noqa: S311 - a simulation
        at_ms, most = job.at_ms, _most_pods(job.workload)
        for number in range(dice.randrange(1, 5)):
            at_ms += dice.choice((1, 300, 3_000, 9_000))
            fact = events.ScaleRequested(
                workload_id=job.workload.id,
                counts={"main": dice.randrange(1, most + 1)},
                at_ms=at_ms,
            )
            key = f"{job.workload.id}/scale/{number}"
            self.world.after(at_ms, partial(self.say, job, "scale_requested", fact, key))

    def _look(self, job: Job) -> None:
        """Read what is asked, and answer for it; look again until the job has ended."""
        workload = job.workload
        said = self.world.decisions.get(subjects.decision(workload.namespace, workload.name))
        decision = codec.decode(Decision, said) if said else None
        if decision is not None and decision.decision in _OVER:
            return
        for check in decision.checks if decision is not None else ():
            if decision is not None and check.state is CheckState.PENDING:
                self._answer(job, decision.attempt, check)
        self.world.after(LOOK_EVERY_MS, lambda: self._look(job))

    def _answer(self, job: Job, attempt: int, check: CheckStatus) -> None:
        about = f"{attempt}.{check.resize}" if check.resize else f"{attempt}"
        dice = random.Random(f"{self.world.seed}/{job.workload.id}/{about}")  # noqa: S311 - a simulation
        fact = events.CheckAnswered(
            workload_id=job.workload.id,
            attempt=attempt,
            resize=check.resize,
            check=check.name,
            state=dice.choice(_ANSWERS),
            requeue_after_ms=dice.randrange(5_000),
        )
        self.say(job, "check_answered", fact, f"{job.workload.id}/check/{about}")


def _most_pods(workload: Workload) -> int:
    """As many as every simulated floor can seat when nobody else is there."""
    (pods,) = workload.pod_sets
    bound = pods.topology is not None and pods.topology.mode is TopologyMode.REQUIRED
    return (GPUS_PER_NODE if bound else 2 * GPUS_PER_NODE) * 1000 // pods.requests[GPU]
