"""Who goes first where LocalQueues take turns by recent use, as people read it."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRow:
    """A LocalQueue of a ClusterQueue that takes turns by recent use; `place` 0 goes first.

    `consumed_milli` has decayed up to `updated_ms`; `penalty_milli` is of workloads let in since.
    """

    local_queue: str
    place: int
    weight_milli: int
    consumed_milli: Mapping[str, int]
    penalty_milli: Mapping[str, int]
    updated_ms: int
