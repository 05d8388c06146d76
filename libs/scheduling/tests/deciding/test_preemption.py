"""Victim search: rights, order, smallest sets; and checking a proposal."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_domain.conditions import PreemptionReason
from muster_domain.policy import FairSharing, Policy
from muster_domain.queues import (
    BorrowWithinCohort,
    BorrowWithinCohortPolicy,
    ReclaimWithinCohort,
    WithinClusterQueue,
)
from muster_scheduling import AdmissionView, prepare
from muster_scheduling.admission import EffectGroup, Refusal, RefusalReason, apply_proposal
from muster_scheduling.preemption import (
    Proposal,
    ProposedVictim,
    Victim,
    Wanted,
    find_victims,
    may_leave,
)

from .brute_force import needless, smallest_sets
from .builders import FR, K, cohort, job, queue, running, view_of, waiting

LOWER = WithinClusterQueue.LOWER_PRIORITY
IN_QUEUE = PreemptionReason.IN_CLUSTER_QUEUE
ANY = ReclaimWithinCohort.ANY
LOWER_IN_COHORT = ReclaimWithinCohort.LOWER_PRIORITY


def wanted(name: str, gpus: int) -> Wanted:
    return Wanted(cluster_queue=name, usage={FR: gpus * K}, need=frozenset((FR,)))


def search(view: AdmissionView, name: str, gpus: int, priority: int = 0) -> list[str]:
    pending = prepare(job("in", name, gpus, priority=priority), view.policy)
    found = find_victims(view.snapshot(0), pending, wanted(name, gpus))
    return sorted(victim.id for victim in found)


def test_lower_priority_goes_first_and_the_latest_of_equals() -> None:
    view = view_of([queue("q", 4, within=LOWER)])
    running(view, job("mid", "q", 1, priority=2), reserved=9)
    running(view, job("low-early", "q", 1, priority=1), reserved=1)
    running(view, job("low-late", "q", 1, priority=1), reserved=5)
    running(view, job("peer", "q", 1, priority=5))
    assert search(view, "q", 1, priority=5) == ["low-late"]
    assert search(view, "q", 3, priority=5) == ["low-early", "low-late", "mid"]
    assert search(view, "q", 4, priority=5) == []


def making(view: AdmissionView, gpus: int, *must: str) -> list[str]:
    pending = prepare(job("in", "q", gpus, priority=9), view.policy)
    found = find_victims(view.snapshot(0), pending, wanted("q", gpus), must=frozenset(must))
    return sorted(victim.id for victim in found)


@pytest.mark.parametrize("fair", [None, FairSharing()])
def test_whose_seats_are_needed_goes_and_others_only_for_quota(fair: FairSharing | None) -> None:
    policy = Policy(fair_sharing=fair)
    view = view_of([queue("q", 4, within=LOWER)], policy=policy)
    for name, priority in (("first", 1), ("second", 2), ("third", 3), ("peer", 9)):
        running(view, job(name, "q", 1, priority=priority))
    assert making(view, 1) == ["first"]
    assert making(view, 1, "third") == ["third"]
    assert making(view, 1, "second", "third") == ["second", "third"]
    assert making(view, 2, "third") == ["first", "third"]
    assert making(view, 1, "peer") == []
    assert making(view, 1) == ["first"]


def test_who_may_leave_stands_in_the_order_of_leaving() -> None:
    view = view_of([queue("q", 4, "all", within=LOWER, reclaim=ANY), queue("p", 0, "all")])
    for name, where, priority in (("own", "q", 1), ("peer", "q", 9), ("guest", "p", 99)):
        running(view, job(name, where, 1, priority=priority))
    pending = prepare(job("in", "q", 1, priority=9), view.policy)
    allowed = may_leave(view.snapshot(0), pending, wanted("q", 1))
    assert [holder.id for holder in allowed] == ["guest", "own"]


def test_nobody_goes_who_need_not() -> None:
    view = view_of([queue("q", 6, within=LOWER)])
    running(view, job("small", "q", 1, priority=1))
    running(view, job("large", "q", 5, priority=2))
    assert search(view, "q", 5, priority=9) == ["large"]


def test_whoever_is_going_already_goes_first() -> None:
    view = view_of([queue("q", 4, within=LOWER)])
    running(view, job("low", "q", 2, priority=1))
    running(view, job("mid", "q", 2, priority=2))
    view.mark_evicting("mid")
    assert search(view, "q", 2, priority=9) == ["mid"]


def test_a_queue_within_its_nominal_quota_is_left_alone() -> None:
    view = view_of([queue("a", 4, "all", reclaim=ANY), queue("b", 4, "all"), queue("c", 4, "all")])
    running(view, job("b1", "b", 4))
    running(view, job("c1", "c", 4))
    running(view, job("c2", "c", 4))
    assert search(view, "a", 4) == ["c1"]


def test_a_queue_that_gave_back_what_it_borrowed_gives_no_more() -> None:
    view = view_of([queue("a", 6, "all", reclaim=ANY), queue("b", 2, "all"), queue("c", 0, "all")])
    running(view, job("b-old", "b", 2), reserved=1)
    running(view, job("b-new", "b", 2), reserved=2)
    running(view, job("c1", "c", 2, priority=5))
    assert search(view, "a", 6) == ["b-new", "c1"]


def test_a_cohort_that_gave_back_what_it_borrowed_gives_no_more() -> None:
    """Its queues have nothing of their own, so each of them still borrows."""
    cohorts = [cohort("root"), cohort("lab", 4, "root")]
    queues = [
        queue("a", 4, "root", reclaim=ANY),
        queue("b", 2, "root"),
        queue("x", 0, "lab"),
        queue("y", 0, "lab"),
    ]
    view = view_of(queues, cohorts)
    for number in range(5):
        running(view, job(f"lab-{number}", "xy"[number % 2], 1), reserved=number)
    for number in range(3):
        running(view, job(f"b-{number}", "b", 1, priority=5), reserved=number)
    assert search(view, "a", 4) == ["b-2", "lab-4"]


def test_a_borrower_may_take_from_lower_priorities_where_that_is_allowed() -> None:
    allowed = BorrowWithinCohort(
        policy=BorrowWithinCohortPolicy.LOWER_PRIORITY, max_priority_threshold=3
    )
    view = view_of(
        [
            queue("a", 1, "all", reclaim=LOWER_IN_COHORT, while_borrowing=allowed),
            queue("b", 5, "all"),
        ]
    )
    running(view, job("b1", "b", 3, priority=4), reserved=9)
    running(view, job("b2", "b", 3, priority=1))
    pending = prepare(job("in", "a", 3, priority=5), view.policy)
    (victim,) = find_victims(view.snapshot(0), pending, wanted("a", 3))
    right = PreemptionReason.IN_COHORT_RECLAIM_WHILE_BORROWING
    assert (victim.id, victim.reason) == ("b2", right)


def test_a_search_leaves_usage_as_it_was() -> None:
    view = view_of([queue("a", 4, "all", reclaim=ANY, within=LOWER), queue("b", 4, "all")])
    running(view, job("b1", "b", 8))
    before = {n.name: dict(n.usage) for n in view.tree.queues.values()}
    assert search(view, "a", 4) == ["b1"]
    assert {n.name: dict(n.usage) for n in view.tree.queues.values()} == before


gangs = st.lists(
    st.tuples(st.sampled_from(["q", "p"]), st.integers(1, 4), st.integers(0, 3)),
    min_size=1,
    max_size=6,
)


@settings(max_examples=150)
@given(rows=gangs, asks=st.integers(1, 6), priority=st.integers(0, 3))
def test_victims_agree_with_trying_every_set(
    rows: list[tuple[str, int, int]], asks: int, priority: int
) -> None:
    view = view_of([queue("q", 6, "all", within=LOWER, reclaim=ANY), queue("p", 3, "all")])
    for number, (name, gpus, low) in enumerate(rows):
        workload = job(f"r{number}", name, gpus, priority=low)
        if gpus * K <= view.tree.free(view.tree.queues[name], FR):
            running(view, workload, reserved=number)
    if asks * K <= view.tree.free(view.tree.queues["q"], FR):
        return
    found = search(view, "q", asks, priority)
    sets = smallest_sets(view, "q", asks * K, priority)
    if found:
        assert sets
        assert any(kept <= set(found) for kept in sets)
        assert len(needless(view, "q", asks * K, found)) <= 1


@pytest.fixture
def contested() -> AdmissionView:
    view = view_of([queue("q", 4, within=LOWER)])
    running(view, job("low", "q", 3, priority=1))
    running(view, job("mid", "q", 1, priority=5))
    waiting(view, job("in", "q", 3, priority=5))
    return view


def proposal(view: AdmissionView, *names: str, attempt: int = 1) -> Proposal:
    del view
    victims = tuple(
        ProposedVictim(workload_id=name, attempt=attempt, reason=IN_QUEUE) for name in names
    )
    return Proposal(preemptor_id="in", wanted=wanted("q", 3), victims=victims)


def test_a_good_proposal_becomes_evictions(contested: AdmissionView) -> None:
    group = apply_proposal(contested.snapshot(0), proposal(contested, "low"))
    assert isinstance(group, EffectGroup)
    assert [effect.workload_id for effect in group.effects] == ["low"]


Change = Callable[[AdmissionView], object]


@pytest.mark.parametrize(
    ("change", "names", "reason"),
    [
        (lambda view: view.remove_pending("in"), ["low"], RefusalReason.PREEMPTOR_NOT_PENDING),
        (lambda _: None, [], RefusalReason.NO_VICTIMS),
        (lambda view: view.release("low"), ["low"], RefusalReason.VICTIM_CHANGED),
        (lambda _: None, ["mid"], RefusalReason.VICTIM_PROTECTED),
        (
            lambda view: (view.release("low"), running(view, job("x", "q", 1))),
            ["x"],
            RefusalReason.NOT_ENOUGH,
        ),
    ],
)
def test_a_proposal_that_does_not_hold_is_refused(
    contested: AdmissionView, change: Change, names: list[str], reason: RefusalReason
) -> None:
    change(contested)
    if reason is RefusalReason.NOT_ENOUGH:
        running(contested, job("y", "q", 1, priority=9))
        running(contested, job("z", "q", 1, priority=9))
    refusal = apply_proposal(contested.snapshot(0), proposal(contested, *names))
    assert isinstance(refusal, Refusal)
    assert refusal.reason is reason


def test_a_proposal_for_an_older_reservation_is_refused(contested: AdmissionView) -> None:
    refusal = apply_proposal(contested.snapshot(0), proposal(contested, "low", attempt=7))
    assert refusal == Refusal(reason=RefusalReason.VICTIM_CHANGED, workload_id="low")


def test_a_proposal_is_refused_when_it_fits_anyway(contested: AdmissionView) -> None:
    contested.release("low")
    running(contested, job("tiny", "q", 1))
    small = Proposal(
        preemptor_id="in",
        wanted=wanted("q", 2),
        victims=(ProposedVictim(workload_id="tiny", attempt=1, reason=IN_QUEUE),),
    )
    refusal = apply_proposal(contested.snapshot(0), small)
    assert refusal == Refusal(reason=RefusalReason.NO_LONGER_NEEDED)


def test_a_claim_of_somebody_else_counts_as_used(contested: AdmissionView) -> None:
    contested.claim("other", "q", {FR: 3 * K})
    refusal = apply_proposal(contested.snapshot(0), proposal(contested, "low"))
    assert refusal == Refusal(reason=RefusalReason.NOT_ENOUGH)
    contested.drop_claim("other")
    assert isinstance(
        apply_proposal(contested.snapshot(0), proposal(contested, "low")), EffectGroup
    )


def test_victims_know_whom_they_belong_to(contested: AdmissionView) -> None:
    pending = contested.pending("in")
    assert pending is not None
    (victim,) = find_victims(contested.snapshot(0), pending, wanted("q", 3))
    assert isinstance(victim, Victim)
    assert (victim.id, victim.workload.attempt, victim.reason) == ("low", 1, IN_QUEUE)
