"""A gang with bounds on HyperNodes sits exactly where trying every seat says that it can."""

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from muster_domain.queues import HyperNode
from muster_domain.selectors import Requirement, Selector, SelectorOperator
from muster_domain.volcano import Pod, PodGroup, SubGroupPolicy
from muster_domain.workload import NetworkTopology, NetworkTopologyMode
from muster_scheduling.volcano import run_session
from muster_scheduling.volcano.tree import HyperNodeTree

from .builders import binds, configure, gang, node, pod, snapshot

ALLOCATE = configure("allocate", "gang predicates network-topology-aware")
GROUP = "group"
SOFT = NetworkTopology(mode=NetworkTopologyMode.SOFT)
Gang = tuple[PodGroup, tuple[Pod, ...]]
BOUNDS = st.sampled_from([None, SOFT, *(NetworkTopology(highest_tier=tier) for tier in (1, 2, 3))])


@st.composite
def trees(draw: st.DrawFn) -> list[HyperNode]:
    """Up to four racks of up to three nodes in up to two halls."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    halls = [draw(st.integers(0, 1)) for _ in sizes]
    racks = [
        HyperNode(name=f"r{rack}", tier=1, node_members=tuple(f"r{rack}n{n}" for n in range(size)))
        for rack, size in enumerate(sizes)
    ]
    above = [
        HyperNode(
            name=f"h{hall}",
            tier=2,
            hyper_node_members=tuple(f"r{rack}" for rack, own in enumerate(halls) if own == hall),
        )
        for hall in sorted(set(halls))
    ]
    return [*racks, *above]


@st.composite
def gangs(draw: st.DrawFn) -> Gang:
    """Pods that each fill a node, all of which are needed; some in groups that are whole."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    names = [f"g{number}" for number, size in enumerate(sizes) for _ in range(size)]
    members = [pod("x", f"x-{n}", labels={GROUP: name}) for n, name in enumerate(names)]
    policies = [
        SubGroupPolicy(
            name=f"p{number}",
            selector=Selector(
                requirements=(
                    Requirement(key=GROUP, operator=SelectorOperator.IN, values=(f"g{number}",)),
                )
            ),
            size=size,
            min_groups=draw(st.integers(0, 1)),
            network_topology=draw(BOUNDS),
        )
        for number, size in enumerate(sizes)
    ]
    chosen = tuple(policy for policy in policies if draw(st.booleans()))
    return gang("x", len(members), members, network_topology=draw(BOUNDS), sub_groups=chosen)


class Judge:
    """Which seats are within every bound of a gang."""

    def __init__(self, hyper_nodes: list[HyperNode], names: list[str], asked: Gang) -> None:
        self._tree = HyperNodeTree(hyper_nodes, {name: {} for name in names})
        self._row = {name: row for row, name in enumerate(names)}
        group, members = asked
        self._bounds = [(group.network_topology, [member.name for member in members])]
        for policy in group.sub_groups:
            assert policy.selector is not None
            own = [member.name for member in members if policy.selector.matches(member.labels)]
            self._bounds.append((policy.network_topology, own))

    def allows(self, seats: dict[str, str]) -> bool:
        """Whether seats, by the name of the pod, span no more than each bound allows."""
        return all(
            bound is None
            or bound.highest_tier is None
            or self._tree.tier(self._tree.around(self._row[seats[name]] for name in pods))
            <= bound.highest_tier
            for bound, pods in self._bounds
        )


@settings(max_examples=150, deadline=None)
@given(hyper_nodes=trees(), asked=gangs(), data=st.data())
def test_a_gang_sits_if_and_only_if_it_can(
    hyper_nodes: list[HyperNode], asked: Gang, data: st.DataObject
) -> None:
    names = sorted(name for found in hyper_nodes for name in found.node_members)
    taken = data.draw(st.sets(st.sampled_from(names), max_size=len(names) - 1), label="taken")
    others = [pod("old", f"old-{name}", on=name) for name in sorted(taken)]
    plan = run_session(
        snapshot(
            [node(name, "cpu=1") for name in names],
            [gang("old", 0, others), asked],
            hyper_nodes=hyper_nodes,
        ),
        ALLOCATE,
    )
    judge = Judge(hyper_nodes, names, asked)
    pods = [member.name for member in asked[1]]
    free = [name for name in names if name not in taken]
    possible = any(
        judge.allows(dict(zip(pods, seats, strict=True))) for seats in permutations(free, len(pods))
    )
    seats = binds(plan)
    assert set(seats) == (set(pods) if possible else set())
    assert not seats or judge.allows(seats)
