"""Placement on the node table seats what the topology rules assign, pod for pod."""

from collections.abc import Mapping

from hypothesis import assume, given
from hypothesis import strategies as st

from muster_domain.nodes import NodeCondition, TopologyAssignment
from muster_domain.queues import ResourceFlavor, Topology
from muster_domain.workload import TopologyRequest
from muster_scheduling.placement.gang import place
from muster_scheduling.placement.outcome import Placed, Unplaceable
from muster_scheduling.placement.replacement import replace_node
from muster_scheduling.placement.request import GangRequest, PodSetRequest
from muster_scheduling.placement.table import NodeTable
from muster_scheduling.placement.topology.find import (
    Found,
    Replacement,
    TopologyPodSet,
    find_assignments,
)
from muster_scheduling.placement.topology.snapshot import topology_snapshot
from muster_scheduling.placement.topology.terms import TopologyOptions

from .floor import HOST, LEVELS, machine, pods, request
from .test_topology_properties import floors

FLAVOR = ResourceFlavor(name="flavor", topology_name="floor")
OPTIONS = st.builds(
    TopologyOptions, least_free_when_unconstrained=st.booleans(), balanced=st.booleans()
)
REQUESTS: st.SearchStrategy[TopologyRequest | None] = st.sampled_from(
    [
        None,
        request(),
        request("required", "block"),
        request("required", "rack"),
        request("required", HOST),
        request("preferred", "block"),
        request("preferred", "rack"),
        request("preferred", HOST),
        request("required", "block", slices="rack:2"),
        request("preferred", "block", slices="rack:2 host:1"),
        request("preferred", "rack", slices="host:2"),
        request(slices="rack:2"),
    ]
)


def _asked(wanted: TopologyPodSet) -> PodSetRequest:
    return PodSetRequest(
        name=wanted.name,
        count=wanted.count,
        requests=wanted.requests,
        flavors=(FLAVOR,),
        topology=wanted.topology,
        levels=LEVELS,
    )


def _agree(cpus: dict[str, int], wanted: list[TopologyPodSet], options: TopologyOptions) -> None:
    nodes = [machine(path, cpu, pods=5) for path, cpu in cpus.items()]
    ready = [(node, NodeCondition.READY) for node in nodes]
    snapshot = topology_snapshot(Topology(name="floor", levels=LEVELS), FLAVOR, ready)
    table = NodeTable()
    for node in nodes:
        table.put_node(node)
    found = find_assignments(snapshot, wanted, options)
    gang = GangRequest(workload="w", pod_sets=tuple(map(_asked, wanted)), options=options)
    outcome = place(table, gang)
    match outcome:
        case Placed(placement=placement) if _all_found(found):
            assert placement.topology == found
            for one in wanted:
                seated = [pod.node for pod in placement.pods if pod.pod_set == one.name]
                ranked = [
                    domain.values[-1]
                    for domain in placement.topology[one.name].domains
                    for _ in range(domain.count)
                ]
                assert seated == ranked
        case Placed():
            assert len(wanted) > 1, "another order of several sets may find seats"
        case Unplaceable():
            assert not _all_found(found)


def _all_found(found: Found) -> bool:
    return all(isinstance(one, TopologyAssignment) for one in found.values())


@given(cpus=floors(), count=st.integers(1, 10), topology=REQUESTS, options=OPTIONS)
def test_of_one_pod_set(
    cpus: dict[str, int], count: int, topology: TopologyRequest | None, options: TopologyOptions
) -> None:
    size = topology.slices[0].size if topology is not None and topology.slices else 1
    _agree(cpus, [pods(count * size, topology, cpu=1)], options)


@given(
    cpus=floors(),
    workers=st.integers(1, 8),
    sizes=st.tuples(st.integers(1, 3), st.integers(1, 4)),
    topology=st.sampled_from(
        [
            request("required", "rack", group="g"),
            request("preferred", "rack", group="g"),
            request(group="g"),
        ]
    ),
    options=OPTIONS,
)
def test_of_workers_with_their_leader(
    cpus: dict[str, int],
    workers: int,
    sizes: tuple[int, int],
    topology: TopologyRequest,
    options: TopologyOptions,
) -> None:
    sets = [
        pods(workers, topology, name="workers", cpu=sizes[0]),
        pods(1, topology, name="leader", cpu=sizes[1]),
    ]
    _agree(cpus, sets, options)


@given(
    cpus=floors(),
    pods_of=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    sizes=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    wishes=st.tuples(REQUESTS, REQUESTS),
    options=OPTIONS,
)
def test_of_two_pod_sets_in_the_order_as_written(
    cpus: dict[str, int],
    pods_of: tuple[int, int],
    sizes: tuple[int, int],
    wishes: tuple[TopologyRequest | None, TopologyRequest | None],
    options: TopologyOptions,
) -> None:
    sets = [
        pods(count * (wish.slices[0].size if wish and wish.slices else 1), wish, name=name, cpu=cpu)
        for name, count, cpu, wish in zip(("one", "two"), pods_of, sizes, wishes, strict=True)
    ]
    _agree(cpus, sets, options)


@given(
    cpus=floors(),
    count=st.integers(2, 8),
    topology=REQUESTS,
    which=st.integers(0, 7),
    options=OPTIONS,
)
def test_of_the_pods_of_a_lost_node(
    cpus: dict[str, int],
    count: int,
    topology: TopologyRequest | None,
    which: int,
    options: TopologyOptions,
) -> None:
    size = topology.slices[0].size if topology is not None and topology.slices else 1
    wanted = pods(count * size, topology)
    table = NodeTable()
    for path, cpu in cpus.items():
        table.put_node(machine(path, cpu))
    gang = GangRequest(workload="w", pod_sets=(_asked(wanted),), options=options)
    placed = place(table, gang)
    assume(isinstance(placed, Placed) and len(placed.placement.nodes) > 1)
    assert isinstance(placed, Placed)
    table.bind(placed.gang)
    kept = placed.placement.pods[0].node
    others = [name for name in placed.placement.nodes if name != kept]
    lost = others[which % len(others)]
    table.set_condition(lost, NodeCondition.FENCED)
    outcome = replace_node(table, gang, placed.gang, lost)
    found = _replaced(cpus, wanted, placed.placement.topology, lost, options)
    if isinstance(outcome, Placed):
        assert outcome.placement.topology["main"] == found
    else:
        assert not isinstance(found, TopologyAssignment)


def _replaced(
    cpus: dict[str, int],
    wanted: TopologyPodSet,
    existing: Mapping[str, TopologyAssignment],
    lost: str,
    options: TopologyOptions,
) -> object:
    left = [(machine(path, cpu), NodeCondition.READY) for path, cpu in cpus.items()]
    ready = [(node, condition) for node, condition in left if node.name != lost]
    snapshot = topology_snapshot(Topology(name="floor", levels=LEVELS), FLAVOR, ready)
    snapshot.charge(existing["main"], wanted.requests)
    lost_node = Replacement(hostname=lost, existing=existing)
    return find_assignments(snapshot, [wanted], options, replacement=lost_node)["main"]
