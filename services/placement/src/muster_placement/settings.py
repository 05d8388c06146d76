"""What placement is told by its environment."""

from pydantic import Field

from muster_domain.queues import PlacementPolicy
from muster_runtime.settings import ServiceSettings


class PlacementSettings(ServiceSettings):
    """Silence is measured from the last heartbeat, or from taking over if that is later."""

    placement_policy: PlacementPolicy = Field(
        default=PlacementPolicy.BINPACK,
        description="binpack keeps nodes whole, spread levels them, fragmentation keeps what is "
        "free usable for the jobs seen so far; the flavor annotation muster.dev/placement-policy "
        "goes before it",
    )
    node_suspect_ms: int = Field(
        default=10_000, description="A node silent for so long takes no new pods"
    )
    node_lease_ms: int = Field(
        default=20_000, description="An agent cut off for so long has stopped its pods by itself"
    )
    node_fence_margin_ms: int = Field(
        default=5_000, description="So much later its gangs are evicted and placed elsewhere"
    )
    stop_grace_ms: int = Field(
        default=10_000, description="Between asking a pod to stop and killing it"
    )
    placements_max: int = Field(default=256, description="Gangs looked at in one commit")
