"""Prices of models from a proxy's configuration, and what is refused in one."""

from fractions import Fraction

import pytest

from muster_domain.errors import InvalidValue
from muster_domain.tokens import TokenPolicy
from muster_rating.model_prices import ModelPrice, read_litellm_config
from muster_rating.windows import Window


def entry(**fields: object) -> dict[str, object]:
    return {"model_name": "llama", "litellm_params": {"model": "x"}, **fields}


def only(*entries: dict[str, object]) -> ModelPrice | None:
    return read_litellm_config({"model_list": list(entries)}, currency="EUR").at("llama", 0)


def test_a_price_of_a_token_becomes_one_of_a_million_exactly() -> None:
    params = {"input_cost_per_token": "3.5e-07", "output_cost_per_token": "0.00000078"}

    price = only(entry(litellm_params=params, model_info={"token_policy": "additive"}))

    assert price is not None
    assert (price.input_per_million, price.output_per_million) == (
        Fraction("0.35"),
        Fraction("0.78"),
    )
    assert price.policy is TokenPolicy.ADDITIVE
    assert price.cost_micros(1, 1) == Fraction("1.13")


def test_nothing_said_is_no_price_and_zero_is_one() -> None:
    silent = only(entry())
    free = only(entry(litellm_params={"input_cost_per_token": "0", "output_cost_per_token": 0}))

    assert silent is not None
    assert silent.cost_micros(1, 0) is None
    assert silent.cost_micros(0, 0) == 0
    assert free is not None
    assert free.cost_micros(5, 5) == 0


@pytest.mark.parametrize(
    ("entries", "field"),
    [
        ([entry(litellm_params={"input_cost_per_token": "0.35"})], "input_cost_per_token"),
        ([entry(litellm_params={"input_cost_per_token": "-1e-7"})], "input_cost_per_token"),
        ([entry(litellm_params={"output_cost_per_token": "nan"})], "output_cost_per_token"),
        ([entry(litellm_params={"output_cost_per_token": "much"})], "output_cost_per_token"),
        ([entry(model_name="")], "model_name"),
        ([entry(model_info={"token_policy": "free"})], "token_policy"),
        ([entry(model_info={"effective_from": "2026-06-01"})], "effective_from"),
        (["llama"], "model_list[0]"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_place(entries: list[object], field: str) -> None:
    """Complaint 45: the price of a million where that of one token belongs is no price."""
    with pytest.raises(InvalidValue) as caught:
        read_litellm_config({"model_list": entries}, currency="EUR")
    assert caught.value.field.endswith(field)


def test_two_deployments_of_a_model_may_not_differ_in_price() -> None:
    one = entry(litellm_params={"input_cost_per_token": "1e-7"})
    other = entry(litellm_params={"input_cost_per_token": "2e-7"})

    assert only(one, one) is not None
    with pytest.raises(InvalidValue, match="two prices"):
        only(one, other)


def test_a_window_is_cut_where_a_price_begins() -> None:
    later = entry(model_info={"effective_from": "1970-01-01T00:00:10Z"})
    prices = read_litellm_config({"model_list": [entry(), later]}, currency="EUR")

    assert prices.windows(Window(0, 20_000)) == (Window(0, 10_000), Window(10_000, 20_000))
    assert prices.windows(Window(10_000, 20_000)) == (Window(10_000, 20_000),)
    assert prices.windows(Window(5, 5)) == ()
