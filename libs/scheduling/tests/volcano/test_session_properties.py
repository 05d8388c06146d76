"""What holds for every session, whatever the cluster and the plugins."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from muster_domain.queues import VolcanoQueue
from muster_domain.volcano import Pod, PodGroup, PodPhase
from muster_domain.volcano_scheduler import PluginOption, SchedulerConfiguration, Switch
from muster_scheduling.volcano import Plan, SessionSnapshot, run_session

from .builders import gang, node, pod, queue, snapshot

PRIORITIES = {"low": 1, "mid": 5, "high": 9}
ACTIONS = (
    "allocate preempt",
    "allocate reclaim",
    "allocate preempt reclaim backfill",
    "allocate gangpreempt",
    "allocate gangreclaim",
    "allocate gangpreempt gangreclaim backfill",
)
CYCLES_MAX = 12
Gang = tuple[PodGroup, tuple[Pod, ...]]


def configuration(actions: str, sharing: str, *, gangs_break: bool) -> SchedulerConfiguration:
    """Plugins as a chart installs them; `sharing` is the one that shares out among queues."""
    switches = frozenset(Switch)
    on = switches if sharing == "hierarchy" else switches - {Switch.HIERARCHY}
    gangs = switches - {Switch.PREEMPTABLE} if gangs_break else switches
    name = "capacity" if sharing == "hierarchy" else sharing
    return SchedulerConfiguration(
        actions=tuple(actions.split()),
        tiers=(
            (
                PluginOption(name="priority"),
                PluginOption(name="gang", enabled=gangs),
                PluginOption(name="conformance"),
            ),
            (
                PluginOption(name="predicates"),
                PluginOption(name=name, enabled=on),
                PluginOption(name="binpack"),
            ),
        ),
    )


@st.composite
def queues(draw: st.DrawFn) -> list[VolcanoQueue]:
    """Three queues, two of them with a parent, under a root that bounds nothing."""
    choices = {
        "capability": ["cpu=64", "cpu=64", "cpu=5"],
        "deserved": ["cpu=1", "cpu=3", "cpu=5"],
        "guarantee": ["cpu=0", "cpu=1"],
    }
    leaves = [
        queue(
            name,
            weight=draw(st.integers(1, 3)),
            reclaimable=draw(st.sampled_from([True, True, False])),
            priority=draw(st.integers(0, 1)),
            parent=parent,
            **{key: draw(st.sampled_from(values)) for key, values in choices.items()},
        )
        for name, parent in (("a", "lab"), ("b", "lab"), ("c", ""))
    ]
    return [queue("root"), queue("lab"), *leaves]


@st.composite
def jobs(draw: st.DrawFn) -> list[Gang]:
    """Gangs of pods of one or two processors: those that fill two nodes, then some that wait."""
    free = {"n0": 6, "n1": 6}
    made: list[Gang] = []
    waiting = draw(st.integers(1, 2))
    while waiting:
        number, size, cpu = len(made), draw(st.integers(1, 4)), draw(st.integers(1, 2))
        runs = size if max(free.values()) >= cpu else 0
        members: list[Pod] = []
        for index in range(size):
            on = next((n for n in sorted(free) if free[n] >= cpu), "") if index < runs else ""
            if on:
                free[on] -= cpu
            members.append(pod(f"j{number}", f"j{number}-{index}", f"cpu={cpu}", on=on))
        waiting -= not runs
        made.append(
            gang(
                f"j{number}",
                draw(st.integers(1, size)),
                members,
                queue=draw(st.sampled_from("abc")),
                priority_class=draw(st.sampled_from(["low", "low", "mid"] if runs else ["high"])),
                created_at_ms=number,
            )
        )
    return made


@dataclass(frozen=True)
class World:
    """A cluster after a plan: who sits where, who is to leave, who will come."""

    cluster: SessionSnapshot
    plan: Plan

    @property
    def gone(self) -> set[str]:
        return {eviction.pod for eviction in self.plan.evictions}

    def seats(self) -> dict[str, str]:
        """Nodes by pod once everybody has left and come."""
        sits = {one.key: one.node for one in self.cluster.pods if one.node}
        sits |= {bind.pod: bind.node for bind in self.plan.binds}
        sits |= {promise.pod: promise.node for promise in self.plan.pipelines}
        return {key: node_name for key, node_name in sits.items() if key not in self.gone}

    def cpu_by(self, groups: dict[str, str]) -> Counter[str]:
        """Processors in milli-units by the group that each pod is in."""
        asks = {one.key: one.requests["cpu"] for one in self.cluster.pods}
        total: Counter[str] = Counter()
        for key in self.seats():
            total[groups[key]] += asks[key]
        return total

    def next(self) -> SessionSnapshot:
        """The cluster when evicted pods have been made anew and the others have come."""
        seats = self.seats()
        pods = tuple(
            replace(
                one,
                node=seats.get(one.key, ""),
                phase=PodPhase.RUNNING if one.key in seats else PodPhase.PENDING,
            )
            for one in self.cluster.pods
        )
        phases = {change.job: change.after for change in self.plan.phases}
        groups = tuple(
            replace(found, phase=phases.get(found.key, found.phase))
            for found in self.cluster.pod_groups
        )
        return replace(self.cluster, pods=pods, pod_groups=groups)


def members(cluster: SessionSnapshot, key: str) -> Iterable[Pod]:
    return (one for one in cluster.pods if f"{one.namespace}/{one.pod_group}" == key)


@settings(max_examples=60, deadline=None)
@given(
    shared=queues(),
    gangs=jobs(),
    actions=st.sampled_from(ACTIONS),
    sharing=st.sampled_from(["capacity", "hierarchy", "proportion"]),
    gangs_break=st.booleans(),
)
def test_every_plan_keeps_what_everybody_relies_on(
    shared: list[VolcanoQueue],
    gangs: list[Gang],
    actions: str,
    sharing: str,
    *,
    gangs_break: bool,
) -> None:
    how = configuration(actions, sharing, gangs_break=gangs_break)
    cluster = snapshot(
        [node("n0", "cpu=6"), node("n1", "cpu=6")], gangs, queues=shared, priorities=PRIORITIES
    )
    plan = run_session(cluster, how)
    world = World(cluster, plan)

    assert run_session(_reversed(cluster), how) == plan

    on_node = world.cpu_by(world.seats())
    assert all(cpu <= 6000 for cpu in on_node.values()), on_node

    queue_of = {group.key: group.queue for group in cluster.pod_groups}
    pod_queue = {one.key: queue_of[f"ns/{one.pod_group}"] for one in cluster.pods}
    before = World(cluster, Plan()).cpu_by(pod_queue)
    after = world.cpu_by(pod_queue)
    for found in shared:
        most = found.capability.get("cpu", 1 << 40)
        assert after[found.name] <= max(most, before[found.name]), found

    seated = set(world.seats())
    for group in cluster.pod_groups:
        own = [one.key for one in members(cluster, group.key)]
        gained = [key for key in own if key in seated and not _node_of(cluster, key)]
        assert not gained or sum(key in seated for key in own) >= group.min_member, group.name

    by = {eviction.by for eviction in plan.evictions}
    promised = {promise.job for promise in plan.pipelines}
    assert by <= promised
    never = {found.name for found in shared if not found.reclaimable}
    for eviction in plan.evictions:
        if queue_of[eviction.job] != queue_of[eviction.by]:
            assert queue_of[eviction.job] not in never


@settings(max_examples=60, deadline=None)
@given(
    shared=queues(),
    gangs=jobs(),
    actions=st.sampled_from(ACTIONS),
    sharing=st.sampled_from(["capacity", "hierarchy", "proportion"]),
    gangs_break=st.booleans(),
)
def test_nobody_is_evicted_for_ever(
    shared: list[VolcanoQueue],
    gangs: list[Gang],
    actions: str,
    sharing: str,
    *,
    gangs_break: bool,
) -> None:
    """Evicted pods are made anew; after some cycles nobody takes from anybody any more."""
    how = configuration(actions, sharing, gangs_break=gangs_break)
    cluster = snapshot(
        [node("n0", "cpu=6"), node("n1", "cpu=6")], gangs, queues=shared, priorities=PRIORITIES
    )
    for _ in range(CYCLES_MAX):
        plan = run_session(cluster, how)
        if not plan.evictions:
            return
        cluster = World(cluster, plan).next()
    raise AssertionError(f"still evicting after {CYCLES_MAX} cycles: {plan.evictions}")


def _node_of(cluster: SessionSnapshot, key: str) -> str:
    return next(one.node for one in cluster.pods if one.key == key)


def _reversed(cluster: SessionSnapshot) -> SessionSnapshot:
    return replace(
        cluster,
        nodes=cluster.nodes[::-1],
        pods=cluster.pods[::-1],
        pod_groups=cluster.pod_groups[::-1],
        queues=cluster.queues[::-1],
    )
