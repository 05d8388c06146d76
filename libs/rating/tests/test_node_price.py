"""The price of a node from what it costs to own, and the prices that OpenCost's users have."""

from fractions import Fraction

import pytest

from muster_domain.errors import InvalidValue
from muster_domain.money import format_decimal
from muster_rating.node_price import read_node_cost
from muster_rating.price_lists import read_price_list
from muster_rating.prices import PriceBook, PriceList, price_books

GPU = "nvidia.com/gpu"
INPUTS = {
    "capex": "140000",
    "years": "4",
    "availability": "0.90",
    "power_kw": "2.8",
    "pue": "1.4",
    "energy_per_kwh": "0.12",
    "operations_hourly": "0.70",
    "devices": "4",
}


def hourly(book: PriceBook, flavor: str, resource: str) -> Fraction | None:
    price = book.at(flavor, resource, 0)
    return None if price is None else price.hourly


def test_a_node_costs_purchase_energy_and_operations() -> None:
    node = read_node_cost(INPUTS, "node")
    assert node.capex_hourly == Fraction(140000, 31536)
    assert node.energy_hourly == Fraction("0.4704")
    assert format_decimal(node.hourly, 9) == "5.609770878"
    assert format_decimal(node.hourly_of_device, 9) == "1.402442719"


def test_a_price_list_keeps_the_inputs_of_a_node_in_words() -> None:
    written = {"currency": "EUR", "flavors": {"b200": {GPU: {"node": INPUTS}}}}
    price = read_price_list(written, default_currency="").at("b200", GPU, 0)
    assert price is not None
    assert price.hourly == read_node_cost(INPUTS, "").hourly_of_device
    assert price.written == (
        "node of 4 devices at 4.439370878 + 0.470400000 + 0.700000000 = 5.609770878"
    )


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"years": "0"}, "years is 0"),
        ({"availability": "1.1"}, "more than all hours"),
        ({"devices": "0"}, "no number of devices"),
        ({"capex": "-1"}, "not an amount"),
        ({"colour": "red"}, "there is no field"),
    ],
)
def test_inputs_that_make_no_price_are_refused(change: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidValue, match=problem):
        read_node_cost({**INPUTS, **change}, "node")


def test_an_input_that_is_missing_is_named() -> None:
    with pytest.raises(InvalidValue, match="pue is missing"):
        read_node_cost({name: text for name, text in INPUTS.items() if name != "pue"}, "node")


def test_custom_pricing_of_opencost_loads_by_the_hour() -> None:
    values = {"unit": "hourly", "provider": "custom", "CPU": "0.025", "RAM": "0.003", "GPU": "1.40"}
    book = read_price_list({"currency": "EUR", "opencost": values}, default_currency="")
    assert hourly(book, "anything", GPU) == Fraction("1.40")
    memory = book.at("anything", "memory", 0)
    assert memory is not None
    assert (memory.hourly, memory.per) == (Fraction("0.003"), "1Gi")


def test_the_same_values_by_the_month_are_a_730th() -> None:
    values = {"unit": "monthly", "GPU": "1022"}
    book = read_price_list({"currency": "EUR", "opencost": values}, default_currency="")
    assert hourly(book, "anything", GPU) == Fraction("1.40")


def test_custom_pricing_that_does_not_say_its_unit_is_refused() -> None:
    with pytest.raises(InvalidValue, match="does not say its unit"):
        read_price_list({"currency": "EUR", "opencost": {"GPU": "1.40"}}, default_currency="")


def test_a_flavor_with_a_price_of_its_own_has_nothing_of_every_flavors() -> None:
    written = {
        "currency": "EUR",
        "flavors": {"h100": {GPU: {"hourly": "2"}}},
        "opencost": {"unit": "hourly", "CPU": "0.025", "GPU": "1.40"},
    }
    book = read_price_list(written, default_currency="")
    assert (hourly(book, "h100", GPU), hourly(book, "h100", "cpu")) == (2, 0)
    assert (hourly(book, "a100", GPU), hourly(book, "a100", "cpu")) == (
        Fraction("1.40"),
        Fraction("0.025"),
    )


def test_lists_of_one_currency_are_one_book_and_the_later_name_counts() -> None:
    def priced(name: str, amount: str, currency: str = "EUR") -> PriceList:
        written = {"currency": currency, "flavors": {"h100": {GPU: {"hourly": amount}}}}
        return PriceList(name=name, book=read_price_list(written, default_currency=""))

    books = price_books([priced("b", "2"), priced("a", "1"), priced("c", "3", "USD")])
    assert {currency: hourly(book, "h100", GPU) for currency, book in books.items()} == {
        "EUR": 2,
        "USD": 3,
    }
