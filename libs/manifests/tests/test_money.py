"""Muster's own objects about money, as people write them."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from muster_domain.budgets import (
    Budget,
    BudgetScope,
    BudgetSubject,
    BudgetWindow,
    Exhaustion,
    Unanswered,
)
from muster_domain.money import ChargingBasis
from muster_rating.policies import Attribution, ChargingPolicy, PolicyVersion, QueueTerms
from muster_rating.prices import PriceList

Load = Callable[[str], Any]
Refused = Callable[[str], list[tuple[str, str]]]

FULL = """\
apiVersion: muster.dev/v1alpha1
kind: Budget
metadata: {name: vision}
spec:
  label: {key: cost-centre, value: cc-17}
  currency: EUR
  timeZone: Europe/Madrid
  windows:
  - {period: month, limit: "1000.50", alertPercents: [80, 50]}
  - {period: 7d, limit: "300"}
  - {period: 24h}
  whenUnanswered: Admit
  whenExhausted: Evict
  quantum: 30m
"""


def test_a_budget_with_everything(load_content: Load) -> None:
    assert load_content(FULL) == Budget(
        name="vision",
        scope=BudgetScope(subject=BudgetSubject.LABEL, key="cost-centre", value="cc-17"),
        currency="EUR",
        windows=(
            BudgetWindow(period="month", limit_micros=1_000_500_000, alert_percents=(50, 80)),
            BudgetWindow(period="7d", limit_micros=300_000_000),
            BudgetWindow(period="24h", limit_micros=None),
        ),
        zone="Europe/Madrid",
        unanswered=Unanswered.ADMIT,
        exhaustion=Exhaustion.EVICT,
        quantum_ms=30 * 60_000,
    )


def test_a_budget_blocks_by_default_and_lets_run_what_runs(load_content: Load) -> None:
    budget = load_content(
        """\
        apiVersion: muster.dev/v1alpha1
        kind: Budget
        metadata: {name: vision}
        spec: {team: vision, currency: EUR, windows: [{period: month, limit: "0"}]}
        """
    )
    assert budget.scope == BudgetScope(subject=BudgetSubject.TEAM, value="vision")
    assert budget.windows[0].limit_micros == 0
    assert (budget.unanswered, budget.exhaustion) == (Unanswered.BLOCK, Exhaustion.CONTINUE)
    assert budget.zone == "UTC"


@pytest.mark.parametrize(
    ("old", "new", "field", "problem"),
    [
        ('limit: "1000.50"', 'limit: "-1"', "spec.windows[0].limit", "not an amount"),
        ('limit: "1000.50"', 'limit: "0.0000001"', "spec.windows[0].limit", "finer"),
        ("period: 7d", "period: 5h", "spec.windows[1].period", "hours neither"),
        ("period: 7d", "period: month", "spec.windows[1].period", "another window"),
        ("Europe/Madrid", "Mars/Crater", "spec.timeZone", "no time zone"),
        ("currency: EUR", "currency: euro", "spec.currency", "not a currency"),
        ("  label: {", "  team: x\n  label: {", "spec", "for one thing"),
        ("quantum: 30m", "quantum: soon", "spec.quantum", "is no time"),
        ("[80, 50]", "[0]", "spec.windows[0].alertPercents[0]", "not a whole number"),
    ],
)
def test_what_is_wrong_with_a_budget_is_refused_with_its_place(
    refused: Refused, old: str, new: str, field: str, problem: str
) -> None:
    assert FULL.count(old) == 1
    found = refused(FULL.replace(old, new))
    assert found
    assert found[0][0] == field
    assert problem in found[0][1]


def test_a_price_list_says_what_it_says_as_a_file(load_content: Load) -> None:
    prices = load_content(
        """\
        apiVersion: muster.dev/v1alpha1
        kind: PriceList
        metadata: {name: house}
        spec:
          currency: EUR
          flavors:
            h100:
              nvidia.com/gpu: {hourly: "1.40"}
        """
    )
    assert isinstance(prices, PriceList)
    price = prices.book.at("h100", "nvidia.com/gpu", 0)
    assert price is not None
    assert price.hourly == Fraction("1.40")


def test_an_amount_without_quotes_is_what_was_written(load_content: Load) -> None:
    prices = load_content(
        """\
        apiVersion: muster.dev/v1alpha1
        kind: PriceList
        metadata: {name: house}
        spec: {currency: EUR, flavors: {h100: {nvidia.com/gpu: {hourly: 1.40}}}}
        """
    )
    assert prices.book.at("h100", "nvidia.com/gpu", 0).hourly == Fraction("1.40")


POLICY = """\
apiVersion: muster.dev/v1alpha1
kind: ChargingPolicy
metadata: {name: finance}
spec:
  versions:
  - effectiveFrom: 2026-07-01T00:00:00+02:00
    basis: usage
    queues:
      vision: {basis: both, lenderCreditPercent: 50}
      speech: {basis: commitment}
      robots: {basis: usage, borrowPercent: 125, loanAttribution: prorata}
  - basis: usage
"""


def test_a_charging_policy_has_versions_by_time(load_content: Load) -> None:
    both = QueueTerms(basis=ChargingBasis.BOTH, lender_credit_percent=50)
    speech = QueueTerms(basis=ChargingBasis.COMMITMENT)
    robots = QueueTerms(borrow_percent=125, attribution=Attribution.PRORATA)
    assert load_content(POLICY) == ChargingPolicy(
        name="finance",
        versions=(
            PolicyVersion(policy="finance"),
            PolicyVersion(
                policy="finance",
                effective_from_ms=1_782_856_800_000,
                queues={"vision": both, "speech": speech, "robots": robots},
            ),
        ),
    )


@pytest.mark.parametrize(
    ("old", "new", "field", "problem"),
    [
        ("  - basis: usage\n", "  - {}\n", "spec.versions[1].basis", "missing"),
        ("basis: both", "basis: all", "spec.versions[0].queues.vision.basis", "none of its values"),
        (
            "basis: commitment",
            "basis: commitment, lenderCreditPercent: 10",
            "spec.versions[0].queues.speech.lenderCreditPercent",
            "nobody gets a credit",
        ),
        (
            "basis: commitment",
            "basis: commitment, borrowPercent: 110",
            "spec.versions[0].queues.speech.borrowPercent",
            "nobody pays for what is borrowed",
        ),
        ("125,", "1001,", "spec.versions[0].queues.robots.borrowPercent", "out of range"),
        ("prorata", "fifo", "spec.versions[0].queues.robots.loanAttribution", "none of its values"),
        ("50}", "101}", "spec.versions[0].queues.vision.lenderCreditPercent", "out of range"),
        ("2026-07-01T00:00:00+02:00", "soon", "spec.versions[0].effectiveFrom", "is not a time"),
        (
            "  - effectiveFrom: 2026-07-01T00:00:00+02:00\n    basis: usage",
            "  - basis: usage",
            "spec.versions[1].effectiveFrom",
            "begin at the same time",
        ),
    ],
)
def test_what_is_wrong_with_a_charging_policy_is_refused_with_its_place(
    refused: Refused, old: str, new: str, field: str, problem: str
) -> None:
    assert POLICY.count(old) == 1
    found = refused(POLICY.replace(old, new))
    assert found[0][0] == field
    assert problem in found[0][1]


def test_a_charging_policy_without_a_version_is_refused(refused: Refused) -> None:
    head, _, _ = POLICY.partition("spec:")
    assert refused(head + "spec: {}")[0][0] == "spec.versions"


def test_what_is_wrong_with_a_price_is_refused_at_its_place(refused: Refused) -> None:
    text = """\
apiVersion: muster.dev/v1alpha1
kind: PriceList
metadata: {name: house}
spec:
  currency: EUR
  flavors:
    h100:
      nvidia.com/gpu:
      - {hourly: "1.40"}
      - {hourly: "-1", effective_from: 2026-07-01T00:00:00Z}
"""
    ((field, problem),) = refused(text)
    assert field == 'spec.flavors.h100["nvidia.com/gpu"][1].hourly'
    assert "not an amount" in problem
