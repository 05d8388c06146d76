"""Concurrent admission: variants of one job, each in a flavor of its own (R-111)."""

from dataclasses import replace

import pytest

from muster_domain.conditions import PendingReason
from muster_domain.policy import Policy
from muster_domain.queues import ClusterQueue, ConcurrentAdmission, MigrationMode
from muster_domain.workload import Workload
from muster_scheduling import AdmissionView, hold, prepare
from muster_scheduling.admission import (
    Decision,
    EvictVariant,
    ReserveQuota,
    ViolationKind,
    decide,
    violations,
)
from muster_scheduling.snapshot.workloads import ALLOWED_FLAVORS

from .builders import admission, job, queue, view_of

POLICY = Policy(concurrent_admission=True)
BEST, MIDDLE, LAST = "reservation", "on-demand", "spot"


def house(rule: ConcurrentAdmission | None = None, **quotas: int) -> AdmissionView:
    declared: ClusterQueue = queue(
        "a", {BEST: quotas.get("best", 1), MIDDLE: 1, LAST: quotas.get("last", 1)}
    )
    rule = rule or ConcurrentAdmission()
    return view_of([replace(declared, concurrent_admission=rule)], policy=POLICY)


def variant(flavor: str, name: str = "") -> Workload:
    return replace(job(name or flavor, "a", 1), annotations={ALLOWED_FLAVORS: flavor})


def waits(view: AdmissionView, flavor: str, parent: str = "p", name: str = "") -> None:
    view.add_pending(prepare(variant(flavor, name), POLICY, parent=parent), 0)


def runs(view: AdmissionView, flavor: str, parent: str = "p", *, admitted: bool = True) -> None:
    asked = variant(flavor)
    grant = admission(asked, "a", flavor)
    view.charge(hold(asked, grant, POLICY, reserved_at_ms=0, admitted=admitted, parent=parent))


def decided(view: AdmissionView) -> Decision:
    snapshot = view.snapshot(0)
    decision = decide(snapshot)
    assert violations(snapshot, decision) == ()
    assert decide(view.snapshot(0)) == decision
    view.apply(decision)
    return decision


def reserved(decision: Decision) -> list[str]:
    return [
        effect.workload_id
        for group in decision.groups
        for effect in group.effects
        if isinstance(effect, ReserveQuota)
    ]


def test_a_better_variant_that_fits_takes_the_place_of_a_worse_one_once_that_has_gone() -> None:
    view = house()
    runs(view, LAST)
    waits(view, BEST)
    first = decided(view)
    assert first.migrations == (EvictVariant(workload_id=LAST, attempt=1, migrant_id=BEST),)
    assert reserved(first) == []
    said = first.explanations[BEST]
    assert said.reason == PendingReason.WAITING_FOR_PREEMPTED_WORKLOADS
    assert (said.message, said.blocked_by) == ("Pending the migration of 1 workload(s)", (LAST,))

    view.retry(BEST)
    assert decided(view).migrations == ()
    view.release(LAST)
    assert reserved(decided(view)) == [BEST]


def test_a_worse_variant_waits_while_a_better_one_runs() -> None:
    view = house()
    runs(view, MIDDLE)
    waits(view, LAST)
    decision = decided(view)
    assert (reserved(decision), decision.migrations) == ([], ())
    said = decision.explanations[LAST]
    assert said.reason == PendingReason.PENDING_EVALUATION
    assert said.message == "A more favorable variant is already admitted"


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (
            ConcurrentAdmission(last_acceptable_flavor=BEST),
            f"Target flavor is below LastAcceptableFlavorName {BEST}",
        ),
        (
            ConcurrentAdmission(mode=MigrationMode.RETAIN_FIRST_ADMISSION),
            "ClusterQueue a retains the first admission",
        ),
    ],
)
def test_nobody_moves_where_the_queue_does_not_let_them(
    rule: ConcurrentAdmission, words: str
) -> None:
    view = house(rule)
    runs(view, LAST)
    waits(view, MIDDLE)
    decision = decided(view)
    assert (reserved(decision), decision.migrations) == ([], ())
    said = decision.explanations[MIDDLE]
    assert (said.reason, said.message) == (PendingReason.PENDING_EVALUATION, words)


def test_the_last_acceptable_flavor_is_acceptable_itself() -> None:
    view = house(ConcurrentAdmission(last_acceptable_flavor=MIDDLE))
    runs(view, LAST)
    waits(view, MIDDLE)
    assert [eviction.workload_id for eviction in decided(view).migrations] == [LAST]


def test_a_better_variant_that_does_not_fit_moves_nobody() -> None:
    view = house(best=0)
    runs(view, LAST)
    waits(view, BEST)
    decision = decided(view)
    assert (reserved(decision), decision.migrations) == ([], ())


def test_only_variants_of_the_same_parent_that_are_admitted_count() -> None:
    view = house(last=2)
    runs(view, LAST, parent="another")
    runs(view, MIDDLE, admitted=False)
    waits(view, BEST)
    waits(view, LAST, name="worst")
    decision = decided(view)
    assert (sorted(reserved(decision)), decision.migrations) == ([BEST, "worst"], ())


def test_a_variant_in_the_same_flavor_is_neither_better_nor_worse() -> None:
    view = house(last=2)
    runs(view, LAST)
    waits(view, LAST, name="twin")
    assert reserved(decided(view)) == ["twin"]


def test_without_the_gate_nobody_is_a_variant() -> None:
    view = view_of([queue("a", {BEST: 1, LAST: 1})])
    asked = variant(LAST)
    view.add_pending(prepare(asked, Policy(), parent="p"), 0)
    waiting = view.pending(LAST)
    assert waiting is not None
    assert (waiting.variant, waiting.allowed_flavors) == (None, None)
    assert reserved(decided(view)) == [LAST]


def test_a_migration_to_a_worse_flavor_or_of_another_job_is_a_violation() -> None:
    for flavor, parent in ((MIDDLE, "another"), (BEST, "p")):
        view = house()
        runs(view, MIDDLE if flavor == BEST else LAST)
        waits(view, LAST if flavor == BEST else flavor, parent=parent, name="new")
        snapshot = view.snapshot(0)
        wrong = replace(
            decide(snapshot),
            migrations=(
                EvictVariant(
                    workload_id=MIDDLE if flavor == BEST else LAST, attempt=1, migrant_id="new"
                ),
            ),
        )
        assert ViolationKind.WRONG_VICTIM in {v.kind for v in violations(snapshot, wrong)}
