"""LocalQueues of one ClusterQueue take turns by what they used lately: vectors of R-75."""

from dataclasses import replace
from fractions import Fraction

import pytest

from muster_domain.queues import LocalQueue
from muster_scheduling import AdmissionFairSharing, AdmissionView, Configuration, Policy
from muster_scheduling.admission import ReserveQuota, decide
from muster_scheduling.fairness import LocalQueueHistory, decayed, entry_penalty
from muster_scheduling.fairness.history import FINE

from .builders import GPU, K, configuration, job, queue, waiting

HOUR = 3_600_000
TICK = 300_000
HOURLY = AdmissionFairSharing(half_life_ms=HOUR, sampling_ms=TICK)


def gpus(consumed: dict[str, int]) -> float:
    return consumed[GPU] / (K * FINE)


def test_consumption_moves_towards_what_is_used() -> None:
    history = LocalQueueHistory()
    seen: list[float] = []
    for tick in range(1, 7):
        history.tick({GPU: 8 * K}, tick * TICK, HOUR)
        seen.append(gpus(history.consumed))
    assert seen == pytest.approx([0.4490, 0.8728, 1.2728, 1.6504, 2.0068, 2.3431], abs=5e-5)


def test_the_penalty_of_entry_is_one_tick_of_use() -> None:
    assert gpus(entry_penalty({GPU: 8 * K}, HOURLY)) == pytest.approx(0.4490, abs=5e-5)


def test_a_short_tick_against_a_long_half_life_still_counts() -> None:
    month = 30 * 24 * HOUR
    assert decayed({}, {GPU: K}, TICK, month)[GPU] > 0


def test_time_that_runs_back_changes_nothing() -> None:
    history = LocalQueueHistory(updated_ms=TICK, consumed={GPU: 7})
    history.tick({GPU: 8 * K}, 0, HOUR)
    assert (history.consumed, history.updated_ms) == ({GPU: 7}, TICK)


def test_a_penalty_is_settled_once() -> None:
    history = LocalQueueHistory(penalties={"w": {GPU: 5}})
    history.settle("w", {}, 0, HOUR)
    history.settle("w", {}, 0, HOUR)
    assert (history.consumed, history.penalties) == ({GPU: 5}, {})


def test_a_local_queue_without_weight_is_last() -> None:
    heavy = LocalQueueHistory(consumed={GPU: 10**12})
    assert LocalQueueHistory().key(0, HOURLY) > heavy.key(1000, HOURLY)
    assert heavy.key(2000, HOURLY) == (False, Fraction(10**12 * 1000, 2000))


def view_of_two() -> AdmissionView:
    shared = replace(queue("q", 6), admission_fair_sharing=True)
    base = configuration([shared])
    locals_ = {
        f"ns/{name}": LocalQueue(namespace="ns", name=name, cluster_queue="q") for name in "ab"
    }
    return AdmissionView(
        Configuration(
            cluster_queues=base.cluster_queues,
            flavors=base.flavors,
            local_queues=locals_,
            policy=Policy(admission_fair_sharing=HOURLY),
        )
    )


def reserved(view: AdmissionView) -> list[str]:
    decision = decide(view.snapshot(0))
    return [
        e.workload_id for g in decision.groups for e in g.effects if isinstance(e, ReserveQuota)
    ]


def test_the_one_that_used_least_goes_first_whatever_the_priority() -> None:
    view = view_of_two()
    view.histories["ns/a"] = LocalQueueHistory(consumed={GPU: 9 * K * FINE})
    waiting(view, job("a1", "a", 1, priority=9), job("b1", "b", 1))
    assert reserved(view) == ["b1", "a1"]


def test_whoever_was_let_in_waits_for_the_next_turn() -> None:
    view = view_of_two()
    waiting(
        view,
        *(job(f"a{n}", "a", 1, created=n) for n in range(4)),
        *(job(f"b{n}", "b", 1, created=100 + n) for n in range(4)),
    )
    assert reserved(view) == ["a0", "b0", "a1", "b1", "a2", "b2"]
    assert view.histories == {}


def test_applying_a_decision_keeps_the_penalties() -> None:
    view = view_of_two()
    waiting(view, job("a0", "a", 1))
    view.apply(decide(view.snapshot(0)))
    assert list(view.histories["ns/a"].penalties) == ["a0"]
    view.drop_penalty("ns/a", "a0")
    assert view.usage_key("ns/a") == (False, Fraction(0))


def test_position_and_order_follow_the_turns() -> None:
    view = view_of_two()
    view.histories["ns/a"] = LocalQueueHistory(consumed={GPU: 9})
    waiting(view, job("a1", "a", 1, priority=9), job("b1", "b", 1), job("b2", "b", 2, created=3))
    line = view.queues["q"]
    assert [w.id for w in line.in_order()] == ["b1", "b2", "a1"]
    assert [line.position(name) for name in ("b1", "b2", "a1")] == [0, 1, 2]
    line.stick("b2")
    assert [w.id for w in line.in_order()] == ["b2", "b1", "a1"]
    assert [line.position(name) for name in ("b1", "b2", "a1")] == [1, 0, 2]
