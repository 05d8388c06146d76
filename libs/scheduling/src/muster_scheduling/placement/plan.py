"""One pod set against the nodes as they are, and the seats found for all sets."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from muster_domain.workload import TopologyMode
from muster_scheduling.placement.columns import Columns, Shape, Vector
from muster_scheduling.placement.domains import Domains, domains
from muster_scheduling.placement.eligibility import Eligibility, eligibility
from muster_scheduling.placement.geometry import Ask, ask_of
from muster_scheduling.placement.record import pod_usage
from muster_scheduling.placement.request import PodSetRequest
from muster_scheduling.placement.seating import Seats
from muster_scheduling.placement.shares import GPU, Share, share_of

Unit = tuple[int, ...]
"""Pod sets seated in one step: a set by itself, or the workers and the leader of a group."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One pod set against the nodes as they are: `fits` is how many of its pods each can seat.

    `share` is the part of cards that a pod takes, `instances` are the MIG instances; `loss`, where
    nodes are ranked by it, orders them by what a pod costs there.
    """

    pod_set: PodSetRequest
    shape: Shape
    eligible: Eligibility
    domains: Domains
    fits: Vector
    share: Share | None = None
    loss: Vector | None = None
    instances: Ask = ()

    @property
    def required(self) -> bool:
        """Whether all its pods must share a topology domain."""
        topology = self.pod_set.topology
        return topology is not None and topology.mode is TopologyMode.REQUIRED

    def sits_apart(self, other: "Plan") -> bool:
        """Whether what one leaves to the other on a node is not counted.

        So where both take cards and one of them in shares, or one wants to be near in a NUMA zone.
        """
        if self.pod_set.near is not None or other.pod_set.near is not None:
            return True
        if self.share is None and other.share is None:
            return False
        return all(one.share or one.pod_set.requests.get(GPU) for one in (self, other))


@dataclass(frozen=True, slots=True)
class Seating:
    """Seats by pod set, in request order. `complete` when every set has its least."""

    seats: tuple[Seats, ...]
    complete: bool

    @property
    def members(self) -> int:
        """How many pods have a seat."""
        return sum(seats.members for seats in self.seats)


def plan(columns: Columns, pod_set: PodSetRequest, excluded: frozenset[str]) -> Plan:
    """Evaluate one pod set against all nodes."""
    shape = tuple(sorted(pod_usage(pod_set.requests).items()))
    share = share_of(pod_set.requests)
    eligible = eligibility(columns, pod_set, excluded)
    fits = columns.fitting(shape, share)
    near = pod_set.near
    if near is not None and near.strict:
        fits = np.minimum(fits, columns.zones.pods_fitting(near))
    instances = ask_of(pod_set.requests)
    if len(instances) > 1:
        fits = columns.dividing(instances, fits)
    return Plan(
        pod_set=pod_set,
        shape=shape,
        eligible=eligible,
        domains=domains(columns, pod_set.topology_levels),
        fits=np.where(eligible.usable, fits, 0),
        share=share,
        instances=instances,
    )


def units_of(plans: Sequence[Plan]) -> list[Unit]:
    """The units of a gang. In a group the smaller set leads, or the second of two equal ones."""
    groups: dict[str | int, list[int]] = {}
    for index, found in enumerate(plans):
        topology = found.pod_set.topology
        name = topology.pod_set_group if topology is not None else ""
        groups.setdefault(name or index, []).append(index)
    return [
        tuple(sorted(indices, key=lambda index: -plans[index].pod_set.count))
        for indices in groups.values()
    ]
