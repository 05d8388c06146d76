"""Names and values of fields survive being written and read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_domain.errors import InvalidValue
from muster_ledger.holds import (
    Balance,
    BalanceKey,
    Hold,
    HoldState,
    Tombstone,
    balance_field,
    decode_balance,
    decode_entry,
    encode_balance,
    encode_entry,
    hold_field,
    hold_id,
    normalised,
    parse_hold_id,
)

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12) | st.text(
    "%/2F5#", min_size=1
)
milli = st.integers(min_value=1, max_value=2**200)
amounts = st.dictionaries(st.tuples(names, names), milli, max_size=4).map(normalised)


@given(names, names, names, milli, milli)
def test_a_balance_reads_as_written(
    queue: str, flavor: str, resource: str, reserved: int, used: int
) -> None:
    key, balance = BalanceKey(queue, flavor, resource), Balance(reserved, used)

    assert decode_balance(balance_field(key), encode_balance(balance)) == (key, balance)


@given(
    names,
    names,
    amounts,
    amounts,
    st.sampled_from([HoldState.PENDING, HoldState.POSTED]),
    st.none() | st.integers(min_value=0, max_value=2**60),
)
def test_a_hold_reads_as_written(
    identity: str,
    queue: str,
    held: dict[tuple[str, str], int],
    first: dict[tuple[str, str], int],
    state: HoldState,
    expires_at_ms: int | None,
) -> None:
    hold = Hold(
        id=identity,
        cluster_queue=queue,
        amounts=held,
        reserved_amounts=first,
        state=state,
        expires_at_ms=expires_at_ms,
    )

    assert decode_entry(hold_field(identity), encode_entry(hold)) == hold


@given(names, st.sampled_from([HoldState.VOIDED, HoldState.RELEASED, HoldState.EXPIRED]))
def test_a_tombstone_reads_as_written(identity: str, state: HoldState) -> None:
    tombstone = Tombstone(id=identity, state=state, ended_at_ms=2**60)

    assert decode_entry(hold_field(identity), encode_entry(tombstone)) == tombstone


@given(st.tuples(names, names, names), st.tuples(names, names, names))
def test_different_quotas_have_different_fields(
    left: tuple[str, str, str], right: tuple[str, str, str]
) -> None:
    assert (balance_field(BalanceKey(*left)) == balance_field(BalanceKey(*right))) == (
        left == right
    )


def test_hold_ids_name_workload_and_attempt() -> None:
    assert hold_id("default/train#7", 3) == "default/train#7#3"
    assert parse_hold_id("default/train#7#3") == ("default/train#7", 3)


@pytest.mark.parametrize("text", ["", "wl", "#1", "wl#", "wl#-1", "wl#1.5", "wl#²"])
def test_what_is_not_a_hold_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match="not a hold id"):
        parse_hold_id(text)
