"""Which node a pod gets: each scoring plugin by itself, by tables whose sums are made by hand."""

from collections.abc import Mapping, Sequence

import pytest

from muster_domain.queues import HyperNode
from muster_domain.volcano_scheduler import PluginOption, SchedulerConfiguration
from muster_scheduling.volcano import run_session

from .builders import binds, gang, node, pod, snapshot

CARD = "example.com/card"


def chosen(  # noqa: PLR0913 - what differs between the tables
    plugin: str,
    arguments: Mapping[str, object],
    offers: Mapping[str, str],
    used: Mapping[str, str],
    ask: str,
    *,
    annotations: Mapping[str, str] | None = None,
    hyper_nodes: Sequence[HyperNode] = (),
) -> str:
    """The node of a new pod, beside those that use so much of each node."""
    others = [pod("old", f"old-{name}", amount, on=name) for name, amount in used.items()]
    new = pod("new", "new-0", ask, annotations=dict(annotations or {}))
    plugins = [PluginOption(name="gang"), PluginOption(name="predicates")]
    plan = run_session(
        snapshot(
            [node(name, offer) for name, offer in offers.items()],
            [gang("old", 0, others), gang("new", 1, [new])],
            hyper_nodes=hyper_nodes,
        ),
        SchedulerConfiguration(
            actions=("allocate",),
            tiers=((*plugins, PluginOption(name=plugin, arguments=arguments)),),
        ),
    )
    return binds(plan).get("new-0", "")


TWO = {"a": f"cpu=10 memory=10Gi {CARD}=4", "b": f"cpu=10 memory=10Gi {CARD}=4"}


@pytest.mark.parametrize(
    ("arguments", "used", "ask", "expected"),
    [
        ({}, {"a": "cpu=4", "b": "cpu=2"}, "cpu=1", "a"),
        ({}, {"a": "cpu=4 memory=1Gi", "b": "cpu=2 memory=4Gi"}, "cpu=1 memory=1Gi", "b"),
        ({"binpack.cpu": "3"}, {"a": "cpu=4", "b": "cpu=2 memory=5Gi"}, "cpu=1 memory=1Gi", "a"),
        ({"binpack.memory": "0"}, {"a": "cpu=4", "b": "memory=9Gi"}, "cpu=1 memory=1Gi", "a"),
        ({}, {"a": "memory=9Gi", "b": "cpu=1"}, "cpu=1", "b"),
        ({}, {"a": f"{CARD}=3", "b": "cpu=1"}, f"cpu=1 {CARD}=1", "b"),
        ({"binpack.resources": CARD}, {"a": f"{CARD}=3", "b": "cpu=1"}, f"cpu=1 {CARD}=1", "a"),
        (
            {"binpack.resources": CARD, f"binpack.resources.{CARD}": "0"},
            {"a": f"{CARD}=3", "b": "cpu=1"},
            f"cpu=1 {CARD}=1",
            "b",
        ),
    ],
    ids=[
        "the fuller",
        "on average",
        "cpu three times",
        "memory not at all",
        "only what is asked",
        "what is not named does not count",
        "what is named counts",
        "what weighs nothing does not",
    ],
)
def test_binpack(
    arguments: dict[str, object], used: dict[str, str], ask: str, expected: str
) -> None:
    assert chosen("binpack", arguments, TWO, used, ask) == expected


@pytest.mark.parametrize(
    ("arguments", "used", "expected"),
    [
        ({}, {"a": "cpu=4", "b": "cpu=2"}, "b"),
        ({"leastrequested.weight": "0", "mostrequested.weight": "1"}, {"a": "cpu=4"}, "a"),
        (
            {"leastrequested.weight": "0", "balancedresource.weight": "1"},
            {"a": "cpu=6 memory=6Gi", "b": "cpu=1 memory=5Gi"},
            "a",
        ),
        (
            {"leastrequested.weight": "9", "balancedresource.weight": "1"},
            {"a": "cpu=6 memory=6Gi", "b": "cpu=1 memory=5Gi"},
            "b",
        ),
    ],
    ids=["the emptier", "the fuller, if asked for", "the more even", "or rather the emptier"],
)
def test_nodeorder(arguments: dict[str, object], used: dict[str, str], expected: str) -> None:
    assert chosen("nodeorder", arguments, TWO, used, "cpu=1 memory=1Gi") == expected


def strategies(**by_name: str) -> dict[str, object]:
    """`cpu="Most 2"` and so on; `any_` is every card of the vendor."""
    named = {"any_": "example.com/*", "card": CARD}
    rows = {named.get(name, name): text.split() for name, text in by_name.items()}
    return {
        "resources": {
            name: {"type": f"{kind}Allocated", "weight": int(weight)}
            for name, (kind, weight) in rows.items()
        }
    }


TYPE = "volcano.sh/resource-strategy-scoring-type"
WEIGHTS = "volcano.sh/resource-strategy-weight"


@pytest.mark.parametrize(
    ("arguments", "annotations", "expected"),
    [
        ({}, {}, "b"),
        (strategies(cpu="Most 1"), {}, "a"),
        (strategies(cpu="Most 1", card="Most 3"), {}, "b"),
        (strategies(cpu="Most 3", card="Most 1"), {}, "a"),
        (strategies(cpu="Most 1", any_="Most 3"), {}, "b"),
        (strategies(cpu="Most 2", any_="Most 3", card="Least 3"), {}, "a"),
        (strategies(cpu="Most 1"), {TYPE: "LeastAllocated", WEIGHTS: '{"cpu": 1}'}, "b"),
        (strategies(cpu="Most 1"), {TYPE: "LeastAllocated", WEIGHTS: "{}"}, "a"),
        (strategies(cpu="Most 1"), {TYPE: "Fullest", WEIGHTS: '{"cpu": 1}'}, "a"),
        (strategies(cpu="Most 1"), {TYPE: "LeastAllocated", WEIGHTS: "cpu"}, "a"),
    ],
    ids=[
        "cpu and memory are spread",
        "cpu is packed",
        "cards weigh more",
        "cpu weighs more",
        "a prefix",
        "the name itself wins over its prefix",
        "the pod has its own",
        "without weights it has none",
        "of another type it has none",
        "weights that cannot be read are none",
    ],
)
def test_resource_strategy_fit(
    arguments: dict[str, object], annotations: dict[str, str], expected: str
) -> None:
    """On `a` cpu is fuller, on `b` the cards are."""
    used = {"a": "cpu=5", "b": f"cpu=2 {CARD}=2"}
    ask = f"cpu=1 {CARD}=1"
    found = chosen("resource-strategy-fit", arguments, TWO, used, ask, annotations=annotations)
    assert found == expected


@pytest.mark.parametrize(
    ("ask", "expected"), [("cpu=1", "plain"), (f"cpu=1 {CARD}=1", "rich")], ids=["without", "with"]
)
def test_who_needs_no_card_is_kept_off_nodes_that_have_some(ask: str, expected: str) -> None:
    """Without the rule the emptier node, the one with cards, would be taken."""
    arguments: dict[str, object] = {
        "resourceStrategyFitWeight": 1,
        "sra": {"enable": True, "resources": CARD, "weight": 10},
    }
    offers = {"plain": "cpu=10", "rich": f"cpu=10 {CARD}=4"}
    used = {"plain": "cpu=5"}
    assert chosen("resource-strategy-fit", arguments, offers, used, ask) == expected


OTHER = "example.com/other"


@pytest.mark.parametrize(
    ("weights", "ask", "expected"),
    [
        ({}, "cpu=1", "both lack"),
        ({CARD: 3}, f"cpu=1 {OTHER}=1", "others"),
        ({CARD: 3}, f"cpu=1 {CARD}=1", "cards"),
        ({CARD: 3, OTHER: 1}, "memory=1Gi", "others"),
        ({CARD: 1, OTHER: 3}, "memory=1Gi", "cards"),
        ({CARD: -1, OTHER: 3}, "memory=1Gi", "cards"),
    ],
    ids=[
        "none is needed",
        "the one",
        "the other",
        "cards are scarcer",
        "others are",
        "a weight below zero is none",
    ],
)
def test_what_is_scarcer_is_kept_longer(weights: dict[str, int], ask: str, expected: str) -> None:
    """Memory is only where there are cards of one kind."""
    arguments: dict[str, object] = {
        "resourceStrategyFitWeight": 0,
        "sra": {"enable": True, "resources": f"{CARD}, {OTHER}", "resourceWeight": weights},
    }
    offers = {
        "both lack": "cpu=10",
        "cards": f"cpu=10 memory=10Gi {CARD}=4",
        "others": f"cpu=10 memory=10Gi {OTHER}=4",
    }
    assert chosen("resource-strategy-fit", arguments, offers, {}, ask) == expected


@pytest.mark.parametrize(
    ("used", "ask", "expected"),
    [
        ("cpu=1 memory=1G", "cpu=1", "a"),
        ("cpu=1 memory=1G", "cpu=2", ""),
        ("cpu=1 memory=1G", "cpu=1 memory=1G", "a"),
        ("cpu=1 memory=1G", "cpu=1 memory=1001M", ""),
        (f"cpu=1 memory=1G {CARD}=2", "cpu=5 memory=5G", "a"),
        ("cpu=1", f"cpu=9 memory=10G {CARD}=1", "a"),
    ],
    ids=[
        "as much as is left over",
        "no more",
        "nor of memory, in GB",
        "not a byte",
        "for busy cards nothing is kept",
        "for those it is",
    ],
)
def test_processors_and_memory_are_kept_for_idle_cards(used: str, ask: str, expected: str) -> None:
    arguments: dict[str, object] = {
        "proportional": {
            "enable": True,
            "resources": CARD,
            "resourceProportion": {f"{CARD}.cpu": 2, f"{CARD}.memory": "2"},
        }
    }
    offers = {"a": f"cpu=10 memory=10G {CARD}=4"}
    assert chosen("resource-strategy-fit", arguments, offers, {"a": used}, ask) == expected


def test_a_pod_without_a_topology_goes_where_hyper_nodes_are_full() -> None:
    racks = [
        HyperNode(name=name, tier=1, node_members=(f"{name}1", f"{name}2", f"{name}3"))
        for name in "abc"
    ]
    offers = dict.fromkeys((f"{name}{n}" for name in "abc" for n in (1, 2, 3)), "cpu=4")
    used = {"a1": "cpu=2", "b1": "cpu=4", "b2": "cpu=4", "c1": "cpu=4"}
    found = chosen("network-topology-aware", {}, offers, used, "cpu=1", hyper_nodes=racks)
    assert found == "b3"
