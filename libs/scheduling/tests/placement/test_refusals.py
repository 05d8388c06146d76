import pytest

from muster_domain.conditions import UnplaceableReason
from muster_domain.nodes import NodeCondition
from muster_domain.queues import ResourceFlavor
from muster_domain.selectors import (
    NodeAffinity,
    NodeDemand,
    Requirement,
    Selector,
    SelectorOperator,
    Toleration,
)
from muster_domain.workload import SliceConstraint, TopologyMode, TopologyRequest
from muster_scheduling.placement.gang import place
from muster_scheduling.placement.outcome import Placed, Predicate, Unplaceable
from muster_scheduling.placement.request import GangRequest
from muster_scheduling.placement.table import NodeTable

from .builders import DEDICATED, GPU, gang, node, nodes_of, pod_set, seat, table_of


def refused(table: NodeTable, request: GangRequest) -> Unplaceable:
    outcome = place(table, request)
    assert isinstance(outcome, Unplaceable)
    return outcome


def counted(outcome: Unplaceable) -> dict[Predicate, int]:
    found: dict[Predicate, int] = {}
    for refusal in outcome.pod_sets[0].refusals:
        found[refusal.predicate] = found.get(refusal.predicate, 0) + refusal.nodes
    return found


def test_every_node_is_counted_once_under_what_refused_it_first() -> None:
    ready = {"pool": "x"}
    table = table_of(
        node("excluded", gpus=8, labels=ready),
        node("suspect", gpus=8, labels=ready),
        node("cordoned", gpus=8),
        node("unlabelled", gpus=8, taints=(DEDICATED,)),
        node("tainted", gpus=8, labels=ready, taints=(DEDICATED,)),
        node("small", gpus=3, labels=ready),
        node("no-gpu", cpu=2, labels=ready),
        node("slow", cpu=2, gpus=8, labels=ready),
    )
    table.set_condition("suspect", NodeCondition.SUSPECT)
    table.set_condition("cordoned", NodeCondition.CORDONED)
    demand = NodeDemand(node_selector={"pool": "x"})
    request = gang(pod_set(cpu=4, gpus=4, demand=demand), excluded=frozenset({"excluded", "gone"}))
    outcome = refused(table, request)
    assert counted(outcome) == {
        Predicate.EXCLUDED: 1,
        Predicate.NOT_READY: 2,
        Predicate.NODE_SELECTOR: 1,
        Predicate.TAINT: 1,
        Predicate.RESOURCE: 3,
    }
    assert outcome.explanation.message == (
        "0 of 1 members can be seated; main: 0/8 nodes fit: 1 excluded, "
        "1 not ready (suspect), 1 not ready (cordoned), 1 node selector pool=x, "
        "1 untolerated taint dedicated=ml:NoSchedule, "
        "2 insufficient nvidia.com/gpu (largest free 3 of 4 asked), "
        "1 insufficient cpu (largest free 2 of 4 asked)"
    )
    assert outcome.reason is UnplaceableReason.INSUFFICIENT_RESOURCES
    assert outcome.explanation.counts["nodes: insufficient"] == 3


def test_a_gang_that_fits_in_part_says_how_much_of_it() -> None:
    table = table_of(node("a", gpus=2), node("b", gpus=1), node("c", gpus=0))
    outcome = refused(table, gang(pod_set(8, gpus=1)))
    assert (outcome.members_seated, outcome.members_asked) == (3, 8)
    assert outcome.reason is UnplaceableReason.GANG_INCOMPLETE
    assert outcome.explanation.message == (
        "3 of 8 members can be seated; main: 2/3 nodes fit: "
        "1 insufficient nvidia.com/gpu (largest free 0 of 1 asked)"
    )


def test_sets_that_fit_alone_but_not_together_are_a_gang_refused() -> None:
    table = table_of(node("a", cpu=4))
    outcome = refused(table, gang(pod_set(3), pod_set(2, name="other")))
    assert outcome.reason is UnplaceableReason.GANG_INCOMPLETE
    assert outcome.members_seated == 4
    assert outcome.explanation.message == (
        "4 of 5 members can be seated; main: 1/1 nodes fit, 3 of 3 pods fit; "
        "other: 1/1 nodes fit, 2 of 2 pods fit"
    )


def test_nothing_is_bound_by_a_refusal() -> None:
    table = table_of(node("a", gpus=2))
    refused(table, gang(pod_set(3, gpus=1)))
    assert table.gangs() == ()
    assert table.free("a")[GPU] == 2000


@pytest.mark.parametrize(
    ("demand", "reason"),
    [
        pytest.param(
            NodeDemand(node_selector={"pool": "y"}),
            UnplaceableReason.NODE_SELECTOR_MISMATCH,
            id="selector",
        ),
        pytest.param(NodeDemand(), UnplaceableReason.UNTOLERATED_TAINT, id="taint"),
        pytest.param(
            NodeDemand(affinity=NodeAffinity(required_terms=(Selector(),))),
            UnplaceableReason.NODE_SELECTOR_MISMATCH,
            id="an empty affinity term matches nothing",
        ),
    ],
)
def test_reason_names_the_check_that_nodes_came_furthest_to(
    demand: NodeDemand, reason: UnplaceableReason
) -> None:
    table = table_of(node("a", labels={"pool": "x"}, taints=(DEDICATED,)))
    assert refused(table, gang(pod_set(demand=demand))).reason is reason


@pytest.mark.parametrize("condition", [None, *set(NodeCondition) - {NodeCondition.READY}])
def test_without_a_ready_node_there_are_no_nodes(condition: NodeCondition | None) -> None:
    table = NodeTable()
    if condition is not None:
        table.put_node(node("a"), condition)
    assert refused(table, gang(pod_set())).reason is UnplaceableReason.NO_NODES


def test_tolerations_of_the_flavor_count_like_the_pods_own() -> None:
    table = table_of(node("a", taints=(DEDICATED,), labels={"kind": "h100"}), node("b"))
    flavor = ResourceFlavor(
        name="h100",
        node_labels={"kind": "h100"},
        tolerations=(Toleration(key="dedicated", value="ml"),),
    )
    assert nodes_of(seat(table, gang(pod_set(flavors=(flavor,))))) == {"a": 1}


def test_flavors_that_contradict_each_other_match_no_node() -> None:
    table = table_of(node("a", labels={"kind": "x"}), node("b", labels={"kind": "y"}))
    flavors = tuple(ResourceFlavor(name=kind, node_labels={"kind": kind}) for kind in "xy")
    outcome = refused(table, gang(pod_set(flavors=flavors)))
    assert outcome.reason is UnplaceableReason.NODE_SELECTOR_MISMATCH


def test_required_terms_are_alternatives() -> None:
    def term(key: str, operator: SelectorOperator, *values: str) -> Selector:
        return Selector(requirements=(Requirement(key=key, operator=operator, values=values),))

    table = table_of(node("a"), node("b", labels={"size": "9"}), node("c", labels={"pool": "x"}))
    affinity = NodeAffinity(
        required_terms=(
            term("size", SelectorOperator.GT, "8"),
            term("pool", SelectorOperator.IN, "x", "y"),
        )
    )
    request = gang(pod_set(32, demand=NodeDemand(affinity=affinity)))
    assert nodes_of(seat(table, request)) == {"b": 16, "c": 16}


def test_a_node_without_a_hostname_label_has_its_name_as_hostname() -> None:
    table = table_of(node("a"), node("b"))
    demand = NodeDemand(node_selector={"kubernetes.io/hostname": "b"})
    assert nodes_of(seat(table, gang(pod_set(demand=demand)))) == {"b": 1}


def test_a_fraction_of_a_device_is_refused_with_what_to_write() -> None:
    table = table_of(node("a", gpus=8))
    outcome = refused(table, gang(pod_set(extra={GPU: 500})))
    assert outcome.reason is UnplaceableReason.FRACTIONAL_DEVICE
    assert (
        outcome.explanation.message == "main: 500m of nvidia.com/gpu: devices are given out whole"
    )
    assert outcome.explanation.remedy == 'write nvidia.com/gpu: "1"'


def topology(mode: TopologyMode, label: str = "", **fields: object) -> TopologyRequest:
    return TopologyRequest(mode=mode, node_label=label, **fields)


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(
            topology(
                TopologyMode.REQUIRED, "rack", slices=(SliceConstraint(node_label="rack", size=2),)
            ),
            id="no whole slices",
        ),
        pytest.param(topology(TopologyMode.REQUIRED, "row"), id="unknown level"),
    ],
)
def test_topology_that_is_not_placed_is_refused(request_: TopologyRequest) -> None:
    table = table_of(node("a", labels={"rack": "r"}))
    outcome = refused(table, gang(pod_set(topology=request_, levels=("rack",))))
    assert outcome.reason is UnplaceableReason.UNSUPPORTED_TOPOLOGY
    assert outcome.explanation.remedy


def test_a_group_is_one_leader_and_its_workers() -> None:
    table = table_of(node("a", labels={"rack": "r"}))
    grouped = topology(TopologyMode.REQUIRED, "rack", pod_set_group="g")
    sets = [pod_set(2, name=name, topology=grouped) for name in ("one", "other")]
    outcome = refused(table, gang(*sets))
    assert outcome.reason is UnplaceableReason.UNSUPPORTED_TOPOLOGY
    assert outcome.explanation.message == (
        "one: pod set group g is not one leader with its workers in one topology"
    )


def test_a_level_must_be_named_where_the_flavor_has_no_topology() -> None:
    table = table_of(node("a"))
    request = gang(pod_set(topology=topology(TopologyMode.PREFERRED)))
    assert refused(table, request).reason is UnplaceableReason.UNSUPPORTED_TOPOLOGY


def test_a_gang_of_nobody_is_seated_nowhere() -> None:
    outcome = place(table_of(node("a")), gang(pod_set(0)))
    assert isinstance(outcome, Placed)
    assert outcome.placement.pods == ()
