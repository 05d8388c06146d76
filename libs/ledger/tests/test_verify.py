"""Verification finds every kind of disagreement, and nothing in a sound ledger."""

import pytest

from muster_ledger.model import Ledger
from muster_ledger.verify import Charge, Discrepancy, DiscrepancyKind, verify

CPU = ("on-demand", "cpu")
MEMORY = ("on-demand", "memory")
HUGE = 2**65


def sound() -> tuple[dict[str, bytes], dict[str, Charge]]:
    """One reserved hold, one posted and shrunk, one released; and what admission would say."""
    ledger = Ledger()
    ledger.reserve("a#1", "red", {CPU: 1000, MEMORY: HUGE}, expires_at_ms=10)
    ledger.reserve("b#1", "red", {CPU: 3000}, expires_at_ms=10)
    ledger.post("b#1")
    ledger.shrink("b#1", {CPU: 2000})
    ledger.reserve("c#4", "blue", {CPU: 5}, expires_at_ms=None)
    ledger.post("c#4")
    ledger.release("c#4", now_ms=9)
    fields = {name: value for name, value in ledger.take_changes().items() if value is not None}
    charges = {
        "a#1": Charge("red", {CPU: 1000, MEMORY: HUGE}),
        "b#1": Charge("red", {CPU: 2000, MEMORY: 0}),
    }
    return fields, charges


def test_a_sound_ledger_has_no_discrepancy() -> None:
    fields, charges = sound()

    assert verify(fields) == ()
    assert verify(fields, charges) == ()
    assert verify({**fields, "w/default/a": b"a workload"}, charges) == ()
    assert verify({}, {}) == ()


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        pytest.param(
            {"b/red/on-demand/cpu": b"[1001,2000]"},
            Discrepancy(
                kind=DiscrepancyKind.RESERVED_DIFFERS,
                field="b/red/on-demand/cpu",
                expected_milli=1000,
                found_milli=1001,
            ),
            id="one milli too much reserved",
        ),
        pytest.param(
            {"b/red/on-demand/cpu": b"[1000,0]"},
            Discrepancy(
                kind=DiscrepancyKind.USED_DIFFERS,
                field="b/red/on-demand/cpu",
                expected_milli=2000,
                found_milli=0,
            ),
            id="use forgotten",
        ),
        pytest.param(
            {"b/red/on-demand/memory": b"[%d,0]" % (HUGE + 1)},
            Discrepancy(
                kind=DiscrepancyKind.RESERVED_DIFFERS,
                field="b/red/on-demand/memory",
                expected_milli=HUGE,
                found_milli=HUGE + 1,
            ),
            id="one milli above what a double can tell",
        ),
        pytest.param(
            {"b/green/on-demand/cpu": b"[0,7]"},
            Discrepancy(
                kind=DiscrepancyKind.USED_DIFFERS,
                field="b/green/on-demand/cpu",
                found_milli=7,
            ),
            id="balance of nobody",
        ),
        pytest.param(
            {"b/red": b"[0,7]"},
            Discrepancy(
                kind=DiscrepancyKind.UNREADABLE, field="b/red", detail="not a balance: b'[0,7]'"
            ),
            id="unreadable",
        ),
    ],
)
def test_a_wrong_field_is_the_only_discrepancy(
    changed: dict[str, bytes], expected: Discrepancy
) -> None:
    fields, charges = sound()

    assert verify({**fields, **changed}, charges) == (expected,)


def test_a_balance_below_zero_is_named_as_such() -> None:
    found = verify({"b/red/on-demand/cpu": b"[-5,0]"})

    assert [(item.kind, item.found_milli) for item in found] == [
        (DiscrepancyKind.NEGATIVE, -5),
        (DiscrepancyKind.RESERVED_DIFFERS, -5),
    ]


@pytest.mark.parametrize(
    ("claims", "kinds"),
    [
        pytest.param(
            {"d#1": Charge("red", {CPU: 1})}, [DiscrepancyKind.HOLD_MISSING], id="no hold"
        ),
        pytest.param({"c#4": Charge("blue", {CPU: 5})}, [DiscrepancyKind.HOLD_MISSING], id="ended"),
        pytest.param(
            {"a#1": Charge("blue", {CPU: 1000, MEMORY: HUGE})},
            [DiscrepancyKind.QUEUE_DIFFERS],
            id="other queue",
        ),
        pytest.param(
            {"b#1": Charge("red", {CPU: 3000})}, [DiscrepancyKind.AMOUNT_DIFFERS], id="not shrunk"
        ),
        pytest.param(
            {"b#1": Charge("red", {CPU: 2000, MEMORY: 1})},
            [DiscrepancyKind.AMOUNT_DIFFERS],
            id="one resource more",
        ),
    ],
)
def test_admission_and_ledger_are_compared(
    claims: dict[str, Charge], kinds: list[DiscrepancyKind]
) -> None:
    fields, charges = sound()

    assert [item.kind for item in verify(fields, {**charges, **claims})] == kinds


def test_a_hold_that_no_workload_claims_is_found() -> None:
    fields, charges = sound()
    del charges["a#1"]

    assert [(item.kind, item.field) for item in verify(fields, charges)] == [
        (DiscrepancyKind.HOLD_UNCLAIMED, "h/a#1")
    ]
