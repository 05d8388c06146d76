"""Price lists say their units, and prices hold from their time on."""

from fractions import Fraction

import pytest

from muster_domain.errors import InvalidValue
from muster_rating.price_lists import read_price_list
from muster_rating.prices import HOUR_MS, Price, PriceBook
from muster_rating.windows import Window

GPU = "nvidia.com/gpu"


def read(**resources: object) -> PriceBook:
    return read_price_list({"flavors": {"h100": resources}}, default_currency="EUR")


def cost_of(price: Price | None, milli: int, hours: int) -> Fraction:
    assert price is not None
    return price.micros_per_unit * milli * hours * HOUR_MS / 1_000_000


def test_an_hourly_price_bills_what_it_says() -> None:
    book = read(**{GPU: {"hourly": "1.40"}})

    assert book.currency == "EUR"
    assert cost_of(book.at("h100", GPU, 0), 1000, 1) == Fraction("1.40")


def test_a_monthly_price_says_how_long_its_month_is() -> None:
    book = read(**{GPU: {"monthly": "1022", "hours_per_month": 730}})

    assert cost_of(book.at("h100", GPU, 0), 1000, 1) == Fraction("1.40")


def test_memory_is_priced_by_a_stated_amount() -> None:
    book = read(memory={"hourly": "0.003", "per": "1Gi"})

    assert cost_of(book.at("h100", "memory", 0), 512 * 2**30 * 1000, 1) == Fraction("1.536")


def test_resources_that_the_list_does_not_name_are_included() -> None:
    book = read(**{GPU: {"hourly": "1.40"}})
    included = book.at("h100", "cpu", 0)

    assert included is not None
    assert (included.hourly, included.written) == (0, "included")
    assert book.at("a100", "cpu", 0) is None


def test_a_price_holds_until_the_next_one() -> None:
    book = read(
        **{
            GPU: [
                {"hourly": "2", "effective_from": "1970-01-01T02:00:00+01:00"},
                {"hourly": "1", "effective_from": "1970-01-01T00:00:00Z"},
            ]
        }
    )

    rated = book.windows("h100", GPU, Window(-5, 2 * HOUR_MS))

    assert [(part.window, part.price.hourly if part.price else None) for part in rated] == [
        (Window(-5, 0), None),
        (Window(0, HOUR_MS), 1),
        (Window(HOUR_MS, 2 * HOUR_MS), 2),
    ]


@pytest.mark.parametrize(
    ("written", "field", "problem"),
    [
        pytest.param({GPU: {"hourly": 1.4}}, "hourly", "is not text", id="a binary fraction"),
        pytest.param({GPU: {"hourly": "-1"}}, "hourly", "is not an amount", id="negative"),
        pytest.param({GPU: {}}, GPU, "either hourly, monthly or", id="no unit"),
        pytest.param(
            {GPU: {"hourly": "1", "monthly": "1"}}, GPU, "either hourly, monthly or", id="two units"
        ),
        pytest.param({GPU: {"monthly": "1"}}, "hours_per_month", "how long", id="which month"),
        pytest.param(
            {GPU: {"monthly": "1", "hours_per_month": 0}}, "hours_per_month", "no number", id="zero"
        ),
        pytest.param({"memory": {"hourly": "1"}}, "per", "for how much", id="memory per what"),
        pytest.param({GPU: {"hourly": "1", "per": "0"}}, "per", "no amount", id="per nothing"),
        pytest.param({GPU: {"hourly": "1", "unit": "h"}}, "unit", "no field", id="unknown field"),
        pytest.param({GPU: "1.40"}, GPU, "is not a mapping", id="a bare number"),
        pytest.param(
            {GPU: {"hourly": "1", "effective_from": "2026-07-01T00:00:00"}},
            "effective_from",
            "does not say its zone",
            id="a time without a zone",
        ),
        pytest.param(
            {GPU: {"hourly": "1", "effective_from": "soon"}},
            "effective_from",
            "is not a time",
            id="no time",
        ),
        pytest.param(
            {GPU: [{"hourly": "1"}, {"hourly": "2"}]}, GPU, "at the same time", id="two at once"
        ),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(
    written: dict[str, object], field: str, problem: str
) -> None:
    with pytest.raises(InvalidValue, match=problem) as caught:
        read(**written)

    assert field in caught.value.field


def test_the_currency_stands_in_the_list_or_is_given() -> None:
    assert read_price_list({"currency": "USD"}, default_currency="EUR").currency == "USD"
    with pytest.raises(InvalidValue, match="not a currency"):
        read_price_list({"currency": "$"}, default_currency="EUR")
