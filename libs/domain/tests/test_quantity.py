from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_domain.errors import InvalidValue
from muster_domain.quantity import add, describe, format_quantity, parse_quantity_milli, scale

UNITS = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(1 << 10),
    "Mi": Fraction(1 << 20),
    "Gi": Fraction(1 << 30),
    "Ti": Fraction(1 << 40),
    "Pi": Fraction(1 << 50),
    "Ei": Fraction(1 << 60),
}


def ceil_milli(value: Fraction) -> int:
    """Thousandths, rounded up, by whole numbers alone."""
    thousandths = value * 1000
    return -(-thousandths.numerator // thousandths.denominator)


@st.composite
def written_numbers(draw: st.DrawFn) -> tuple[str, Fraction]:
    """A decimal number as text and as an exact fraction."""
    sign = draw(st.sampled_from(["", "+", "-"]))
    whole = draw(st.integers(0, 10**12))
    places = draw(st.integers(0, 9))
    digits = draw(st.integers(0, 10**places - 1))
    text = f"{sign}{whole}" + (f".{digits:0{places}d}" if places else "")
    value = whole + Fraction(digits, 10**places)
    return text, -value if sign == "-" else value


@given(written_numbers(), st.sampled_from(sorted(UNITS)))
def test_a_quantity_is_its_number_times_its_unit(number: tuple[str, Fraction], unit: str) -> None:
    text, value = number
    assert parse_quantity_milli(text + unit) == ceil_milli(value * UNITS[unit])


@given(written_numbers(), st.sampled_from("eE"), st.integers(-12, 12))
def test_an_exponent_is_a_power_of_ten(
    number: tuple[str, Fraction], letter: str, power: int
) -> None:
    text, value = number
    shifted = value * Fraction(10) ** power
    assert parse_quantity_milli(f"{text}{letter}{power}") == ceil_milli(shifted)


@given(st.integers(-(2**70), 2**70))
def test_what_is_formatted_reads_as_the_same(quantity_milli: int) -> None:
    assert parse_quantity_milli(format_quantity(quantity_milli)) == quantity_milli


@given(st.integers(0, 10**15), st.integers(0, 10**15))
def test_the_order_of_numbers_is_the_order_of_quantities(low: int, high: int) -> None:
    low, high = sorted((low, high))
    assert parse_quantity_milli(f"{low}m") <= parse_quantity_milli(f"{high}m")


@given(st.text(max_size=12))
def test_any_text_is_a_quantity_or_refused(text: str) -> None:
    try:
        value = parse_quantity_milli(text)
    except InvalidValue as error:
        assert error.fix  # noqa: PT017 - what is refused must say what to write
    else:
        assert isinstance(value, int)


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ("4", 4000),
        ("500m", 500),
        ("0.5", 500),
        (".5", 500),
        ("5.", 5000),
        ("1k", 1_000_000),
        ("1e3", 1_000_000),
        ("1E3", 1_000_000),
        ("1E", 10**21),
        ("1Ei", 2**60 * 1000),
        ("36Gi", 36 * 2**30 * 1000),
        ("2000G", 2 * 10**15),
        ("0.0001", 1),
        ("1n", 1),
        ("-0.0001", 0),
        ("-1.5", -1500),
        (" 4 ", 4000),
    ],
)
def test_readings_of_every_form(text: str, milli: int) -> None:
    assert parse_quantity_milli(text) == milli


@pytest.mark.parametrize(
    "text",
    ["", " ", "K", "1K", "1e", "1ee3", "1e3k", "1Gb", "1 Gi", "0x10", "1,5", "--1", "1..5", ".",
     "inf", "nan", "1_000", "one", "\u0664", "1e41", "1e-41", "9" * 41],
)  # fmt: skip
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        parse_quantity_milli(text)
    assert caught.value.fix


def test_whole_numbers_are_taken_as_they_are() -> None:
    assert parse_quantity_milli(7) == 7000


@pytest.mark.parametrize(
    ("milli", "text"),
    [(0, "0"), (1, "1m"), (1500, "1500m"), (4000, "4"), (1024 * 1000, "1Ki"), (-2000, "-2")],
)
def test_the_shortest_exact_form(milli: int, text: str) -> None:
    assert format_quantity(milli) == text


def test_sums_and_multiples_by_resource() -> None:
    assert add({"cpu": 1, "gpu": 2}, {"gpu": 3, "memory": 4}) == {"cpu": 1, "gpu": 5, "memory": 4}
    assert scale({"cpu": 500}, 3) == {"cpu": 1500}
    assert describe({"gpu": 8000, "cpu": 500}) == "cpu 500m, gpu 8"
