from dataclasses import replace

import pytest

from muster_admission.book import PRUNE_EVERY_MS
from muster_admission.settings import AdmissionSettings
from muster_contracts import events
from muster_domain.conditions import EvictionReason, Outcome, RequeuedReason, UnderlyingCause
from muster_domain.policy import Lifecycle, Policy, RequeueTimestamp
from muster_domain.states import Admitted, Evicting, Finished, Pending
from muster_testing.builders import cluster_queue, configuration, workload

from .house import House

SETTINGS = AdmissionSettings(
    pods_ready_timeout_ms=10_000,
    requeue_backoff_base_ms=1_000,
    requeue_backoff_max_ms=5_000,
    requeue_limit=4,
    reservation_timeout_ms=20_000,
)


@pytest.fixture
def house() -> House:
    return House(configuration(cluster_queue(gpus=4)), SETTINGS)


def outcome(house: House, identity: str = "w1") -> Outcome:
    state = house.state(identity)
    assert isinstance(state, Finished)
    return state.outcome


def test_a_reservation_without_an_answer_comes_back(house: House) -> None:
    house.submit()
    assert house.machine.wake_at_ms() == house.now_ms + 20_000
    assert not house.cycle(19_999)
    house.cycle(1)
    state = house.state()
    assert isinstance(state, Evicting)
    assert state.reason is EvictionReason.ADMISSION_CHECK
    house.release()
    assert (house.kind(), house.attempt()) == ("reserved", 2)


def test_pods_that_do_not_all_run_in_time_are_evicted_with_a_growing_pause(house: House) -> None:
    house.submit()
    pauses: list[int] = []
    for _ in range(4):
        house.place()
        assert not house.cycle(9_999)
        house.cycle(1)
        state = house.state()
        assert isinstance(state, Evicting)
        assert state.reason is EvictionReason.PODS_READY_TIMEOUT
        house.release()
        waiting = house.state()
        assert isinstance(waiting, Pending)
        assert waiting.requeue_at_ms is not None
        pauses.append(waiting.requeue_at_ms - house.now_ms)
        house.cycle(pauses[-1])
        assert house.kind() == "reserved"
    assert pauses == [1_000, 2_000, 4_000, 5_000]
    house.place()
    house.cycle(10_000)
    state = house.state()
    assert isinstance(state, Evicting)
    assert (state.reason, state.cause) == (
        EvictionReason.DEACTIVATED,
        UnderlyingCause.REQUEUING_LIMIT_EXCEEDED,
    )
    house.release()
    assert outcome(house) is Outcome.DEACTIVATED


def test_pods_that_run_do_not_make_pauses_forgotten(house: House) -> None:
    house.submit()
    house.place()
    house.cycle(10_000)
    house.release()
    house.cycle(1_000)
    house.place()
    house.start()
    state = house.state()
    assert isinstance(state, Admitted)
    assert state.requeue_count == 1
    assert not house.cycle(60_000)


def stall(house: House, times: int = 1) -> None:
    house.say(events.GangStalled(workload_id="w1", attempt=house.attempt(), times=times))


def started(times: int) -> events.GangStarted:
    return events.GangStarted(workload_id="w1", attempt=1, times=times)


def test_pods_that_do_not_recover_are_evicted_after_the_recovery_timeout() -> None:
    settings = SETTINGS.model_copy(update={"recovery_timeout_ms": 3_000})
    house = House(configuration(cluster_queue(gpus=4)), settings)
    house.run()
    house.cycle(60_000)
    stall(house)
    house.restart()
    assert house.machine.wake_at_ms() == house.now_ms + 3_000
    assert not house.cycle(2_999)
    house.cycle(1)
    state = house.state()
    assert isinstance(state, Evicting)
    assert (state.reason, state.cause) == (
        EvictionReason.PODS_READY_TIMEOUT,
        UnderlyingCause.WAIT_FOR_RECOVERY,
    )
    assert state.message == "not all pods ran again within 3 s"
    house.release()
    waiting = house.state()
    assert isinstance(waiting, Pending)
    assert waiting.requeue_at_ms == house.now_ms + 1_000


def test_pods_that_run_again_in_time_stay(house: House) -> None:
    house.run()
    stall(house)
    house.cycle(9_000)
    house.say(started(2))
    state = house.state()
    assert isinstance(state, Admitted)
    assert (state.unready_since_ms, state.recovered_at_ms) == (None, house.now_ms)
    assert not house.cycle(60_000)
    assert len(house.facts(events.PodsBecameReady)) == 2
    assert len(house.facts(events.PodsBecameUnready)) == 1


def test_an_old_word_about_readiness_changes_nothing(house: House) -> None:
    house.run()
    stall(house)
    assert not house.say(started(1))
    house.say(started(2))
    assert not house.say(events.GangStalled(workload_id="w1", attempt=1, times=1))
    assert len(house.facts(events.PodsBecameReady)) == 2


def test_without_a_recovery_timeout_nobody_waits_for_it() -> None:
    settings = SETTINGS.model_copy(update={"recovery_timeout_ms": 0})
    house = House(configuration(cluster_queue(gpus=4)), settings)
    house.run()
    stall(house)
    assert not house.cycle(10**9)
    assert house.kind() == "admitted"


def test_what_is_declared_goes_before_the_settings_and_counts_at_once(house: House) -> None:
    house.submit()
    house.place()
    house.configure(replace(house.configuration, lifecycle=Lifecycle(ready_ms=2_000)))
    assert not house.cycle(1_999)
    house.cycle(1)
    assert house.kind() == "evicting"


def test_a_workload_that_was_not_ready_goes_behind_those_that_came_meanwhile(house: House) -> None:
    house.submit(workload(gpus=4))
    house.place()
    house.submit(workload("w2", 4, created_at_ms=house.now_ms + 1))
    house.cycle(10_000)
    house.release()
    house.cycle(1_000)
    assert house.kinds("w1", "w2") == ["pending", "reserved"]
    state = house.state()
    assert isinstance(state, Pending)
    assert state.requeued is RequeuedReason.BACKOFF_FINISHED


def test_by_creation_it_goes_before_them() -> None:
    by_creation = Policy(requeue_timestamp=RequeueTimestamp.CREATION)
    house = House(replace(configuration(cluster_queue(gpus=4)), policy=by_creation), SETTINGS)
    house.submit(workload(gpus=4))
    house.place()
    house.cycle(10_000)
    house.release()
    state = house.state()
    assert isinstance(state, Pending)
    assert state.queued_at_ms == workload().created_at_ms


def test_placement_that_finds_no_seats_uses_up_no_back_off(house: House) -> None:
    house.submit()
    house.refuse_seats()
    state = house.state()
    assert isinstance(state, Pending)
    assert (state.requeue_count, state.history.unseated_times) == (0, 1)


def test_a_reservation_that_nobody_answered_keeps_its_place(house: House) -> None:
    house.submit()
    house.cycle(20_000)
    house.release()
    state = house.state()
    assert not isinstance(state, Finished)
    assert state.queued_at_ms == workload().created_at_ms


def test_evictions_are_counted_by_reason_and_cause(house: House) -> None:
    house.submit()
    for pause_ms in (1_000, 2_000):
        house.place()
        house.cycle(10_000)
        house.release()
        house.cycle(pause_ms)
    history = house.state().history
    assert [(count.reason, count.cause, count.count) for count in history.evictions] == [
        ("PodsReadyTimeout", "WaitForStart", 2)
    ]


def test_a_pause_holds_even_when_there_is_room(house: House) -> None:
    house.submit()
    house.place()
    house.cycle(10_000)
    house.release()
    house.restart()
    assert not house.cycle(999)
    house.cycle(1)
    assert house.kind() == "reserved"


def test_a_silent_holder_loses_its_lease(house: House) -> None:
    house.submit(workload(lease_ms=5_000))
    house.place()
    assert not house.cycle(4_999)
    house.cycle(1)
    state = house.state()
    assert isinstance(state, Evicting)
    assert state.reason is Outcome.LEASE_EXPIRED
    house.release()
    assert outcome(house) is Outcome.LEASE_EXPIRED


def test_a_renewed_lease_is_counted_from_the_renewal(house: House) -> None:
    house.submit(workload(lease_ms=5_000))
    house.place()
    for _ in range(5):
        house.cycle(4_000)
        house.say(events.LeaseRenewed(workload_id="w1"))
    assert house.kind() == "admitted"
    house.restart()
    house.cycle(5_000)
    assert house.kind() == "evicting"


def test_the_longest_running_time_ends_a_job_for_good(house: House) -> None:
    house.run(workload(limit_ms=30_000))
    assert not house.cycle(29_999)
    house.cycle(1)
    state = house.state()
    assert isinstance(state, Evicting)
    assert state.cause is UnderlyingCause.MAXIMUM_EXECUTION_TIME_EXCEEDED
    house.release()
    assert outcome(house) is Outcome.DEACTIVATED


def test_earlier_attempts_count_towards_the_longest_running_time(house: House) -> None:
    house.run(workload(limit_ms=30_000))
    house.cycle(20_000)
    house.say(events.GangLost(workload_id="w1", attempt=1, node="n1"))
    house.release()
    house.cycle(100_000)
    assert house.kind() == "evicting", "placement did not answer"
    house.release()
    house.place()
    house.start()
    assert not house.cycle(9_999)
    house.cycle(1)
    state = house.state()
    assert isinstance(state, Evicting)
    assert state.cause is UnderlyingCause.MAXIMUM_EXECUTION_TIME_EXCEEDED


def test_the_first_of_two_deadlines_wakes(house: House) -> None:
    house.submit(workload("slow"))
    house.cycle(5_000)
    house.submit(workload("held", lease_ms=6_000))
    house.place("held")
    assert house.machine.wake_at_ms() == house.now_ms + 6_000
    house.place("slow")
    assert isinstance(house.state("slow"), Admitted)
    assert house.machine.wake_at_ms() == house.now_ms + 6_000
    house.start("slow")
    house.cycle(6_000)
    assert house.kinds("slow", "held") == ["admitted", "evicting"]


def test_what_ended_long_ago_is_forgotten_and_what_lives_is_not() -> None:
    settings = AdmissionSettings(retention_ms=1_000, retention_count=100)
    house = House(configuration(cluster_queue(gpus=4)), settings)
    house.run(workload("old"))
    house.finish("old")
    house.run(workload("live"))
    house.say(events.CancelRequested(workload_id="never-came"), "never-came", partition="all")
    house.cycle(1_001)
    assert set(house.machine.book.records) == {"live"}
    assert house.machine.book.tombstones == {}
    house.cycle(PRUNE_EVERY_MS)
    assert not any("old" in name or "never" in name for name in house.stored)


def test_no_more_ended_jobs_are_kept_than_the_settings_say() -> None:
    house = House(configuration(cluster_queue(gpus=4)), AdmissionSettings(retention_count=3))
    for number in range(6):
        house.run(workload(f"w{number}"))
        house.finish(f"w{number}")
    house.cycle()
    assert set(house.machine.book.records) == {"w3", "w4", "w5"}


def test_what_a_rule_deactivated_is_remembered_for_a_time_of_its_own() -> None:
    keeps = Lifecycle(keep_finished_ms=5_000, keep_deactivated_ms=1_000)
    house = House(replace(configuration(cluster_queue(gpus=4)), lifecycle=keeps))
    house.run(replace(workload("late", gpus=1), max_execution_time_ms=500))
    house.run(workload("done", gpus=1))
    house.finish("done")
    house.cycle(500)
    house.release("late")
    house.restart()
    house.cycle(1_000)
    assert house.kinds("late", "done") == ["finished", "finished"]
    house.cycle(1)
    assert set(house.machine.book.records) == {"done"}


def test_the_configuration_says_how_long_what_has_ended_is_remembered() -> None:
    declared = replace(
        configuration(cluster_queue(gpus=4)), lifecycle=Lifecycle(keep_finished_ms=5_000)
    )
    house = House(declared)
    house.run()
    house.finish()
    house.cycle(5_000)
    assert "w1" in house.machine.book.records
    house.cycle(1)
    assert "w1" not in house.machine.book.records
