"""What preemption is told by its environment."""

from muster_runtime.settings import ServiceSettings


class PreemptionSettings(ServiceSettings):
    """Nothing beyond what every service is told."""
