"""A workload that runs asks for more pods: only the difference is charged, in its own flavors."""

from dataclasses import replace

import pytest

from muster_domain.conditions import PreemptionReason
from muster_domain.queues import WithinClusterQueue
from muster_domain.states import Admission, PodSetAdmission
from muster_domain.workload import VolcanoQueueRef, Workload
from muster_scheduling import AdmissionView, PendingWorkload
from muster_scheduling.admission import (
    EvictWorkload,
    RequestPreemption,
    ReserveQuota,
    decide,
    explain,
    violations,
)
from muster_scheduling.admission.decision import Effect
from muster_scheduling.snapshot.workloads import prepare_slice

from .builders import FLAVOR, FR, GPU, K, job, queue, running, view_of, waiting

OTHER = "h100"


def grow(view: AdmissionView, asked: Workload, has: int, **done: int) -> PendingWorkload:
    """The workload holds quota for `has` pods and asks for the others that it declares."""
    found = prepare_slice(
        asked, {"main": has}, view.policy, queued_at_ms=5, attempt=1, reclaimable=done
    )
    view.add_pending(found, 5)
    return found


def effects(view: AdmissionView) -> list[Effect]:
    snapshot = view.snapshot(10)
    decision = decide(snapshot)
    assert violations(snapshot, decision) == ()
    view.apply(decision)
    return [effect for step in decision.groups for effect in step.effects]


def used(view: AdmissionView, fr: tuple[str, str] = FR) -> int:
    return view.tree.queues["q"].used(fr) // K


@pytest.mark.parametrize(("nominal", "gets"), [(8, True), (9, True), (7, False)])
def test_only_the_difference_needs_quota(nominal: int, *, gets: bool) -> None:
    view = view_of([queue("q", nominal)])
    running(view, job("w", "q", 1, count=5))
    grow(view, job("w", "q", 1, count=8), 5)
    granted = [effect for effect in effects(view) if isinstance(effect, ReserveQuota)]
    assert [(g.attempt, g.usage, g.admission.pod_sets[0].count) for g in granted] == (
        [(1, {FR: 3 * K}, 8)] if gets else []
    )
    assert used(view) == (8 if gets else 5)
    assert view.holders["w"].attempt == 1
    assert (view.pending("w") is None) is gets


def test_a_grant_is_counted_once_however_often_it_grows() -> None:
    view = view_of([queue("q", 9)])
    running(view, job("w", "q", 1, count=2))
    for has, wants in ((2, 5), (5, 9)):
        grow(view, job("w", "q", 1, count=wants), has)
        assert len(effects(view)) == 1
        assert used(view) == wants
    view.release("w")
    assert used(view) == 0


def test_more_pods_are_in_the_flavor_of_those_that_run() -> None:
    view = view_of([queue("q", {FLAVOR: 9, OTHER: 3})])
    wanted = job("w", "q", 1, count=5)
    running(view, wanted.scaled({"main": 3}), flavor=OTHER)
    grow(view, wanted, 3)
    assert effects(view) == []
    assert used(view, (OTHER, GPU)) == 3
    found = explain(view.snapshot(10), "w")
    assert found is not None
    assert "2 more needed" in found.message


def test_pods_that_are_done_are_not_asked_for_again() -> None:
    view = view_of([queue("q", 6)])
    running(view, job("w", "q", 1, count=5))
    left = PodSetAdmission(name="main", count=3, flavors={GPU: FLAVOR}, usage={GPU: 3 * K})
    view.resize("w", Admission(cluster_queue="q", pod_sets=(left,)))
    grow(view, job("w", "q", 1, count=8), 5, main=2)
    (granted,) = effects(view)
    assert isinstance(granted, ReserveQuota)
    assert (granted.usage, used(view)) == ({FR: 3 * K}, 6)


def test_a_gang_that_grows_by_itself_takes_what_there_is() -> None:
    view = view_of([queue("q", 7)])
    asked = replace(job("w", "q", 1, count=9, minimum=2), queue=VolcanoQueueRef(name="q"))
    running(view, job("w", "q", 1, count=5))
    found = prepare_slice(
        asked, {"main": 5}, view.policy, queued_at_ms=5, attempt=1, reclaimable={}
    )
    view.add_pending(replace(found, queue_name="q", volcano=False), 5)
    (granted,) = effects(view)
    assert isinstance(granted, ReserveQuota)
    assert granted.admission.pod_sets[0].count == 7


def test_who_grows_takes_from_others_and_never_from_itself() -> None:
    rules = WithinClusterQueue.LOWER_OR_NEWER_EQUAL_PRIORITY
    view = view_of([queue("q", 8, within=rules)])
    running(view, job("w", "q", 1, count=4, created=9))
    running(view, job("low", "q", 4, priority=-1))
    grow(view, job("w", "q", 1, count=7), 4)
    (evicted,) = effects(view)
    assert isinstance(evicted, EvictWorkload)
    assert (evicted.workload_id, evicted.reason) == ("low", PreemptionReason.IN_CLUSTER_QUEUE)


def test_victims_are_asked_for_the_difference() -> None:
    view = view_of([queue("q", 8, within=WithinClusterQueue.LOWER_PRIORITY)])
    running(view, job("w", "q", 1, count=4))
    running(view, job("low", "q", 4, priority=-1))
    grow(view, job("w", "q", 1, count=7), 4)
    decision = decide(view.snapshot(10), victims_inline=False)
    (request,) = (effect for step in decision.groups for effect in step.effects)
    assert isinstance(request, RequestPreemption)
    assert request.wanted.usage == {FR: 3 * K}


def test_growth_waits_in_line_like_anybody() -> None:
    view = view_of([queue("q", 6)])
    running(view, job("w", "q", 1, count=4))
    waiting(view, job("urgent", "q", 2, priority=5))
    grow(view, job("w", "q", 1, count=6), 4)
    (first,) = effects(view)
    assert isinstance(first, ReserveQuota)
    assert (first.workload_id, used(view)) == ("urgent", 6)
