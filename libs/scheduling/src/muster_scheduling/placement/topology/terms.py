"""What a topology request comes to on a given topology (R-82)."""

from dataclasses import dataclass, field
from itertools import pairwise

from muster_domain.policy import Policy
from muster_domain.workload import SliceConstraint, TopologyMode, TopologyRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyOptions:
    """Kueue's feature gates for placement, with Kueue's defaults."""

    least_free_when_unconstrained: bool = True
    inner_slices: bool = True
    share_between_flavors: bool = True
    keep_pod_owned: bool = True
    preferred_affinity: bool = False
    balanced: bool = False
    elastic: bool = False


def topology_options(policy: Policy) -> TopologyOptions:
    """The switches that an installation's policy sets."""
    return TopologyOptions(
        balanced=policy.balanced_topology,
        least_free_when_unconstrained=policy.least_free_topology,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """A request in numbers. Levels are counted from 0, the widest.

    `inner_sizes` are the slice sizes of levels below `slice_level`, where there are any.
    """

    count: int
    leaders: int = 0
    level: int
    slice_level: int
    slice_size: int = 1
    inner_sizes: dict[int, int] = field(default_factory=dict[int, int])
    required: bool = False
    unconstrained: bool = False

    @property
    def slices(self) -> int:
        """How many whole slices are asked for."""
        return self.count // self.slice_size


def slice_size(request: TopologyRequest | None) -> int:
    """How many pods sit in one domain of the slice level; 1 without slices."""
    return request.slices[0].size if request is not None and request.slices else 1


class UnusableRequest(Exception):
    """The request does not fit the topology's levels; says why."""


def resolve(
    labels: tuple[str, ...],
    request: TopologyRequest | None,
    count: int,
    *,
    leaders: int = 0,
    options: TopologyOptions | None = None,
) -> Terms:
    """The terms of a request; without one the pods may sit anywhere (implied by the queue).

    Raises `UnusableRequest`.
    """
    slices = request.slices if request is not None else ()
    if any(part.size < 1 for part in slices):
        raise UnusableRequest("slices have no size")
    level = _requested_level(labels, request)
    slice_level = _number(labels, slices[0].node_label) if slices else len(labels) - 1
    if level > slice_level:
        raise UnusableRequest(
            f"slices of {labels[slice_level]} are wider than the {labels[level]} asked for"
        )
    inner = (options or TopologyOptions()).inner_slices
    return Terms(
        count=count,
        leaders=leaders,
        level=level,
        slice_level=slice_level,
        slice_size=slice_size(request),
        inner_sizes=_inner_sizes(labels, slices, slice_level) if inner else {},
        required=request is not None and request.mode is TopologyMode.REQUIRED,
        unconstrained=request is None or request.mode is TopologyMode.UNCONSTRAINED,
    )


def _requested_level(labels: tuple[str, ...], request: TopologyRequest | None) -> int:
    if request is not None and request.node_label:
        return _number(labels, request.node_label)
    return 0 if request is not None and request.slices else len(labels) - 1


def _number(labels: tuple[str, ...], label: str) -> int:
    if label not in labels:
        raise UnusableRequest(f"{label} is not a level of the topology")
    return labels.index(label)


def _inner_sizes(
    labels: tuple[str, ...], slices: tuple[SliceConstraint, ...], slice_level: int
) -> dict[int, int]:
    sizes: dict[int, int] = {}
    above = slice_level
    for outer, inner in pairwise(slices):
        level = _number(labels, inner.node_label)
        if level <= above:
            raise UnusableRequest(f"slices of {inner.node_label} are not below {labels[above]}")
        if outer.size % inner.size:
            raise UnusableRequest(f"slices of {inner.size} do not divide slices of {outer.size}")
        sizes |= dict.fromkeys(range(above + 1, level + 1), inner.size)
        above = level
    return sizes
