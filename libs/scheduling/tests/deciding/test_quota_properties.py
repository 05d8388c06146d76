"""What holds of the quota tree whatever is charged and in whatever order."""

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from muster_scheduling.quota import QuotaNode, QuotaTree
from muster_scheduling.snapshot.catalog import Catalog

from .builders import FR, Quota, cohort, configuration, queue

if TYPE_CHECKING:
    from muster_domain.queues import ClusterQueue, Cohort

NAMES = ("q0", "q1", "q2", "q3")
limits = st.none() | st.integers(0, 12)


@st.composite
def quotas(draw: st.DrawFn, *, rooted: bool = False) -> Quota:
    nominal = draw(st.integers(0, 12))
    return (nominal, None, None) if rooted else (nominal, draw(limits), draw(limits))


@st.composite
def trees(draw: st.DrawFn) -> QuotaTree:
    cohorts: list[Cohort] = [cohort("root", draw(quotas(rooted=True)))]
    names = ["root"]
    for index in range(draw(st.integers(0, 3))):
        name = f"c{index}"
        cohorts.append(cohort(name, draw(quotas()), draw(st.sampled_from(names))))
        names.append(name)
    queues: list[ClusterQueue] = [
        queue(name, draw(quotas()), draw(st.sampled_from(names))) for name in NAMES
    ]
    return Catalog(configuration(queues, cohorts)).tree


charges = st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 9000)), max_size=8)


def snapshot(tree: QuotaTree) -> dict[str, int]:
    return {n.name: n.used(FR) for n in (*tree.cohorts.values(), *tree.queues.values())}


def bubbled(node: QuotaNode) -> int:
    """Usage by the definition of R-17, from the leaves up."""
    if not node.queues and not node.cohorts:
        return node.used(FR)
    return sum(
        max(0, bubbled(child) - child.local.get(FR, 0)) for child in (*node.queues, *node.cohorts)
    )


@given(tree=trees(), rows=charges, order=st.randoms(use_true_random=False))
def test_usage_does_not_depend_on_the_order_of_charges(
    tree: QuotaTree, rows: list[tuple[str, int]], order: object
) -> None:
    for name, amount in rows:
        tree.add(tree.queues[name], {FR: amount})
    there = snapshot(tree)
    assert there["root"] == bubbled(tree.cohorts["root"])
    shuffled = list(rows)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    for name, amount in shuffled:
        tree.remove(tree.queues[name], {FR: amount})
    assert set(snapshot(tree).values()) == {0}
    for name, amount in shuffled:
        tree.add(tree.queues[name], {FR: amount})
    assert snapshot(tree) == there


@given(tree=trees(), rows=charges, name=st.sampled_from(NAMES), amount=st.integers(1, 9000))
def test_more_usage_never_leaves_more_for_anybody(
    tree: QuotaTree, rows: list[tuple[str, int]], name: str, amount: int
) -> None:
    for other, charged in rows:
        tree.add(tree.queues[other], {FR: charged})
    before = {n: tree.available(node, FR) for n, node in tree.queues.items()}
    tree.add(tree.queues[name], {FR: amount})
    after = {n: tree.available(node, FR) for n, node in tree.queues.items()}
    assert all(after[n] <= before[n] for n in before)


@given(tree=trees(), rows=charges, name=st.sampled_from(NAMES))
def test_nobody_has_more_than_the_tree_could_ever_give(
    tree: QuotaTree, rows: list[tuple[str, int]], name: str
) -> None:
    for other, charged in rows:
        node = tree.queues[other]
        if charged <= tree.free(node, FR):
            tree.add(node, {FR: charged})
    node = tree.queues[name]
    assert node.used(FR) <= node.potential[FR]
    assert tree.free(node, FR) <= node.potential[FR] - node.used(FR)
