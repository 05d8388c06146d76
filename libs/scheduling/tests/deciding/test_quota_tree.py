"""Golden vectors of R-25, limits, cycles and unlimited amounts."""

import pytest

from muster_domain.queues import UNLIMITED, ClusterQueue, Cohort
from muster_scheduling import Configuration
from muster_scheduling.quota import QuotaTree
from muster_scheduling.snapshot.activity import InactiveReason
from muster_scheduling.snapshot.catalog import Catalog

from .builders import FR, K, cohort, configuration, queue


def tree_of(*members: ClusterQueue | Cohort) -> QuotaTree:
    queues = [member for member in members if isinstance(member, ClusterQueue)]
    cohorts = [member for member in members if isinstance(member, Cohort)]
    return Catalog(configuration(queues, cohorts)).tree


def available(tree: QuotaTree) -> dict[str, int]:
    nodes = {**tree.cohorts, **tree.queues}
    return {name: tree.available(node, FR) // K for name, node in nodes.items()}


def used(tree: QuotaTree) -> dict[str, int]:
    return {name: node.used(FR) // K for name, node in tree.cohorts.items()}


def add(tree: QuotaTree, name: str, pieces: int) -> None:
    tree.add(tree.queues[name], {FR: pieces * K})


def remove(tree: QuotaTree, name: str, pieces: int) -> None:
    tree.remove(tree.queues[name], {FR: pieces * K})


def test_lending_limit_keeps_a_part_at_home() -> None:
    tree = tree_of(queue("a", (10, None, 4), "root"), queue("b", (6, 5), "root"))
    assert tree.cohorts["root"].subtree[FR] == 10 * K
    assert available(tree) == {"root": 10, "a": 16, "b": 10}
    assert {name: node.potential[FR] // K for name, node in tree.queues.items()} == {
        "a": 16,
        "b": 10,
    }
    add(tree, "a", 7)
    assert (used(tree), available(tree)) == ({"root": 1}, {"root": 9, "a": 9, "b": 9})
    add(tree, "b", 9)
    assert (used(tree), available(tree)) == ({"root": 10}, {"root": 0, "a": 0, "b": 0})
    remove(tree, "a", 3)
    assert (used(tree), available(tree)) == ({"root": 9}, {"root": 1, "a": 3, "b": 1})


def test_limits_hold_at_every_level_of_a_deep_tree() -> None:
    tree = tree_of(
        cohort("R", 2),
        cohort("L", (0, 5, 3), "R"),
        cohort("M", None, "R"),
        queue("c1", (4, None, 1), "L"),
        queue("c2", 6, "L"),
        queue("c3", (8, 0), "M"),
    )
    assert [tree.cohorts[name].subtree[FR] // K for name in "RLM"] == [13, 7, 8]
    start = available(tree)
    assert [start[name] for name in ("L", "c1", "c2", "c3")] == [12, 15, 12, 8]
    add(tree, "c1", 9)
    assert used(tree) == {"L": 6, "M": 0, "R": 2}
    assert [available(tree)[name] for name in ("L", "c1", "c2", "c3")] == [6, 6, 6, 8]
    add(tree, "c3", 5)
    assert used(tree) == {"L": 6, "M": 5, "R": 7}
    assert [available(tree)[name] for name in ("c1", "c2", "c3")] == [6, 6, 3]
    assert tree.borrow_level(tree.queues["c2"], FR, 6 * K) == (0, True)
    assert tree.borrow_level(tree.queues["c2"], FR, 7 * K) == (2, False)
    assert (tree.cohorts["L"].height, tree.cohorts["R"].height) == (1, 2)
    remove(tree, "c1", 4)
    assert used(tree) == {"L": 2, "M": 5, "R": 5}
    assert [available(tree)[name] for name in ("L", "c1", "c2", "c3")] == [10, 10, 10, 3]


def test_what_stays_at_home_on_the_way_up_need_not_be_borrowed_above() -> None:
    tree = tree_of(
        cohort("S", 9),
        cohort("R", 2, "S"),
        cohort("L", (0, None, 3), "R"),
        queue("c1", 4, "L"),
        queue("c2", 6, "L"),
    )
    assert tree.borrow_level(tree.queues["c2"], FR, 11 * K) == (2, True)
    assert tree.borrow_level(tree.queues["c2"], FR, 13 * K) == (3, False)


def test_a_shrunk_quota_leaves_less_than_nothing_and_evicts_nobody() -> None:
    tree = tree_of(queue("a", 5, "root"), queue("b", 0, "root"))
    add(tree, "a", 9)
    assert available(tree) == {"root": -4, "a": -4, "b": -4}
    assert tree.free(tree.queues["a"], FR) == 0


def test_a_queue_without_cohort_stands_alone() -> None:
    tree = tree_of(queue("a", 5), queue("b", 7))
    add(tree, "a", 2)
    assert available(tree) == {"a": 3, "b": 7}
    assert tree.borrow_level(tree.queues["a"], FR, 9 * K) == (0, False)


def test_a_rollback_restores_every_number() -> None:
    tree = tree_of(queue("a", (10, None, 4), "root"), queue("b", 6, "root"))
    add(tree, "a", 3)
    before = [dict(node.usage) for node in (*tree.cohorts.values(), *tree.queues.values())]
    mark = tree.journal.checkpoint()
    add(tree, "b", 6)
    add(tree, "a", 9)
    remove(tree, "a", 5)
    tree.journal.rollback(mark)
    nodes = (*tree.cohorts.values(), *tree.queues.values())
    assert [dict(node.usage) for node in nodes] == before


def test_unlimited_absorbs_everything() -> None:
    huge = UNLIMITED // K + 1
    tree = tree_of(queue("a", huge, "root"), queue("b", 3, "root"))
    assert tree.cohorts["root"].subtree[FR] == UNLIMITED
    add(tree, "b", 10**9)
    assert tree.available(tree.queues["b"], FR) == UNLIMITED
    assert tree.queues["b"].potential[FR] == UNLIMITED


@pytest.mark.parametrize("name", ["in_cycle", "below_cycle"])
def test_a_queue_in_or_below_a_cycle_of_cohorts_is_inactive(name: str) -> None:
    catalog = Catalog(
        configuration(
            [queue("in_cycle", 1, "x"), queue("below_cycle", 1, "leaf"), queue("well", 1, "ok")],
            [cohort("x", None, "y"), cohort("y", None, "x"), cohort("leaf", None, "x")],
        )
    )
    assert catalog.queues[name].inactive == (InactiveReason.COHORT_CYCLE,)
    assert catalog.queues["well"].active


def test_cohorts_nested_beyond_reason_are_inactive() -> None:
    chain = [cohort(f"c{n}", None, f"c{n + 1}") for n in range(3000)]
    deep = queue("deep", 1, "c0")
    catalog = Catalog(configuration([deep, queue("top", 1, "c2990")], chain))
    assert catalog.queues["deep"].inactive == (InactiveReason.COHORT_CYCLE,)
    assert catalog.queues["top"].active


def test_a_flavor_that_does_not_exist_makes_its_queue_inactive() -> None:
    catalog = Catalog(Configuration(cluster_queues={"a": queue("a", 1)}))
    assert catalog.queues["a"].inactive == (InactiveReason.FLAVOR_NOT_FOUND,)
