"""What decisions come to when they follow each other and nothing else happens."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_domain.queues import ClusterQueue, QueueingStrategy
from muster_domain.workload import Workload
from muster_scheduling import AdmissionView, prepare
from muster_scheduling.admission import EvictWorkload, ReserveQuota, decide

from .builders import FR, K, job, queue, view_of, waiting
from .busy_tree import busy_view, digest

WAITING = 25
ROUNDS_MAX = 60


@pytest.mark.parametrize("seed", range(40))
def test_classical_preemption_comes_to_rest(seed: int) -> None:
    """Victims wait again at once; nobody is taken twice by one preemptor, and it ends."""
    view = busy_view(seed, fair=False, size=WAITING)
    jobs = _jobs(view)
    taken: set[tuple[str, str]] = set()
    for _ in range(ROUNDS_MAX):
        decision = decide(view.snapshot(0))
        view.apply(decision)
        effects = [effect for group in decision.groups for effect in group.effects]
        for effect in effects:
            if isinstance(effect, EvictWorkload):
                pair = (effect.workload_id, effect.preemptor_id)
                assert pair not in taken
                taken.add(pair)
        for holder in [h for h in view.holders.values() if view.is_evicting(h.id)]:
            view.release(holder.id)
            view.add_pending(prepare(jobs[holder.id], view.policy), 0)
        if not effects and not view.dirty:
            return
    raise AssertionError(f"still deciding after {ROUNDS_MAX} rounds")


def _jobs(view: AdmissionView) -> dict[str, Workload]:
    jobs = {
        holder.id: job(
            holder.id, holder.cluster_queue, holder.usage[FR] // K, priority=holder.priority
        )
        for holder in view.holders.values()
    }
    pending = (view.pending(f"w{number}") for number in range(WAITING))
    return jobs | {one.id: one.workload for one in pending if one is not None}


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), fair=st.booleans(), data=st.data())
def test_the_order_of_arrival_in_the_view_changes_nothing(
    seed: int, data: st.DataObject, *, fair: bool
) -> None:
    """Who was written down first does not matter: times, priorities and ids do."""
    view, other = (busy_view(seed, fair=fair, size=WAITING) for _ in range(2))
    jobs = [one for number in range(WAITING) if (one := other.pending(f"w{number}")) is not None]
    for one in jobs:
        other.remove_pending(one.id)
    for one in data.draw(st.permutations(jobs)):
        other.add_pending(prepare(one.workload, other.policy), 0)
    assert digest(decide(other.snapshot(0))) == digest(decide(view.snapshot(0)))


@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=10),
    nominal=st.integers(0, 20),
    more=st.integers(1, 10),
)
def test_more_quota_admits_nobody_less(sizes: list[int], nominal: int, more: int) -> None:
    """In a strict line; in the others a larger job may take the place of several."""
    before, after = (_admitted(sizes, _strict(quota)) for quota in (nominal, nominal + more))
    assert after[: len(before)] == before


def _strict(nominal: int) -> ClusterQueue:
    return replace(queue("q", nominal), queueing_strategy=QueueingStrategy.STRICT_FIFO)


def _admitted(sizes: list[int], line: ClusterQueue) -> list[str]:
    view = view_of([line])
    waiting(view, *(job(f"w{n}", "q", gpus, created=n) for n, gpus in enumerate(sizes)))
    found: list[str] = []
    while view.dirty:
        decision = decide(view.snapshot(0))
        view.apply(decision)
        effects = (effect for group in decision.groups for effect in group.effects)
        found += [one.workload_id for one in effects if isinstance(one, ReserveQuota)]
    return found
