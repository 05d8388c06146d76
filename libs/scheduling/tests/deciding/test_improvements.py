"""Each improvement on Kueue beside what Kueue does without it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_domain.policy import FairSharing, Improvements, Policy, StrictScope
from muster_domain.queues import (
    QueueingStrategy,
    ReclaimWithinCohort,
    ResourceFlavor,
    WithinClusterQueue,
)
from muster_domain.selectors import NodeDemand
from muster_domain.workload import Workload
from muster_scheduling import AdmissionView
from muster_scheduling.admission import (
    Decision,
    EvictWorkload,
    ReserveQuota,
    decide,
    violations,
)

from .builders import job, queue, running, view_of, waiting

STRICT = QueueingStrategy.STRICT_FIFO


def decided(view: AdmissionView) -> tuple[list[str], list[str]]:
    """Who is reserved for, in order, and who is evicted."""
    snapshot = view.snapshot(0)
    decision = decide(snapshot)
    assert violations(snapshot, decision) == ()
    return of_kind(decision, ReserveQuota), of_kind(decision, EvictWorkload)


def of_kind(decision: Decision, kind: type[ReserveQuota | EvictWorkload]) -> list[str]:
    effects = [effect for group in decision.groups for effect in group.effects]
    return [effect.workload_id for effect in effects if isinstance(effect, kind)]


def lenders(**improvements: bool | int) -> Policy:
    return Policy(improvements=Improvements(**improvements))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(("heads", "order"), [(1, ["a1", "b1"]), (2, ["a1", "a2"])])
@pytest.mark.parametrize("fair", [None, FairSharing()])
def test_more_heads_of_a_queue_bring_priorities_of_two_queues_together(
    heads: int, order: list[str], fair: FairSharing | None
) -> None:
    policy = Policy(fair_sharing=fair, improvements=Improvements(heads_per_cycle=heads))
    view = view_of([queue("a", 2, "lab"), queue("b", 0, "lab")], policy=policy)
    jobs = [job("a1", "a", 1, priority=9), job("a2", "a", 1, priority=8), job("b1", "b", 1)]
    waiting(view, *jobs)
    assert decided(view)[0] == order


def test_the_next_head_is_judged_on_what_the_one_before_it_left() -> None:
    view = view_of([queue("a", 3)], policy=lenders(heads_per_cycle=8))
    waiting(view, *(job(f"j{n}", "a", 2, created=n) for n in range(3)), job("k", "a", 1, created=9))
    assert decided(view)[0] == ["j0", "k"]


def test_a_head_that_gets_nothing_ends_its_queue_s_part_of_the_cycle() -> None:
    view = view_of([queue("a", 3, strategy=STRICT)], policy=lenders(heads_per_cycle=8))
    waiting(view, job("big", "a", 2), job("bigger", "a", 2, created=1), job("k", "a", 1, created=2))
    assert decided(view)[0] == ["big"]


def pinned(name: str, gpus: int, model: str, created: int) -> Workload:
    asked = job(name, "a", gpus, created=created)
    demand = NodeDemand(node_selector={"model": model})
    return replace(asked, pod_sets=(replace(asked.pod_sets[0], demand=demand),))


@pytest.mark.parametrize(
    ("scope", "order"),
    [(StrictScope.QUEUE, ["full"]), (StrictScope.RESOURCE_GROUP, ["full", "other"])],
)
def test_a_blocked_head_holds_up_those_who_could_use_its_flavors(
    scope: StrictScope, order: list[str]
) -> None:
    flavors = [ResourceFlavor(name=n, node_labels={"model": n}) for n in ("b300", "b200")]
    view = view_of(
        [queue("a", {"b300": 2, "b200": 2}, strategy=STRICT)],
        flavors=flavors,
        policy=Policy(improvements=Improvements(strict_scope=scope)),
    )
    waiting(
        view,
        pinned("full", 2, "b300", 0),
        pinned("head", 1, "b300", 1),
        job("either", "a", 1, created=2),
        pinned("other", 1, "b200", 3),
    )
    assert decided(view)[0] == order


@pytest.mark.parametrize(("reserves", "order"), [(True, []), (False, ["b1"])])
def test_a_head_without_victims_keeps_its_quota_from_the_cohort_or_not(
    reserves: bool,  # noqa: FBT001 - the switch
    order: list[str],
) -> None:
    queues = [
        queue("a", 2, "lab", strategy=STRICT, within=WithinClusterQueue.LOWER_PRIORITY),
        queue("b", 0, "lab"),
    ]
    view = view_of(queues, policy=lenders(reserve_head=reserves))
    running(view, job("held", "a", 1))
    waiting(view, job("head", "a", 2), job("b1", "b", 1, created=1))
    assert decided(view)[0] == order


@pytest.mark.parametrize(("own", "victims"), [(False, []), (True, ["low"])])
def test_own_victims_count_where_the_request_borrows(
    own: bool,  # noqa: FBT001 - the switch
    victims: list[str],
) -> None:
    queues = [
        queue(
            "a", 2, "lab",
            within=WithinClusterQueue.LOWER_PRIORITY, reclaim=ReclaimWithinCohort.ANY,
        ),
        queue("b", 2, "lab"),
    ]  # fmt: skip
    view = view_of(queues, policy=lenders(own_victims_while_borrowing=own))
    running(view, job("low", "a", 4))
    waiting(view, job("high", "a", 4, priority=5))
    assert decided(view)[1] == victims


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=12),
    heads=st.integers(1, 5),
    fair=st.booleans(),
)
def test_within_one_queue_the_number_of_heads_changes_nothing(
    sizes: list[int],
    heads: int,
    fair: bool,  # noqa: FBT001 - drawn
) -> None:
    def outcome(count: int) -> list[str]:
        policy = Policy(
            fair_sharing=FairSharing() if fair else None,
            improvements=Improvements(heads_per_cycle=count),
        )
        view = view_of([queue("a", 10, strategy=STRICT)], policy=policy)
        waiting(view, *(job(f"j{n:02d}", "a", size, created=n) for n, size in enumerate(sizes)))
        return decided(view)[0]

    assert outcome(heads) == outcome(1)


@pytest.mark.parametrize(("least_lost", "victim"), [(False, "late"), (True, "early")])
@pytest.mark.parametrize("fair", [None, FairSharing()])
def test_of_equals_who_saved_last_may_go_first(
    least_lost: bool,  # noqa: FBT001 - a column of the table
    victim: str,
    fair: FairSharing | None,
) -> None:
    policy = Policy(fair_sharing=fair, improvements=Improvements(least_lost_work_first=least_lost))
    queues = [queue("a", 2, within=WithinClusterQueue.LOWER_PRIORITY)]
    view = view_of(queues, policy=policy)
    for name, reserved in (("early", 10), ("late", 20)):
        running(view, job(name, "a", 1), reserved=reserved)
        view.mark_saved(name, reserved)
    view.mark_saved("early", 30)
    waiting(view, job("next", "a", 1, priority=5))
    assert decided(view)[1] == [victim]


def test_less_work_never_goes_before_a_lower_priority() -> None:
    policy = lenders(least_lost_work_first=True)
    queues = [queue("a", 2, within=WithinClusterQueue.LOWER_PRIORITY)]
    view = view_of(queues, policy=policy)
    running(view, job("low", "a", 1, priority=1))
    running(view, job("mid", "a", 1, priority=2))
    view.mark_saved("low", 0)
    waiting(view, job("next", "a", 1, priority=5))
    assert decided(view)[1] == ["low"]
