"""The ledger's moves, one by one and exhaustively."""

from itertools import product

import pytest

from muster_domain.errors import InvalidValue
from muster_ledger.holds import Balance, Hold, HoldState, Tombstone
from muster_ledger.model import TRANSITIONS, Ledger, Move, Result

CPU = ("spot", "cpu")
GPU = ("spot", "nvidia.com/gpu")
ID = "wl-7#1"


def ledger_with(state: HoldState | None) -> Ledger:
    """A ledger in which hold ID is in a state, or was never seen."""
    ledger = Ledger()
    if state is None:
        return ledger
    ledger.reserve(ID, "queue-a", {CPU: 500, GPU: 2000}, expires_at_ms=100)
    if state in (HoldState.POSTED, HoldState.RELEASED):
        ledger.post(ID)
    if state is HoldState.RELEASED:
        ledger.release(ID, now_ms=50)
    if state is HoldState.VOIDED:
        ledger.void(ID, now_ms=50)
    if state is HoldState.EXPIRED:
        ledger.expire(now_ms=100)
    return ledger


def state_of(ledger: Ledger) -> HoldState | None:
    entry = ledger.get(ID)
    return None if entry is None else entry.state


# Each row of a table satisfies every condition below it as far as they can hold together, so the
# order of the rows is the precedence.
RESERVE_PRECEDENCE = [
    (Result.ID_MALFORMED, HoldState.VOIDED, "wl-7", "queue-b", {CPU: -1}),
    (Result.AMOUNT_NEGATIVE, HoldState.VOIDED, ID, "queue-b", {CPU: -1}),
    (Result.ALREADY_VOIDED, HoldState.VOIDED, ID, "queue-b", {CPU: 1}),
    (Result.ALREADY_RELEASED, HoldState.RELEASED, ID, "queue-b", {CPU: 1}),
    (Result.ALREADY_EXPIRED, HoldState.EXPIRED, ID, "queue-b", {CPU: 1}),
    (Result.EXISTS_WITH_DIFFERENT_QUEUE, HoldState.PENDING, ID, "queue-b", {CPU: 1}),
    (Result.EXISTS_WITH_DIFFERENT_QUEUE, HoldState.POSTED, ID, "queue-b", {CPU: 1}),
    (Result.EXISTS_WITH_DIFFERENT_AMOUNT, HoldState.PENDING, ID, "queue-a", {CPU: 1}),
    (Result.EXISTS_WITH_DIFFERENT_AMOUNT, HoldState.POSTED, ID, "queue-a", {CPU: 500}),
    (Result.EXISTS, HoldState.PENDING, ID, "queue-a", {GPU: 2000, CPU: 500}),
    (Result.EXISTS, HoldState.POSTED, ID, "queue-a", {GPU: 2000, CPU: 500, ("x", "y"): 0}),
    (Result.CREATED, None, ID, "queue-a", {GPU: 2000, CPU: 500}),
    (Result.CREATED, None, ID, "queue-a", {}),
]
SHRINK_PRECEDENCE = [
    (Result.AMOUNT_NEGATIVE, None, {CPU: -1}),
    (Result.NOT_FOUND, None, {CPU: 501}),
    (Result.ALREADY_VOIDED, HoldState.VOIDED, {CPU: 501}),
    (Result.ALREADY_RELEASED, HoldState.RELEASED, {CPU: 501}),
    (Result.ALREADY_EXPIRED, HoldState.EXPIRED, {CPU: 501}),
    (Result.AMOUNT_NOT_SMALLER, HoldState.PENDING, {CPU: 501, GPU: 1}),
    (Result.AMOUNT_NOT_SMALLER, HoldState.POSTED, {CPU: 500, GPU: 2000, ("other", "cpu"): 1}),
    (Result.EXISTS, HoldState.POSTED, {CPU: 500, GPU: 2000}),
    (Result.SHRUNK, HoldState.POSTED, {CPU: 500, GPU: 0}),
    (Result.SHRUNK, HoldState.PENDING, {}),
]
GROW_PRECEDENCE = [
    (Result.AMOUNT_NEGATIVE, None, {CPU: -1}),
    (Result.NOT_FOUND, None, {CPU: 1}),
    (Result.ALREADY_VOIDED, HoldState.VOIDED, {CPU: 1}),
    (Result.ALREADY_RELEASED, HoldState.RELEASED, {CPU: 1}),
    (Result.ALREADY_EXPIRED, HoldState.EXPIRED, {CPU: 1}),
    (Result.NOT_POSTED, HoldState.PENDING, {CPU: 1}),
    (Result.AMOUNT_NOT_LARGER, HoldState.POSTED, {CPU: 501, GPU: 1999}),
    (Result.AMOUNT_NOT_LARGER, HoldState.POSTED, {CPU: 900}),
    (Result.EXISTS, HoldState.POSTED, {CPU: 500, GPU: 2000}),
    (Result.GROWN, HoldState.POSTED, {CPU: 501, GPU: 2000, ("other", "cpu"): 1}),
]
MOVE_PRECEDENCE = {
    Move.POST: [
        (Result.NOT_FOUND, None),
        (Result.ALREADY_VOIDED, HoldState.VOIDED),
        (Result.ALREADY_RELEASED, HoldState.RELEASED),
        (Result.ALREADY_EXPIRED, HoldState.EXPIRED),
        (Result.ALREADY_POSTED, HoldState.POSTED),
        (Result.POSTED, HoldState.PENDING),
    ],
    Move.VOID: [
        (Result.NOT_FOUND, None),
        (Result.ALREADY_VOIDED, HoldState.VOIDED),
        (Result.ALREADY_RELEASED, HoldState.RELEASED),
        (Result.ALREADY_EXPIRED, HoldState.EXPIRED),
        (Result.ALREADY_POSTED, HoldState.POSTED),
        (Result.VOIDED, HoldState.PENDING),
    ],
    Move.RELEASE: [
        (Result.NOT_FOUND, None),
        (Result.ALREADY_VOIDED, HoldState.VOIDED),
        (Result.ALREADY_RELEASED, HoldState.RELEASED),
        (Result.ALREADY_EXPIRED, HoldState.EXPIRED),
        (Result.NOT_POSTED, HoldState.PENDING),
        (Result.RELEASED, HoldState.POSTED),
    ],
}


def in_order(results: list[Result]) -> bool:
    ranks = [list(Result).index(result) for result in results]
    return ranks == sorted(ranks)


@pytest.mark.parametrize(("expected", "state", "hold", "queue", "amounts"), RESERVE_PRECEDENCE)
def test_reserve_answers_by_precedence(
    expected: Result,
    state: HoldState | None,
    hold: str,
    queue: str,
    amounts: dict[tuple[str, str], int],
) -> None:
    ledger = ledger_with(state)
    before = dict(ledger.balances())

    assert ledger.reserve(hold, queue, amounts, expires_at_ms=900) is expected
    assert expected.changed or dict(ledger.balances()) == before


@pytest.mark.parametrize(("expected", "state", "amounts"), SHRINK_PRECEDENCE)
def test_shrink_answers_by_precedence(
    expected: Result, state: HoldState | None, amounts: dict[tuple[str, str], int]
) -> None:
    ledger = ledger_with(state)
    before = dict(ledger.balances())

    assert ledger.shrink(ID, amounts) is expected
    assert state_of(ledger) is state
    assert expected.changed == (dict(ledger.balances()) != before)


@pytest.mark.parametrize(("expected", "state", "amounts"), GROW_PRECEDENCE)
def test_grow_answers_by_precedence(
    expected: Result, state: HoldState | None, amounts: dict[tuple[str, str], int]
) -> None:
    ledger = ledger_with(state)
    before = dict(ledger.balances())

    assert ledger.grow(ID, amounts) is expected
    assert state_of(ledger) is state
    assert expected.changed == (dict(ledger.balances()) != before)


def test_what_grew_is_stored_and_given_back_whole() -> None:
    ledger = ledger_with(HoldState.POSTED)
    ledger.grow(ID, {CPU: 800, GPU: 2000})
    fields = {name: value for name, value in ledger.take_changes().items() if value is not None}
    again = Ledger.from_fields(fields)
    assert again.balance("queue-a", *CPU) == Balance(used_milli=800)
    again.release(ID, now_ms=50)
    assert dict(again.balances()) == {}


def test_tables_walk_the_documented_order() -> None:
    assert in_order([row[0] for row in RESERVE_PRECEDENCE])
    assert in_order([row[0] for row in SHRINK_PRECEDENCE])
    assert in_order([row[0] for row in GROW_PRECEDENCE])
    for rows in MOVE_PRECEDENCE.values():
        assert in_order([result for result, _ in rows])


def test_every_result_is_reached_by_some_row() -> None:
    tables = (RESERVE_PRECEDENCE, SHRINK_PRECEDENCE, GROW_PRECEDENCE)
    reached = {row[0] for table in tables for row in table}
    for rows in MOVE_PRECEDENCE.values():
        reached |= {result for result, _ in rows}

    assert set(Result) - reached == {Result.EXPIRED}


@pytest.mark.parametrize("move", MOVE_PRECEDENCE)
def test_each_move_answers_by_precedence_in_every_state(move: Move) -> None:
    rows = MOVE_PRECEDENCE[move]
    assert {state for _, state in rows} == {None, *HoldState}

    for expected, state in rows:
        ledger = ledger_with(state)
        act = {
            Move.POST: lambda found=ledger: found.post(ID),
            Move.VOID: lambda found=ledger: found.void(ID, 60),
            Move.RELEASE: lambda found=ledger: found.release(ID, 60),
        }[move]

        assert act() is expected
        allowed = state is not None and (state, move) in TRANSITIONS
        assert expected.changed is allowed
        assert state_of(ledger) is (TRANSITIONS[state, move] if allowed else state)


def test_no_transition_leaves_a_terminal_state() -> None:
    for state, move in product((HoldState.VOIDED, HoldState.RELEASED, HoldState.EXPIRED), Move):
        assert (state, move) not in TRANSITIONS


def test_a_reservation_moves_from_reserved_to_used_and_back_to_nothing() -> None:
    ledger = ledger_with(HoldState.PENDING)
    assert ledger.balance("queue-a", *GPU) == Balance(2000, 0)

    ledger.post(ID)
    assert ledger.balance("queue-a", *GPU) == Balance(0, 2000)
    assert ledger.balance("queue-a", *GPU).held_milli == 2000

    ledger.release(ID, 70)
    assert ledger.balances() == {}
    assert ledger.get(ID) == Tombstone(id=ID, state=HoldState.RELEASED, ended_at_ms=70)


def test_repeating_the_reservation_after_a_shrink_still_exists() -> None:
    ledger = ledger_with(HoldState.POSTED)
    ledger.shrink(ID, {CPU: 500})

    assert ledger.balance("queue-a", *GPU) == Balance()
    assert ledger.reserve(ID, "queue-a", {CPU: 500, GPU: 2000}, None) is Result.EXISTS
    assert ledger.reserve(ID, "queue-a", {CPU: 500}, None) is Result.EXISTS_WITH_DIFFERENT_AMOUNT


def test_expiry_takes_only_what_is_due_and_pending() -> None:
    ledger = Ledger()
    for attempt, expires_at_ms in enumerate((30, 20, 10, None, 20, 40), start=1):
        ledger.reserve(f"wl#{attempt}", "queue-a", {CPU: attempt}, expires_at_ms)
    ledger.post("wl#3")

    due = ledger.due(now_ms=30)
    assert [hold.id for hold in due] == ["wl#2", "wl#5", "wl#1"]
    assert ledger.due(now_ms=30) == due

    assert ledger.expire(now_ms=30) == due
    assert ledger.expire(now_ms=30) == ()
    assert [hold.id for hold in ledger.holds()] == ["wl#3", "wl#4", "wl#6"]
    assert ledger.post("wl#1") is Result.ALREADY_EXPIRED
    assert ledger.balance("queue-a", *CPU) == Balance(10, 3)


def test_a_reservation_that_is_due_can_be_posted_until_it_is_expired() -> None:
    ledger = ledger_with(HoldState.PENDING)

    assert ledger.post(ID) is Result.POSTED
    assert ledger.expire(now_ms=1_000_000) == ()


def test_prune_forgets_by_age_and_by_number_and_never_a_live_hold() -> None:
    ledger = Ledger()
    for attempt in range(1, 7):
        ledger.reserve(f"wl#{attempt}", "queue-a", {CPU: 1}, None)
    for attempt in range(1, 6):
        ledger.void(f"wl#{attempt}", now_ms=attempt * 10)
    ledger.take_changes()

    assert ledger.prune(before_ms=20, keep_max=10) == 1
    assert ledger.prune(before_ms=0, keep_max=2) == 2
    assert ledger.take_changes() == {"h/wl#1": None, "h/wl#2": None, "h/wl#3": None}
    assert [ledger.get(f"wl#{n}") is None for n in range(1, 7)] == [True] * 3 + [False] * 3
    assert ledger.prune(before_ms=1_000, keep_max=0) == 2
    assert [hold.id for hold in ledger.holds()] == ["wl#6"]


def test_changes_are_absolute_values_taken_once() -> None:
    ledger = ledger_with(HoldState.POSTED)

    assert ledger.take_changes() == {
        "h/wl-7#1": b'{"q":"queue-a","s":"posted",'
        b'"a":[["spot","cpu",500],["spot","nvidia.com/gpu",2000]]}',
        "b/queue-a/spot/cpu": b"[0,500]",
        "b/queue-a/spot/nvidia.com%2Fgpu": b"[0,2000]",
    }
    assert ledger.take_changes() == {}

    ledger.release(ID, 70)
    assert ledger.take_changes() == {
        "h/wl-7#1": b'{"s":"released","t":70}',
        "b/queue-a/spot/cpu": None,
        "b/queue-a/spot/nvidia.com%2Fgpu": None,
    }


def test_a_refused_move_changes_no_field() -> None:
    ledger = ledger_with(HoldState.VOIDED)
    ledger.take_changes()

    ledger.reserve(ID, "queue-a", {CPU: 1}, None)
    ledger.post(ID)
    ledger.void(ID, 99)
    ledger.shrink(ID, {})

    assert ledger.take_changes() == {}


@pytest.mark.parametrize("state", list(HoldState))
def test_a_ledger_rebuilt_from_its_fields_is_the_same(state: HoldState) -> None:
    ledger = ledger_with(state)
    ledger.reserve("wl-8#2", "queue-b", {CPU: 2**70}, expires_at_ms=5)
    ledger.shrink("wl-8#2", {CPU: 2**69})
    fields = {name: value for name, value in ledger.take_changes().items() if value is not None}

    again = Ledger.from_fields({**fields, "w/other": b"not mine"})

    assert again.get(ID) == ledger.get(ID)
    assert again.get("wl-8#2") == Hold(
        id="wl-8#2",
        cluster_queue="queue-b",
        amounts={CPU: 2**69},
        reserved_amounts={CPU: 2**70},
        expires_at_ms=5,
    )
    assert again.balances() == ledger.balances()
    assert again.take_changes() == {}
    assert [hold.id for hold in again.due(5)] == ["wl-8#2"]


@pytest.mark.parametrize(
    "tampered",
    [
        pytest.param({"b/queue-a/spot/cpu": b"[501,0]"}, id="wrong sum"),
        pytest.param({"b/queue-a/spot/cpu": b"[0,500]"}, id="wrong column"),
        pytest.param({"b/queue-z/spot/cpu": b"[1,0]"}, id="balance without hold"),
        pytest.param({"h/wl-7#1": b'{"s":"voided","t":1}'}, id="hold gone"),
        pytest.param({"h/wl-7#1": b'{"s":"pending"}'}, id="hold without body"),
        pytest.param({"h/wl-7#1": b"\xff"}, id="not text"),
        pytest.param({"b/queue-a/spot/cpu": b"[500.0,0]"}, id="float"),
        pytest.param({"b/queue-a/cpu": b"[500,0]"}, id="balance name"),
    ],
)
def test_a_ledger_does_not_start_on_fields_that_disagree(tampered: dict[str, bytes]) -> None:
    stored = ledger_with(HoldState.PENDING).take_changes()
    fields = {name: value for name, value in stored.items() if value is not None}

    with pytest.raises(InvalidValue):
        Ledger.from_fields({**fields, **tampered})
