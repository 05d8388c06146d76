"""Whole decisions: who gets quota, who gives way, who waits and why."""

from dataclasses import replace

import pytest

from muster_domain.conditions import PendingReason, PreemptionReason
from muster_domain.errors import Conflict
from muster_domain.queues import (
    ClusterQueue,
    LocalQueue,
    QueueingStrategy,
    ReclaimWithinCohort,
    StopPolicy,
    WithinClusterQueue,
)
from muster_domain.selectors import Requirement, Selector, SelectorOperator
from muster_scheduling import AdmissionView, Policy
from muster_scheduling.admission import (
    Budget,
    Decision,
    EvictWorkload,
    RequestPreemption,
    ReserveQuota,
    StopReason,
    decide,
    violations,
)
from muster_scheduling.admission.cycle import Cycle, Verdict

from .builders import FR, K, job, queue, running, view_of, waiting

STRICT = QueueingStrategy.STRICT_FIFO
LOWER = WithinClusterQueue.LOWER_PRIORITY
ANY = ReclaimWithinCohort.ANY


def decided(view: AdmissionView, *, inline: bool = True, budget: Budget | None = None) -> Decision:
    snapshot = view.snapshot(0)
    decision = decide(snapshot, budget, victims_inline=inline)
    assert violations(snapshot, decision) == ()
    assert decide(view.snapshot(0), budget, victims_inline=inline) == decision
    return decision


def reserved(decision: Decision) -> list[str]:
    return [
        e.workload_id for g in decision.groups for e in g.effects if isinstance(e, ReserveQuota)
    ]


def evicted(decision: Decision) -> dict[str, PreemptionReason]:
    effects = [e for g in decision.groups for e in g.effects]
    return {e.workload_id: e.reason for e in effects if isinstance(e, EvictWorkload)}


def test_a_queue_is_emptied_in_order_as_far_as_quota_goes() -> None:
    view = view_of([queue("q", 8)])
    waiting(
        view,
        job("late", "q", 2, created=9),
        job("high", "q", 2, priority=5, created=9),
        job("early", "q", 2, created=1),
        job("big", "q", 4, created=10),
        job("tiny", "q", 2, created=11),
    )
    decision = decided(view)
    assert reserved(decision) == ["high", "early", "late", "tiny"]
    assert decision.explanations["big"].reason == PendingReason.WAITING_FOR_QUOTA
    assert decision.stopped is StopReason.COMPLETED


def test_a_strict_head_blocks_those_behind_it() -> None:
    view = view_of([queue("q", 4, strategy=STRICT)])
    running(view, job("r", "q", 2))
    waiting(view, job("big", "q", 4, created=1), job("tiny", "q", 1, created=2))
    decision = decided(view)
    assert reserved(decision) == []
    assert "tiny" not in decision.explanations


def test_applying_a_decision_changes_what_the_next_one_sees() -> None:
    view = view_of([queue("q", 4)])
    waiting(view, job("a", "q", 3), job("b", "q", 3, created=1))
    view.apply(decided(view))
    assert view.tree.queues["q"].used(FR) == 3 * K
    assert (list(view.holders), view.queues["q"].parked_ids()) == (["a"], ["b"])
    assert decided(view).looked_at == 0
    view.release("a")
    assert reserved(decided(view)) == ["b"]


def test_deciding_changes_nothing() -> None:
    view = view_of([queue("q", 4, "all"), queue("p", 4, "all", reclaim=ANY, within=LOWER)])
    running(view, job("r", "q", 6))
    waiting(view, job("a", "q", 3), job("b", "p", 4, created=1), job("c", "p", 9, created=2))
    usage = {name: dict(n.usage) for name, n in view.tree.queues.items()}
    version = view.version
    decided(view)
    assert {name: dict(n.usage) for name, n in view.tree.queues.items()} == usage
    assert sorted(view.queues["p"].active_ids()) == ["b", "c"]
    assert (dict(view.evicting), view.cycles) == ({}, {})
    assert view.version > version


def test_a_lender_takes_its_quota_back() -> None:
    view = view_of([queue("borrower", 4, "all"), queue("lender", 4, "all", reclaim=ANY)])
    running(view, job("old", "borrower", 4), reserved=1)
    running(view, job("new", "borrower", 4), reserved=2)
    waiting(view, job("w", "lender", 4))
    decision = decided(view)
    assert evicted(decision) == {"new": PreemptionReason.IN_COHORT_RECLAMATION}
    assert decision.explanations["w"].reason == PendingReason.WAITING_FOR_PREEMPTED_WORKLOADS
    view.apply(decision)
    assert view.is_evicting("new")
    assert evicted(decided(view)) == {}
    view.release("new")
    assert reserved(decided(view)) == ["w"]


def test_no_two_preemptors_count_one_victim() -> None:
    queues = [queue(name, 2, "all", reclaim=ANY) for name in ("a", "b", "c")]
    view = view_of(queues)
    running(view, job("one", "a", 3))
    running(view, job("two", "a", 3))
    waiting(view, job("wb", "b", 2), job("wc", "c", 2, created=1))
    decision = decided(view)
    assert set(evicted(decision)) == {"one", "two"}


def contested() -> list[ClusterQueue]:
    return [queue("a", 0, "all"), *(queue(name, 2, "all", reclaim=ANY) for name in ("b", "c"))]


def test_a_second_preemptor_of_one_victim_waits_for_it_too() -> None:
    view = view_of(contested())
    running(view, job("one", "a", 4))
    waiting(view, job("wb", "b", 2), job("wc", "c", 2, created=1))
    decision = decided(view)
    assert list(evicted(decision)) == ["one"]
    assert decision.explanations["wc"].message == (
        "Fits once the preemptions issued for another workload complete"
    )


def test_without_a_second_look_it_is_told_who_came_before() -> None:
    view = view_of(contested(), policy=Policy(recompute_on_overlap=False))
    running(view, job("one", "a", 4))
    waiting(view, job("wb", "b", 2), job("wc", "c", 2, created=1))
    decision = decided(view)
    assert list(evicted(decision)) == ["one"]
    found = decision.explanations["wc"]
    assert (found.reason, found.blocked_by) == (PendingReason.WAITING_FOR_QUOTA, ("wb",))


def test_what_victims_give_back_is_not_given_out_before_they_are_gone() -> None:
    view = view_of(
        [
            queue("q", (4, 0), "all", within=LOWER),
            queue("lender", 4, "all"),
            queue("p", 0, "all"),
            queue("r", 0, "all"),
        ]
    )
    running(view, job("low", "q", 4))
    waiting(view, job("high", "q", 1, priority=9), job("wp", "p", 3), job("wr", "r", 3, created=1))
    decision = decided(view)
    assert list(evicted(decision)) == ["low"]
    assert reserved(decision) == ["wp"]


def test_the_service_form_asks_for_preemption_and_claims_for_the_cycle() -> None:
    view = view_of([queue("q", 4, "all", within=LOWER), queue("p", 0, "all")])
    running(view, job("low", "q", 4))
    waiting(view, job("high", "q", 4, priority=9), job("other", "p", 1))
    decision = decided(view, inline=False)
    (group,) = decision.groups
    (effect,) = group.effects
    assert isinstance(effect, RequestPreemption)
    assert (effect.workload_id, effect.need) == ("high", (FR,))
    assert decision.explanations["high"].reason == PendingReason.WAITING_FOR_PREEMPTED_WORKLOADS


def test_partial_admission_takes_the_largest_gang_that_fits() -> None:
    view = view_of([queue("q", 10)])
    running(view, job("r", "q", 3))
    waiting(view, job("gang", "q", 1, count=20, minimum=2))
    (group,) = decided(view).groups
    (effect,) = group.effects
    assert isinstance(effect, ReserveQuota)
    assert effect.admission.pod_sets[0].count == 7


def test_partial_admission_can_be_switched_off() -> None:
    view = view_of([queue("q", 10)], policy=Policy(partial_admission=False))
    waiting(view, job("gang", "q", 1, count=20, minimum=2))
    assert reserved(decided(view)) == []


def test_a_namespace_that_does_not_match_is_parked_without_blocking() -> None:
    closed = Selector(
        requirements=(Requirement(key="team", operator=SelectorOperator.IN, values=("a",)),)
    )
    view = view_of([replace(queue("q", 4, strategy=STRICT), namespace_selector=closed)])
    waiting(view, job("w", "q", 1))
    decision = decided(view)
    assert decision.explanations["w"].reason == PendingReason.MISCONFIGURED
    view.apply(decision)
    assert view.queues["q"].parked_ids() == ["w"]


def test_a_stopped_local_queue_lets_nobody_through_and_blocks_nobody() -> None:
    view = view_of([queue("q", 4, strategy=STRICT)])
    base = view.catalog.configuration
    shut = LocalQueue(namespace="ns", name="shut", cluster_queue="q", stop_policy=StopPolicy.HOLD)
    view.configure(replace(base, local_queues={**base.local_queues, "ns/shut": shut}))
    waiting(view, job("first", "shut", 1), job("second", "q", 1, created=1))
    decision = decided(view)
    assert reserved(decision) == ["second"]
    assert decision.explanations["first"].reason == PendingReason.SUSPENDED
    view.apply(decision)
    opened = replace(shut, stop_policy=StopPolicy.NONE)
    view.configure(replace(base, local_queues={**base.local_queues, "ns/shut": opened}))
    assert reserved(decided(view)) == ["first"]


def test_equal_shapes_are_set_aside_after_one_look() -> None:
    view = view_of([queue("q", 4)])
    running(view, job("r", "q", 4))
    waiting(view, *(job(f"w{n:03}", "q", 2, created=n) for n in range(300)))
    decision = decided(view)
    assert decision.looked_at == 1
    view.apply(decision)
    waiting(view, job("later", "q", 2, created=999))
    assert decided(view).looked_at == 0
    view.release("r")
    assert reserved(decided(view)) == ["w000", "w001"]


def test_a_budget_ends_a_decision_and_the_next_goes_on() -> None:
    view = view_of([queue("q", 100)])
    waiting(view, *(job(f"w{n:03}", "q", 1, created=n) for n in range(50)))
    budget = Budget(workloads=20)
    done: list[str] = []
    for _ in range(3):
        decision = decided(view, budget=budget)
        done += reserved(decision)
        view.apply(decision)
    assert decision.stopped is StopReason.COMPLETED
    assert done == [f"w{n:03}" for n in range(50)]


def test_an_old_snapshot_is_refused() -> None:
    view = view_of([queue("q", 4)])
    snapshot = view.snapshot(0)
    waiting(view, job("w", "q", 1))
    with pytest.raises(Conflict):
        decide(snapshot)


def test_a_blocked_head_keeps_its_nominal_quota_from_borrowers() -> None:
    def world(reclaim: ReclaimWithinCohort) -> AdmissionView:
        view = view_of(
            [
                queue("guaranteed", 4, "all", strategy=STRICT, reclaim=reclaim),
                queue("free", 0, "all"),
            ]
        )
        running(view, job("r", "guaranteed", 2))
        waiting(view, job("head", "guaranteed", 4), job("borrower", "free", 2, created=1))
        return view

    assert reserved(decided(world(ReclaimWithinCohort.NEVER))) == []
    assert reserved(decided(world(ReclaimWithinCohort.ANY))) == ["borrower"]


def test_trees_do_not_wait_for_each_other() -> None:
    view = view_of([queue("a", 4, strategy=STRICT), queue("b", 4)])
    running(view, job("r", "a", 4))
    waiting(view, job("stuck", "a", 4), *(job(f"w{n}", "b", 1, created=n) for n in range(4)))
    assert reserved(decided(view)) == ["w0", "w1", "w2", "w3"]


@pytest.mark.parametrize(
    ("failed", "stop", "reason"),
    [
        (True, StopPolicy.NONE, PendingReason.PENDING_EVALUATION),
        (False, StopPolicy.NONE, PendingReason.MISCONFIGURED),
        (True, StopPolicy.HOLD, PendingReason.PENDING_EVALUATION),
        (False, StopPolicy.HOLD, PendingReason.SUSPENDED),
    ],
)
def test_why_a_workload_is_not_even_looked_at(
    failed: bool,  # noqa: FBT001 - a column
    stop: StopPolicy,
    reason: PendingReason,
) -> None:
    view = view_of([replace(queue("q", 4), stop_policy=stop)])
    (workload,) = waiting(view, job("a", "q", 1))
    workload.inadmissible = "asks more than its limit"
    workload.failed_checks = failed
    cycle = Cycle(view, 0, victims_inline=True)
    entry = cycle.nominate(workload, view.catalog.queues["q"])
    assert (entry.verdict, entry.reason) == (Verdict.INADMISSIBLE, reason)
