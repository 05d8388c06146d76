"""What the cycles of a partition tried, for the metrics; all of it may be lost."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from muster_contracts.stored import Record
from muster_domain.states import Pending, Reserved
from muster_scheduling.admission import Decision, ReserveQuota


class Result(StrEnum):
    """What a decision about those who wait came to."""

    SUCCESS = "success"
    INADMISSIBLE = "inadmissible"


class Recomputed(StrEnum):
    """What became of a preemptor whose victims could not be taken, so that it looked again."""

    NEW_TARGETS = "new_targets"
    DEFERRED_FIT = "deferred_fit"
    SKIPPED = "skipped"


@dataclass(slots=True)
class Attempts:
    """The last cycle, and those who look for victims again.

    `result` is `None` where nobody was looked at. `skipped` counts, by ClusterQueue, those whose
    victims were not to be had in the last cycle that tried anything.
    """

    result: Result | None = None
    skipped: Counter[str] = field(default_factory=Counter[str])
    recomputed: list[tuple[str, Recomputed]] = field(default_factory=list[tuple[str, Recomputed]])
    _again: dict[str, str] = field(default_factory=dict[str, str])
    _refused: Counter[str] = field(default_factory=Counter[str])
    _tried: bool = False

    def begin(self) -> None:
        """A cycle begins."""
        self.result = None
        self._refused = Counter()
        self._tried = False

    def refused(self, record: Record) -> None:
        """The victims proposed for a workload cannot be taken: it looks again."""
        self._tried = True
        self._refused[record.cluster_queue] += 1
        self._settle(record, Recomputed.SKIPPED)
        self._again[record.workload.id] = record.cluster_queue

    def preempting(self, record: Record) -> None:
        """The victims proposed for a workload give way."""
        self._tried = True
        self._settle(record, Recomputed.NEW_TARGETS)

    def without_victims(self, record: Record) -> None:
        """Nobody may give way to a workload."""
        self._settle(record, Recomputed.SKIPPED)

    def decided(self, decision: Decision) -> None:
        """Note whether anybody got quota."""
        if not decision.looked_at:
            return
        self._tried = True
        reserved = any(
            isinstance(effect, ReserveQuota)
            for group in decision.groups
            for effect in group.effects
        )
        self.result = Result.SUCCESS if reserved else Result.INADMISSIBLE

    def end(self, records: dict[str, Record]) -> None:
        """The cycle is over: who looked again and does not wait any more found room or left."""
        if self._tried:
            self.skipped = self._refused
        for workload_id in list(self._again):
            record = records.get(workload_id)
            if record is None or not isinstance(record.state, Pending | Reserved):
                del self._again[workload_id]
            elif isinstance(record.state, Reserved):
                self._settle(record, Recomputed.DEFERRED_FIT)

    def _settle(self, record: Record, outcome: Recomputed) -> None:
        queue = self._again.pop(record.workload.id, None)
        if queue is not None:
            self.recomputed.append((queue, outcome))
