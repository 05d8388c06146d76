"""Money is rounded once and shared out without loss."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_domain.errors import InvalidValue
from muster_domain.money import (
    format_decimal,
    nearest,
    parse_amount,
    parse_currency,
    round_rows,
    split,
)

FRACTIONS = st.fractions(min_value=-(10**12), max_value=10**12, max_denominator=10**6)


@pytest.mark.parametrize(
    ("total", "weights", "parts"),
    [
        pytest.param(10000, (1, 1, 1), (3334, 3333, 3333), id="a cent goes to the first"),
        pytest.param(5, (1, 1, 1), (2, 2, 1), id="less than there are rows"),
        pytest.param(1000, (1, 1, 1, 3), (167, 167, 166, 500), id="uneven weights"),
        pytest.param(7, (0, 0), (0, 0), id="nobody to pay"),
        pytest.param(7, (0, 5, 0), (0, 7, 0), id="one payer"),
    ],
)
def test_split_by_largest_remainder(
    total: int, weights: tuple[int, ...], parts: tuple[int, ...]
) -> None:
    assert split(total, weights) == parts


@given(
    st.integers(min_value=0, max_value=10**18),
    st.lists(st.integers(min_value=0, max_value=10**12), min_size=1),
)
def test_split_loses_nothing(total: int, weights: list[int]) -> None:
    parts = split(total, weights)

    assert sum(parts) == (total if any(weights) else 0)
    for part, weight in zip(parts, weights, strict=True):
        assert abs(part - Fraction(total * weight, sum(weights) or 1)) < 1


@given(st.lists(FRACTIONS))
def test_rounded_rows_sum_to_the_rounded_sum(exact: list[Fraction]) -> None:
    rows, total = round_rows(exact)

    assert sum(rows) == total == nearest(sum(exact, Fraction(0)))
    assert all(abs(row - value) < 1 for row, value in zip(rows, exact, strict=True))


@given(FRACTIONS)
def test_nearest_is_half_to_even(value: Fraction) -> None:
    assert nearest(value) == round(value)


@pytest.mark.parametrize("text", ["", "-1", "1,40", "1e3", ".5", "1.", "NaN", "+1", "1 "])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match="is not an amount"):
        parse_amount(text, field="price")


def test_amounts_are_exact() -> None:
    assert parse_amount("1.40") == Fraction(7, 5)
    assert format_decimal(Fraction(1, 3), 6) == "0.333333"
    assert format_decimal(Fraction(-7, 5), 2) == "-1.40"
    assert format_decimal(Fraction(5, 2), 0) == "2"


def test_currency_is_a_code() -> None:
    assert parse_currency("EUR") == "EUR"
    with pytest.raises(InvalidValue, match="is not a currency"):
        parse_currency("euro", field="currency")
