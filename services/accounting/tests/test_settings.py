"""What accounting is told."""

from fractions import Fraction
from pathlib import Path

import pytest

from muster_accounting.settings import AccountingSettings, load_prices
from muster_domain.errors import InvalidValue

GPU = "nvidia.com/gpu"
LIST = """
currency: USD
flavors:
  h100:
    nvidia.com/gpu: {hourly: 1.40}
"""


def test_amounts_are_what_was_written_even_without_quotes(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(LIST, encoding="utf-8")

    for settings in (AccountingSettings(prices=LIST), AccountingSettings(prices_file=str(file))):
        book = load_prices(settings)
        price = book.at("h100", GPU, 0)
        assert book.currency == "USD"
        assert price is not None
        assert (price.hourly, price.written) == (Fraction(7, 5), "1.40 per hour")


def test_json_is_read_too_and_the_default_currency_holds() -> None:
    text = '{"flavors": {"h100": {"nvidia.com/gpu": {"hourly": "0.10"}}}}'

    book = load_prices(AccountingSettings(prices=text, currency="CHF"))

    assert book.currency == "CHF"
    assert book.prices[0].hourly == Fraction(1, 10)


def test_no_price_list_is_an_empty_one() -> None:
    assert load_prices(AccountingSettings()).prices == ()


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        pytest.param({"prices": LIST, "prices_file": "x"}, "two price lists", id="two"),
        pytest.param({"prices_file": "/nowhere/prices"}, "cannot read", id="no file"),
        pytest.param({"prices": "a: [1"}, "is not YAML", id="no YAML"),
        pytest.param({"prices": "[1]"}, "is not a mapping", id="a list"),
    ],
)
def test_a_wrong_price_list_stops_the_start(settings: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidValue, match=problem):
        load_prices(AccountingSettings(**settings))
