"""How long pods may take to run, and what becomes of a workload whose pods did not (R-103, R-104).

The declared configuration says it; what it leaves open, the settings of the service say.
"""

from muster_admission.settings import AdmissionSettings
from muster_domain.policy import Lifecycle


def lifecycle_of(declared: Lifecycle | None, settings: AdmissionSettings) -> Lifecycle:
    """What holds: all of what is declared, or all of the settings.

    A recovery timeout that is not set is the timeout for the start; one of 0 is none.
    """
    if declared is not None:
        return declared
    timeout_ms, recovery_ms = settings.pods_ready_timeout_ms, settings.recovery_timeout_ms
    return Lifecycle(
        ready_ms=timeout_ms,
        recovery_ms=timeout_ms if recovery_ms is None else (recovery_ms or None),
        block_admission=settings.block_admission,
        requeue_limit=settings.requeue_limit,
        requeue_base_ms=settings.requeue_backoff_base_ms,
        requeue_max_ms=settings.requeue_backoff_max_ms,
    )


def retry_ms(settings: AdmissionSettings, times: int) -> int:
    """The pause after placement found no seats for the `times`-th time in a row."""
    return min(
        settings.placement_retry_max_ms,
        settings.placement_retry_base_ms * 2 ** min(max(0, times - 1), 16),
    )


def backoff_ms(lifecycle: Lifecycle, count: int) -> int:
    """The pause after the `count`-th eviction, from 1: doubled each time up to the longest."""
    return min(lifecycle.requeue_max_ms, lifecycle.requeue_base_ms * 2 ** min(count - 1, 40))
