"""Where a workload would find seats now, domain by domain, and what stands in its way there.

Admission says what the workload asks for, and in which flavors it could; placement looks for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster_domain.states import Admission
from muster_domain.workload import Workload

FIT_PAGE_MAX = 200
WAYS_MAX = 8
"""Flavors that are looked at for one workload."""
SITTING_SHOWN = 5
"""Workloads that are named in one domain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedQuestion:
    """Which workload."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a workload asks for, and the quota with which it would seek seats.

    `admissions` is the quota that it holds. Where it waits for some there is one for each flavor of
    its ClusterQueue, in their order, at most `WAYS_MAX`; of one that has ended there is none.
    """

    workload: Workload
    admissions: tuple[Admission, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FitQuestion:
    """Whether, and where, a workload would find seats with each of `admissions`; nothing is held.

    `limit` and `offset` are of the list of domains.
    """

    workload: Workload
    admissions: tuple[Admission, ...]
    limit: int = FIT_PAGE_MAX
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSetAsked:
    """`pods` equal pods, each of which asks for these milli-units, in these flavors.

    `main` is the resource that they are short of first. `level` is the label, or the tier, of which
    they want to share a domain; it is empty where they may sit anywhere. `required` when they sit
    nowhere else.
    """

    name: str
    pods: int
    requests_milli: Mapping[str, int]
    main: str
    flavors: tuple[str, ...]
    level: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way in which the gang could be seated, and the largest gang of its shape that fits now.

    `largest` counts pods, at most `asked`, the number that it wants; with fewer than `enough` it
    does not start. `path` is the domain that seats them, where they must share one. `message` says
    what is in the way; it is empty where nothing is.
    """

    pod_sets: tuple[PodSetAsked, ...]
    asked: int
    enough: int
    largest: int
    path: tuple[str, ...] = ()
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSetFit:
    """How many pods of a set the nodes of a domain would seat now, at most those that it wants.

    `usable` counts the nodes that such a pod may sit on at all; `refused` the others by what
    refused them. `largest_free_milli` is the most of the set's main resource that is free on one
    usable node.
    """

    pods: int
    usable: int
    refused: Mapping[str, int] = field(default_factory=dict[str, int])
    largest_free_milli: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainFit:
    """A domain as `floor.DomainRow` has it, with `fits` by way and by pod set of the way.

    Quantities are of what the workload asks for, in milli-units. `seated` counts its own pods here;
    `sitting` names the others, those with most pods first, of `sitting_total`.
    """

    topology: str
    level: str
    path: tuple[str, ...]
    nodes: int
    ready: int
    allocatable_milli: Mapping[str, int]
    free_milli: Mapping[str, int]
    fits: tuple[tuple[PodSetFit, ...], ...]
    seated: int = 0
    sitting: tuple[str, ...] = ()
    sitting_total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FitPage:
    """The ways, and the domains in the order of `floor.DomainPage`; `total` counts all domains.

    Without ways there is nothing to seek seats for: it has them all, or it has ended.
    """

    ways: tuple[Way, ...]
    domains: tuple[DomainFit, ...]
    total: int
