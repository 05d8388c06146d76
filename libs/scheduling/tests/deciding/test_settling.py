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


CYCLING_WITHOUT_CLAIMS = (139, 185, 217, 274, 336)
"""Trees on which fair sharing without claims takes the same victims for ever, as Kueue would: what
they give back goes to somebody with a smaller share, who is the next victim."""


@pytest.mark.parametrize("seed", range(40))
def test_classical_preemption_comes_to_rest(seed: int) -> None:
    """Victims wait again at once; nobody is taken twice by one preemptor, and it ends."""
    taken = _settle(busy_view(seed, fair=False, size=WAITING), claiming=False)
    assert len(taken) == len(set(taken))


@pytest.mark.parametrize("seed", [*range(20), *CYCLING_WITHOUT_CLAIMS])
def test_with_claims_fair_sharing_comes_to_rest(seed: int) -> None:
    _settle(busy_view(seed, fair=True, size=WAITING), claiming=True)


def _settle(view: AdmissionView, *, claiming: bool) -> list[tuple[str, str]]:
    """Decide until nothing changes; returns who was taken by whom."""
    jobs = _jobs(view)
    claimants: list[str] = []
    taken: list[tuple[str, str]] = []
    for _ in range(ROUNDS_MAX):
        claimants = [one for one in claimants if _keeps_claim(view, one)]
        decision = decide(view.snapshot(0))
        view.apply(decision)
        for group in decision.groups:
            victims = [one for one in group.effects if isinstance(one, EvictWorkload)]
            taken += [(victim.workload_id, victim.preemptor_id) for victim in victims]
            if claiming and victims and group.wanted is not None:
                wanted = group.wanted
                view.claim(group.workload_id, wanted.cluster_queue, wanted.usage)
                claimants.append(group.workload_id)
        for holder in [h for h in view.holders.values() if view.is_evicting(h.id)]:
            view.release(holder.id)
            view.add_pending(prepare(jobs[holder.id], view.policy), 0)
        if not decision.groups and not view.dirty:
            return taken
    raise AssertionError(f"still deciding after {ROUNDS_MAX} rounds")


def _keeps_claim(view: AdmissionView, claimant: str) -> bool:
    """As admission has it: while the claimant is next in its queue."""
    line = view.queues.get(view.queue_of.get(claimant, ""))
    head = line.head() if line is not None else None
    if head is not None and head.id == claimant:
        return True
    view.drop_claim(claimant)
    return False


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
