import pytest

from muster_admission.settings import AdmissionSettings, NeverFits
from muster_contracts import events
from muster_contracts.jobs import Verdict
from muster_domain.conditions import Outcome, PendingReason
from muster_domain.errors import InvalidValue
from muster_domain.states import Admitted, Finished, Pending
from muster_runtime.reader import Received
from muster_testing.builders import T0_MS, cluster_queue, configuration, submitted, workload

from .house import House


@pytest.fixture
def house() -> House:
    return House(configuration(cluster_queue(gpus=4)))


def test_a_job_that_fits_gets_quota_and_is_said_to_placement(house: House) -> None:
    house.submit(workload(gpus=3))
    assert house.kind() == "reserved"
    [reserved] = house.facts(events.QuotaReserved)
    assert isinstance(reserved, events.QuotaReserved)
    assert (reserved.workload.id, reserved.state.attempt) == ("w1", 1)
    assert reserved.state.admission.usage == {("a100", "nvidia.com/gpu"): 3000}


def test_a_job_that_waits_is_told_why(house: House) -> None:
    house.run(workload("hog", gpus=4))
    house.submit(workload(gpus=2))
    decision = house.decisions[-1]
    assert (decision.id, decision.decision) == ("w1", Verdict.QUEUED)
    assert decision.reason == PendingReason.WAITING_FOR_QUOTA
    assert house.facts(events.WorkloadQueued)


def test_a_job_that_can_never_fit_is_refused_with_the_arithmetic(house: House) -> None:
    house.submit(workload(gpus=2, pods=3))
    state = house.state()
    assert isinstance(state, Finished)
    assert state.outcome is Outcome.REFUSED
    assert "asks 6 nvidia.com/gpu" in state.message
    assert "4" in state.message
    decision = house.decisions[-1]
    assert (decision.decision, decision.reason) == (
        Verdict.REFUSED,
        PendingReason.EXCEEDS_MAX_QUOTA,
    )
    assert house.facts(events.QuotaReserved) == []


def test_what_never_fits_may_be_held_instead() -> None:
    house = House(
        configuration(cluster_queue(gpus=4)), AdmissionSettings(never_fits=NeverFits.HOLD)
    )
    house.submit(workload(gpus=6))
    assert house.kind() == "pending"
    house.configure(configuration(cluster_queue(gpus=8)))
    assert house.kind() == "reserved"


def test_what_the_cohort_could_lend_is_not_refused() -> None:
    house = House(
        configuration(cluster_queue("cq", 4, cohort="lab"), cluster_queue("other", 4, cohort="lab"))
    )
    house.submit(workload(gpus=8))
    assert house.kind() == "reserved"


def test_a_name_that_is_live_refuses_the_second_job(house: House) -> None:
    house.submit(workload("w1", name="train"))
    house.decisions.clear()
    house.submit(workload("w2", name="train"))
    state = house.state("w2")
    assert isinstance(state, Finished)
    assert state.outcome is Outcome.REFUSED
    assert "live under id w1" in state.message
    assert house.decisions == [], "the last word under the name belongs to the first job"
    assert house.kind("w1") == "reserved"


def test_a_name_is_free_again_once_its_job_has_ended(house: House) -> None:
    house.run(workload("w1", name="train"))
    house.finish("w1")
    house.submit(workload("w2", name="train"))
    assert house.kind("w2") == "reserved"
    house.cancel("w2")
    house.release("w2")
    house.submit(workload("w3", name="train"))
    assert house.kind("w3") == "reserved"


@pytest.mark.parametrize(
    ("wish", "outcome"),
    [
        (events.CancelRequested(workload_id="w1", by="ann"), Outcome.CANCELLED),
        (
            events.FinishReported(workload_id="w1", outcome=Outcome.SUCCEEDED),
            Outcome.SUCCEEDED,
        ),
    ],
)
def test_an_end_that_comes_before_its_job_is_remembered(
    house: House, wish: events.Request, outcome: Outcome
) -> None:
    house.say(wish, partition="all")
    house.restart()
    house.submit(workload(lease_ms=60_000))
    state = house.state()
    assert isinstance(state, Finished)
    assert state.outcome is outcome
    assert house.facts(events.QuotaReserved) == []


def test_a_sign_of_life_before_the_job_means_nothing(house: House) -> None:
    assert not house.say(events.LeaseRenewed(workload_id="w1"), partition="all")
    house.submit()
    assert house.kind() == "reserved"


def test_the_first_of_two_early_ends_counts(house: House) -> None:
    house.say(events.FinishReported(workload_id="w1", outcome=Outcome.FAILED), partition="all")
    house.say(events.CancelRequested(workload_id="w1"), partition="all")
    house.submit(workload(lease_ms=60_000))
    state = house.state()
    assert isinstance(state, Finished)
    assert state.outcome is Outcome.FAILED


def test_an_external_job_runs_as_soon_as_it_is_admitted(house: House) -> None:
    house.submit(workload(lease_ms=30_000))
    house.place()
    state = house.state()
    assert isinstance(state, Admitted)
    assert state.ready_at_ms == house.now_ms
    assert state.lease_until_ms == house.now_ms + 30_000
    assert house.decisions[-1].lease_until_ms == state.lease_until_ms


def test_decisions_wait_for_the_objects_that_the_gateway_saw(house: House) -> None:
    house.take(submitted(workload(), objects_sequence=42), "w1")
    assert house.machine.objects_needed == 42


def test_a_queue_that_does_not_exist_keeps_its_jobs_waiting(house: House) -> None:
    house.submit(workload(door="nowhere"), "gone")
    state = house.state()
    assert isinstance(state, Pending)
    row = house.machine.book.records["w1"]
    assert row.cluster_queue == "gone"
    house.configure(configuration(cluster_queue(gpus=4), cluster_queue("gone", 4)))
    assert house.kind() == "pending", "its door still leads nowhere"


def test_a_fact_that_cannot_be_read_is_poison_and_changes_nothing(house: House) -> None:
    broken = Received(
        sequence=1,
        subject="muster.evt.gateway.v1.workload_submitted.p00.team-a.w1",
        headers={},
        body=b"{",
        published_ms=T0_MS,
    )
    with pytest.raises(InvalidValue):
        house.machine.ingest(broken, T0_MS)
    assert not house.cycle()


def test_a_fact_of_a_name_that_nobody_knows_is_poison(house: House) -> None:
    unknown = Received(
        sequence=1,
        subject="muster.evt.gateway.v1.workload_exploded.p00.team-a.w1",
        headers={},
        body=b"{}",
        published_ms=T0_MS,
    )
    with pytest.raises(InvalidValue, match="workload_exploded"):
        house.machine.ingest(unknown, T0_MS)


def test_a_partition_reads_its_own_and_what_is_said_to_all(house: House) -> None:
    assert set(house.machine.inputs()) == {
        f"muster.evt.{owner}.v1.*.{partition}.>"
        for owner in ("gateway", "placement", "preemption")
        for partition in ("p00", "all")
    } | {"muster.evt.admission.v1.*.budget.p00.>"}
