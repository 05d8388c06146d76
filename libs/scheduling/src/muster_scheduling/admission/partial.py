"""Partial admission: the largest gang that can start now (R-38)."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from muster_scheduling.snapshot.workloads import PodSetRequest

Found = TypeVar("Found")


def largest_gang(
    pod_sets: Sequence[PodSetRequest], attempt: Callable[[Sequence[int]], Found | None]
) -> Found | None:
    """Binary search over sizes from full to minimal; `attempt` answers `None` where none fits.

    Assumes that a smaller gang fits wherever a larger one does.
    """
    deltas = [pod_set.count - pod_set.min_count for pod_set in pod_sets]
    total = sum(deltas)
    low, high = 0, total + 1
    best: Found | None = None
    while low < high:
        middle = (low + high) // 2
        counts = [
            pod_set.count - delta * middle // total if total else pod_set.count
            for pod_set, delta in zip(pod_sets, deltas, strict=True)
        ]
        found = attempt(counts)
        if found is None:
            low = middle + 1
        else:
            high, best = middle, found
    return best
