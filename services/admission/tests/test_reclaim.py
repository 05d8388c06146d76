"""Pods that are done give their quota back while the others run; said twice is given once."""

from dataclasses import replace

import pytest

from muster_contracts import events
from muster_domain.queues import UndeclaredResources
from muster_domain.states import Admitted, Pending
from muster_domain.workload import Workload
from muster_testing.builders import GPU, cluster_queue, configuration, workload

from .house import House


@pytest.fixture
def house() -> House:
    found = House(configuration(cluster_queue(gpus=4)))
    found.run(workload(gpus=1, pods=4))
    return found


def done(house: House, count: int, attempt: int = 1) -> object:
    fact = events.PodsSucceeded(workload_id="w1", attempt=attempt, counts={"main": count})
    return house.say(fact)


def admitted(house: House) -> Admitted:
    state = house.state()
    assert isinstance(state, Admitted)
    return state


def held_gpus(house: House) -> int:
    return admitted(house).admission.usage.get(("a100", GPU), 0) // 1000


def test_quota_of_pods_that_are_done_goes_to_the_next(house: House) -> None:
    house.submit(workload("w2", 2))
    assert house.kind("w2") == "pending"
    done(house, 1)
    assert (held_gpus(house), house.kind("w2")) == (3, "pending")
    house.restart()
    done(house, 2)
    assert (held_gpus(house), house.kind("w2")) == (2, "reserved")
    assert admitted(house).reclaimable == {"main": 2}
    assert len(house.facts(events.QuotaReclaimed)) == 2


def test_pods_that_are_charged_for_nothing_give_nothing_back() -> None:
    queue = replace(
        cluster_queue(), resource_groups=(), undeclared_resources=UndeclaredResources.IGNORE
    )
    house = House(configuration(queue))
    house.run(workload(gpus=1, pods=4))
    done(house, 1)
    assert admitted(house).reclaimable == {"main": 1}
    house.finish()
    assert house.kind() == "finished"


def test_counts_only_grow(house: House) -> None:
    done(house, 2)
    assert not done(house, 2)
    assert not done(house, 1)
    assert held_gpus(house) == 2


def test_all_of_a_set_may_be_done_before_the_gang_is(house: House) -> None:
    done(house, 4)
    assert held_gpus(house) == 0
    house.finish()
    assert house.kind() == "finished"


def test_an_old_attempt_gives_nothing_back(house: House) -> None:
    house.say(events.GangLost(workload_id="w1", attempt=1, node="n1"))
    house.release()
    house.place()
    house.start()
    assert not done(house, 2)


def test_a_gang_that_starts_anew_holds_everything_again(house: House) -> None:
    done(house, 3)
    house.say(events.GangLost(workload_id="w1", attempt=1, node="n1"))
    house.submit(workload("w2", 3))
    house.release()
    waiting = house.state()
    assert isinstance(waiting, Pending)
    assert house.kind("w2") == "reserved"
    house.cancel("w2")
    house.release("w2")
    house.place()
    assert held_gpus(house) == 4


def partial(asked: Workload) -> Workload:
    (main,) = asked.pod_sets
    return replace(asked, pod_sets=(replace(main, min_count=1),))


def test_a_gang_that_was_admitted_in_part_gives_back_of_its_part() -> None:
    house = House(configuration(cluster_queue(gpus=2)))
    asked = partial(workload(gpus=1, pods=4))
    house.submit(asked)
    (main,) = asked.pod_sets
    smaller = replace(asked, pod_sets=(replace(main, count=2),))
    house.place_as(smaller)
    house.start()
    done(house, 1)
    assert held_gpus(house) == 1
