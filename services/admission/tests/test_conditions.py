"""Every state as Kueue's conditions: type, status and reason."""

import json
from dataclasses import replace

import pytest

from muster_admission.conditions import conditions
from muster_admission.queries import workload as asked_about
from muster_admission.settings import AdmissionSettings
from muster_contracts import codec, events
from muster_contracts.queries import WorkloadDetail
from muster_domain.conditions import Outcome
from muster_domain.queues import AdmissionCheck, AdmissionCheckRule, StopPolicy
from muster_testing.builders import cluster_queue, configuration, workload

from .house import House

SETTINGS = AdmissionSettings(
    pods_ready_timeout_ms=10_000, requeue_backoff_base_ms=1_000, requeue_backoff_max_ms=1_000
)


@pytest.fixture
def house() -> House:
    return House(configuration(cluster_queue(gpus=4)), SETTINGS)


def detail(house: House, identity: str = "w1") -> WorkloadDetail:
    return codec.decode(WorkloadDetail, asked_about(house.machine, {"id": identity}))


def seen(house: House, identity: str = "w1") -> list[str]:
    return [f"{c.type}={c.status} {c.reason}" for c in detail(house, identity).conditions]


def test_one_that_waits_for_quota(house: House) -> None:
    house.run(workload("w0", 4))
    house.submit()
    assert seen(house) == ["QuotaReserved=False WaitingForQuota", "Admitted=False NoReservation"]


def test_from_reservation_to_readiness(house: House) -> None:
    reserved = "QuotaReserved=True QuotaReserved"
    house.submit()
    assert seen(house) == [reserved, "Admitted=False UnsatisfiedAdmissionChecks"]
    house.place()
    assert seen(house) == [reserved, "Admitted=True Admitted", "PodsReady=False WaitForStart"]
    house.start()
    assert seen(house)[-1] == "PodsReady=True Started"
    house.say(events.GangStalled(workload_id="w1", attempt=1, times=1))
    assert seen(house)[-1] == "PodsReady=False WaitForRecovery"
    house.say(events.GangStarted(workload_id="w1", attempt=1, times=2))
    assert seen(house)[-1] == "PodsReady=True Recovered"
    house.finish()
    assert seen(house) == ["Finished=True Succeeded"]


def test_a_back_off_and_its_end(house: House) -> None:
    house.submit()
    house.place()
    house.cycle(10_000)
    assert seen(house)[-1] == "Evicted=True PodsReadyTimeout"
    house.release()
    assert seen(house)[2:] == ["Evicted=True PodsReadyTimeout", "Requeued=False PodsReadyTimeout"]
    found = detail(house)
    assert (found.requeue_count, found.requeue_at_ms) == (1, house.now_ms + 1_000)
    house.run(workload("w0", 4))
    house.cycle(1_000)
    assert seen(house)[-1] == "Requeued=True BackoffFinished"


def test_a_deactivation_says_by_what(house: House) -> None:
    house.run(workload(limit_ms=1_000))
    house.cycle(1_000)
    assert "Evicted=True DeactivatedDueToMaximumExecutionTimeExceeded" in seen(house)


def test_one_that_a_person_deactivated(house: House) -> None:
    house.submit()
    house.say(events.ActivationRequested(workload_id="w1", active=False, at_ms=1))
    house.release()
    assert seen(house) == [
        "QuotaReserved=False Deactivated",
        "Admitted=False NoReservation",
        "Evicted=True Deactivated",
        "Requeued=False Deactivated",
    ]
    assert not detail(house).active


def test_a_queue_that_is_stopped_and_restarted(house: House) -> None:
    house.run()
    house.configure(configuration(cluster_queue(gpus=4, stop=StopPolicy.HOLD_AND_DRAIN)))
    house.release()
    assert seen(house)[0] == "QuotaReserved=False Suspended"
    assert seen(house)[-1] == "Requeued=False ClusterQueueStopped"
    house.configure(configuration(cluster_queue(gpus=0)))
    assert seen(house)[-1] == "Requeued=True ClusterQueueRestarted"


def test_checks_that_agree_leave_the_seats(house: House) -> None:
    queue = replace(cluster_queue(gpus=4), admission_checks=(AdmissionCheckRule(name="licences"),))
    check = AdmissionCheck(name="licences", controller="acme/licences")
    house.configure(replace(configuration(queue), admission_checks={"licences": check}))
    house.submit()
    assert seen(house)[-1] == "Admitted=False UnsatisfiedAdmissionChecks"
    body = {"workload_id": "w1", "attempt": 1, "check": "licences", "state": "Ready"}
    house.say(codec.decode(events.CheckAnswered, json.dumps(body).encode()))
    assert seen(house)[-1] == "Admitted=False PendingDelayedTopologyRequests"


def test_a_holder_that_is_gone_is_an_owner_that_is_not_found(house: House) -> None:
    house.submit(workload(lease_ms=1_000))
    house.place()
    house.cycle(1_000)
    house.release()
    record = house.machine.book.records["w1"]
    (finished,) = conditions(record, detail(house).explanation)
    assert (finished.type, finished.reason) == ("Finished", "OwnerNotFound")
    assert detail(house).row.outcome is Outcome.LEASE_EXPIRED
