from dataclasses import replace

import pytest

from muster_admission.queries import workload as answer_workload
from muster_admission.rows import workload_row
from muster_contracts import codec, events
from muster_contracts.queries import Phase, WorkloadDetail
from muster_domain.conditions import EvictionReason, Explanation, PendingReason
from muster_domain.queues import QueueState, StopPolicy, VolcanoQueue
from muster_domain.states import Evicting
from muster_domain.workload import VolcanoQueueRef
from muster_scheduling.snapshot.catalog import Configuration
from muster_testing.builders import cluster_queue, configuration, local_queue, workload

from .house import House

OPEN = configuration(cluster_queue(gpus=4))


def queue_stopped(policy: StopPolicy) -> Configuration:
    return configuration(cluster_queue(gpus=4, stop=policy))


def door_stopped(policy: StopPolicy) -> Configuration:
    return configuration(cluster_queue(gpus=4), doors=[local_queue(stop=policy)])


@pytest.fixture
def house() -> House:
    house = House(OPEN)
    house.run(workload("running"))
    house.submit(workload("reserved"))
    house.run(workload("large", gpus=2))
    house.submit(workload("waiting"))
    return house


def kinds(house: House) -> list[str]:
    return house.kinds("running", "reserved", "large", "waiting")


STOPS = [
    pytest.param(queue_stopped, EvictionReason.CLUSTER_QUEUE_STOPPED, id="ClusterQueue"),
    pytest.param(door_stopped, EvictionReason.LOCAL_QUEUE_STOPPED, id="LocalQueue"),
]


@pytest.mark.parametrize(("stopped", "reason"), STOPS)
def test_hold_lets_run_what_runs_and_takes_back_what_is_reserved(
    house: House, stopped: object, reason: EvictionReason
) -> None:
    house.configure(stopped(StopPolicy.HOLD))  # type: ignore[operator]
    assert kinds(house) == ["admitted", "evicting", "admitted", "pending"]
    state = house.state("reserved")
    assert isinstance(state, Evicting)
    assert state.reason is reason
    house.release("reserved")
    assert house.kind("reserved") == "pending"


@pytest.mark.parametrize(("stopped", "reason"), STOPS)
def test_drain_takes_everything_back_and_admits_nothing(
    house: House, stopped: object, reason: EvictionReason
) -> None:
    house.configure(stopped(StopPolicy.HOLD_AND_DRAIN))  # type: ignore[operator]
    assert kinds(house) == ["evicting", "evicting", "evicting", "pending"]
    for identity in ("running", "reserved", "large"):
        state = house.state(identity)
        assert isinstance(state, Evicting)
        assert state.reason is reason
        house.release(identity)
    house.cycle(60_000)
    assert set(kinds(house)) == {"pending"}


@pytest.mark.parametrize(("stopped", "reason"), STOPS)
def test_a_queue_that_opens_again_admits_in_the_old_order(
    house: House, stopped: object, reason: EvictionReason
) -> None:
    del reason
    house.configure(stopped(StopPolicy.HOLD_AND_DRAIN))  # type: ignore[operator]
    for identity in ("running", "reserved", "large"):
        house.release(identity)
    house.restart()
    house.configure(OPEN)
    assert kinds(house) == ["reserved", "reserved", "reserved", "pending"]


@pytest.mark.parametrize(("stopped", "reason"), STOPS)
def test_what_arrives_while_it_is_stopped_waits(
    house: House, stopped: object, reason: EvictionReason
) -> None:
    del reason
    house.finish("large")
    house.place("waiting")
    house.configure(stopped(StopPolicy.HOLD))  # type: ignore[operator]
    house.submit(workload("new"))
    assert house.kind("new") == "pending"
    assert not house.cycle(1_000)


def test_whoever_stands_at_a_stopped_door_is_told_so(house: House) -> None:
    house.configure(door_stopped(StopPolicy.HOLD))
    book = house.machine.book
    row = workload_row(book, book.records["waiting"])
    assert (row.phase, row.reason) == (Phase.PENDING, PendingReason.SUSPENDED)
    assert "team-a/jobs is stopped" in row.message


@pytest.mark.parametrize(
    ("stopped", "told"),
    [
        pytest.param(queue_stopped, "ClusterQueue cq is inactive: Stopped", id="ClusterQueue"),
        pytest.param(door_stopped, "LocalQueue team-a/jobs is stopped", id="LocalQueue"),
    ],
)
def test_who_found_no_seats_is_told_of_the_closed_queue(
    house: House, stopped: object, told: str
) -> None:
    house.refuse_seats("reserved")
    assert explanation(house, "reserved").reason == PendingReason.TOPOLOGY_PLACEMENT_FAILED
    house.configure(stopped(StopPolicy.HOLD))  # type: ignore[operator]
    why = explanation(house, "reserved")
    assert (why.reason, why.message) == (PendingReason.SUSPENDED, told)
    book = house.machine.book
    assert workload_row(book, book.records["reserved"]).message == told


def explanation(house: House, identity: str) -> Explanation:
    detail = codec.decode(WorkloadDetail, answer_workload(house.machine, {"id": identity}))
    return detail.explanation


def test_other_doors_of_the_same_queue_stay_open() -> None:
    doors = [local_queue(stop=StopPolicy.HOLD), local_queue(name="side")]
    house = House(configuration(cluster_queue(gpus=4), doors=doors))
    house.submit(workload("shut"))
    house.submit(workload("free", door="side"))
    assert house.kinds("shut", "free") == ["pending", "reserved"]


def test_cancelling_while_stopped_ends_what_waits(house: House) -> None:
    house.configure(door_stopped(StopPolicy.HOLD))
    house.cancel("waiting")
    assert house.kind("waiting") == "finished"
    assert house.facts(events.WorkloadFinished)


def test_a_volcano_queue_under_a_closed_one_starts_nobody_new() -> None:
    def under(state: QueueState) -> Configuration:
        queues = {
            "lab": VolcanoQueue(name="lab", state=state),
            "team": VolcanoQueue(name="team", parent="lab"),
        }
        return Configuration(volcano_queues=queues)

    house = House(under(QueueState.OPEN))
    for identity in ("running", "reserved"):
        house.submit(
            replace(workload(identity), queue=VolcanoQueueRef(name="team")), "volcano/team"
        )
    house.place("running")
    house.configure(under(QueueState.CLOSED))
    assert house.kinds("running", "reserved") == ["admitted", "evicting"]
    house.release("reserved")
    assert explanation(house, "reserved").message == "Volcano queue lab is Closed"
    house.release("reserved")
    house.cycle(60_000)
    assert house.kind("reserved") == "pending"
    house.configure(under(QueueState.OPEN))
    house.cycle(60_000)
    assert house.kind("reserved") == "reserved"
