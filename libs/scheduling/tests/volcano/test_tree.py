"""Who is inside which HyperNode, what is above it, and which trees are none."""

from collections.abc import Sequence

import pytest

from muster_domain.queues import HyperNode
from muster_domain.selectors import Requirement, Selector, SelectorOperator
from muster_scheduling.volcano.tree import ROOT, HyperNodeTree

NODES = {
    "rack1-a": {"row": "one", "fast": ""},
    "rack1-b": {"row": "one"},
    "rack2-a": {"row": "two", "fast": ""},
    "spare": {},
}
IN, NOT_IN = SelectorOperator.IN, SelectorOperator.NOT_IN
EXISTS, MISSING = SelectorOperator.EXISTS, SelectorOperator.DOES_NOT_EXIST


def rack(name: str, tier: int = 1, **members: object) -> HyperNode:
    return HyperNode(name=name, tier=tier, **members)  # pyright: ignore[reportArgumentType]


def labelled(*requirements: tuple[str, SelectorOperator, tuple[str, ...]]) -> Selector:
    return Selector(
        requirements=tuple(
            Requirement(key=key, operator=operator, values=values)
            for key, operator, values in requirements
        )
    )


def inside(tree: HyperNodeTree, name: str) -> list[str]:
    held = tree.domains[name].nodes
    return [node for node, there in zip(NODES, held.tolist(), strict=True) if there]


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"node_members": ("rack1-a", "nobody")}, ["rack1-a"]),
        ({"node_patterns": ("^rack1-",)}, ["rack1-a", "rack1-b"]),
        ({"node_patterns": ("-a",)}, ["rack1-a", "rack2-a"]),
        ({"node_patterns": ("^a",)}, []),
        ({"node_patterns": ("^rack1-a$", "spare")}, ["rack1-a", "spare"]),
        ({"node_selector": labelled(("row", IN, ("one",)))}, ["rack1-a", "rack1-b"]),
        ({"node_selector": labelled(("row", IN, ("three",)))}, []),
        ({"node_selector": labelled(("row", NOT_IN, ("one",)))}, ["rack2-a", "spare"]),
        ({"node_selector": labelled(("fast", EXISTS, ()))}, ["rack1-a", "rack2-a"]),
        ({"node_selector": labelled(("row", MISSING, ()))}, ["spare"]),
        ({"node_selector": labelled(("row", IN, ("one",)), ("fast", EXISTS, ()))}, ["rack1-a"]),
        ({"node_selector": Selector()}, []),
        ({"node_members": ("spare",), "node_patterns": ("rack2",)}, ["rack2-a", "spare"]),
    ],
    ids=[
        "by name, of those that exist",
        "from the beginning of the name",
        "anywhere in the name",
        "nowhere",
        "by either of two patterns",
        "by a label",
        "by a label of nobody",
        "by what the label is not",
        "by having the label",
        "by not having it",
        "by both",
        "a selector that says nothing chooses nobody",
        "by name or pattern",
    ],
)
def test_which_nodes_a_hyper_node_has(members: dict[str, object], expected: list[str]) -> None:
    assert inside(HyperNodeTree([rack("r", **members)], NODES), "r") == expected


TREE = (
    rack("r1", node_patterns=("^rack1",)),
    rack("r2", node_patterns=("^rack2",)),
    rack("zone", 3, hyper_node_patterns=("^r[0-9]$",)),
    rack("alone", 2, node_members=("spare",)),
)


def test_a_hyper_node_has_the_nodes_of_those_inside_it_and_the_root_has_all() -> None:
    tree = HyperNodeTree(TREE, NODES)
    assert inside(tree, "zone") == ["rack1-a", "rack1-b", "rack2-a"]
    assert inside(tree, ROOT) == list(NODES)
    assert tree.tier(ROOT) == 4
    assert tree.leaves == ["r1", "r1", "r2", "alone"]


@pytest.mark.parametrize(
    ("name", "above"),
    [
        ("r1", ["r1", "zone", ROOT]),
        ("zone", ["zone", ROOT]),
        ("alone", ["alone", ROOT]),
        (ROOT, [ROOT]),
    ],
)
def test_what_is_above_a_hyper_node(name: str, above: list[str]) -> None:
    assert HyperNodeTree(TREE, NODES).ancestors(name) == above


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("r1", "r2", "zone"),
        ("r1", "zone", "zone"),
        ("r1", "r1", "r1"),
        ("r1", "alone", ROOT),
        ("", "r1", "r1"),
    ],
    ids=["brothers", "one in the other", "itself", "strangers", "nothing yet"],
)
def test_the_lowest_around_two(left: str, right: str, expected: str) -> None:
    tree = HyperNodeTree(TREE, NODES)
    assert tree.common(left, right) == expected
    assert tree.common(right, left) == expected


@pytest.mark.parametrize(
    ("hyper_nodes", "problem"),
    [
        (TREE, ""),
        (
            [
                rack("r1", node_patterns=("1",)),
                rack("x", 2, hyper_node_members=("r1",)),
                rack("y", 2, hyper_node_members=("r1",)),
            ],
            "HyperNode r1 is in x and in y",
        ),
        (
            [
                rack("x", 2, hyper_node_members=("y",)),
                rack("y", 3, hyper_node_members=("x",)),
            ],
            "HyperNode x is inside itself",
        ),
        ([rack("x", 2, hyper_node_members=("nobody",))], ""),
    ],
    ids=["a tree", "two above one", "a circle", "one inside it is not there yet"],
)
def test_which_trees_are_none(hyper_nodes: Sequence[HyperNode], problem: str) -> None:
    assert HyperNodeTree(hyper_nodes, NODES).problem == problem


@pytest.mark.parametrize(
    ("allowed_tier", "held", "expected"),
    [
        (1, "", ROOT),
        (1, "r1", "r1"),
        (3, "r1", "zone"),
        (4, "r1", ROOT),
        (2, "zone", ""),
        (0, "r1", ""),
    ],
    ids=[
        "anywhere while nothing sits",
        "only where the others are",
        "as far up as it may",
        "everywhere",
        "it spans more than it may already",
        "it may not even span what it has",
    ],
)
def test_where_more_of_a_gang_may_sit(allowed_tier: int, held: str, expected: str) -> None:
    assert HyperNodeTree(TREE, NODES).search_root(ROOT, allowed_tier, held) == expected
