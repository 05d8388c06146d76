"""Topologies as admission sees them when it seats workloads itself (R-36, R-80 to R-88).

In the house placement seats workloads after quota is reserved. Where everything is decided in one
process, as Kueue does it, the board keeps what is used of each topology and is asked for seats.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from muster_domain.nodes import TopologyAssignment
from muster_domain.quantity import Resources, add, scale
from muster_scheduling.placement.topology.find import (
    NoTopology,
    Replacement,
    TopologyPodSet,
    find_assignments,
)
from muster_scheduling.placement.topology.snapshot import TopologySnapshot
from muster_scheduling.placement.topology.terms import TopologyOptions
from muster_scheduling.quota import Journal


@dataclass(frozen=True, slots=True, kw_only=True)
class Seats:
    """Where one pod set sits in one flavor; `requests` are milli-units of one pod."""

    flavor: str
    pod_set: str
    assignment: TopologyAssignment
    requests: Resources


Wanted = Mapping[str, Sequence[TopologyPodSet]]
"""Pod sets that need seats, by flavor."""

FoundSeats = dict[str, TopologyAssignment | NoTopology]
"""Seats by pod set; after a refusal those behind it have no entry."""


class TopologyBoard:
    """The topology of every flavor that has one, with its usage. Changes are journalled."""

    def __init__(
        self, snapshots: Mapping[str, TopologySnapshot], options: TopologyOptions | None = None
    ) -> None:
        self._snapshots = dict(sorted(snapshots.items()))
        self._options = options or TopologyOptions()
        self._journal = Journal()

    def attach(self, journal: Journal) -> None:
        """Write changes to this journal from now on."""
        self._journal = journal

    def charge(self, seats: Iterable[Seats]) -> None:
        """Count seats as taken, in every flavor that has the same machines."""
        self._change(seats, 1)

    def release(self, seats: Iterable[Seats]) -> None:
        """Undo `charge`."""
        self._change(seats, -1)

    def fits(self, seats: Iterable[Seats]) -> bool:
        """Whether these seats are free."""
        needed: dict[tuple[str, int], dict[str, int]] = {}
        for seat in seats:
            snapshot = self._snapshots.get(seat.flavor)
            if snapshot is None or snapshot.stale(seat.assignment) is not None:
                return False
            for leaf, usage in snapshot.usage(seat.assignment, seat.requests).items():
                key = (seat.flavor, leaf)
                needed[key] = add(needed.get(key, {}), usage)
        return all(
            self._snapshots[flavor].capacity.holds(leaf, usage)
            for (flavor, leaf), usage in needed.items()
        )

    def find(
        self, wanted: Wanted, *, empty: bool = False, replacement: Replacement | None = None
    ) -> FoundSeats:
        """Seats for the pod sets of one workload, flavor by flavor.

        `empty` looks for seats as if nobody sat anywhere; `replacement` moves a lost node's pods.
        """
        found: FoundSeats = {}
        taken: list[Seats] = []
        for flavor, pod_sets in wanted.items():
            snapshot = self._snapshots.get(flavor)
            if snapshot is None:
                missing = NoTopology(reason=f"flavor {flavor} has no topology")
                return {**found, **{one.name: missing for one in pod_sets[:1]}}
            answer = find_assignments(
                snapshot,
                pod_sets,
                self._options,
                assumed=self._assumed(snapshot, taken),
                empty=empty,
                replacement=replacement,
            )
            found |= answer
            if any(isinstance(one, NoTopology) for one in answer.values()):
                break
            taken += seats_of(answer, {flavor: pod_sets})
        return found

    def _assumed(self, snapshot: TopologySnapshot, taken: list[Seats]) -> dict[int, Resources]:
        """What the workload uses of these leaves through other flavors."""
        assumed: dict[int, Resources] = {}
        if snapshot.by_node:
            for seat in taken:
                for leaf, usage in snapshot.usage(seat.assignment, seat.requests).items():
                    assumed[leaf] = add(assumed.get(leaf, {}), usage)
        return assumed

    def _change(self, seats: Iterable[Seats], sign: int) -> None:
        for seat in seats:
            for flavor, snapshot in self._snapshots.items():
                shared = snapshot.by_node and self._options.share_between_flavors
                if flavor != seat.flavor and not shared:
                    continue
                for leaf, usage in snapshot.usage(seat.assignment, seat.requests).items():
                    capacity, change = snapshot.capacity, scale(usage, sign)
                    before = capacity.charge(leaf, change)
                    undo = (capacity.set_used, (leaf, before))
                    self._journal.called(undo, (capacity.charge, (leaf, change)))


def seats_of(found: FoundSeats, wanted: Wanted) -> tuple[Seats, ...]:
    """The seats that were found, as the board counts them."""
    return tuple(
        Seats(flavor=flavor, pod_set=one.name, assignment=assignment, requests=one.requests)
        for flavor, pod_sets in wanted.items()
        for one in pod_sets
        if isinstance(assignment := found.get(one.name), TopologyAssignment)
    )


def refusal(found: FoundSeats) -> tuple[str, NoTopology] | None:
    """The pod set that found no seats, and why."""
    for pod_set, answer in found.items():
        if isinstance(answer, NoTopology):
            return pod_set, answer
    return None
