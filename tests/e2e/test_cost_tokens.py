"""The tokens of the article's month, beside the hardware that served them."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from muster_contracts.tokens import TokenReport
from muster_domain.errors import InvalidValue
from muster_domain.money import MICROS
from muster_domain.tokens import DriftStatus, TokenPolicy
from muster_rating.prices import HOUR_MS

from .month import Month
from .test_cost_article import JUNE_MS, LITELLM, accounts, article, models

USED = {"datos": 380, "ia": 210, "plataforma": 80}
"""Millions of tokens."""
MODELS = {"datos": "llama-3-70b", "ia": "llama-3-8b", "plataforma": "llama-3-8b"}


def row(team: str, number: int, **more: object) -> dict[str, object]:
    return {
        "request_id": f"{team}-{number}",
        "model_group": MODELS[team],
        "team_id": team,
        "api_key": f"hash-{team}",
        "metadata": {"namespace": f"ns-{team}"},
        "prompt_tokens": 700_000,
        "completion_tokens": 300_000,
        "endTime": f"2026-06-{number % 30 + 1:02d}T12:00:00Z",
        "request_tags": [f"cost-centre:{number % 2}"],
        **more,
    }


def spend_log() -> Iterator[dict[str, object]]:
    for team, millions in USED.items():
        for number in range(millions):
            yield row(team, number)


def served(month: Month) -> None:
    article(month)
    log = list(spend_log())
    month.use_tokens(log, 719)
    month.use_tokens(log[50:250], 720)


def euros(report: TokenReport) -> dict[str, Fraction]:
    (one,) = report.sets
    return {"/".join(line.key): Fraction(line.cost_micros or 0, MICROS) for line in one.lines}


async def test_the_article_tokens_cost_what_it_says(tmp_path: Path) -> None:
    async with accounts(tmp_path, served) as books:
        report = await books.tokens("team")
        hardware = await books.report(by="team")

    assert euros(report) == {
        "datos": Fraction("296.40"),
        "ia": Fraction("73.50"),
        "plataforma": Fraction("28.00"),
    }
    (one,) = report.sets
    assert (one.total.requests, one.total.cost_micros) == (670, 397_900_000)
    assert [line.additive_micros for line in one.lines] == [0, 0, 0]
    assert hardware.total.cost_micros == 4_032_000_000
    assert report.unpriced == ()


async def test_no_team_recovers_its_hardware_and_the_price_that_would_is_said(
    tmp_path: Path,
) -> None:
    async with accounts(tmp_path, served) as books:
        found = {model.namespace: model for model in (await books.tokens("team")).models}

    assert {name: model.status for name, model in found.items()} == dict.fromkeys(
        ("ns-datos", "ns-ia", "ns-plataforma"), DriftStatus.UNDER_RECOVERED
    )
    assert [found[f"ns-{team}"].drift_permille for team in USED] == [-804, -878, -921]
    assert [found[f"ns-{team}"].per_million_micros for team in USED] == [
        3_978_947,
        2_880_000,
        4_410_000,
    ]
    assert found["ns-ia"].suggested_input == found["ns-ia"].suggested_output == "2.880000"
    assert {model.policy for model in found.values()} == {TokenPolicy.INFORMATIONAL}


async def test_a_model_that_runs_elsewhere_is_added_to_the_hardware(tmp_path: Path) -> None:
    def play(month: Month) -> None:
        served(month)
        month.use_tokens([row("ia", 1, request_id="x-1", model_group="gpt-x")], 1)

    config = f"""{LITELLM}
  - model_name: gpt-x
    litellm_params: {{model: openai/gpt-x, input_cost_per_token: 1e-5, output_cost_per_token: 3e-5}}
"""
    async with accounts(tmp_path, play, terms=models(config)) as books:
        report = await books.tokens("model")

    (one,) = report.sets
    added = {line.key[0]: line.additive_micros for line in one.lines}
    assert added == {"gpt-x": 16 * MICROS, "llama-3-70b": 0, "llama-3-8b": 0}
    status = {model.model: model.status for model in report.models}
    assert status["gpt-x"] is DriftStatus.EXTERNAL


async def test_a_model_without_a_price_is_named_and_one_for_nothing_is_not(tmp_path: Path) -> None:
    """Complaints 47 and 48: nothing said is not zero, and zero is."""

    def play(month: Month) -> None:
        month.use_tokens([row("ia", 1, model_group="mystery", request_id="m-1")], 1)
        month.use_tokens([row("ia", 1, model_group="gift", request_id="g-1")], 1)

    config = """
model_list:
  - model_name: gift
    litellm_params: {model: gift, input_cost_per_token: 0, output_cost_per_token: 0}
  - {model_name: mystery, litellm_params: {model: mystery}}
"""
    async with accounts(tmp_path, play, terms=models(config)) as books:
        report = await books.tokens("model")

    (one,) = report.sets
    assert [(line.key[0], line.cost_micros, line.unpriced_tokens) for line in one.lines] == [
        ("gift", 0, 0),
        ("mystery", None, 1_000_000),
    ]
    assert report.unpriced == ("mystery",)


async def test_a_million_tiny_requests_are_summed_before_they_are_rounded(tmp_path: Path) -> None:
    """Complaint 56, with requests of one token, none of which comes to a micro-unit."""

    def play(month: Month) -> None:
        tiny = {"prompt_tokens": 1, "completion_tokens": 0, "spend": "3.5e-07"}
        log = [row("ia", number, **tiny) for number in range(2_000)]
        month.use_tokens(log, 1)

    async with accounts(tmp_path, play) as books:
        (one,) = (await books.tokens("team,model")).sets

    assert one.total.cost_micros == 700
    assert one.total.reported_micros == 700
    assert sum(line.cost_micros or 0 for line in one.lines) == 700


async def test_days_sum_to_the_month_and_the_last_day_is_in_it(tmp_path: Path) -> None:
    """Complaints 44 and 53."""
    day_ms = 24 * HOUR_MS
    async with accounts(tmp_path, served) as books:
        days = (await books.tokens("team", step_ms=day_ms)).sets
        (month,) = (await books.tokens("team")).sets

    assert len(days) == 30
    assert days[0].start_ms == JUNE_MS
    assert days[-1].total.requests == 12 + 7 + 2
    assert sum(day.total.cost_micros or 0 for day in days) == month.total.cost_micros


async def test_a_price_that_changes_holds_from_then_on(tmp_path: Path) -> None:
    """Complaint 54: what was used before stays at the price of its time."""
    config = """
model_list:
  - {model_name: llama-3-8b, litellm_params: {input_cost_per_token: 1e-6, output_cost_per_token: 0}}
  - model_name: llama-3-8b
    litellm_params: {input_cost_per_token: 2e-6, output_cost_per_token: 0}
    model_info: {effective_from: "2026-06-03T00:00:00+00:00"}
"""

    def play(month: Month) -> None:
        month.use_tokens([row("ia", number) for number in range(4)], 1)

    async with accounts(tmp_path, play, terms=models(config)) as books:
        report = await books.tokens("team")

    assert euros(report) == {"ia": Fraction("4.20")}


async def test_tags_show_a_request_under_each_and_sum_it_once(tmp_path: Path) -> None:
    def play(month: Month) -> None:
        month.use_tokens([row("ia", 1, request_tags=["a", "b"]), row("ia", 2, request_tags=[])], 1)

    async with accounts(tmp_path, play) as books:
        (one,) = (await books.tokens("tag")).sets

    assert [(line.key[0], line.requests) for line in one.lines] == [
        ("__untagged__", 1),
        ("a", 1),
        ("b", 1),
    ]
    assert one.total.requests == 2


async def test_a_tenant_sees_the_models_of_its_namespaces(tmp_path: Path) -> None:
    async with accounts(tmp_path, served) as books:
        report = await books.tokens("team", namespaces=("ns-ia",))

    assert euros(report) == {"ia": Fraction("73.50")}
    assert [model.namespace for model in report.models] == ["ns-ia"]


async def test_what_tokens_are_not_kept_by_is_refused(tmp_path: Path) -> None:
    async with accounts(tmp_path, article) as books:
        with pytest.raises(InvalidValue, match="not kept by 'cluster'"):
            await books.tokens("cluster")
