"""Kueue's suites, each as one function from a case to what Muster decided."""

from collections.abc import Callable
from typing import Any

import kueue_cycles
import kueue_flavors
import kueue_orders
import kueue_quota
import kueue_status
import tas_adapter

Suite = Callable[[dict[str, Any]], dict[str, Any]]

SUITES: dict[str, Suite] = {
    **kueue_quota.SUITES,
    **kueue_orders.SUITES,
    **kueue_flavors.SUITES,
    **kueue_cycles.SUITES,
    **kueue_status.SUITES,
    **tas_adapter.SUITES,
}


def run(suite: str, case: dict[str, Any]) -> dict[str, Any]:
    """Decide one case; a suite that is not covered decides nothing."""
    known = SUITES.get(suite)
    return known(case) if known is not None else {}
