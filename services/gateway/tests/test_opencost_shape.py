"""What OpenCost's fields say of efficiency: a number where agents looked, null where nobody did."""

from collections.abc import Mapping

import pytest

from muster_contracts.allocations import AllocationRow, AllocationSet
from muster_gateway.http.opencost_shape import allocation, summary

HOUR = 3_600_000 * 1000
"""Milli-unit-milliseconds of one unit for an hour."""


def row(
    observed: Mapping[str, int], busy: Mapping[str, int], cost: Mapping[str, int] | None = None
) -> AllocationRow:
    """Two GPUs for four hours, and a processor."""
    return AllocationRow(
        name="a",
        key=("a",),
        start_ms=0,
        end_ms=4 * 3_600_000,
        time={"gpu": 8 * HOUR, "cpu": 4 * HOUR},
        cost_micros=cost or {"gpu": 11_200_000},
        total_cost_micros=11_200_000,
        observed=observed,
        busy=busy,
    )


@pytest.mark.parametrize(
    ("found", "efficiency", "usage", "hours", "total"),
    [
        (row({}, {}), None, None, 0, None),
        (row({"gpu": 8 * HOUR}, {"gpu": 6 * HOUR}), 0.75, 1.5, 8, 0.75),
        (row({"gpu": 2 * HOUR}, {"gpu": HOUR}), 0.5, 1, 2, 0.5),
        (row({"gpu": 2 * HOUR}, {"gpu": 0}), 0, 0, 2, 0),
        (row({"gpu": HOUR}, {"gpu": HOUR}, {"gpu": 1, "cpu": 1}), 1, 2, 1, None),
        (row({"gpu": HOUR}, {"gpu": HOUR}, {"gpu": 0, "cpu": 0}), 1, 2, 1, None),
        (
            row({"gpu": HOUR, "cpu": HOUR}, {"gpu": HOUR}, {"gpu": 30, "cpu": 10}),
            1,
            2,
            1,
            0.75,
        ),
    ],
    ids=["nobody looked", "all", "in part", "idle", "a part costs", "free", "both"],
)
def test_efficiency_is_what_was_seen(
    found: AllocationRow,
    efficiency: float | None,
    usage: float | None,
    hours: float,
    total: float | None,
) -> None:
    one = AllocationSet(start_ms=0, end_ms=4 * 3_600_000, rows=(found,))
    full, short = allocation(found, one), summary(found)
    assert full["gpuEfficiency"] == efficiency
    assert full["gpuUsageAverage"] == short["gpuUsageAverage"] == usage
    assert full["gpuObservedHours"] == hours
    assert full["totalEfficiency"] == short["totalEfficiency"] == total
    assert full["ramEfficiency"] is None
