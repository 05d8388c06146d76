"""Each rule of the metrics once: names and labels as Kueue's, under the prefix `muster_`."""

import math
from dataclasses import replace

import pytest

from muster_admission.metrics import BUCKETS_S, LONG_BUCKETS_S
from muster_admission.settings import AdmissionSettings
from muster_contracts import events
from muster_domain.conditions import PendingReason
from muster_domain.queues import (
    ClusterQueue,
    Cohort,
    FlavorQuotas,
    QueueingStrategy,
    ReclaimWithinCohort,
    ResourceGroup,
    ResourceQuota,
    WithinClusterQueue,
)
from muster_testing.builders import FLAVOR, GPU, cluster_queue, configuration, workload

from .measured import Measured

SETTINGS = AdmissionSettings(
    pods_ready_timeout_ms=10_000, requeue_backoff_base_ms=1_000, requeue_backoff_max_ms=1_000
)


@pytest.fixture
def house() -> Measured:
    return Measured(configuration(cluster_queue(gpus=4)), SETTINGS)


def once(house: Measured, name: str, /, **labels: str) -> float | None:
    return house.value(name, cluster_queue="cq", priority_class="", **labels)


def test_buckets_are_1_and_then_double_from_2_5() -> None:
    assert BUCKETS_S[:4] == LONG_BUCKETS_S[:4] == (1, 2.5, 5, 10)
    assert (BUCKETS_S[-1], LONG_BUCKETS_S[-1]) == (10_240, 40_960)


def test_waits_are_counted_from_creation(house: Measured) -> None:
    house.submit()
    house.cycle(3_000)
    house.place()
    house.cycle(4_000)
    house.start()
    assert once(house, "quota_reserved_workloads_total") == 1
    assert once(house, "admitted_workloads_total") == 1
    assert once(house, "quota_reserved_wait_time_seconds_sum") == 0
    assert once(house, "admission_wait_time_seconds_sum") == 3
    assert once(house, "admission_checks_wait_time_seconds_sum") == 3
    assert once(house, "ready_wait_time_seconds_sum") == 7
    assert once(house, "admitted_until_ready_wait_time_seconds_sum") == 4


def test_after_an_eviction_waits_are_counted_from_the_requeue(house: Measured) -> None:
    house.submit()
    house.place()
    house.cycle(10_000)
    house.release()
    house.cycle(1_000)
    house.cycle(5_000)
    house.place()
    assert once(house, "admission_wait_time_seconds_count") == 2
    assert once(house, "admission_wait_time_seconds_sum") == 5


def test_only_the_first_readiness_counts(house: Measured) -> None:
    house.run()
    house.say(events.GangStalled(workload_id="w1", attempt=1, times=1))
    house.say(events.GangStarted(workload_id="w1", attempt=1, times=2))
    assert once(house, "ready_wait_time_seconds_count") == 1


def test_evictions_for_the_same_reason_count_once_where_once_is_asked(house: Measured) -> None:
    why = {"reason": "PodsReadyTimeout", "underlying_cause": "WaitForStart"}
    house.submit()
    for _ in range(2):
        house.place()
        house.cycle(10_000)
        house.cycle(2_000)
        house.release()
        house.cycle(1_000)
    assert once(house, "evicted_workloads_total", **why) == 2
    assert once(house, "evicted_workloads_once_total", **why) == 1
    latency = house.value(
        "workload_eviction_latency_seconds_sum", cluster_queue="cq", reason="PodsReadyTimeout"
    )
    assert latency == 4


def test_time_from_readiness_to_eviction(house: Measured) -> None:
    house.run()
    house.cycle(5_000)
    house.say(events.GangLost(workload_id="w1", attempt=1, node="n1"))
    found = house.value(
        "pods_ready_to_evicted_time_seconds_sum",
        cluster_queue="cq",
        reason="NodeFailures",
        underlying_cause="",
    )
    assert found == 5


def test_execution_time_is_that_of_all_attempts(house: Measured) -> None:
    house.run()
    house.cycle(5_000)
    house.say(events.GangLost(workload_id="w1", attempt=1, node="n1"))
    house.release()
    house.place()
    house.start()
    house.cycle(2_000)
    house.finish()
    assert once(house, "execution_time_seconds_sum") == 7
    assert once(house, "finished_workloads_total", outcome="Succeeded") == 1
    assert house.value("retained_workloads", cluster_queue="cq") == 1


def test_preemptions_are_the_preemptors(house: Measured) -> None:
    queue = cluster_queue(gpus=4, within=WithinClusterQueue.LOWER_PRIORITY)
    house.configure(configuration(queue))
    house.run(workload(gpus=4))
    house.submit(workload("w2", 4, priority=5))
    (asked,) = house.facts(events.PreemptionRequested)
    assert isinstance(asked, events.PreemptionRequested)
    victim = events.Victim(workload_id="w1", attempt=1, reason=in_queue())
    house.say(
        events.VictimsProposed(
            workload_id="w2", version=1, admission=asked.admission, need=asked.need,
            victims=(victim,),
        ),
        "w2",
    )  # fmt: skip
    found = house.value(
        "preempted_workloads_total", preempting_cluster_queue="cq", reason="InClusterQueue"
    )
    assert found == 1


def in_queue() -> events.PreemptionReason:
    return events.PreemptionReason.IN_CLUSTER_QUEUE


def test_the_head_that_blocks_its_queue_is_counted(house: Measured) -> None:
    house.configure(configuration(cluster_queue(gpus=4, strategy=QueueingStrategy.STRICT_FIFO)))
    house.run(workload(gpus=3))
    house.submit(workload("head", 4))
    house.submit(workload("tail", 1))
    assert house.value("pending_workloads", cluster_queue="cq", status="active") == 2
    reasons = {
        reason: house.value(
            "unadmitted_workloads", cluster_queue="cq", reason=reason, underlying_cause=""
        )
        for reason in ("WaitingForQuota", "PendingEvaluation")
    }
    assert reasons == {"WaitingForQuota": 1, "PendingEvaluation": 1}


def test_those_who_wait_without_a_queue_are_counted_as_misconfigured(house: Measured) -> None:
    house.submit(workload(door="nowhere"), queue="")
    found = house.value(
        "unadmitted_workloads",
        cluster_queue="",
        reason=PendingReason.MISCONFIGURED,
        underlying_cause="",
    )
    assert found == 1


def test_a_limit_that_nobody_set_has_no_end(house: Measured) -> None:
    amounts = {"cohort": "", "cluster_queue": "cq", "flavor": FLAVOR, "resource": GPU}
    assert house.value("cluster_queue_borrowing_limit", **amounts) == math.inf
    assert house.value("cluster_queue_lending_limit", **amounts) == math.inf
    assert house.value("cluster_queue_nominal_quota", **amounts) == 4


def test_reservation_counts_all_quota_and_usage_what_is_admitted(house: Measured) -> None:
    amounts = {"cohort": "", "cluster_queue": "cq", "flavor": FLAVOR, "resource": GPU}
    house.run()
    house.submit(workload("w2"))
    assert house.value("cluster_queue_resource_reservation", **amounts) == 2
    assert house.value("cluster_queue_resource_usage", **amounts) == 1
    assert house.value("reserving_active_workloads", cluster_queue="cq") == 2
    assert house.value("admitted_active_workloads", cluster_queue="cq") == 1


def test_what_those_who_wait_ask_for(house: Measured) -> None:
    house.run(workload(gpus=4))
    house.submit(workload("w2", 2))
    house.submit(workload("w3", 2))
    assert house.value("cluster_queue_resource_pending", cluster_queue="cq", resource=GPU) == 4
    assert house.value("pending_scheduling_hashes", cluster_queue="cq", status="inadmissible") == 1


def test_a_borrower_without_weight_has_no_number() -> None:
    limit = ResourceQuota(nominal_milli=0)
    group = ResourceGroup(
        covered_resources=(GPU,), flavors=(FlavorQuotas(flavor=FLAVOR, resources={GPU: limit}),)
    )
    poor: ClusterQueue = replace(
        cluster_queue("poor", cohort="lab"), resource_groups=(group,), fair_weight_milli=0
    )
    rich = cluster_queue("rich", 4, cohort="lab", reclaim=ReclaimWithinCohort.ANY)
    house = Measured(configuration(rich, poor))
    house.submit(workload(door="poor"), queue="poor")
    share = house.value("cluster_queue_weighted_share", cluster_queue="poor", cohort="lab")
    assert share is not None
    assert math.isnan(share)
    used = house.value(
        "cohort_subtree_resource_reservations", cohort="lab", flavor=FLAVOR, resource=GPU
    )
    assert used == 1


def test_cohorts_say_where_they_stand_and_what_runs_below(house: Measured) -> None:
    lab = Cohort(name="lab", parent="house")
    house.configure(
        replace(configuration(cluster_queue(gpus=4, cohort="lab")), cohorts={"lab": lab})
    )
    house.run(workload())
    house.submit(workload("w2"))
    stands = {"parent_cohort": "house", "root_cohort": "house"}
    assert house.value("cohort_info", cohort="lab", **stands) == 1
    assert house.value("cohort_info", cohort="house", parent_cohort="", root_cohort="house") == 1
    for cohort in ("lab", "house"):
        below = {"cohort": cohort, "flavor": FLAVOR, "resource": GPU}
        assert house.value("cohort_subtree_admitted_active_workloads", cohort=cohort) == 1
        assert house.value("cohort_subtree_resource_reservations", **below) == 2
        assert house.value(
            "cohort_subtree_admitted_workloads_total", cohort=cohort, priority_class=""
        ) == 1  # fmt: skip


def test_a_cohort_that_is_gone_leaves_no_series(house: Measured) -> None:
    house.configure(configuration(cluster_queue(gpus=4, cohort="lab")))
    house.run()
    assert house.value("cohort_subtree_admitted_active_workloads", cohort="lab") == 1
    house.configure(configuration(cluster_queue(gpus=4)))
    assert not house.has("lab")


def test_a_queue_that_is_gone_leaves_no_series(house: Measured) -> None:
    house.configure(configuration(cluster_queue(gpus=4), cluster_queue("old")))
    house.run(workload("w9", door="old"), queue="old")
    house.finish("w9")
    assert house.value("finished_workloads_total", cluster_queue="old", priority_class="",
                       outcome="Succeeded") == 1  # fmt: skip
    house.configure(configuration(cluster_queue(gpus=4)))
    house.machine.book.records.pop("w9")
    assert not house.has("old")
