"""What admission is told by its environment."""

from enum import StrEnum

from pydantic import Field

from muster_runtime.settings import ServiceSettings


class NeverFits(StrEnum):
    """What becomes of a job that asks more than its queue could ever give."""

    REFUSE = "refuse"
    HOLD = "hold"


class AdmissionSettings(ServiceSettings):
    """Kueue's defaults where Kueue has one."""

    never_fits: NeverFits = Field(
        default=NeverFits.REFUSE,
        description="refuse: say so at submission and end it; hold: keep it pending as Kueue does",
    )
    pods_ready_timeout_ms: int = Field(
        default=30 * 60_000, description="Admitted and not running for so long is evicted"
    )
    recovery_timeout_ms: int | None = Field(
        default=None,
        description="Pods that ran and do not all run for so long are evicted; none means as long "
        "as pods may take to start, 0 that they may take for ever",
    )
    block_admission: bool = Field(
        default=False, description="Let nobody in before the pods of everybody who is in run"
    )
    requeue_backoff_base_ms: int = Field(default=60_000, description="First back-off after that")
    requeue_backoff_max_ms: int = Field(default=3_600_000, description="Longest back-off")
    requeue_limit: int | None = Field(
        default=None, description="So many back-offs, then deactivated; none means endless"
    )
    reservation_timeout_ms: int = Field(
        default=120_000, description="Quota held without an answer from placement comes back"
    )
    placement_retry_base_ms: int = Field(
        default=1_000, description="First wait after placement found no seats"
    )
    placement_retry_max_ms: int = Field(default=60_000, description="Longest such wait")
    retention_ms: int = Field(
        default=7 * 24 * 3_600_000, description="Finished workloads are remembered for so long"
    )
    retention_count: int = Field(
        default=20_000, description="And at most so many of them in a partition"
    )
    decisions_max: int = Field(default=1_000, description="Workloads looked at in one commit")
