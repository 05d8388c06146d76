"""Workloads that grow and shrink while they run: one step at a time, each said once."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from muster_contracts import events
from muster_domain.checks import CheckState, PodSetUpdate, all_ready
from muster_domain.conditions import Explanation, PendingReason, PreemptionReason, UnplaceableReason
from muster_domain.job_policies import JobPolicies, TaskPolicies
from muster_domain.nodes import Placement
from muster_domain.queues import AdmissionCheck, AdmissionCheckRule, WithinClusterQueue
from muster_domain.states import Admitted, Growing, Resizing
from muster_domain.workload import ELASTIC_JOB, PodSet, Workload
from muster_testing.builders import GPU, T0_MS, cluster_queue, configuration, placement, workload

from .house import House

FULL = Explanation(reason=UnplaceableReason.INSUFFICIENT_RESOURCES, message="no node has room")


def elastic(pods: int, identity: str = "w1", *, priority: int = 0) -> Workload:
    return workload(identity, pods=pods, annotations={ELASTIC_JOB: "true"}, priority=priority)


@pytest.fixture
def house() -> House:
    found = House(configuration(cluster_queue(gpus=8)))
    found.run(elastic(5))
    return found


def scale(house: House, pods: int, at_ms: int = 1, identity: str = "w1") -> None:
    fact = events.ScaleRequested(workload_id=identity, counts={"main": pods}, at_ms=T0_MS + at_ms)
    house.say(fact, identity)


def admitted(house: House, identity: str = "w1") -> Admitted:
    state = house.state(identity)
    assert isinstance(state, Admitted)
    return state


def seats(house: House, pods: int, number: int, identity: str = "w1") -> bool:
    """Placement's answer to a resize; whether it changed anything."""
    asked = house.machine.book.records[identity].workload
    found = replace(placement(asked.scaled({"main": pods})), resizes=number)
    return bool(
        house.say(
            events.GangPlaced(
                workload_id=identity, attempt=house.attempt(identity), placement=found
            ),
            identity,
        )
    )


def no_seats(house: House, number: int) -> bool:
    fact = events.GangUnplaceable(
        workload_id="w1", attempt=house.attempt(), explanation=FULL, resize=number
    )
    return bool(house.say(fact))


def gpus(house: House, identity: str = "w1") -> int:
    return admitted(house, identity).admission.usage.get(("a100", GPU), 0) // 1000


def told(house: House) -> list[tuple[int, Mapping[str, int]]]:
    """What placement was told, each number once, in order."""
    steps = [f.state for f in house.said if isinstance(f, events.WorkloadResized)]
    found = {
        state.resizes: state.resize.counts
        for state in steps
        if isinstance(state, Admitted) and isinstance(state.resize, Resizing)
    }
    return list(found.items())


def test_more_pods_are_charged_then_seated_then_held(house: House) -> None:
    scale(house, 8)
    assert (gpus(house), told(house)) == (8, [(1, {"main": 8})])
    house.restart()
    assert seats(house, 8, 1)
    assert (gpus(house), admitted(house).resize) == (8, None)
    assert len(admitted(house).placement.pods) == 8


def test_more_pods_wait_for_quota_and_say_so(house: House) -> None:
    house.run(workload("other", pods=2))
    scale(house, 8)
    assert (gpus(house), told(house)) == (5, [])
    assert isinstance(admitted(house).resize, Growing)
    said = house.decisions[-1]
    assert said.decision == "admitted"
    assert "runs with 5 of 8 main pods and waits for more" in said.message
    assert "2 more needed" in said.message
    house.restart()
    house.finish("other")
    assert (gpus(house), told(house)) == (8, [(1, {"main": 8})])


def test_a_wish_that_comes_twice_or_late_changes_nothing(house: House) -> None:
    scale(house, 8, at_ms=5)
    scale(house, 8, at_ms=5)
    scale(house, 2, at_ms=4)
    assert told(house) == [(1, {"main": 8})]
    assert seats(house, 8, 1)
    assert not seats(house, 8, 1)


def test_fewer_pods_are_charged_until_they_are_gone(house: House) -> None:
    scale(house, 3)
    assert (gpus(house), told(house)) == (5, [(1, {"main": 3})])
    house.submit(workload("other", pods=5))
    assert house.kind("other") == "pending"
    house.restart()
    house.say(events.CapacityChanged())
    assert house.kind("other") == "pending"
    assert seats(house, 3, 1)
    assert (gpus(house), admitted(house).resize, house.kind("other")) == (3, None, "reserved")


def test_five_eight_three_quickly_ends_at_three(house: House) -> None:
    """Kueue 11977: one live slice, never two counted."""
    scale(house, 8, 1)
    scale(house, 3, 2)
    assert (gpus(house), told(house)) == (8, [(1, {"main": 8}), (2, {"main": 3})])
    assert seats(house, 8, 1)
    assert (gpus(house), len(admitted(house).placement.pods)) == (8, 8)
    assert seats(house, 3, 2)
    assert (gpus(house), admitted(house).resize) == (3, None)
    assert not no_seats(house, 1)
    assert house.machine.book.view.pending("w1") is None


def test_five_three_eight_takes_both_steps(house: House) -> None:
    scale(house, 3, 1)
    scale(house, 8, 2)
    assert told(house) == [(1, {"main": 3})]
    seats(house, 3, 1)
    assert (gpus(house), told(house)) == (8, [(1, {"main": 3}), (2, {"main": 8})])


def test_no_seats_give_the_quota_back_and_it_runs_on(house: House) -> None:
    scale(house, 8)
    assert no_seats(house, 1)
    state = admitted(house)
    assert (gpus(house), house.kind()) == (5, "admitted")
    assert isinstance(state.resize, Growing)
    assert state.resize.explanation is not None
    assert state.resize.explanation.reason == PendingReason.TOPOLOGY_PLACEMENT_FAILED
    assert not no_seats(house, 1)
    house.cycle(999)
    assert len(told(house)) == 1
    house.cycle(1)
    assert told(house)[1:] == [(2, {"main": 8})]


def test_seats_that_came_free_are_tried_for_at_once(house: House) -> None:
    scale(house, 8)
    no_seats(house, 1)
    house.say(events.CapacityChanged())
    assert (gpus(house), told(house)[1:]) == (8, [(2, {"main": 8})])


@pytest.mark.parametrize(("done", "left"), [(1, 0), (4, 2)])
def test_pods_that_are_done_count_no_more_than_those_that_stay(
    house: House, done: int, left: int
) -> None:
    """Kueue 12958: what is reclaimable shrinks with the workload."""
    house.say(events.PodsSucceeded(workload_id="w1", attempt=1, counts={"main": done}))
    scale(house, 3)
    seats(house, 3, 1)
    assert admitted(house).reclaimable == {"main": left}
    assert gpus(house) == 3 - left


def test_pods_that_are_done_while_it_grows_give_only_their_own_back(house: House) -> None:
    scale(house, 8)
    house.say(events.PodsSucceeded(workload_id="w1", attempt=1, counts={"main": 2}))
    assert gpus(house) == 6
    seats(house, 8, 1)
    assert (gpus(house), admitted(house).reclaimable) == (6, {"main": 2})


@pytest.mark.parametrize("grown", [False, True])
def test_an_eviction_while_it_grows_gives_everything_back(house: House, *, grown: bool) -> None:
    scale(house, 8)
    if grown:
        seats(house, 8, 1)
    house.say(events.GangLost(workload_id="w1", attempt=1, node="n1"))
    assert house.kind() == "evicting"
    assert not seats(house, 8, 1)
    house.release()
    assert house.kind() == "reserved"
    house.place()
    assert (gpus(house), admitted(house).resizes) == (8, 0)


def test_a_cancel_while_it_waits_for_more_ends_it_all(house: House) -> None:
    house.run(workload("other", pods=3))
    scale(house, 8)
    house.cancel()
    house.release()
    assert house.kind() == "finished"
    assert house.machine.book.view.pending("w1") is None


def test_it_may_end_while_it_waits_for_more(house: House) -> None:
    house.run(workload("other", pods=3))
    scale(house, 8)
    house.finish()
    assert house.kind() == "finished"


def test_one_that_waits_is_asked_with_its_new_size(house: House) -> None:
    house.submit(elastic(9, "w2"))
    assert house.kind("w2") == "finished"
    house.submit(elastic(6, "w3"))
    assert house.kind("w3") == "pending"
    scale(house, 3, identity="w3")
    assert house.kind("w3") == "reserved"
    house.place("w3")
    assert gpus(house, "w3") == 3


def test_one_that_has_quota_already_takes_the_step_once_it_runs() -> None:
    house = House(configuration(cluster_queue(gpus=8)))
    house.submit(elastic(5))
    scale(house, 2)
    house.place_as(elastic(5))
    assert told(house) == [(1, {"main": 2})]


def test_what_its_queue_could_never_give_is_not_waited_for_and_said(house: House) -> None:
    scale(house, 9)
    assert (gpus(house), told(house), admitted(house).resize) == (5, [], None)
    assert "cq can have at most 8" in house.decisions[-1].message
    scale(house, 8, at_ms=2)
    assert told(house) == [(1, {"main": 8})]


def test_slices_that_got_their_seats_are_counted(house: House) -> None:
    scale(house, 8, 1)
    seats(house, 8, 1)
    scale(house, 6, 2)
    seats(house, 6, 2)
    house.machine.committed()
    name = "muster_replaced_workload_slices_total"
    assert house.registry.get_sample_value(name, {"cluster_queue": "cq"}) == 1


def test_what_is_not_elastic_is_not_scaled() -> None:
    house = House(configuration(cluster_queue(gpus=8)))
    house.run(workload("w1", pods=5))
    scale(house, 8)
    assert (gpus(house), told(house)) == (5, [])


def test_who_grows_may_take_from_others_and_not_from_itself() -> None:
    house = House(configuration(cluster_queue(gpus=8, within=WithinClusterQueue.LOWER_PRIORITY)))
    house.run(elastic(4, priority=5))
    house.run(workload("low", pods=4))
    scale(house, 6)
    (request,) = house.facts(events.PreemptionRequested)
    assert isinstance(request, events.PreemptionRequested)
    assert request.admission.usage == {("a100", GPU): 2000}
    victim = events.Victim(workload_id="low", attempt=1, reason=PreemptionReason.IN_CLUSTER_QUEUE)
    house.say(
        events.VictimsProposed(
            workload_id="w1",
            version=request.version,
            admission=request.admission,
            need=request.need,
            victims=(victim,),
        )
    )
    assert house.kinds("w1", "low") == ["admitted", "evicting"]
    house.release("low")
    assert (gpus(house), told(house)) == (6, [(1, {"main": 6})])


def of_volcano(pods: int, least: int) -> Workload:
    return replace(
        workload(pods=pods),
        pod_sets=(PodSet(name="main", count=pods, min_count=least, requests={GPU: 1000}),),
        job_policies=JobPolicies(
            min_available=least, tasks=(TaskPolicies(name="main", min_available=least),)
        ),
    )


def test_a_gang_that_sits_with_its_least_is_charged_for_that_and_grows() -> None:
    house = House(configuration(cluster_queue(gpus=8)))
    house.submit(of_volcano(8, 3))
    house.place_as(of_volcano(3, 3))
    house.start()
    assert (gpus(house), told(house)) == (3, [])
    house.submit(workload("other", pods=2))
    house.say(events.CapacityChanged())
    assert (gpus(house), told(house)) == (6, [(1, {"main": 6})])
    seats(house, 4, 1)
    assert gpus(house) == 4
    assert isinstance(admitted(house).resize, Growing)
    house.cancel("other")
    house.release("other")
    house.say(events.CapacityChanged())
    assert told(house)[1:] == [(2, {"main": 8})]


def surplus(ranks: tuple[int, ...], attempt: int = 1) -> events.GangUnplaceable:
    reason = PreemptionReason.IN_COHORT_RECLAMATION
    victim = events.Victim(workload_id="w1", attempt=attempt, reason=reason, ranks=ranks)
    return events.GangUnplaceable(
        workload_id="hero", attempt=1, explanation=FULL, victims=(victim,)
    )


def test_surplus_is_given_back_and_the_gang_runs_on() -> None:
    house = House(configuration(cluster_queue(gpus=8)))
    house.run(of_volcano(5, 3))
    house.submit(workload("hero", pods=2))
    house.say(surplus((1, 4)), "hero")
    assert told(house) == [(1, {"main": 3})]
    state = admitted(house)
    assert isinstance(state.resize, Resizing)
    assert state.resize.leaving == (1, 4)
    assert gpus(house) == 5
    left = Placement(pods=tuple(p for p in state.placement.pods if p.rank not in (1, 4)), resizes=1)
    house.say(events.GangPlaced(workload_id="w1", attempt=1, placement=left))
    assert isinstance(admitted(house).resize, Growing | Resizing)


def test_a_gang_that_has_shrunk_meanwhile_is_evicted_whole() -> None:
    house = House(configuration(cluster_queue(gpus=8)))
    house.run(of_volcano(5, 3))
    house.submit(workload("hero", pods=2))
    house.say(surplus((1, 3, 4)), "hero")
    assert house.kind() == "evicting"


CHECKED = replace(cluster_queue(gpus=8), admission_checks=(AdmissionCheckRule(name="licences"),))


@pytest.fixture
def checked() -> House:
    """A queue whose check has agreed to five pods, of a workload that is to have eight."""
    check = AdmissionCheck(name="licences", controller="acme/licences")
    found = House(replace(configuration(CHECKED), admission_checks={check.name: check}))
    found.submit(elastic(5))
    agree(found, 0)
    found.place()
    found.start()
    scale(found, 8)
    return found


def agree(
    house: House, resize: int, state: CheckState = CheckState.READY, after_ms: int | None = None
) -> bool:
    fact = events.CheckAnswered(
        workload_id="w1",
        attempt=house.attempt(),
        resize=resize,
        check="licences",
        state=state,
        requeue_after_ms=after_ms,
        updates=(PodSetUpdate(name="main", labels={"size": str(resize)}),),
    )
    return bool(house.say(fact))


def sought(house: House) -> list[int]:
    """The numbers that placement may act on."""
    steps = [f.state for f in house.said if isinstance(f, events.WorkloadResized)]
    return [
        state.resizes
        for state in steps
        if isinstance(state, Admitted)
        and isinstance(state.resize, Resizing)
        and all_ready(state.resize.checks)
    ]


def test_more_pods_are_asked_about_before_seats_are_sought(checked: House) -> None:
    assert (gpus(checked), sought(checked)) == (8, [])
    said = checked.decisions[-1]
    assert [(check.name, check.resize) for check in said.checks] == [("licences", 1)]
    assert "waits for the admission checks licences" in said.message
    checked.restart()
    assert not agree(checked, 0)
    assert agree(checked, 1)
    assert not agree(checked, 1)
    assert sought(checked) == [1]
    assert seats(checked, 8, 1)
    held = admitted(checked)
    assert held.resize is None
    assert [update.labels for update in held.checks[0].updates] == [{"size": "1"}]


def test_another_try_for_more_pods_lets_the_others_run(checked: House) -> None:
    agree(checked, 1, CheckState.RETRY, after_ms=5_000)
    assert (checked.kind(), gpus(checked)) == ("admitted", 5)
    assert not checked.cycle(4_999)
    checked.cycle(1)
    assert gpus(checked) == 8
    asked = checked.decisions[-1].checks
    assert [(check.resize, check.retry_count) for check in asked] == [(2, 1)]
    assert not agree(checked, 1)


def test_a_rejection_of_more_pods_leaves_those_that_run(checked: House) -> None:
    agree(checked, 1, CheckState.REJECTED)
    assert (gpus(checked), admitted(checked).resize) == (5, None)
    assert checked.machine.book.records["w1"].workload.pod_sets[0].count == 5
    assert "admission check licences: Rejected" in checked.decisions[-1].message
    scale(checked, 6, at_ms=2)
    assert gpus(checked) == 6


def test_what_placement_may_be_seating_is_charged_until_it_answers(checked: House) -> None:
    agree(checked, 1)
    agree(checked, 1, CheckState.REJECTED)
    assert (gpus(checked), sought(checked)) == (8, [1, 2])
    assert seats(checked, 5, 2)
    assert (gpus(checked), admitted(checked).resize) == (5, None)


def test_fewer_of_the_pods_that_were_asked_about_need_no_other_answer(checked: House) -> None:
    scale(checked, 7, at_ms=2)
    assert sought(checked) == []
    agree(checked, 1)
    assert sought(checked) == [2]
    assert seats(checked, 7, 2)
    assert gpus(checked) == 7


def test_seats_for_more_pods_are_not_waited_for_without_end(house: House) -> None:
    scale(house, 8)
    assert not house.cycle(house.settings.reservation_timeout_ms - 1)
    house.cycle(1)
    assert (gpus(house), told(house)) == (8, [(1, {"main": 8}), (2, {"main": 5})])
    house.restart()
    assert seats(house, 5, 2)
    assert told(house)[-1] == (3, {"main": 8})


def test_checks_may_take_as_long_as_they_like_about_more_pods(checked: House) -> None:
    assert not checked.cycle(10**9)
    agree(checked, 1)
    checked.cycle(checked.settings.reservation_timeout_ms)
    assert sought(checked) == [1, 2]


def test_a_check_of_more_pods_that_nobody_wants_any_more_holds_nobody_up(checked: House) -> None:
    checked.configure(replace(checked.configuration, cluster_queues={"cq": cluster_queue(gpus=8)}))
    assert sought(checked) == [1]
