"""numa-aware: processors of one pod near each other, as the kubelet will place them (2.18).

Applies to pods of the class Guaranteed with a policy in the annotation
`volcano.sh/numa-topology-policy`: `best-effort`, `restricted` or `single-numa-node`. A node must
have the static cpu manager and the same topology policy. On placement's own nodes it applies to
every pod with such a policy, which is kept to a zone as placement does it. Argument `weight` (1):
nodes on which the pod touches fewer NUMA nodes score more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from muster_domain.volcano import NumaTopology
from muster_domain.volcano_scheduler import PluginOption
from muster_scheduling.placement.columns import Mask, Vector
from muster_scheduling.volcano.amounts import SCALE
from muster_scheduling.volcano.arguments import Arguments
from muster_scheduling.volcano.job import Task
from muster_scheduling.volcano.near_zones import NearZones
from muster_scheduling.volcano.points import Screening
from muster_scheduling.volcano.session import Session

POLICY = "volcano.sh/numa-topology-policy"
BEST_EFFORT, RESTRICTED, SINGLE = "best-effort", "restricted", "single-numa-node"
_POLICIES = (BEST_EFFORT, RESTRICTED, SINGLE)
_STATIC = "static"


@dataclass(frozen=True, slots=True)
class Hint:
    """NUMA nodes that could serve something, as a bit mask; `preferred` if none fewer could.

    A mask of `None` does not care.
    """

    mask: int | None
    preferred: bool


def open_numa_aware(session: Session, option: PluginOption) -> None:
    """Register the filter, the score, and what is given out."""
    plugin = _NumaAware(session, Arguments(option.arguments).integer("weight", 1))
    session.points.screen.add(option, plugin.screen)
    session.points.node_score.add(option, plugin.score)
    session.points.allocated.add(option, plugin.give)
    session.points.deallocated.add(option, plugin.take_back)
    if session.snapshot.columns is None:
        return
    zones = NearZones(session)
    session.points.screen.add(option, zones.screen)
    session.points.second_look.add(option, zones.screen)
    session.points.allocated.add(option, zones.give)
    session.points.deallocated.add(option, zones.take_back)


def cpu_hints(topology: NumaTopology, free: frozenset[int], count: int) -> list[Hint]:
    """The masks of NUMA nodes with enough free processors for one container.

    Preferred are those of the smallest size that could serve it by capacity.
    """
    numbers = sorted({place.numa for place in topology.cpus})
    capacity = {n: sum(place.numa == n for place in topology.cpus) for n in numbers}
    available = {
        n: sum(place.numa == n and place.cpu in free for place in topology.cpus) for n in numbers
    }
    smallest = len(numbers)
    found: list[tuple[int, int]] = []
    for size in range(1, len(numbers) + 1):
        for chosen in combinations(numbers, size):
            if sum(capacity[n] for n in chosen) >= count:
                smallest = min(smallest, size)
            if sum(available[n] for n in chosen) >= count:
                found.append((size, sum(1 << n for n in chosen)))
    return [Hint(mask, size == smallest) for size, mask in found]


def merge(hints: Sequence[Sequence[Hint]], policy: str, everything: int) -> Hint | None:
    """The best common hint of several, under a policy; `None` where the policy refuses.

    Best is preferred by all, then narrow, then low.
    """
    if policy == SINGLE:
        hints = [
            [h for h in one if h.preferred and (h.mask is None or h.mask.bit_count() == 1)]
            for one in hints
        ]
    best = Hint(everything, preferred=False)
    for chosen in product(*hints):
        mask = everything
        for hint in chosen:
            mask &= everything if hint.mask is None else hint.mask
        candidate = Hint(mask, all(hint.preferred for hint in chosen))
        if mask and _rank(candidate) < _rank(best):
            best = candidate
    if policy != BEST_EFFORT and not best.preferred:
        return None
    return best


def _rank(hint: Hint) -> tuple[bool, int, int]:
    mask = hint.mask or 0
    return not hint.preferred, mask.bit_count(), mask


def pick_cpus(
    topology: NumaTopology, free: frozenset[int], count: int, mask: int
) -> tuple[int, ...] | None:
    """Processors for one container: inside the mask first, whole sockets, whole cores, threads."""
    inside = frozenset(p.cpu for p in topology.cpus if p.cpu in free and mask >> p.numa & 1)
    picked = _take(topology, inside, min(count, len(inside)))
    if len(picked) < count:
        picked += _take(topology, free - inside, count - len(picked))
    return tuple(sorted(picked)) if len(picked) == count else None


def _take(topology: NumaTopology, free: frozenset[int], count: int) -> list[int]:
    left = set(free)
    picked: list[int] = []
    for unit in ("socket", "core", "cpu"):
        groups: dict[int, list[int]] = {}
        sizes: dict[int, int] = {}
        for place in topology.cpus:
            number = {"socket": place.socket, "core": place.core, "cpu": place.cpu}[unit]
            sizes[number] = sizes.get(number, 0) + 1
            if place.cpu in left:
                groups.setdefault(number, []).append(place.cpu)
        for number in sorted(groups):
            whole = len(groups[number]) == sizes[number]
            if whole and len(picked) + len(groups[number]) <= count:
                picked += groups[number]
                left -= set(groups[number])
    return picked


class _NumaAware:
    def __init__(self, session: Session, weight: int) -> None:
        self._session = session
        self._weight = weight
        self._topologies = {found.node: found for found in session.snapshot.numa}
        self._free = {found.node: found.free_cpus for found in session.snapshot.numa}
        self._given: dict[str, tuple[str, frozenset[int]]] = {}

    def screen(self, task: Task, screening: Screening) -> None:
        """Refuse nodes that cannot serve a pod's policy."""
        policy = self._policy(task)
        if not policy:
            return
        able = np.zeros(len(self._session.nodes), np.bool_)
        ready = np.zeros(len(self._session.nodes), np.bool_)
        for row, name in enumerate(self._session.nodes.names):
            ready[row] = self._ready(name, policy)
            able[row] = ready[row] and self._assign(task, name, policy) is not None
        screening.refuse(~ready, "node has another topology policy", final=True)
        screening.refuse(~able, "node cannot keep its processors together")

    def score(self, task: Task, among: Mask) -> Vector:
        """100 less the part of the NUMA nodes touched, of the most touched anywhere."""
        scores: Vector = np.zeros(len(self._session.nodes), np.int64)
        policy = self._policy(task)
        if not policy:
            return scores
        touched: dict[int, int] = {}
        for row in np.flatnonzero(among).tolist():
            name = self._session.nodes.names[row]
            cpus = self._assign(task, name, policy) if self._ready(name, policy) else None
            if cpus is not None:
                places = self._topologies[name].cpus
                touched[row] = len({place.numa for place in places if place.cpu in cpus})
        most = max(touched.values(), default=0)
        for row, count in touched.items():
            scores[row] = self._weight * 100 * SCALE * (most - count) // max(1, most)
        return scores

    def give(self, task: Task) -> None:
        """Remember the processors of a task that got a node."""
        policy = self._policy(task)
        if not policy or not self._ready(task.node, policy):
            return
        cpus = self._assign(task, task.node, policy)
        if cpus is not None:
            self._given[task.key] = (task.node, cpus)
            self._free[task.node] -= cpus

    def take_back(self, task: Task) -> None:
        """Give back what a task was given in this session."""
        given = self._given.pop(task.key, None)
        if given is not None:
            node, cpus = given
            self._free[node] |= cpus

    def _policy(self, task: Task) -> str:
        policy = task.pod.annotations.get(POLICY, "")
        return policy if task.pod.guaranteed and policy in _POLICIES else ""

    def _ready(self, name: str, policy: str) -> bool:
        found = self._topologies.get(name)
        return (
            found is not None
            and found.cpu_manager_policy == _STATIC
            and found.topology_manager_policy == policy
        )

    def _assign(self, task: Task, name: str, policy: str) -> frozenset[int] | None:
        topology, free = self._topologies[name], self._free[name]
        counts = [
            c.get("cpu", 0) // 1000 for c in task.pod.containers if _integral(c.get("cpu", 0))
        ]
        if not counts:
            return frozenset()
        everything = sum(1 << number for number in sorted({p.numa for p in topology.cpus}))
        hints = [cpu_hints(topology, free, count) for count in counts]
        best = merge(hints, policy, everything)
        if best is None:
            return None
        taken: frozenset[int] = frozenset()
        for count in counts:
            picked = pick_cpus(topology, free - taken, count, best.mask or everything)
            if picked is None:
                return None
            taken |= frozenset(picked)
        return taken


def _integral(cpu_milli: int) -> bool:
    return cpu_milli > 0 and cpu_milli % 1000 == 0
