"""What each message of the log tells."""

from dataclasses import replace

import pytest

from muster_accounting.bookkeeper import read_facts
from muster_accounting.facts import INPUTS, read_fact
from muster_accounting.rows import attempt_of, attempt_row
from muster_contracts import codec
from muster_contracts.events import WorkloadAdmitted
from muster_domain.nodes import NodeCondition
from muster_rating.attempts import Attempt, Charge, Closing, Eviction, Owner, Seat
from muster_rating.capacity import NodeReport, NodeTurn
from muster_runtime.reader import Received

from .log import GPU, Job, Log, clock

JOB = Job(team="a", gpus=8, nodes=("n1", "n1", "n2", "n3"), labels={"model": "big"})


def told(log: Log) -> Attempt:
    fact = read_fact(log.messages[-1])
    assert isinstance(fact, Attempt)
    return fact


def test_a_reservation_opens_an_attempt_with_its_owner() -> None:
    log = Log()
    log.reserve(JOB, 3)

    attempt = told(log)

    assert attempt.key == ("id-a-train", 1)
    assert attempt.opening is not None
    assert attempt.opening.at_ms == clock(3)
    assert attempt.opening.owner == Owner(
        namespace="ns-a",
        workload="train",
        cluster_queue="cq-a",
        local_queue="main",
        team="a",
        user="a-user",
        kind="Job",
        labels={"muster.dev/team": "a", "model": "big"},
    )
    assert attempt.opening.charges == (Charge(flavor="h100", resource=GPU, quantity_milli=8000),)
    assert attempt.seating is None


def test_an_admission_seats_it_and_shares_the_charge_among_its_nodes() -> None:
    log = Log()
    log.admit(JOB, 4, reserved_h=3)

    attempt = told(log)

    def seat(node: str, pods: int) -> Seat:
        return Seat(
            node=node,
            pods=pods,
            devices=2 * pods,
            charges=(
                Charge(flavor="", resource="cpu", quantity_milli=500 * pods),
                Charge(flavor="h100", resource=GPU, quantity_milli=2000 * pods),
            ),
        )

    assert attempt.opening is not None
    assert attempt.opening.at_ms == clock(3)
    assert attempt.seating is not None
    assert attempt.seating.at_ms == clock(4)
    assert attempt.seating.seats == (seat("n1", 2), seat("n2", 1), seat("n3", 1))


def test_an_admission_of_another_size_is_a_resize_from_when_it_is_said() -> None:
    log = Log()
    log.admit(JOB, 4, reserved_h=3)
    first = told(log)
    said = log.messages[-1]
    fact = codec.decode_event("workload_admitted", said.body)
    assert isinstance(fact, WorkloadAdmitted)
    placement = replace(fact.state.placement, pods=fact.state.placement.pods[:2], resizes=1)
    later = replace(fact, version=9, state=replace(fact.state, placement=placement))
    headers = {**said.headers, "ce-time": said.headers["ce-time"].replace("T04", "T06")}

    attempt = read_fact(replace(said, body=codec.encode(later), headers=headers))

    assert isinstance(attempt, Attempt)
    assert attempt.seating is None
    (resize,) = attempt.resizes
    assert [seat.pods for seat in resize.seats] == [2]
    both = first.merge(attempt)
    assert both.last_seating == resize
    assert attempt_of(attempt_row(both)) == both
    assert attempt_of(attempt_row(attempt)) == attempt


def test_the_team_is_the_namespace_where_no_label_names_it() -> None:
    log = Log()
    log.reserve(Job(team="a", gpus=1, labels={"muster.dev/team": ""}), 0)

    opening = told(log).opening

    assert opening is not None
    assert opening.owner.team == "ns-a"


def test_an_eviction_is_remembered_and_ends_nothing() -> None:
    log = Log()
    log.preempt(JOB, 5)

    assert told(log) == Attempt(
        workload_id="id-a-train",
        number=1,
        eviction=Eviction(at_ms=clock(5), version=1, reason="Preempted", preemptor="id-rival"),
    )


def test_going_back_to_the_queue_and_finishing_end_it() -> None:
    log = Log()
    log.requeue(JOB, 6)
    assert told(log).closing == Closing(at_ms=clock(6), version=1)
    log.finish(JOB, 7)
    assert told(log).closing == Closing(at_ms=clock(7), version=2, outcome="Succeeded")


def test_an_end_without_an_attempt_tells_nothing() -> None:
    log = Log()
    log.finish(Job(team="a", gpus=1, attempt=0), 7)

    assert read_fact(log.messages[-1]) is None


def test_nodes_report_and_turn() -> None:
    log = Log()
    log.node("n1", 4, 2)
    log.condition("n1", NodeCondition.FENCED, 3)

    report, turn = (read_fact(message) for message in log.messages)

    assert isinstance(report, NodeReport)
    assert (report.node, report.at_ms, report.devices) == ("n1", clock(2), {GPU})
    assert report.allocatable[GPU] == 4000
    assert isinstance(turn, NodeTurn)
    assert (turn.node, turn.at_ms, turn.condition) == ("n1", clock(3), NodeCondition.FENCED)


@pytest.mark.parametrize(
    ("headers", "body", "reason"),
    [
        pytest.param({"ce-id": "x"}, b"{", "body", id="no JSON"),
        pytest.param({"ce-id": "x"}, b"{}", "workload", id="no fact"),
        pytest.param({}, b"{}", "ce-id", id="no id"),
    ],
)
def test_what_cannot_be_read_is_put_aside_and_the_rest_goes_on(
    headers: dict[str, str], body: bytes, reason: str
) -> None:
    log = Log()
    log.reserve(JOB, 0)
    broken = Received(7, log.messages[0].subject, headers, body, 0)

    facts, letters = read_facts([broken, *log.messages])

    assert len(facts) == 1
    assert [letter.received for letter in letters] == [broken]
    assert reason in letters[0].reason


def test_the_inputs_are_the_facts_that_are_read() -> None:
    assert "muster.evt.admission.v1.quota_reserved.>" in INPUTS
    assert "muster.evt.agent.v1.node_registered.>" in INPUTS
    assert "muster.evt.placement.v1.node_condition_changed.>" in INPUTS
