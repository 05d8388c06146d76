"""network-topology-aware: gangs sit close together in the tree of HyperNodes (T1-T9).

Which HyperNodes a job may try, fuller ones first; nodes near the gang's others first. Pods without
a topology go where it is full, to keep empty domains whole. Arguments: `weight` 1,
`hypernode.binpack.cpu` 1, `hypernode.binpack.memory` 1, `hypernode.binpack.resources`,
`hypernode.binpack.normal-pod.enable` true, `hypernode.binpack.normal-pod.fading` 0.8.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from muster_domain.quantity import Resources
from muster_domain.volcano_scheduler import PluginOption
from muster_scheduling.placement.columns import Mask, Vector
from muster_scheduling.volcano.amounts import SCALE, total_of
from muster_scheduling.volcano.arguments import Arguments
from muster_scheduling.volcano.job import HELD, Job, SubJob, Task
from muster_scheduling.volcano.plugins.binpack import binpack_weights
from muster_scheduling.volcano.session import Session
from muster_scheduling.volcano.tree import ROOT

_FULL = 100 * SCALE


def open_network_topology(session: Session, option: PluginOption) -> None:
    """Register gradients and scores."""
    plugin = _NetworkTopology(session, Arguments(option.arguments))
    session.points.gradient.add(option, plugin.gradient)
    session.points.hyper_node_score.add(option, plugin.hyper_node_scores)
    session.points.node_score.add(option, plugin.node_scores)
    session.points.allocated.add(option, plugin.gain)
    session.points.deallocated.add(option, plugin.lose)


class _NetworkTopology:
    def __init__(self, session: Session, arguments: Arguments) -> None:
        self._session = session
        self._weight_milli = arguments.milli("weight", 1000, at_least=0)
        self._weights = binpack_weights(arguments, "hypernode.binpack")
        self._normal = arguments.flag("hypernode.binpack.normal-pod.enable", default=True)
        self._fading_milli = arguments.milli("hypernode.binpack.normal-pod.fading", 800, at_least=0)
        names = sorted(set(session.tree.leaves))
        self._leaf_names: list[str] = names
        number = {name: place for place, name in enumerate(names)}
        self._leaf_of: Vector = np.array([number[leaf] for leaf in session.tree.leaves], np.int64)
        self._placed: dict[str, dict[str, int]] = {}
        for job in session.jobs.values():
            for task in job.in_status(*sorted(HELD)):
                self.gain(task)

    def gradient(
        self,
        job: Job,
        sub_job: SubJob | None,
        inside: str,
        make_room: bool,  # noqa: FBT001
    ) -> list[list[str]]:
        """HyperNodes within what is allowed, by tier, lowest first; widest first to make room."""
        limit = job.limit if sub_job is None else sub_job.limit
        if limit is None or limit.tier is None:
            return [[inside]]
        tree = self._session.tree
        held = job.hyper_node if sub_job is None else sub_job.hyper_node
        root = tree.search_root(inside, limit.tier, held)
        by_tier: dict[int, list[str]] = {}
        for name in tree.below(root) if root else ():
            tier = tree.tier(name)
            if tier <= limit.tier and (held or self._could_hold(job, sub_job, name, make_room)):
                by_tier.setdefault(tier, []).append(name)
        return [by_tier[tier] for tier in sorted(by_tier, reverse=make_room)]

    def hyper_node_scores(
        self, sub_job: SubJob, tried: Mapping[str, Sequence[Task]]
    ) -> Mapping[str, int]:
        """How full each HyperNode would be; of the fullest, where more of the job is (T5)."""
        scores = {
            name: self._fullness(name, total_of(task.requests for task in tasks))
            for name, tasks in tried.items()
        }
        best = max(scores.values(), default=0)
        if sum(points == best for points in scores.values()) > 1:
            for name, points in scores.items():
                if points == best:
                    scores[name] += self._presence(sub_job.job, name)
        return {name: points * self._weight_milli // 1000 for name, points in scores.items()}

    def node_scores(self, task: Task, among: Mask) -> Vector:
        """Nodes close to the gang's others (T6), or in busy domains for a pod on its own (T7)."""
        job = task.gang
        bound = job.limit or (task.sub_job.limit if task.sub_job is not None else None)
        if bound is not None:
            scores = self._near(task, among)
        elif self._normal and len(self._session.tree.domains) > 1:
            scores = self._busy(task)
        else:
            return np.zeros(len(self._session.nodes), np.int64)
        return scores * self._weight_milli // 1000

    def _could_hold(self, job: Job, sub_job: SubJob | None, name: str, make_room: bool) -> bool:  # noqa: FBT001
        """Whether a HyperNode could hold a job's minimum at all (T4)."""
        wanted = job.group.min_resources
        if sub_job is not None or not wanted:
            return True
        nodes = self._session.nodes
        where = self._session.tree.domains[name].nodes & nodes.ready
        sheets = (nodes.allocatable,) if make_room else (nodes.idle, nodes.future)
        return any(
            all(
                nodes.sum_of(sheet, resource, where) >= quantity
                for resource, quantity in wanted.items()
                if quantity
            )
            for sheet in sheets
        )

    def _fullness(self, name: str, asked: Resources) -> int:
        """The mean of what would be used of each resource, by weight; 0 where it would not fit."""
        nodes = self._session.nodes
        where = self._session.tree.domains[name].nodes
        total = weights = 0
        for resource, weight in self._weights.items():
            if not asked.get(resource):
                continue
            there = nodes.sum_of(nodes.allocatable, resource, where)
            after = nodes.sum_of(nodes.used, resource, where) + asked[resource]
            if after > there:
                return 0
            total += weight * after * SCALE // there
            weights += weight
        return 100 * total // weights if weights else 0

    def gain(self, task: Task) -> None:
        """Count a task where it sits."""
        self._count(task, 1)

    def lose(self, task: Task) -> None:
        """Count a task no more."""
        self._count(task, -1)

    def _count(self, task: Task, by: int) -> None:
        row = self._session.nodes.row.get(task.node)
        if row is None or task.job is None:
            return
        leaf = self._session.tree.leaves[row]
        for key in sorted({task.job.key, task.sub_job.key if task.sub_job else task.job.key}):
            counts = self._placed.setdefault(key, {})
            counts[leaf] = counts.get(leaf, 0) + by

    def _used(self, key: str) -> list[str]:
        """The lowest HyperNodes that a job or sub-job uses."""
        return sorted(leaf for leaf, count in self._placed.get(key, {}).items() if count > 0)

    def _presence(self, job: Job, name: str) -> int:
        """The part of a job that sits in a HyperNode, of 100."""
        tree = self._session.tree
        counts = self._placed.get(job.key, {})
        there = sum(count for leaf, count in counts.items() if tree.inside(leaf, name))
        return _FULL * there // max(1, len(job.tasks))

    def _near(self, task: Task, among: Mask) -> Vector:
        """By the closest of the HyperNodes that the gang uses; all alike while it uses none."""
        used = self._used(task.sub_job.key) if task.sub_job is not None else []
        used = used or self._used(task.gang.key)
        if not used:
            return np.zeros(len(self._session.nodes), np.int64)
        points = np.zeros(len(self._leaf_names), np.int64)
        asked = sorted({int(number) for number in self._leaf_of[among]})
        points[asked] = [self._closeness(self._leaf_names[number], used) for number in asked]
        best = [number for number in asked if points[number] == points[asked].max()]
        if int(np.isin(self._leaf_of[among], best).sum()) > 1:
            counts = self._placed.get(task.gang.key, {})
            for number in best:
                there = counts.get(self._leaf_names[number], 0)
                points[number] += _FULL * there // max(1, len(task.gang.tasks))
        return points[self._leaf_of]

    def _closeness(self, leaf: str, used: Sequence[str]) -> int:
        tree = self._session.tree
        if leaf in used:
            return _FULL
        low, high = tree.tiers[0], tree.tiers[-1]
        above = {name for other in used for name in tree.ancestors(other)}
        nearest = next(tree.tier(name) for name in tree.ancestors(leaf) if name in above)
        return _FULL * (high - nearest) // (high - low) if high > low else _FULL

    def _busy(self, task: Task) -> Vector:
        """The fullness of the domains around each node, the wider the less it counts (T7).

        The whole cluster is one of them; a node in no other counts as full.
        """
        session = self._session
        around = {name: self._fullness(name, task.requests) for name in session.tree.domains}
        by_leaf: list[int] = []
        for leaf in self._leaf_names:
            total, factors = 0, 0
            for steps, name in enumerate(session.tree.ancestors(leaf)):
                factor = SCALE * self._fading_milli**steps // 1000**steps
                total += around[name] * factor
                factors += factor
            by_leaf.append(_FULL if leaf == ROOT else total // factors)
        return np.array(by_leaf, np.int64)[self._leaf_of]
