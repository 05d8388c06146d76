import pytest

from muster_admission.book import PRUNE_EVERY_MS
from muster_admission.settings import AdmissionSettings
from muster_contracts import events
from muster_domain.conditions import DeactivationCause, EvictionReason, Outcome
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
        DeactivationCause.REQUEUING_LIMIT_EXCEEDED,
    )
    house.release()
    assert outcome(house) is Outcome.DEACTIVATED


def test_pods_that_run_reset_the_count_of_pauses(house: House) -> None:
    house.submit()
    house.place()
    house.cycle(10_000)
    house.release()
    house.cycle(1_000)
    house.place()
    house.start()
    assert house.state().requeue_count == 0  # type: ignore[union-attr]
    assert not house.cycle(60_000)


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
    assert state.cause is DeactivationCause.MAXIMUM_EXECUTION_TIME_EXCEEDED
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
    assert state.cause is DeactivationCause.MAXIMUM_EXECUTION_TIME_EXCEEDED


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
