"""What a cycle tried: counted once, whatever came of it."""

import pytest

from muster_contracts import events
from muster_domain.conditions import PreemptionReason
from muster_domain.queues import WithinClusterQueue
from muster_testing.builders import cluster_queue, configuration, workload

from .measured import Measured

RESULTS = ("success", "inadmissible")
OUTCOMES = ("new_targets", "deferred_fit", "skipped")


@pytest.fixture
def house() -> Measured:
    queue = cluster_queue(gpus=4, within=WithinClusterQueue.LOWER_PRIORITY)
    return Measured(configuration(queue))


def attempts(house: Measured) -> list[float]:
    return [house.value("admission_attempts_total", result=result) or 0 for result in RESULTS]


def recomputed(house: Measured) -> list[float]:
    name = "preemption_target_recomputations_total"
    return [house.value(name, cluster_queue="cq", result=result) or 0 for result in OUTCOMES]


def skips(house: Measured) -> float | None:
    return house.value("admission_cycle_preemption_skips", cluster_queue="cq")


def propose(house: Measured, attempt: int = 1) -> events.VictimsProposed:
    asked = house.facts(events.PreemptionRequested)[-1]
    assert isinstance(asked, events.PreemptionRequested)
    reason = PreemptionReason.IN_CLUSTER_QUEUE
    return events.VictimsProposed(
        workload_id=asked.workload_id,
        version=asked.version,
        admission=asked.admission,
        need=asked.need,
        victims=(events.Victim(workload_id="w1", attempt=attempt, reason=reason),),
    )


@pytest.fixture
def refused(house: Measured) -> Measured:
    """An urgent job whose victim is in another attempt than was proposed."""
    house.run(workload(gpus=4))
    house.submit(workload("urgent", 4, priority=5))
    house.say(propose(house, attempt=7), "urgent")
    return house


def test_a_cycle_that_looks_at_nobody_is_no_attempt(house: Measured) -> None:
    house.cycle()
    assert attempts(house) == [0, 0]


def test_an_attempt_succeeds_when_anybody_got_quota(house: Measured) -> None:
    house.submit(workload(gpus=4))
    assert attempts(house) == [1, 0]
    house.submit(workload("w2", 4))
    house.cycle()
    assert attempts(house) == [1, 1]
    for result in RESULTS:
        assert house.value("admission_attempt_duration_seconds_count", result=result) == 1


def test_whose_victims_are_not_to_be_had_is_skipped(refused: Measured) -> None:
    assert skips(refused) == 1
    assert recomputed(refused) == [0, 0, 0]
    refused.cycle()
    assert skips(refused) == 1
    refused.say(propose(refused), "urgent")
    assert skips(refused) == 0


def test_who_looks_again_may_find_others(refused: Measured) -> None:
    refused.say(propose(refused), "urgent")
    refused.say(propose(refused), "urgent")
    assert recomputed(refused) == [1, 0, 0]


def test_who_looks_again_may_find_room(refused: Measured) -> None:
    refused.finish("w1")
    assert refused.kind("urgent") == "reserved"
    assert recomputed(refused) == [0, 1, 0]


def test_who_looks_again_may_find_nobody(refused: Measured) -> None:
    refused.say(propose(refused, attempt=7), "urgent")
    assert recomputed(refused) == [0, 0, 1]
    refused.say(events.VictimsNotFound(workload_id="urgent", version=1), "urgent")
    assert recomputed(refused) == [0, 0, 2]


def test_the_first_search_is_no_second_one(house: Measured) -> None:
    house.run(workload(gpus=4))
    house.submit(workload("urgent", 4, priority=5))
    house.say(propose(house), "urgent")
    assert recomputed(house) == [0, 0, 0]


def test_who_leaves_while_looking_again_is_forgotten(refused: Measured) -> None:
    refused.cancel("urgent")
    refused.finish("w1")
    assert recomputed(refused) == [0, 0, 0]
