"""What some installations have beside quota: LocalQueues that take turns, and budgets."""

import random
from dataclasses import replace
from fractions import Fraction

from muster_domain.budgets import Budget, BudgetScope, BudgetSubject, BudgetWindow
from muster_domain.money import MICROS
from muster_domain.policy import AdmissionFairSharing
from muster_domain.workload import LocalQueueRef
from muster_rating.prices import Price, PriceBook
from muster_simulation.swarm import GPU, NAMESPACE, Job, Scenario

SHARING = AdmissionFairSharing(half_life_ms=60_000, sampling_ms=15_000)
LIMIT_MICROS = 10_000_000 * MICROS
"""More than a run can spend, so everybody ends; what each partition may use is asked for all the
same."""
PRICES = {"EUR": PriceBook("EUR", (Price(flavor="gpu", resource=GPU, hourly=Fraction(2)),))}


def with_terms(scenario: Scenario, seed: int) -> Scenario:
    """Of eight seeds one has LocalQueues that take turns, one budgets, one both."""
    drawn = random.Random(f"{seed}/terms").randrange(8)  # noqa: S311 - a simulation
    if drawn in (1, 3):
        scenario = _taking_turns(scenario)
    if drawn in (2, 3):
        scenario = _paying(scenario)
    return scenario


def _taking_turns(scenario: Scenario) -> Scenario:
    """Each ClusterQueue has a second door, for every second job."""
    terms = scenario.configuration
    queues = {
        name: replace(queue, admission_fair_sharing=True)
        for name, queue in terms.cluster_queues.items()
    }
    second = {
        f"{key}-too": replace(door, name=f"{door.name}-too")
        for key, door in terms.local_queues.items()
    }
    return replace(
        scenario,
        configuration=replace(
            terms,
            cluster_queues=queues,
            local_queues={**terms.local_queues, **second},
            policy=replace(terms.policy, admission_fair_sharing=SHARING),
        ),
        jobs=tuple(_too(job) if place % 2 else job for place, job in enumerate(scenario.jobs)),
    )


def _too(job: Job) -> Job:
    door = LocalQueueRef(name=f"{job.workload.queue.name}-too")
    return replace(job, workload=replace(job.workload, queue=door))


def _paying(scenario: Scenario) -> Scenario:
    """Two budgets pay for everybody; a budget is named after its period."""
    scope = BudgetScope(subject=BudgetSubject.NAMESPACE, value=NAMESPACE)
    budgets = {
        period: Budget(
            name=period,
            scope=scope,
            currency="EUR",
            windows=(BudgetWindow(period=period, limit_micros=LIMIT_MICROS),),
        )
        for period in ("month", "1h")
    }
    terms = replace(scenario.configuration, budgets=budgets, prices=PRICES)
    return replace(scenario, configuration=terms)
