"""Intervals sum to the cost table, whatever happened and however the window is cut."""

from fractions import Fraction

from hypothesis import given

from muster_rating.dimensions import key_of
from muster_rating.intervals import IntervalKind, intervals
from muster_rating.prices import PriceBook
from muster_rating.report import Books, RowKind, cost_table
from muster_rating.windows import Window

from .test_properties import LAST, TIMES, all_books, prices


@given(all_books(), prices(), TIMES)
def test_intervals_sum_to_the_rows_of_the_table(books: Books, prices: PriceBook, cut: int) -> None:
    table = cost_table(books, prices, Window(0, LAST), "team")
    rows = [row for row in table.rows if row.kind is RowKind.USAGE]
    cost: dict[str, Fraction] = {}
    held: dict[tuple[str, str], int] = {}
    waited: dict[tuple[str, str], int] = {}
    for window in (Window(0, cut), Window(cut, LAST)):
        for interval in intervals(books.attempts, prices, window):
            team = key_of("team")(interval.attempt, interval.owner, interval.flavor)
            whose = team, interval.resource
            into = held if interval.kind is IntervalKind.HELD else waited
            into[whose] = into.get(whose, 0) + interval.unit_time
            cost[team] = cost.get(team, Fraction(0)) + (interval.cost_micros or 0)

    assert held == {(row.key, name): time for row in rows for name, time in row.held.items()}
    assert waited == {(row.key, name): time for row in rows for name, time in row.waiting.items()}
    assert cost == {row.key: row.cost for row in rows}
