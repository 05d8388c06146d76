"""What a job has saved counts up to when it said so; said twice it is said once."""

import pytest

from muster_contracts import events
from muster_domain.states import Admitted, Evicting
from muster_testing.builders import cluster_queue, configuration, workload

from .house import House

MINUTE_MS = 60_000


@pytest.fixture
def house() -> House:
    found = House(configuration(cluster_queue(gpus=4)))
    found.run(workload(gpus=4))
    found.now_ms += 10 * MINUTE_MS
    return found


def save(house: House, at_ms: int, attempt: int = 0) -> None:
    house.say(events.CheckpointReported(workload_id="w1", at_ms=at_ms, attempt=attempt))


def saved_at_ms(house: House) -> int | None:
    state = house.state()
    assert isinstance(state, Admitted | Evicting)
    return state.checkpointed_at_ms


def lost_ms(house: House) -> int | None:
    state = house.state()
    assert isinstance(state, Evicting)
    return state.lost_work_ms


def test_the_same_report_twice_and_an_older_one_change_nothing(house: House) -> None:
    at_ms = house.now_ms
    for reported_ms in (at_ms, at_ms, at_ms - MINUTE_MS):
        save(house, reported_ms)
        house.restart()
    assert saved_at_ms(house) == at_ms
    assert len(house.facts(events.WorkloadCheckpointed)) == 1
    save(house, at_ms + 1)
    assert saved_at_ms(house) == at_ms + 1


def test_an_eviction_says_how_much_work_is_lost(house: House) -> None:
    save(house, house.now_ms)
    house.now_ms += 3 * MINUTE_MS
    house.cancel()
    assert lost_ms(house) == 3 * MINUTE_MS
    [evicted] = house.facts(events.WorkloadEvicted)
    assert isinstance(evicted, events.WorkloadEvicted)
    assert evicted.state.lost_work_ms == 3 * MINUTE_MS
    assert evicted.state.checkpointed_at_ms == house.now_ms - 3 * MINUTE_MS


def test_without_a_checkpoint_all_since_the_admission_is_lost(house: House) -> None:
    house.cancel()
    assert lost_ms(house) == 10 * MINUTE_MS


def test_who_saves_while_being_evicted_loses_nothing(house: House) -> None:
    house.cancel()
    save(house, house.now_ms + 1)
    save(house, house.now_ms + 1)
    assert (lost_ms(house), saved_at_ms(house)) == (0, house.now_ms + 1)
    assert len(house.facts(events.WorkloadCheckpointed)) == 1


def test_what_another_attempt_saved_counts_for_none(house: House) -> None:
    save(house, house.now_ms, attempt=2)
    assert saved_at_ms(house) is None
    before_ms = house.now_ms
    house.say(events.GangLost(workload_id="w1", attempt=1, node="n1"))
    house.release()
    house.now_ms += MINUTE_MS
    house.place()
    save(house, before_ms)
    save(house, house.now_ms + 1, attempt=1)
    assert (house.attempt(), saved_at_ms(house)) == (2, None)


def test_nobody_loses_work_who_never_was_admitted() -> None:
    house = House(configuration(cluster_queue(gpus=4)))
    house.submit(workload(gpus=4))
    save(house, house.now_ms + 1)
    house.cancel()
    assert lost_ms(house) is None


def test_a_report_about_nobody_is_let_go(house: House) -> None:
    house.say(events.CheckpointReported(workload_id="w9", at_ms=house.now_ms), "w9")
    assert house.facts(events.WorkloadCheckpointed) == []


def test_a_restart_still_knows_what_was_saved(house: House) -> None:
    save(house, house.now_ms)
    known = house.machine.book.view.holders["w1"].unsaved_since_ms
    house.restart()
    assert known == house.machine.book.view.holders["w1"].unsaved_since_ms == house.now_ms
