"""What holds for any nodes and gangs, against brute force and against a table built anew."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from muster_domain.nodes import DeviceHealth, Node, NodeCondition
from muster_domain.queues import PlacementPolicy
from muster_domain.workload import TopologyMode, TopologyRequest
from muster_scheduling.placement.checks import violations
from muster_scheduling.placement.gang import place
from muster_scheduling.placement.outcome import Placed, PlacementOutcome
from muster_scheduling.placement.request import GangRequest, PodSetRequest
from muster_scheduling.placement.table import NodeTable

from .brute_force import fits
from .builders import gang, node, pod_set, table_of

LABELS = ("row", "rack")


@st.composite
def clusters(draw: st.DrawFn) -> list[Node]:
    """One to five small nodes."""
    return [
        node(
            f"n{number}",
            cpu=draw(st.integers(1, 8)),
            gib=draw(st.integers(1, 8)),
            gpus=draw(st.integers(0, 4)),
            failed=draw(st.sets(st.integers(0, 3), max_size=1)),
            numa=draw(st.integers(1, 2)),
            labels={label: draw(st.sampled_from("xy")) for label in LABELS},
        )
        for number in range(draw(st.integers(1, 5)))
    ]


@st.composite
def sets_of_pods(draw: st.DrawFn, name: str = "main", most: int = 4) -> PodSetRequest:
    """Up to `most` equal pods, at least one."""
    return pod_set(
        draw(st.integers(1, most)),
        name=name,
        cpu=draw(st.integers(0, 4)),
        gib=draw(st.integers(0, 4)),
        gpus=draw(st.integers(0, 2)),
    )


@st.composite
def gangs(draw: st.DrawFn, workload: str = "w") -> GangRequest:
    """One to three sets, some of them elastic, some with a topology."""
    sets: list[PodSetRequest] = []
    for number in range(draw(st.integers(1, 3))):
        one = draw(sets_of_pods(name=f"set-{number}"))
        mode = draw(st.sampled_from([None, *TopologyMode]))
        sets.append(
            PodSetRequest(
                name=one.name,
                count=one.count,
                requests=one.requests,
                min_count=draw(st.none() | st.integers(0, one.count)),
                topology=mode
                and TopologyRequest(mode=mode, node_label=draw(st.sampled_from(LABELS))),
                levels=LABELS,
            )
        )
    policy = draw(st.sampled_from(PlacementPolicy))
    return gang(*sets, workload=workload, policy=policy)


def healthy(nodes: list[Node]) -> list[Node]:
    """The nodes with only their healthy devices counted."""
    return [
        Node(
            name=one.name,
            allocatable={
                resource: min(
                    quantity,
                    1000 * sum(d.health is DeviceHealth.HEALTHY for d in one.devices)
                    if resource not in {"cpu", "memory"}
                    else quantity,
                )
                for resource, quantity in one.allocatable.items()
            },
        )
        for one in nodes
    ]


def seated(outcome: PlacementOutcome) -> tuple[int, ...] | None:
    return tuple(s.count for s in outcome.gang.pod_sets) if isinstance(outcome, Placed) else None


@given(nodes=clusters(), one=sets_of_pods(most=12), policy=st.sampled_from(PlacementPolicy))
def test_a_gang_of_one_set_is_placed_exactly_when_it_fits(
    nodes: list[Node], one: PodSetRequest, policy: PlacementPolicy
) -> None:
    request = gang(one, policy=policy)
    outcome = place(table_of(*nodes), request)
    assert isinstance(outcome, Placed) == fits(healthy(nodes), request, (one.count,))


@given(nodes=clusters(), one=sets_of_pods(most=12))
def test_an_elastic_set_gets_as_many_as_fit(nodes: list[Node], one: PodSetRequest) -> None:
    elastic = pod_set(one.count, min_count=0, cpu=0, extra=one.requests)
    request = gang(elastic)
    most = max(n for n in range(one.count + 1) if fits(healthy(nodes), request, (n,)))
    found = seated(place(table_of(*nodes), request))
    assert (found or (0,)) == (most,)


@settings(max_examples=200)
@given(nodes=clusters(), data=st.data())
def test_small_gangs_of_several_sets_are_placed_exactly_when_they_fit(
    nodes: list[Node], data: st.DataObject
) -> None:
    sets = [data.draw(sets_of_pods(name=f"set-{n}")) for n in range(data.draw(st.integers(2, 3)))]
    request = gang(*sets)
    counts = tuple(one.count for one in sets)
    outcome = place(table_of(*nodes), request)
    assert isinstance(outcome, Placed) == fits(healthy(nodes), request, counts)


@given(nodes=clusters(), request=gangs())
def test_every_placement_can_be_bound_and_breaks_no_rule(
    nodes: list[Node], request: GangRequest
) -> None:
    table = table_of(*nodes)
    outcome = place(table, request)
    if not isinstance(outcome, Placed):
        assert outcome.members_seated < outcome.members_asked
        return
    table.bind(outcome.gang)
    assert violations(table) == ()
    for asked, got in zip(request.pod_sets, outcome.gang.pod_sets, strict=True):
        assert asked.least <= got.count <= asked.count
        topology = asked.topology
        if topology is not None and topology.mode is TopologyMode.REQUIRED:
            paths = {
                tuple(table.node(pod.node).labels[key] for key in LABELS)
                for pod in outcome.placement.pods
                if pod.pod_set == asked.name
            }
            depth = LABELS.index(topology.node_label) + 1
            assert len({path[:depth] for path in paths}) <= 1


@given(nodes=clusters(), request=gangs(), seed=st.integers(0, 1000))
def test_the_order_in_which_nodes_joined_changes_nothing(
    nodes: list[Node], request: GangRequest, seed: int
) -> None:
    shuffled = nodes.copy()
    random.Random(seed).shuffle(shuffled)
    assert place(table_of(*shuffled), request) == place(table_of(*nodes), request)


@given(nodes=clusters(), data=st.data())
def test_a_table_that_followed_every_change_equals_one_built_anew(
    nodes: list[Node], data: st.DataObject
) -> None:
    table = table_of(*nodes)
    for number in range(data.draw(st.integers(1, 8))):
        _change(table, nodes, data, f"w{number}")
        fresh = NodeTable()
        for bound in reversed(table.gangs()):
            fresh.restore(bound)
        for one in table.nodes():
            fresh.put_node(one, table.condition(one.name))
        request = data.draw(gangs("probe"))
        assert place(table, request) == place(fresh, request)
        assert _vectors(table) == _vectors(fresh)


def _vectors(table: NodeTable) -> dict[str, list[int]]:
    columns = table.columns
    free = {resource: columns.free[resource].tolist() for resource in columns.free}
    return free | {"packing": columns.packing.tolist()}


def _change(table: NodeTable, nodes: list[Node], data: st.DataObject, workload: str) -> None:
    one = data.draw(st.sampled_from(nodes))
    known = one in table.nodes() or any(n.name == one.name for n in table.nodes())
    match data.draw(st.sampled_from(["bind", "bind", "release", "condition", "put", "remove"])):
        case "bind":
            outcome = place(table, data.draw(gangs(workload)))
            if isinstance(outcome, Placed):
                table.bind(outcome.gang)
        case "release" if table.gangs():
            table.release(data.draw(st.sampled_from(table.gangs())).workload)
        case "condition" if known:
            table.set_condition(one.name, data.draw(st.sampled_from(NodeCondition)))
        case "remove" if known:
            table.remove_node(one.name)
        case _:
            changed = data.draw(clusters())[0]
            table.put_node(
                Node(
                    name=one.name,
                    allocatable=changed.allocatable,
                    devices=changed.devices,
                    labels=changed.labels,
                )
            )


@given(nodes=clusters(), first=gangs("first"), second=gangs("second"))
def test_releasing_undoes_binding_exactly(
    nodes: list[Node], first: GangRequest, second: GangRequest
) -> None:
    table = table_of(*nodes)
    if isinstance(outcome := place(table, first), Placed):
        table.bind(outcome.gang)
    before = {one.name: table.free(one.name) for one in table.nodes()}
    answer = place(table, second)
    if isinstance(answer, Placed):
        table.bind(answer.gang)
        table.release("second")
    assert {one.name: table.free(one.name) for one in table.nodes()} == before
    assert place(table, second) == answer
