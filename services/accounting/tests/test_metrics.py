"""Gauges of tokens, from a report, and of capacity without a price."""

from prometheus_client import CollectorRegistry, generate_latest

from muster_accounting.declarations import Declarations
from muster_accounting.metrics import AccountingMetrics
from muster_accounting.view import View
from muster_contracts.tokens import ModelDrift, TokenReport
from muster_domain.tokens import DriftStatus, TokenPolicy
from muster_rating.capacity import NodeReport
from muster_rating.price_lists import read_price_list

from .log import NO_MODELS


def report(status: DriftStatus, permille: int | None, suggested: str) -> TokenReport:
    model = ModelDrift(
        namespace="ns-a",
        model="llama",
        policy=TokenPolicy.INFORMATIONAL,
        status=status,
        iron_micros=1,
        token_micros=1,
        prompt_tokens=1,
        completion_tokens=1,
        drift_permille=permille,
        suggested_input=suggested,
        suggested_output=suggested,
    )
    return TokenReport(
        by="model", currency=NO_MODELS.prices.currency, sets=(), models=(model,), unpriced=("x",)
    )


def test_drift_and_the_price_that_would_recover_are_gauges_until_they_are_no_more() -> None:
    registry = CollectorRegistry()
    metrics = AccountingMetrics(registry)
    metrics.show_drift(report(DriftStatus.UNDER_RECOVERED, -804, "3.978947"))
    first = generate_latest(registry).decode()
    metrics.show_drift(report(DriftStatus.NO_TOKENS, -1000, ""))
    second = generate_latest(registry).decode()

    assert 'muster_token_drift_ratio{model="llama",namespace="ns-a"} -0.804' in first
    assert 'direction="input",model="llama",namespace="ns-a"} 3.978947' in first
    assert "muster_tokens_unpriced 1.0" in first
    assert "muster_token_drift_ratio{" not in second
    assert "muster_token_suggested_price{" not in second


def test_capacity_without_a_price_is_told_and_no_node_is_free_for_it() -> None:
    """Before the first ResourceFlavor all hardware is in the flavor `volcano`."""
    resources = {"nvidia.com/gpu": 4000, "cpu": 8000}
    node = NodeReport(
        node="n1", at_ms=0, id="r1", allocatable=resources, devices=frozenset({"nvidia.com/gpu"})
    )
    view = View(Declarations(0, ()), (), (node,))

    def shown(document: dict[str, object]) -> str:
        registry = CollectorRegistry()
        metrics = AccountingMetrics(registry)
        metrics.refresh(view, read_price_list(document, default_currency="EUR"), 1)
        return generate_latest(registry).decode()

    flavor = '{flavor="volcano",resource="nvidia.com/gpu"}'
    unpriced = shown({"flavors": {"h100": {"nvidia.com/gpu": {"hourly": "1.40"}}}})
    assert f"muster_accounting_unpriced_capacity{flavor} 4.0" in unpriced
    assert "node_total_hourly_cost{" not in unpriced
    for name in ("volcano", "*"):
        priced = shown({"flavors": {name: {"nvidia.com/gpu": {"hourly": "1.40"}}}})
        assert "muster_accounting_unpriced_capacity{" not in priced
        assert 'node="n1",provider_id="n1",region=""} 5.6' in priced
