"""What was worked out once and is asked for again: the view keeps it with what it holds for."""

from dataclasses import dataclass
from enum import Enum, auto

from muster_domain.conditions import PreemptionReason
from muster_scheduling.snapshot.catalog import Group
from muster_scheduling.snapshot.workloads import AdmittedWorkload, PendingWorkload


@dataclass(frozen=True, slots=True)
class GroupAsk:
    """What is asked of one resource group, in milli-units; `resource` is the first of it.

    `barred` says by flavor why the workload's shape may not use it, empty where it may.
    """

    group: Group
    resource: str
    wanted: dict[str, int]
    barred: list[str]


@dataclass(frozen=True, slots=True)
class UnitAsk:
    """What pod sets that share their flavors ask together; nobody has the `uncovered` resources."""

    unit: list[int]
    groups: list[GroupAsk]
    uncovered: list[str]


@dataclass(frozen=True, slots=True)
class Asks:
    """What a workload asks of a ClusterQueue, by pod set and by unit. Nobody changes it."""

    sizes: list[int]
    requests: list[dict[str, int]]
    units: list[UnitAsk]


class Possibility(Enum):
    """What preemption could do for one (flavor, resource)."""

    NO_CANDIDATES = auto()
    PREEMPT = auto()
    RECLAIM = auto()


@dataclass(frozen=True, slots=True)
class Victim:
    """A workload that must give way, and by what right."""

    workload: AdmittedWorkload
    reason: PreemptionReason

    @property
    def id(self) -> str:
        """Id of the workload."""
        return self.workload.id


@dataclass(frozen=True, slots=True)
class Answer:
    """What was found for `preemptor`, which lacked `amount` of a pair, at a mark of its tree."""

    preemptor: PendingWorkload
    amount: int
    mark: object
    victims: list[Victim]
    possibility: Possibility
    borrow: int
