"""The floor as a whole: the domains of its topologies, and the largest gang that each would seat.

Placement answers. Where each node is, `NodeRow.domains` says.
"""

from collections.abc import Mapping
from dataclasses import dataclass

DOMAINS_PAGE_MAX = 400
PODS_ASKED_MAX = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainsQuestion:
    """Which part of the list of domains, and the pods whose largest gangs are wanted.

    `pods` are the milli-units that one pod asks for, by resource; without any the answer is about
    the usual ones: pods of 1, 2, 4 and 8 cards with the cpu and memory that come with a card.
    """

    pods: tuple[Mapping[str, int], ...] = ()
    limit: int = DOMAINS_PAGE_MAX
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainRow:
    """A domain: nodes of a Topology with the same labels down to a level, or a HyperNode.

    The whole floor is a domain of no topology, with an empty path. `topology` is the Topology's
    name, or `HyperNode`; `level` the label, or the tier. `path` are the values, or the names of
    HyperNodes, from the widest domain down. `free_milli` is of the nodes that are ready; `largest`
    are the largest gangs that would find seats in it now, one for each of the page's `pods`.
    """

    topology: str
    level: str
    path: tuple[str, ...]
    nodes: int
    ready: int
    allocatable_milli: Mapping[str, int]
    free_milli: Mapping[str, int]
    largest: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainPage:
    """The whole floor, each Topology by name, HyperNodes; a domain before those inside it.

    `total` counts all domains.
    """

    pods: tuple[Mapping[str, int], ...]
    domains: tuple[DomainRow, ...]
    total: int
