"""Cards on which several pods take turns: NVIDIA's time-slicing, in the words of its device plugin.

Each card counts as several replicas. Whoever holds one computes in turn with the others and may
use all of the card's memory: nothing keeps one from what another needs.
"""

from collections.abc import Mapping

SHARED_GPU = "nvidia.com/gpu.shared"
"""What one replica counts as, so that nobody gets one who asked for a card."""

REPLICAS = "nvidia.com/gpu.replicas"
"""Node label: how many replicas each card counts as."""

STRATEGY = "nvidia.com/gpu.sharing-strategy"
TIME_SLICING = "time-slicing"


def replicas_on(labels: Mapping[str, str]) -> int:
    """How many pods take turns on each card of such nodes; 1 where cards are not shared so."""
    written = labels.get(REPLICAS, "")
    shared = labels.get(STRATEGY) == TIME_SLICING and written.isascii() and written.isdecimal()
    return max(1, int(written)) if shared else 1
