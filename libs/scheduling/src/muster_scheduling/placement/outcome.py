"""What placement answers: the seats of a whole gang, or why there are none."""

from dataclasses import dataclass
from enum import StrEnum

from muster_domain.conditions import Explanation, UnplaceableReason
from muster_domain.nodes import Placement
from muster_domain.quantity import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatedPodSet:
    """How many pods of a set have seats, and what one of them holds in milli-units."""

    name: str
    count: int
    requests: Resources
    min_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """Everything that a gang holds on the nodes. Binding and releasing it are exact inverses."""

    workload: str
    pod_sets: tuple[SeatedPodSet, ...]
    placement: Placement


class Predicate(StrEnum):
    """What refused a node. A node is counted under the first that refuses it, in this order."""

    EXCLUDED = "excluded"
    NOT_READY = "not ready"
    NODE_SELECTOR = "node selector"
    NODE_AFFINITY = "node affinity"
    TAINT = "untolerated taint"
    TOPOLOGY_LABEL = "topology label"
    RESOURCE = "insufficient"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """How many nodes one predicate refused. `asked_milli` and `largest_free_milli` for RESOURCE."""

    predicate: Predicate
    detail: str
    nodes: int
    asked_milli: int = 0
    largest_free_milli: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """`fitting` of `needed` slices (pods, where no slices are asked for) fit into a topology."""

    fitting: int
    needed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSetVerdict:
    """What one pod set met. `fitting` is how many of its pods the free nodes could seat alone.

    `fitting_in_one_domain` is the same within the best domain of a required topology. `topology` is
    set where the pod set's topology could not seat it even alone.
    """

    name: str
    asked: int
    fitting: int
    nodes: int
    nodes_fitting: int
    fitting_in_one_domain: int | None = None
    topology: Shortfall | None = None
    refusals: tuple[Refusal, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Seats for the whole gang. Nothing is bound until the table is told to."""

    gang: Gang

    @property
    def placement(self) -> Placement:
        """The seats in rank order."""
        return self.gang.placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Unplaceable:
    """No seats. `members_seated` is the largest gang that the search could seat now."""

    reason: UnplaceableReason
    explanation: Explanation
    members_asked: int = 0
    members_seated: int = 0
    pod_sets: tuple[PodSetVerdict, ...] = ()


PlacementOutcome = Placed | Unplaceable
