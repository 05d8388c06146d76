"""The outcome of flavor assignment: which flavor for which resource, and why not the others.

These are made for every flavor that is looked at. So they are not frozen, though nobody changes
them, and begin with a plain `dict` or `list`, which is made ten times as fast as a generic one.
"""

from dataclasses import dataclass, field, replace

from muster_domain.conditions import PendingReason
from muster_domain.nodes import TopologyAssignment
from muster_domain.states import Admission, PodSetAdmission
from muster_scheduling.admission.modes import Mode, Suit
from muster_scheduling.placement.topology.find import TopologyPodSet
from muster_scheduling.preemption.victims import Wanted
from muster_scheduling.quota import FlavorResource
from muster_scheduling.snapshot.board import Seats
from muster_scheduling.snapshot.workloads import ScanBookmark


@dataclass(slots=True)
class Choice:
    """One resource's flavor. `tried_index` is where the scan stopped, -1 at the last flavor.

    `hopeless`: somebody must give way for it, and nobody can.
    """

    flavor: str
    mode: Mode
    borrow: int
    tried_index: int = -1
    hopeless: bool = False


@dataclass(slots=True)
class ResourceVerdict:
    """What one flavor said about one resource, in milli-units.

    `requested` includes what earlier pod sets were given (`assumed`).
    """

    resource: str
    suit: Suit
    requested: int
    assumed: int
    nominal: int
    used: int
    available: int
    maximum: int
    borrow: int
    reason: PendingReason | None = None


@dataclass(slots=True)
class Attempt:
    """One flavor looked at for a pod set. `obstacle` says why it was not even tried."""

    flavor: str
    suit: Suit
    borrow: int
    reason: PendingReason | None
    obstacle: str = ""
    verdicts: tuple[ResourceVerdict, ...] = ()


@dataclass(slots=True)
class PodSetAssignment:
    """Flavors and milli-units of one pod set."""

    name: str
    count: int
    requests: dict[str, int]
    choices: dict[str, Choice]
    attempts: list[Attempt]
    reason: PendingReason | None = None
    problem: str = ""

    @property
    def mode(self) -> Mode:
        """The worst over its resources; a pod set that asks nothing fits."""
        if self.reason is not None:
            return Mode.NO_FIT
        return min([choice.mode for choice in self.choices.values()], default=Mode.FIT)


@dataclass(slots=True)
class Assignment:
    """Flavors of a whole workload. `borrowing` is the highest borrow level of any resource.

    Where admission seats workloads itself, `seats` are what it charges; `placed` where all pods of
    a workload sit that only changed its seats. `held` is what a slice that it takes over
    (`replaced`) has already: `usage` is what is asked beyond it.
    """

    pod_sets: list[PodSetAssignment] = field(default_factory=list)
    usage: dict[FlavorResource, int] = field(default_factory=dict)
    borrowing: int = 0
    mode: Mode = Mode.NO_FIT
    reason: PendingReason | None = None
    bookmark: ScanBookmark | None = None
    replaced: str = ""
    held: tuple[PodSetAdmission, ...] = ()
    wanted_seats: dict[str, list[TopologyPodSet]] = field(default_factory=dict)
    seats: tuple[Seats, ...] = ()
    placed: dict[str, TopologyAssignment] = field(default_factory=dict)

    @property
    def need(self) -> frozenset[FlavorResource]:
        """The pairs for which somebody must give way."""
        return frozenset(
            (choice.flavor, resource)
            for pod_set in self.pod_sets
            for resource, choice in pod_set.choices.items()
            if choice.mode is Mode.PREEMPT
        )

    @property
    def hopeless(self) -> bool:
        """Whether preemption was asked and could not help some resource."""
        return any(
            choice.hopeless for pod_set in self.pod_sets for choice in pod_set.choices.values()
        )

    def wanted(self, cluster_queue: str) -> Wanted:
        """The assignment as a question to victim search."""
        return Wanted(cluster_queue=cluster_queue, usage=self.usage, need=self.need)

    def asked(self, cluster_queue: str) -> Admission:
        """The part of the grant that is not held yet."""
        granted = self.admission(cluster_queue)
        held = {pod_set.name: pod_set for pod_set in self.held}
        pod_sets = tuple(_beyond(pod_set, held.get(pod_set.name)) for pod_set in granted.pod_sets)
        return replace(granted, pod_sets=pod_sets)

    def admission(self, cluster_queue: str) -> Admission:
        """The grant that this assignment amounts to."""
        return Admission(
            cluster_queue=cluster_queue,
            pod_sets=tuple(
                PodSetAdmission(
                    name=pod_set.name,
                    count=pod_set.count,
                    flavors={
                        resource: choice.flavor for resource, choice in pod_set.choices.items()
                    },
                    usage={
                        resource: pod_set.requests[resource]
                        for resource in pod_set.choices
                        if resource in pod_set.requests
                    },
                )
                for pod_set in self.pod_sets
            ),
        )


def _beyond(granted: PodSetAdmission, held: PodSetAdmission | None) -> PodSetAdmission:
    """What a pod set gets more than it has."""
    if held is None:
        return granted
    usage = {name: milli - held.usage.get(name, 0) for name, milli in granted.usage.items()}
    return replace(granted, count=granted.count - held.count, usage=usage)
