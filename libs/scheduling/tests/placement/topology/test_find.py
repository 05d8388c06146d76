import pytest

from muster_domain.nodes import NodeCondition
from muster_domain.queues import ResourceFlavor, Topology
from muster_domain.selectors import (
    NodeAffinity,
    NodeDemand,
    PreferredTerm,
    Requirement,
    Selector,
    SelectorOperator,
    Taint,
    TaintEffect,
    Toleration,
)
from muster_scheduling.placement.outcome import Predicate
from muster_scheduling.placement.topology.find import TopologyPodSet, find_assignments
from muster_scheduling.placement.topology.snapshot import OtherPod, topology_snapshot
from muster_scheduling.placement.topology.terms import TopologyOptions

from .floor import (
    FLAVOR,
    LEVELS,
    assignment,
    counts,
    floor,
    machine,
    pods,
    refusal,
    request,
)

TWO_BLOCKS = {
    "b1 r1 x1": 4,
    "b1 r1 x2": 2,
    "b1 r2 x3": 3,
    "b2 r1 x4": 4,
    "b2 r1 x5": 4,
    "b2 r2 x6": 1,
}


@pytest.mark.parametrize(
    ("mode", "label", "count", "expected"),
    [
        pytest.param("required", "rack", 3, {"x3": 3}, id="the tightest rack"),
        pytest.param("required", "rack", 7, {"x4": 4, "x5": 3}, id="the only rack"),
        pytest.param("required", "block", 9, {"x1": 4, "x2": 2, "x3": 3}, id="a block"),
        pytest.param("preferred", "rack", 9, {"x1": 4, "x2": 2, "x3": 3}, id="climbs to a block"),
        pytest.param(
            "preferred", "rack", 12, {"x1": 4, "x4": 4, "x5": 4}, id="spreads over blocks"
        ),
        pytest.param("unconstrained", "", 1, {"x6": 1}, id="least free capacity"),
        pytest.param("unconstrained", "", 4, {"x1": 4}, id="least free that holds it alone"),
        pytest.param(
            "unconstrained", "", 7, {"x2": 2, "x3": 3, "x6": 1, "x1": 1}, id="least free first"
        ),
    ],
)
def test_modes_choose_their_domains(
    mode: str, label: str, count: int, expected: dict[str, int]
) -> None:
    found = find_assignments(floor(TWO_BLOCKS), [pods(count, request(mode, label))])
    assert counts(found) == expected


def test_best_fit_may_also_serve_unconstrained_pods() -> None:
    options = TopologyOptions(least_free_when_unconstrained=False)
    found = find_assignments(floor(TWO_BLOCKS), [pods(5, request())], options)
    assert counts(found) == {"x1": 4, "x6": 1}


def test_without_a_request_pods_sit_anywhere() -> None:
    assert counts(find_assignments(floor(TWO_BLOCKS), [pods(1)])) == {"x6": 1}


def test_what_does_not_fit_says_how_much_would() -> None:
    found = find_assignments(floor(TWO_BLOCKS), [pods(9, request("required", "rack"))])
    answer = refusal(found)
    assert (answer.fitting, answer.needed) == (8, 9)
    assert answer.reason == "topology floor: 8 of 9 pods fit within the rack level"


@pytest.mark.parametrize(
    ("label", "slices", "reason"),
    [
        pytest.param("row", "", "row is not a level of the topology", id="unknown level"),
        pytest.param(
            "rack", "block:2", "slices of block are wider than the rack asked for", id="too wide"
        ),
        pytest.param("block", "rack:4 block:2", "slices of block are not below rack", id="order"),
        pytest.param("block", "rack:4 host:3", "slices of 3 do not divide slices of 4", id="size"),
    ],
)
def test_requests_that_the_topology_cannot_serve_are_refused(
    label: str, slices: str, reason: str
) -> None:
    asked = pods(8, request("required", label, slices=slices))
    assert refusal(find_assignments(floor(TWO_BLOCKS), [asked])).reason == reason


@pytest.mark.parametrize(
    ("cpus", "asked", "expected"),
    [
        pytest.param(
            {"b r1 x1": 3, "b r1 x2": 2, "b r2 x3": 3},
            ("required", "block", "rack:2", 6),
            {"x1": 2, "x2": 2, "x3": 2},
            id="slices stay within racks",
        ),
        pytest.param(
            {"b r1 x1": 3, "b r1 x2": 3, "b r2 x3": 4},
            ("preferred", "block", "host:2", 6),
            {"x1": 2, "x3": 4},
            id="slices stay on hosts",
        ),
        pytest.param(
            {"b r1 x1": 3, "b r1 x2": 3, "b r2 x3": 3},
            ("required", "block", "rack:4 host:2", 4),
            {"x1": 2, "x2": 2},
            id="inner slices",
        ),
        pytest.param(
            {"b1 r1 x1": 4, "b2 r1 x2": 2, "b2 r2 x3": 2},
            ("unconstrained", "", "rack:2", 4),
            {"x1": 4},
            id="slices without a level start at the widest",
        ),
    ],
)
def test_slices_are_not_torn(
    cpus: dict[str, int], asked: tuple[str, str, str, int], expected: dict[str, int]
) -> None:
    mode, label, slices, count = asked
    found = find_assignments(floor(cpus), [pods(count, request(mode, label, slices=slices))])
    assert counts(found) == expected


def test_what_is_left_of_an_inner_slice_counts_for_nothing() -> None:
    asked = pods(4, request("required", "rack", slices="rack:4 host:2"))
    assert refusal(find_assignments(floor({"b r1 x1": 3, "b r1 x2": 1}), [asked])).fitting == 0


def test_inner_slices_may_be_switched_off() -> None:
    cpus = {"b r1 x1": 3, "b r1 x2": 3}
    asked = pods(4, request("required", "block", slices="rack:4 host:2"))
    options = TopologyOptions(inner_slices=False)
    assert counts(find_assignments(floor(cpus), [asked], options)) == {"x1": 3, "x2": 1}


def test_the_leader_sits_where_it_costs_no_worker() -> None:
    cpus = {"b r x1": 2, "b r x2": 4, "b r x3": 3}
    topology = request("required", "rack", group="g")
    leader, workers = pods(1, topology, name="leader"), pods(4, topology, name="workers", cpu=2)
    found = find_assignments(floor(cpus), [leader, workers])
    assert counts(found, "leader") == {"x3": 1}
    assert counts(found, "workers") == {"x1": 1, "x2": 2, "x3": 1}


def test_the_tightest_host_for_workers_is_not_taken_when_it_cannot_host_the_leader() -> None:
    topology = request("required", "rack", group="g")
    sets = [pods(2, topology, name="workers"), pods(1, topology, name="leader", cpu=3)]
    found = find_assignments(floor({"b r x1": 6, "b r x2": 2}), sets)
    assert counts(found, "leader") == {"x1": 1}
    assert counts(found, "workers") == {"x1": 2}


def test_a_leader_and_its_workers_share_the_required_domain() -> None:
    cpus = {"b r1 x1": 4, "b r2 x2": 3, "b r2 x3": 2}
    topology = request("required", "rack", group="g")
    sets = [pods(4, topology, name="workers"), pods(1, topology, name="leader")]
    found = find_assignments(floor(cpus), sets)
    assert counts(found, "workers").keys() | counts(found, "leader").keys() == {"x2", "x3"}


def test_groups_are_placed_on_what_the_ones_before_left() -> None:
    sets = [pods(4, request("required", "rack"), name=name) for name in ("one", "two", "three")]
    found = find_assignments(floor({"b r1 x1": 4, "b r2 x2": 5}), sets)
    assert counts(found, "one") == {"x1": 4}
    assert counts(found, "two") == {"x2": 4}
    assert refusal(found, "three").fitting == 1


def test_charged_usage_is_gone_until_released() -> None:
    snapshot = floor({"b r x1": 4})
    held = assignment({"x1": 3, "vanished": 9})
    snapshot.charge(held, {"cpu": 1000})
    assert refusal(find_assignments(snapshot, [pods(2, request())])).fitting == 1
    assert counts(find_assignments(snapshot, [pods(2, request())], empty=True)) == {"x1": 2}
    snapshot.release(held, {"cpu": 1000})
    assert counts(find_assignments(snapshot, [pods(4, request())])) == {"x1": 4}


def test_other_flavors_count_only_on_machines_and_only_if_shared() -> None:
    held = assignment({"x1": 3})
    for options, expected in (
        (TopologyOptions(), 1),
        (TopologyOptions(share_between_flavors=False), 4),
    ):
        snapshot = floor({"b r x1": 4})
        snapshot.charge_others(held, {"cpu": 1000}, options)
        assert (
            refusal(find_assignments(snapshot, [pods(5, request())], options)).fitting == expected
        )
    racks = floor({"b r x1": 4}, ("block", "rack"))
    racks.charge_others(assignment({"b r": 3}, ("block", "rack")), {"cpu": 1000}, TopologyOptions())
    assert counts(find_assignments(racks, [pods(4, request())])) == {"b r": 4}


def test_assumed_usage_of_the_same_workload_counts() -> None:
    snapshot = floor({"b r x1": 4})
    assumed = {0: {"cpu": 3000}}
    assert refusal(find_assignments(snapshot, [pods(2)], assumed=assumed)).fitting == 1


def test_racks_as_the_lowest_level_are_counted_as_one_place() -> None:
    racks = floor({"b r1 x1": 2, "b r1 x2": 2, "b r2 x3": 3}, ("block", "rack"))
    found = find_assignments(racks, [pods(4, request("required", "rack"))])
    assert counts(found) == {"b r1": 4}


def test_nodes_are_left_out_by_condition_labels_and_pods() -> None:
    flavor = ResourceFlavor(name="f", node_labels={"block": "b"})
    nodes = [
        (machine("b r x1", 2), NodeCondition.READY),
        (machine("b r x2", 9), NodeCondition.SUSPECT),
        (machine("other r x3", 9), NodeCondition.READY),
        (machine("b r x4", 9, pods=1), NodeCondition.READY),
        (machine("b r x5", 9), NodeCondition.READY),
    ]
    others = [
        OtherPod(node="x5", requests={"cpu": 8000}),
        OtherPod(node="x1", requests={"cpu": 8000}, ended=True),
        OtherPod(node="", requests={"cpu": 8000}),
    ]
    snapshot = topology_snapshot(Topology(name="t", levels=LEVELS), flavor, nodes, others)
    found = find_assignments(snapshot, [pods(4, request())])
    assert counts(found) == {"x1": 2, "x4": 1, "x5": 1}


def test_a_node_without_a_level_label_is_no_leaf() -> None:
    snapshot = topology_snapshot(
        Topology(name="t", levels=("row", "rack")),
        FLAVOR,
        [(machine("b r x1", 2), NodeCondition.READY)],
    )
    assert refusal(find_assignments(snapshot, [pods(1, request())])).fitting == 0


def test_demands_are_held_against_machines_only() -> None:
    taint = Taint(key="dedicated", effect=TaintEffect.NO_SCHEDULE)
    nodes = [
        (machine("b r x1", 4, taints=(taint,)), NodeCondition.READY),
        (machine("b r x2", 4), NodeCondition.READY),
    ]
    hosts = topology_snapshot(Topology(name="t", levels=LEVELS), FLAVOR, nodes)
    racks = topology_snapshot(Topology(name="t", levels=("block", "rack")), FLAVOR, nodes)
    demand = NodeDemand(node_selector={"kubernetes.io/hostname": "x1"})
    asked = TopologyPodSet(name="main", count=5, requests={"cpu": 1000}, demand=demand)
    answer = refusal(find_assignments(hosts, [asked]))
    assert answer.excluded == {Predicate.TAINT: 1, Predicate.NODE_SELECTOR: 1}
    assert counts(find_assignments(racks, [asked])) == {"b r": 5}


def test_tolerations_of_the_flavor_are_added() -> None:
    taint = Taint(key="dedicated", effect=TaintEffect.NO_SCHEDULE)
    flavor = ResourceFlavor(name="f", tolerations=(Toleration(key="dedicated"),))
    nodes = [(machine("b r x1", 4, taints=(taint,)), NodeCondition.READY)]
    snapshot = topology_snapshot(Topology(name="t", levels=LEVELS), flavor, nodes)
    assert counts(find_assignments(snapshot, [pods(4)])) == {"x1": 4}


def _likes(rack: str) -> NodeDemand:
    rule = Requirement(key="rack", operator=SelectorOperator.IN, values=(rack,))
    terms = (PreferredTerm(weight=10, term=Selector(requirements=(rule,))),)
    return NodeDemand(affinity=NodeAffinity(preferred_terms=terms))


@pytest.mark.parametrize(
    ("other", "count", "expected"),
    [
        pytest.param(4, 2, {"x2": 2}, id="the preferred rack"),
        pytest.param(2, 2, {"x2": 2}, id="even when another is tighter"),
        pytest.param(4, 4, {"x1": 4}, id="unless it is too small"),
    ],
)
def test_preferred_affinity_decides_where_it_is_switched_on(
    other: int, count: int, expected: dict[str, int]
) -> None:
    snapshot = floor({"b r1 x1": other, "b r2 x2": 3})
    asked = TopologyPodSet(
        name="main",
        count=count,
        requests={"cpu": 1000},
        demand=_likes("r2"),
        topology=request("required", "rack"),
    )
    options = TopologyOptions(preferred_affinity=True)
    assert counts(find_assignments(snapshot, [asked], options)) == expected
