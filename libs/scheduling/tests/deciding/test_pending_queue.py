"""The line of a ClusterQueue against a plain list that does the same slowly."""

from hypothesis import given
from hypothesis import strategies as st

from muster_scheduling import Policy, prepare
from muster_scheduling.ordering.pending import PendingQueue
from muster_scheduling.quota import Journal
from muster_scheduling.snapshot.workloads import PendingWorkload

from .builders import job

IDS = [f"w{n}" for n in range(8)]
SHAPES = (1, 2, 3)


def workload(name: str, gpus: int, created: int, priority: int) -> PendingWorkload:
    return prepare(job(name, "q", gpus, created=created, priority=priority), Policy())


def line(*workloads: PendingWorkload) -> PendingQueue:
    queue = PendingQueue("q", Journal())
    for pending in workloads:
        queue.add(pending)
    return queue


def head(queue: PendingQueue) -> str:
    found = queue.head()
    return found.id if found is not None else ""


def test_priority_then_age_then_id() -> None:
    queue = line(
        workload("b", 1, 5, 0), workload("a", 1, 5, 0), workload("old", 2, 1, 0),
        workload("high", 3, 9, 7),
    )  # fmt: skip
    assert [w.id for w in queue.in_order()] == ["high", "old", "a", "b"]
    assert [queue.position(name) for name in ("high", "old", "a", "b")] == [0, 1, 2, 3]


def test_a_sticky_preemptor_stays_first_until_it_is_gone() -> None:
    queue = line(workload("high", 1, 0, 9), workload("low", 2, 0, 0))
    queue.stick("low")
    assert (head(queue), queue.position("high"), queue.position("low")) == ("low", 1, 0)
    queue.discard("low")
    assert head(queue) == "high"


def test_a_parked_shape_takes_later_arrivals_with_it_until_a_flush() -> None:
    queue = line(workload("a", 1, 0, 0), workload("b", 1, 1, 0), workload("c", 2, 2, 0))
    queue.park_class(queue.workloads["a"].shape)
    queue.add(workload("d", 1, 3, 0))
    assert (head(queue), queue.active, queue.parked_ids()) == ("c", 1, ["a", "b", "d"])
    for name in ("a", "b", "d"):
        queue.discard(name)
    queue.add(workload("a", 1, 0, 0))
    assert (head(queue), queue.parked_ids()) == ("c", ["a"])
    assert queue.flush(0)
    assert (head(queue), queue.active) == ("a", 2)


def test_whoever_is_held_back_sleeps_through_a_flush() -> None:
    early = workload("early", 1, 0, 0)
    early.requeue_at_ms = 50
    queue = PendingQueue("q", Journal())
    queue.add(early, held_back=True)
    queue.flush(49)
    assert head(queue) == ""
    queue.flush(50)
    assert head(queue) == "early"


operations = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from(IDS), st.sampled_from(SHAPES)),
        st.tuples(
            st.sampled_from(["discard", "park", "park_class", "stick"]), st.sampled_from(IDS)
        ),
        st.tuples(st.just("flush")),
    ),
    max_size=25,
)


class Slow:
    """The same line as lists and sets."""

    def __init__(self) -> None:
        self.waiting: dict[str, PendingWorkload] = {}
        self.parked: set[str] = set()
        self.blocked: set[str] = set()
        self.sticky = ""

    def in_line(self, name: str) -> bool:
        return name not in self.parked and self.waiting[name].shape not in self.blocked

    def head(self) -> str:
        if self.sticky in self.waiting and self.in_line(self.sticky):
            return self.sticky
        active = [w for name, w in self.waiting.items() if self.in_line(name)]
        return min(active, key=lambda w: w.order).id if active else ""


def apply(queue: PendingQueue, slow: Slow, operation: tuple[object, ...], number: int) -> None:
    kind, *rest = operation
    if kind == "flush":
        queue.flush(0)
        slow.parked.clear()
        slow.blocked.clear()
        return
    name = str(rest[0])
    if kind == "add":
        if name not in slow.waiting:
            pending = workload(name, int(str(rest[1])), number % 5, int(str(rest[1])) % 2)
            queue.add(pending)
            slow.waiting[name] = pending
        return
    if name not in slow.waiting:
        return
    if kind == "discard":
        queue.discard(name)
        del slow.waiting[name]
        slow.parked.discard(name)
        if slow.sticky == name:
            slow.sticky = ""
    elif kind == "park":
        queue.park(name)
        slow.parked.add(name)
    elif kind == "park_class":
        queue.park_class(slow.waiting[name].shape)
        slow.blocked.add(slow.waiting[name].shape)
    else:
        queue.stick(name)
        slow.sticky = name


@given(first=operations, second=operations)
def test_the_line_does_what_a_plain_list_does_and_rolls_back(
    first: list[tuple[object, ...]], second: list[tuple[object, ...]]
) -> None:
    journal = Journal()
    queue, slow = PendingQueue("q", journal), Slow()
    for number, operation in enumerate(first):
        apply(queue, slow, operation, number)
        assert head(queue) == slow.head()
        assert queue.active == sum(slow.in_line(name) for name in slow.waiting)
    before = ([w.id for w in queue.in_order()], sorted(queue.parked_ids()), head(queue))
    mark = journal.checkpoint()
    aside = Slow()
    aside.waiting, aside.parked = dict(slow.waiting), set(slow.parked)
    aside.blocked, aside.sticky = set(slow.blocked), slow.sticky
    for number, operation in enumerate(second):
        apply(queue, aside, operation, number)
        assert head(queue) == aside.head()
    journal.rollback(mark)
    after = ([w.id for w in queue.in_order()], sorted(queue.parked_ids()), head(queue))
    assert after == before
    assert queue.active == sum(slow.in_line(name) for name in slow.waiting)
