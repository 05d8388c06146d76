"""What a cycle decides: order, preemption asked for and carried out, claims, budgets."""

from dataclasses import replace

import pytest

from muster_admission.claims import CLAIM_MS
from muster_admission.cycle import ASK_AGAIN_AFTER_MS
from muster_admission.settings import AdmissionSettings
from muster_contracts import events
from muster_contracts.jobs import Verdict
from muster_domain.conditions import EvictionReason, PendingReason, PreemptionReason
from muster_domain.policy import Improvements, Policy
from muster_domain.queues import QueueingStrategy, ReclaimWithinCohort, WithinClusterQueue
from muster_domain.states import Evicting
from muster_testing.builders import cluster_queue, configuration, submitted, workload

from .house import House


@pytest.fixture
def house() -> House:
    """A queue whose urgent jobs may take from the others."""
    return House(configuration(cluster_queue(gpus=4, within=WithinClusterQueue.LOWER_PRIORITY)))


@pytest.fixture
def claiming() -> House:
    """Two queues of a cohort whose preemptors claim what their victims give back."""
    return lending(Improvements(preemptor_claims=True))


def lending(improvements: Improvements) -> House:
    queues = [
        cluster_queue(name, 2, cohort="lab", reclaim=ReclaimWithinCohort.ANY)
        for name in ("cq", "other")
    ]
    policy = Policy(improvements=improvements)
    return House(replace(configuration(*queues), policy=policy))


def request(house: House) -> events.PreemptionRequested:
    asked = house.facts(events.PreemptionRequested)[-1]
    assert isinstance(asked, events.PreemptionRequested)
    return asked


def propose(
    house: House, *victims: str, attempts: int = 1, reason: PreemptionReason | None = None
) -> events.VictimsProposed:
    asked = request(house)
    return events.VictimsProposed(
        workload_id=asked.workload_id,
        version=asked.version,
        admission=asked.admission,
        need=asked.need,
        victims=tuple(
            events.Victim(
                workload_id=victim,
                attempt=attempts,
                reason=reason or PreemptionReason.IN_CLUSTER_QUEUE,
            )
            for victim in victims
        ),
    )


def urgent(house: House, gpus: int = 4) -> None:
    """Two small jobs run, and an urgent one wants more than is left."""
    house.run(workload("small", gpus=2))
    house.run(workload("other", gpus=2))
    house.submit(workload("urgent", gpus, priority=10))


def test_equal_jobs_go_by_age_and_then_by_id(house: House) -> None:
    house.run(workload("hog", gpus=4))
    for identity, created in (("c", 5), ("b", 3), ("a", 5)):
        house.submit(workload(identity, gpus=4, created_at_ms=created))
    order: list[str] = []
    for last in ("hog", "b", "a"):
        house.finish(last)
        (reserved,) = [i for i in ("a", "b", "c") if house.kind(i) == "reserved"]
        order.append(reserved)
        house.place(reserved)
    assert order == ["b", "a", "c"]


def test_a_head_that_does_not_fit_blocks_only_under_strict_fifo() -> None:
    for strategy, expected in (
        (QueueingStrategy.BEST_EFFORT_FIFO, "reserved"),
        (QueueingStrategy.STRICT_FIFO, "pending"),
    ):
        house = House(configuration(cluster_queue(gpus=4, strategy=strategy)))
        house.run(workload("hog", gpus=3))
        house.submit(workload("large", gpus=2, created_at_ms=1))
        house.submit(workload("small", gpus=1, created_at_ms=2))
        assert house.kinds("large", "small") == ["pending", expected], strategy


def test_many_jobs_get_quota_in_one_commit() -> None:
    house = House(configuration(cluster_queue(gpus=50)))
    for number in range(60):
        house.take(submitted(workload(f"w{number:02d}")), f"w{number:02d}")
    house.cycle()
    assert house.version == 1
    assert len(house.facts(events.QuotaReserved)) == 50


def test_a_budget_spreads_a_burst_over_cycles_and_loses_nobody() -> None:
    house = House(configuration(cluster_queue(gpus=50)), AdmissionSettings(decisions_max=7))
    for number in range(60):
        house.take(submitted(workload(f"w{number:02d}")), f"w{number:02d}")
    house.cycle()
    assert house.machine.wake_at_ms() == 0
    for _ in range(60):
        house.cycle()
    assert len(house.facts(events.QuotaReserved)) == 50
    assert house.machine.wake_at_ms() != 0


def test_victims_are_asked_for_once_and_again_when_nobody_answers(house: House) -> None:
    urgent(house)
    assert request(house).workload_id == "urgent"
    for _ in range(5):
        house.cycle(100)
    assert len(house.facts(events.PreemptionRequested)) == 1
    house.cycle(ASK_AGAIN_AFTER_MS)
    assert len(house.facts(events.PreemptionRequested)) == 2


def test_all_proposed_victims_go_and_the_preemptor_gets_their_place(house: House) -> None:
    urgent(house)
    house.say(propose(house, "small", "other"), "urgent")
    for victim in ("small", "other"):
        state = house.state(victim)
        assert isinstance(state, Evicting)
        assert (state.reason, state.preemptor) == (EvictionReason.PREEMPTED, "urgent")
        assert state.preemption_reason is PreemptionReason.IN_CLUSTER_QUEUE
    told = {d.id: d for d in house.decisions if d.decision is Verdict.PREEMPTED}
    assert {d.preemptor for d in told.values()} == {"urgent"}
    house.release("small")
    assert house.kind("urgent") == "pending", "one half is not enough"
    assert house.kind("small") == "pending", "what came free is claimed"
    house.release("other")
    assert house.kinds("urgent", "small", "other") == ["reserved", "pending", "pending"]


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda house: house.finish("small"), id="a victim has ended"),
        pytest.param(
            lambda house: (
                house.say(events.GangLost(workload_id="small", attempt=1, node="n1"), "small"),
                house.release("small"),
            ),
            id="a victim is in another attempt",
        ),
    ],
)
def test_a_proposal_that_does_not_hold_any_more_moves_nobody(house: House, spoil: object) -> None:
    urgent(house)
    proposal = propose(house, "small", "other")
    spoil(house)  # type: ignore[operator]
    house.say(proposal, "urgent")
    assert house.kind("other") == "admitted"


def test_a_proposal_that_is_refused_is_asked_for_again_at_once(house: House) -> None:
    urgent(house)
    house.say(propose(house, "small", "other", attempts=7), "urgent")
    assert house.kinds("small", "other") == ["admitted", "admitted"]
    assert len(house.facts(events.PreemptionRequested)) == 2


def test_a_victim_on_its_way_out_is_not_evicted_again_and_the_others_go(house: House) -> None:
    urgent(house)
    proposal = propose(house, "small", "other")
    house.cancel("small")
    house.say(proposal, "urgent")
    state = house.state("small")
    assert isinstance(state, Evicting)
    assert state.preemptor == ""
    assert house.kind("other") == "evicting"


def test_a_proposal_for_somebody_who_does_not_wait_moves_nobody(house: House) -> None:
    urgent(house)
    proposal = propose(house, "small", "other")
    house.cancel("urgent")
    house.say(proposal, "urgent")
    assert house.kinds("small", "other") == ["admitted", "admitted"]


def test_a_proposal_twice_evicts_once(house: House) -> None:
    urgent(house)
    proposal = propose(house, "small", "other")
    house.say(proposal, "urgent")
    house.say(proposal, "urgent")
    assert len(house.facts(events.WorkloadEvicted)) == 2


def test_victims_who_may_not_be_preempted_are_not(house: House) -> None:
    """Whoever proposes, admission knows by what right."""
    house.run(workload("equal", gpus=4, priority=10))
    house.submit(workload("urgent", gpus=4, priority=20))
    proposal = propose(house, "equal")
    house.restart()
    house.configure(configuration(cluster_queue(gpus=4, within=WithinClusterQueue.NEVER)))
    house.say(proposal, "urgent")
    assert house.kind("equal") == "admitted"


def test_nobody_to_preempt_lets_the_next_in_line_be_looked_at(house: House) -> None:
    urgent(house)
    house.say(events.VictimsNotFound(workload_id="urgent", version=1), "urgent")
    house.cycle(ASK_AGAIN_AFTER_MS + 1)
    assert len(house.facts(events.PreemptionRequested)) == 1, "nothing has changed"
    house.finish("small")
    assert len(house.facts(events.PreemptionRequested)) == 2, "the tree has changed"


def test_what_a_preemptor_waits_for_is_not_given_to_somebody_else(house: House) -> None:
    urgent(house)
    house.say(propose(house, "small", "other"), "urgent")
    house.submit(workload("quick", gpus=1))
    house.release("small")
    assert house.kind("quick") == "pending"
    house.release("other")
    assert house.kinds("urgent", "quick") == ["reserved", "pending"]


def reclaim(house: House) -> None:
    """The owner of two GPUs wants them back from two borrowers that end one after the other."""
    for borrower in ("first", "second"):
        house.run(workload(borrower, gpus=2))
    house.submit(workload("owner", gpus=2, door="other"), "other")
    house.say(propose(house, "first", reason=PreemptionReason.IN_COHORT_RECLAMATION), "owner")


def test_a_claim_is_kept_over_a_restart_until_the_claimant_has_its_place(claiming: House) -> None:
    reclaim(claiming)
    claiming.restart()
    claiming.cycle()
    assert list(claiming.machine.book.claims.made) == ["owner"]
    claiming.release("first")
    assert claiming.kinds("owner", "first") == ["reserved", "pending"]
    claiming.restart()
    claiming.cycle()
    assert claiming.machine.book.claims.made == {}
    assert not [name for name in claiming.stored if name.startswith("c/")]


def test_a_claim_ends_with_its_claimant(claiming: House) -> None:
    reclaim(claiming)
    claiming.cancel("owner")
    claiming.release("first")
    assert claiming.kind("first") == "reserved"


def test_a_claim_does_not_last_for_ever(claiming: House) -> None:
    reclaim(claiming)
    claiming.cycle(CLAIM_MS)
    assert claiming.machine.book.claims.made == {}


def test_the_same_proposal_twice_makes_one_claim(claiming: House) -> None:
    reclaim(claiming)
    made = dict(claiming.machine.book.claims.made)
    claiming.say(propose(claiming, "first", reason=PreemptionReason.IN_COHORT_RECLAMATION), "owner")
    assert claiming.machine.book.claims.made == made


def test_nothing_is_claimed_where_muster_decides_as_kueue_does() -> None:
    house = lending(Improvements())
    reclaim(house)
    assert house.machine.book.claims.made == {}
    assert house.machine.book.view.claims == {}


def test_a_preemptor_stays_at_the_head_until_it_has_its_place(house: House) -> None:
    urgent(house)
    house.say(propose(house, "small", "other"), "urgent")
    house.release("small")
    house.submit(workload("later", gpus=2, priority=99))
    assert house.kind("later") == "pending"
    house.release("other")
    assert house.kinds("urgent", "later") == ["reserved", "pending"]


def test_an_owner_gets_back_what_it_lent() -> None:
    queues = [
        cluster_queue(name, 2, cohort="lab", reclaim=ReclaimWithinCohort.ANY)
        for name in ("cq", "other")
    ]
    house = House(configuration(*queues))
    house.run(workload("borrower", gpus=4))
    house.submit(workload("owner", gpus=2, door="other"), "other")
    house.say(propose(house, "borrower", reason=PreemptionReason.IN_COHORT_RECLAMATION), "owner")
    house.release("borrower")
    assert house.kinds("owner", "borrower") == ["reserved", "pending"]


def test_a_crash_after_asking_asks_again(house: House) -> None:
    urgent(house)
    house.restart()
    house.cycle()
    assert len(house.facts(events.PreemptionRequested)) == 2
    house.say(propose(house, "small", "other"), "urgent")
    house.restart()
    house.cycle()
    house.release("small")
    house.release("other")
    assert house.kind("urgent") == "reserved"


def test_every_waiting_job_has_a_reason(house: House) -> None:
    house.run(workload("hog", gpus=4, priority=50))
    for number in range(5):
        house.submit(workload(f"w{number}", gpus=number % 3 + 1))
    for number in range(5):
        last = [d for d in house.decisions if d.id == f"w{number}"][-1]
        assert last.reason in set(PendingReason)
        assert last.message
