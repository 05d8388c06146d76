"""The tournament against one that judges everybody anew for every winner."""

from hypothesis import given
from hypothesis import strategies as st

from muster_scheduling.fairness import Contender, Tournament, share_of
from muster_scheduling.quota import QuotaNode, QuotaTree
from muster_scheduling.snapshot.catalog import Catalog

from .builders import FR, cohort, configuration, queue

QUEUES = [f"q{n}" for n in range(7)]


@st.composite
def trees(draw: st.DrawFn) -> QuotaTree:
    names = ["root"]
    cohorts = [cohort("root", draw(st.integers(0, 9)))]
    for n in range(draw(st.integers(0, 4))):
        cohorts.append(cohort(f"c{n}", draw(st.integers(0, 4)), draw(st.sampled_from(names))))
        names.append(f"c{n}")
    queues = [
        queue(
            name,
            draw(st.integers(0, 4)),
            draw(st.sampled_from(names)),
            weight_milli=draw(st.sampled_from([0, 500, 1000, 3000])),
        )
        for name in QUEUES
    ]
    return Catalog(configuration(queues, cohorts)).tree


def naive(tree: QuotaTree, left: dict[str, Contender[str]], cohort_node: QuotaNode) -> str:
    """The id of the winner below a cohort; empty when nobody is left there."""
    best = ""
    by_id = {contender.id: contender for contender in left.values()}
    found = [naive(tree, left, child) for child in cohort_node.cohorts]
    found += [left[q.name].id for q in cohort_node.queues if q.name in left]
    for other in found:
        if other and (not best or before(tree, by_id[other], by_id[best], cohort_node)):
            best = other
    return best


def before(tree: QuotaTree, left: Contender[str], right: Contender[str], above: QuotaNode) -> bool:
    mine, theirs = standing(tree, left, above), standing(tree, right, above)
    if mine[0] != theirs[0]:
        return theirs[0]
    compared = mine[1].compare(theirs[1])
    if compared:
        return compared < 0
    return (-left.priority, left.queued_at_ms, left.id) < (
        -right.priority, right.queued_at_ms, right.id,
    )  # fmt: skip


def standing(tree: QuotaTree, contender: Contender[str], above: QuotaNode) -> tuple[bool, object]:
    path = [contender.node, *contender.node.ancestors]
    child = path[path.index(above) - 1]
    mark = tree.journal.checkpoint()
    tree.add(contender.node, contender.usage)
    found = not child.within_nominal(contender.usage), share_of(child)
    tree.journal.rollback(mark)
    return found


rows = st.lists(
    st.tuples(st.integers(1, 5000), st.integers(0, 2), st.integers(0, 3), st.booleans()),
    min_size=len(QUEUES),
    max_size=len(QUEUES),
)


@given(tree=trees(), asks=rows, used=st.lists(st.integers(0, 4000), min_size=7, max_size=7))
def test_judging_only_what_changed_gives_the_same_order(
    tree: QuotaTree, asks: list[tuple[int, int, int, bool]], used: list[int]
) -> None:
    left: dict[str, Contender[str]] = {}
    gets: dict[str, bool] = {}
    for name, (amount, priority, queued, admitted), running in zip(QUEUES, asks, used, strict=True):
        tree.add(tree.queues[name], {FR: running})
        gets[name] = admitted
        left[name] = Contender(
            tag=name,
            node=tree.queues[name],
            usage={FR: amount},
            preemptor=False,
            priority=priority,
            queued_at_ms=queued,
            id=name,
        )
    for winner in Tournament(tree, left, lambda _: None, non_borrowing_first=True):
        assert winner == naive(tree, left, tree.cohorts["root"])
        if gets[winner]:
            tree.add(left[winner].node, left[winner].usage)
        del left[winner]
