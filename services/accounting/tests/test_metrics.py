"""Gauges of tokens, from a report."""

from prometheus_client import CollectorRegistry, generate_latest

from muster_accounting.metrics import AccountingMetrics
from muster_contracts.tokens import ModelDrift, TokenReport
from muster_domain.tokens import DriftStatus, TokenPolicy

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
