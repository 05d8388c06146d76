"""Which flavor a workload gets, and what the others said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_domain.conditions import PendingReason
from muster_domain.queues import (
    ClusterQueue,
    FlavorFungibility,
    FungibilityPreference,
    ResourceFlavor,
    WhenCan,
    WithinClusterQueue,
)
from muster_domain.selectors import NodeDemand, Taint, TaintEffect, Toleration
from muster_domain.workload import PodSet, Workload
from muster_scheduling import AdmissionView, Policy, prepare
from muster_scheduling.admission import Assignment, FlavorAssigner, Mode
from muster_scheduling.admission.partial import largest_gang
from muster_scheduling.preemption import Oracle

from .builders import GPU, K, cohort, job, queue, running, view_of, waiting

TRY_ALL = FlavorFungibility(
    when_can_borrow=WhenCan.TRY_NEXT_FLAVOR, when_can_preempt=WhenCan.TRY_NEXT_FLAVOR
)


def assign(view: AdmissionView, workload: Workload) -> Assignment:
    entry = view.catalog.queues[workload.queue.name]
    pending = prepare(workload, view.policy)
    return FlavorAssigner(view, pending, entry, Oracle(view, 0)).assign()


def flavor_of(assignment: Assignment) -> str:
    return assignment.pod_sets[0].choices[GPU].flavor


def with_demand(workload: Workload, demand: NodeDemand) -> Workload:
    pods = PodSet(name="main", count=1, requests={GPU: K}, demand=demand)
    return Workload(
        id=workload.id,
        namespace="ns",
        name=workload.name,
        queue=workload.queue,
        pod_sets=(pods,),
        owner=workload.owner,
        created_at_ms=0,
    )


def test_the_first_flavor_with_room_is_taken() -> None:
    view = view_of([queue("q", {"old": 2, "new": 8})])
    assert flavor_of(assign(view, job("w", "q", 2))) == "old"
    assert flavor_of(assign(view, job("w", "q", 3))) == "new"


def test_a_tainted_flavor_needs_a_toleration() -> None:
    taint = Taint(key="spot", effect=TaintEffect.NO_SCHEDULE)
    view = view_of(
        [queue("q", {"spot": 8, "own": 8})],
        flavors=[ResourceFlavor(name="spot", node_taints=(taint,))],
    )
    assert flavor_of(assign(view, job("w", "q", 1))) == "own"
    tolerant = NodeDemand(tolerations=(Toleration(key="spot", effect=TaintEffect.NO_SCHEDULE),))
    assert flavor_of(assign(view, with_demand(job("w", "q", 1), tolerant))) == "spot"


def test_only_labels_that_a_flavor_carries_keep_it_away() -> None:
    flavors = [
        ResourceFlavor(name="x", node_labels={"zone": "1"}),
        ResourceFlavor(name="y", node_labels={"model": "h100"}),
    ]
    view = view_of([queue("q", {"x": 8, "y": 8})], flavors=flavors)
    wanted = with_demand(job("w", "q", 1), NodeDemand(node_selector={"zone": "2"}))
    assert flavor_of(assign(view, wanted)) == "y"


def test_reasons_of_alternatives_are_the_mildest() -> None:
    view = view_of([queue("q", {"small": 2, "full": 4})])
    running(view, job("r", "q", 4), flavor="full")
    assignment = assign(view, job("w", "q", 3))
    assert (assignment.mode, assignment.hopeless) == (Mode.PREEMPT, True)
    assert [a.reason for a in assignment.pod_sets[0].attempts] == [
        PendingReason.EXCEEDS_MAX_QUOTA,
        None,
    ]
    assert assign(view, job("w", "q", 5)).reason is PendingReason.EXCEEDS_MAX_QUOTA


def test_a_resource_nobody_offers_matches_no_flavor() -> None:
    view = view_of([queue("q", 4)])
    workload = job("w", "q", 1)
    odd = Workload(
        id="w",
        namespace="ns",
        name="w",
        queue=workload.queue,
        pod_sets=(PodSet(name="main", count=1, requests={"example.com/fpga": K}),),
        owner=workload.owner,
        created_at_ms=0,
    )
    assert assign(view, odd).reason is PendingReason.NO_MATCHING_FLAVOR


@pytest.mark.parametrize(
    ("preference", "expected"),
    [
        (FungibilityPreference.BORROWING_OVER_PREEMPTION, "second"),
        (FungibilityPreference.PREEMPTION_OVER_BORROWING, "first"),
    ],
)
def test_preference_weighs_borrowing_against_preempting(
    preference: FungibilityPreference, expected: str
) -> None:
    fungibility = FlavorFungibility(
        when_can_borrow=WhenCan.TRY_NEXT_FLAVOR,
        when_can_preempt=WhenCan.TRY_NEXT_FLAVOR,
        preference=preference,
    )
    mine: ClusterQueue = queue(
        "q",
        {"first": (4, 0), "second": 0},
        "all",
        within=WithinClusterQueue.LOWER_PRIORITY,
        fungibility=fungibility,
    )
    view = view_of([mine, queue("lender", {"first": 0, "second": 4}, "all")])
    running(view, job("low", "q", 4), flavor="first")
    assert flavor_of(assign(view, job("w", "q", 4, priority=10))) == expected


def test_room_is_better_than_hoping_for_victims_whatever_the_preference() -> None:
    fungibility = FlavorFungibility(
        when_can_borrow=WhenCan.TRY_NEXT_FLAVOR,
        when_can_preempt=WhenCan.TRY_NEXT_FLAVOR,
        preference=FungibilityPreference.PREEMPTION_OVER_BORROWING,
    )
    mine = queue("q", {"first": (4, 0), "second": 0}, "mid", fungibility=fungibility)
    sibling = queue("sibling", {"first": 4, "second": 0}, "mid")
    bank = queue("bank", {"first": 0, "second": 4}, "root")
    view = view_of([mine, sibling, bank], [cohort("mid", None, "root")])
    running(view, job("r", "q", 4), flavor="first")
    assert flavor_of(assign(view, job("w", "q", 4))) == "second"


@given(count=st.integers(1, 40), minimum=st.integers(1, 40), room=st.integers(0, 60))
def test_the_largest_gang_that_fits_is_found(count: int, minimum: int, room: int) -> None:
    gang = prepare(job("w", "q", 1, count=count, minimum=min(minimum, count)), Policy()).pod_sets
    found = largest_gang(gang, lambda counts: counts[0] if counts[0] <= room else None)
    expected = min(count, room)
    assert found == (expected if expected >= min(minimum, count) else None)


def test_pod_sets_count_what_earlier_ones_took() -> None:
    view = view_of([queue("q", {"a": 4, "b": 4})])
    workload = job("w", "q", 3)
    two = tuple(PodSet(name=n, count=1, requests={GPU: 3 * K}) for n in ("driver", "workers"))
    both = Workload(
        id="w",
        namespace="ns",
        name="w",
        queue=workload.queue,
        pod_sets=two,
        owner=workload.owner,
        created_at_ms=0,
    )
    assignment = assign(view, both)
    assert [p.choices[GPU].flavor for p in assignment.pod_sets] == ["a", "b"]
    assert assignment.usage == {("a", GPU): 3 * K, ("b", GPU): 3 * K}


def test_a_scan_goes_on_where_it_stopped() -> None:
    view = view_of([queue("q", {"a": 2, "b": 2, "c": 2}, fungibility=TRY_ALL)])
    (pending,) = waiting(view, job("w", "q", 1))
    entry = view.catalog.queues["q"]
    first = FlavorAssigner(view, pending, entry, Oracle(view, 0)).assign()
    assert flavor_of(first) == "a"
    view.queues["q"].bookmark("w", first.bookmark)
    second = FlavorAssigner(view, pending, entry, Oracle(view, 0)).assign()
    assert flavor_of(second) == "b"
    view.cycles["cq:q"] = 9
    view.generations["cq:q"] = 1
    assert flavor_of(FlavorAssigner(view, pending, entry, Oracle(view, 0)).assign()) == "a"
