"""What a waiting workload is told: numbers, place, and what can never be."""

from muster_domain.conditions import PendingReason
from muster_domain.queues import ReclaimWithinCohort, VolcanoQueue, WithinClusterQueue
from muster_domain.workload import VolcanoQueueRef
from muster_scheduling import AdmissionView, Configuration, prepare
from muster_scheduling.admission import decide, explain, max_possible, standing

from .builders import GPU, K, job, queue, running, view_of, waiting

LOWER = WithinClusterQueue.LOWER_PRIORITY


def test_numbers_say_how_much_is_missing() -> None:
    view = view_of([queue("q", (16, 8), "gpu", within=LOWER), queue("p", 8, "gpu")])
    running(view, job("r", "q", 12, priority=9))
    running(view, job("s", "p", 6))
    waiting(view, job("w", "q", 8, priority=5))
    found = decide(view.snapshot(0)).explanations["w"]
    assert found.reason == PendingReason.WAITING_FOR_QUOTA
    (verdict,) = found.flavors
    assert (verdict.requested_milli, verdict.nominal_milli, verdict.used_milli) == (
        8 * K, 16 * K, 12 * K,
    )  # fmt: skip
    assert (verdict.available_milli, verdict.short_by_milli) == (6 * K, 2 * K)
    assert found.remedy == "2 more nvidia.com/gpu free in a100, or ask 6 nvidia.com/gpu"


def test_preemption_says_who_could_not_be_taken() -> None:
    view = view_of(
        [
            queue("q", 4, "gpu", within=LOWER, reclaim=ReclaimWithinCohort.LOWER_PRIORITY),
            queue("p", 0, "gpu"),
        ]
    )
    running(view, job("r1", "q", 2, priority=5))
    running(view, job("r2", "q", 2, priority=7))
    waiting(view, job("w", "q", 4, priority=5))
    found = explain(view.snapshot(0), "w")
    assert found is not None
    assert found.preemption == (
        "none: 2 candidates are higher or equal priority; "
        "policy withinClusterQueue=LowerPriority; nobody in the cohort borrows"
    )


def test_standing_counts_who_is_ahead_and_what_they_ask() -> None:
    view = view_of([queue("q", 4)])
    waiting(
        view,
        job("first", "q", 8, priority=1),
        job("second", "q", 1),
        job("third", "q", 2, created=5),
    )
    found = standing(view, "third", limit=1)
    assert found is not None
    assert (found.position, found.asks_ahead) == (2, {GPU: 9 * K})
    assert [waiter.workload_id for waiter in found.ahead] == ["first"]
    assert standing(view, "nobody") is None


def test_what_would_fit_names_the_head_before_it() -> None:
    view = view_of([queue("q", 4)])
    waiting(view, job("first", "q", 8, priority=1), job("second", "q", 1))
    found = explain(view.snapshot(0), "second")
    assert found is not None
    assert (found.reason, found.blocked_by) == (PendingReason.WAITING_FOR_QUOTA, ("first",))


def test_a_request_beyond_what_could_be_lent_never_fits() -> None:
    view = view_of(
        [queue("cq-team-datos", (16, 4), "llm-platform"), queue("p", 40, "llm-platform")]
    )
    pending = prepare(job("w", "cq-team-datos", 32), view.policy)
    found = max_possible(view, pending)
    assert found is not None
    assert found.reason == PendingReason.EXCEEDS_MAX_QUOTA
    assert found.message == (
        "asks 32 nvidia.com/gpu; cq-team-datos can have at most 20 "
        "(16 nominal + 4 lent by the cohort llm-platform)"
    )
    assert max_possible(view, prepare(job("w", "cq-team-datos", 20), view.policy)) is None


def volcano(gpus: int) -> AdmissionView:
    declared = VolcanoQueue(name="team-datos", capability={GPU: gpus * K})
    return AdmissionView(Configuration(volcano_queues={"team-datos": declared}))


def test_a_volcano_queue_is_capped_at_its_capability() -> None:
    view = volcano(24)
    reference = VolcanoQueueRef(name="team-datos")
    found = max_possible(view, prepare(job("w", reference, 32), view.policy))
    assert found is not None
    assert found.message == (
        "asks 32 nvidia.com/gpu; Volcano queue team-datos is capped at 24 (capability)"
    )
    waiting(view, job("a", reference, 16), job("b", reference, 16, created=1))
    decision = decide(view.snapshot(0))
    assert [group.workload_id for group in decision.groups] == ["a"]


def test_resources_that_a_volcano_queue_does_not_name_are_free() -> None:
    view = AdmissionView(Configuration(volcano_queues={"open": VolcanoQueue(name="open")}))
    waiting(view, job("a", VolcanoQueueRef(name="open"), 1000))
    (group,) = decide(view.snapshot(0)).groups
    (effect,) = group.effects
    assert effect.workload_id == "a"


def test_a_queue_that_does_not_exist_is_named() -> None:
    view = view_of([queue("q", 4)])
    waiting(view, job("w", "nowhere", 1))
    found = explain(view.snapshot(0), "w")
    assert found is not None
    assert found.reason == PendingReason.MISCONFIGURED
    assert "ns/nowhere" in found.message
