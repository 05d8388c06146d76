"""The long-lived state: what changes come to, and a change of configuration."""

import pytest

from muster_domain.errors import Conflict
from muster_domain.queues import ReclaimWithinCohort, WithinClusterQueue
from muster_domain.states import Admission, PodSetAdmission
from muster_scheduling import AdmissionView, charged, prepare
from muster_scheduling.admission import decide

from .builders import (
    FLAVOR,
    FR,
    GPU,
    K,
    admission,
    configuration,
    job,
    queue,
    running,
    view_of,
    waiting,
)


def used(view: AdmissionView, name: str) -> int:
    return view.tree.queues[name].used(FR) // K


def test_quota_stays_charged_until_the_workload_is_gone() -> None:
    view = view_of([queue("q", 4)])
    running(view, job("r", "q", 4))
    view.mark_evicting("r")
    assert used(view, "q") == 4
    view.release("r")
    assert used(view, "q") == 0
    assert view.release("r") is None


def test_nobody_holds_or_waits_twice() -> None:
    view = view_of([queue("q", 4)])
    running(view, job("r", "q", 1))
    waiting(view, job("w", "q", 1))
    with pytest.raises(Conflict):
        running(view, job("r", "q", 1))
    with pytest.raises(Conflict):
        waiting(view, job("w", "q", 1))
    with pytest.raises(Conflict):
        waiting(view, job("r", "q", 1))


def test_a_larger_quota_lets_the_waiting_in() -> None:
    view = view_of([queue("q", 4)])
    running(view, job("r", "q", 4))
    waiting(view, job("w", "q", 2), job("lost", "new", 1))
    view.apply(decide(view.snapshot(0)))
    view.configure(configuration([queue("q", 6), queue("new", 1)]))
    assert used(view, "q") == 4
    decision = decide(view.snapshot(0))
    assert sorted(group.workload_id for group in decision.groups) == ["lost", "w"]


def test_a_smaller_quota_evicts_nobody_and_lets_nobody_in() -> None:
    view = view_of([queue("q", 4)])
    running(view, job("r", "q", 4))
    waiting(view, job("w", "q", 1))
    view.configure(configuration([queue("q", 2)]))
    assert decide(view.snapshot(0)).groups == ()
    assert used(view, "q") == 4


def test_a_queue_can_move_to_another_cohort_while_loaded() -> None:
    view = view_of([queue("q", 4, "a"), queue("p", 4, "b")])
    running(view, job("r", "q", 4))
    view.configure(configuration([queue("q", 4, "b"), queue("p", 4, "b")]))
    assert view.tree.cohorts["b"].used(FR) == 4 * K
    assert view.tree.free(view.tree.queues["p"], FR) == 4 * K


def test_back_off_ends_at_its_time() -> None:
    view = view_of([queue("q", 4)])
    pending = prepare(job("w", "q", 1), view.policy)
    pending.requeue_at_ms = 100
    view.add_pending(pending, 0)
    assert decide(view.snapshot(99)).groups == ()
    assert view.next_due_ms == 100
    view.release_due(99)
    assert decide(view.snapshot(99)).groups == ()
    view.release_due(100)
    assert [group.workload_id for group in decide(view.snapshot(100)).groups] == ["w"]
    assert view.next_due_ms is None


def test_pods_that_are_done_give_their_part_back() -> None:
    workload = job("r", "q", 2, count=4)
    granted = Admission(
        cluster_queue="q",
        pod_sets=(
            PodSetAdmission(name="main", count=3, flavors={GPU: FLAVOR}, usage={GPU: 6 * K}),
        ),
    )
    assert charged(granted, workload.pod_sets, {"main": 1}) == {FR: 6 * K}
    assert charged(granted, workload.pod_sets, {"main": 2}) == {FR: 4 * K}
    view = view_of([queue("q", 8)])
    running(view, workload)
    view.resize("r", admission(job("r", "q", 2, count=2), "q"))
    assert used(view, "q") == 4


def test_a_claim_keeps_freed_quota_for_its_preemptor() -> None:
    def world() -> AdmissionView:
        view = view_of(
            [
                queue("q", 4, "all", reclaim=ReclaimWithinCohort.ANY),
                queue("p", 0, "all"),
            ]
        )
        running(view, job("one", "p", 2))
        running(view, job("two", "p", 2))
        waiting(view, job("too-big", "q", 9, priority=1), job("hero", "q", 4), job("thief", "p", 2))
        return view

    def first_free(view: AdmissionView) -> list[str]:
        view.mark_evicting("one")
        view.mark_evicting("two")
        view.release("one")
        decision = decide(view.snapshot(0), victims_inline=False)
        return [g.workload_id for g in decision.groups if hasattr(g.effects[0], "borrowing")]

    assert first_free(world()) == ["thief"]
    claimed = world()
    claimed.claim("hero", "q", {FR: 4 * K})
    assert first_free(claimed) == []


def test_a_claim_that_is_given_up_lets_others_be_looked_at_again() -> None:
    view = view_of([queue("q", 4, "all"), queue("p", 0, "all")])
    view.claim("gone", "q", {FR: 4 * K})
    waiting(view, job("w", "p", 2))
    view.apply(decide(view.snapshot(0)))
    assert view.queues["p"].parked_ids() == ["w"]
    view.drop_claim("gone")
    assert [group.workload_id for group in decide(view.snapshot(0)).groups] == ["w"]


def test_preemption_comes_to_rest() -> None:
    rights = {"reclaim": ReclaimWithinCohort.ANY, "within": WithinClusterQueue.LOWER_PRIORITY}
    view = view_of([queue(name, 3, "all", **rights) for name in ("a", "b", "c")])
    for number, name in enumerate("abcabcabc"):
        waiting(view, job(f"w{number}", name, 1 + number % 3, priority=number % 4, created=number))
    evictions = 0
    for _ in range(60):
        decision = decide(view.snapshot(0))
        view.apply(decision)
        gone = [holder for holder in list(view.holders.values()) if view.is_evicting(holder.id)]
        evictions += len(gone)
        for holder in gone:
            view.release(holder.id)
            number = int(holder.id[1:])
            again = job(holder.id, holder.cluster_queue, 1 + number % 3, priority=number % 4,
                        created=number)  # fmt: skip
            waiting(view, again)
        if not decision.groups and not gone:
            break
    else:
        pytest.fail("somebody is evicted for ever")
    assert evictions < 30
