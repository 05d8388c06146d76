"""Fair sharing: the vectors of R-66, order by shares, and shares themselves."""

from muster_domain.conditions import PreemptionReason
from muster_domain.queues import ClusterQueue, ReclaimWithinCohort, WithinClusterQueue
from muster_scheduling import AdmissionView, FairSharing, FairStrategy, Policy, prepare
from muster_scheduling.admission import Budget, ReserveQuota, decide
from muster_scheduling.fairness import share_of
from muster_scheduling.preemption import Wanted, find_victims

from .builders import FR, K, cohort, job, queue, running, view_of, waiting

FAIR = Policy(fair_sharing=FairSharing())


def member(name: str, weight_milli: int = 1000, nominal: int = 0) -> ClusterQueue:
    return queue(
        name,
        nominal,
        "cohort-a",
        within=WithinClusterQueue.LOWER_PRIORITY,
        reclaim=ReclaimWithinCohort.ANY,
        weight_milli=weight_milli,
    )


def r66() -> AdmissionView:
    view = view_of(
        [member("p1"), member("p2")],
        [cohort("cohort-a", 9, "root"), cohort("root")],
        policy=FAIR,
    )
    for n in range(4):
        running(view, job(f"r{n}", "p1", 2), reserved=n)
    return view


def victims(view: AdmissionView, name: str, gpus: int) -> dict[str, PreemptionReason]:
    pending = prepare(job("in", name, gpus), view.policy)
    wanted = Wanted(cluster_queue=name, usage={FR: gpus * K}, need=frozenset((FR,)))
    found = find_victims(view.snapshot(0), pending, wanted)
    return {victim.id: victim.reason for victim in found}


def test_shares_are_taken_until_neither_strategy_allows_more() -> None:
    assert victims(r66(), "p2", 5) == {
        "r3": PreemptionReason.IN_COHORT_FAIR_SHARING,
        "r2": PreemptionReason.IN_COHORT_FAIR_SHARING,
    }
    assert victims(r66(), "p2", 6) == {}


def fair_pair(total: int, *held: int, policy: Policy = FAIR) -> AdmissionView:
    view = view_of([member("p1"), member("p2")], [cohort("cohort-a", total, "root")], policy=policy)
    for n, gpus in enumerate(held):
        running(view, job(f"r{n}", "p1", gpus), reserved=n)
    return view


def test_equal_shares_are_fair() -> None:
    fair = PreemptionReason.IN_COHORT_FAIR_SHARING
    final_only = Policy(fair_sharing=FairSharing(strategies=(FairStrategy.FINAL_SHARE,)))
    assert victims(fair_pair(6, 3, 3, policy=final_only), "p2", 3) == {"r1": fair}


def test_nobody_is_taken_by_whoever_would_have_as_much() -> None:
    assert victims(fair_pair(9, 3, 3), "p2", 6) == {}


def test_borrowing_one_flavor_does_not_spoil_the_claim_to_another() -> None:
    quotas = {"h100": 5, "a10": 0}
    view = view_of(
        [queue("busy", quotas, "all"), queue("calm", quotas, "all"),
         queue("bank", {"h100": 0, "a10": 50}, "all")],
        policy=FAIR,
    )  # fmt: skip
    running(view, job("a10s", "busy", 40), flavor="a10")
    running(view, job("mine", "busy", 4), flavor="h100")
    running(view, job("theirs", "calm", 5), flavor="h100")
    waiting(view, job("claim", "busy", 1, created=9), job("borrow", "calm", 1))
    (group,) = decide(view.snapshot(0), Budget(cycles=1)).groups
    assert group.workload_id == "claim"


def test_a_share_is_borrowed_of_lendable_by_weight_rounded_up() -> None:
    view = view_of([member("p1"), member("p2", 2000)], [cohort("cohort-a", 9, "root")], policy=FAIR)
    running(view, job("a", "p1", 4))
    running(view, job("b", "p2", 4))
    shares = {name: share_of(node) for name, node in view.tree.queues.items()}
    assert shares["p1"].per_mille == 445
    assert shares["p2"].per_mille == 223
    assert shares["p1"].compare(shares["p2"]) > 0
    assert shares["p1"].dominant == FR[1]


def test_a_borrower_without_weight_is_above_everybody() -> None:
    view = view_of(
        [member("none", 0), member("some", 1)], [cohort("cohort-a", 9, "root")], policy=FAIR
    )
    running(view, job("a", "none", 1))
    running(view, job("b", "some", 8))
    none, some = (share_of(view.tree.queues[name]) for name in ("none", "some"))
    assert none.compare(some) > 0
    assert none.per_mille == 2**63 - 1


def test_whoever_uses_least_goes_first() -> None:
    view = view_of([member("rich"), member("poor")], [cohort("cohort-a", 9, "root")], policy=FAIR)
    running(view, job("r", "rich", 3))
    waiting(
        view,
        *(job(f"rich{n}", "rich", 1, created=n) for n in range(6)),
        *(job(f"poor{n}", "poor", 1, created=50 + n) for n in range(6)),
    )
    decision = decide(view.snapshot(0))
    order = [
        effect.workload_id
        for group in decision.groups
        for effect in group.effects
        if isinstance(effect, ReserveQuota)
    ]
    assert order == ["poor0", "rich0", "poor1", "rich1", "poor2", "rich2"]
