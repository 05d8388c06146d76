from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_contracts.envelope import (
    MESSAGE_ID,
    Envelope,
    derived_id,
    event_type,
    from_headers,
    rfc3339,
    to_headers,
)
from muster_contracts.subjects import Service
from muster_domain.errors import InvalidValue

texts = st.text(st.characters(exclude_categories=("Cs",)))
moments = st.integers(0, 4_102_444_800_000)  # until 2100
envelopes = st.builds(
    Envelope,
    id=st.text(min_size=1),
    source=texts,
    type=texts,
    time_ms=moments,
    causation_id=texts,
    correlation_id=texts,
    traceparent=texts,
)


@given(envelopes)
def test_an_envelope_comes_back_from_its_headers(envelope: Envelope) -> None:
    assert from_headers(to_headers(envelope)) == envelope


@given(moments)
def test_a_time_is_written_to_the_millisecond(time_ms: int) -> None:
    written = datetime.fromisoformat(rfc3339(time_ms))
    assert written.tzinfo == UTC
    assert (written - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(milliseconds=1) == time_ms


def test_what_a_header_looks_like() -> None:
    headers = to_headers(
        Envelope(
            id="9a",
            source="muster/admission/p03",
            type=event_type(Service.ADMISSION, "quota_reserved"),
            time_ms=1_790_000_000_042,
            causation_id="8f",
        )
    )
    assert headers == {
        "Nats-Msg-Id": "9a",
        "ce-specversion": "1.0",
        "ce-id": "9a",
        "ce-source": "muster/admission/p03",
        "ce-type": "dev.muster.admission.v1.quota_reserved",
        "ce-time": "2026-09-21T14:13:20.042Z",
        "ce-causationid": "8f",
    }


def test_the_bus_id_stands_in_for_a_missing_one() -> None:
    assert from_headers({MESSAGE_ID: "x"}) == Envelope(id="x", source="", type="", time_ms=0)


@pytest.mark.parametrize("text", ["yesterday", "2026-09-21", "2026-09-21T14:13:20", "1790000000"])
def test_a_time_without_an_offset_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match="is not a time"):
        from_headers({"ce-id": "x", "ce-time": text})


@pytest.mark.parametrize("headers", [{}, {"ce-id": ""}, {"ce-id": "", MESSAGE_ID: ""}])
def test_a_message_without_an_id_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(InvalidValue, match="no id"):
        from_headers(headers)


@given(
    st.dictionaries(
        st.sampled_from([*to_headers(Envelope(id="x", source="", type="", time_ms=0))]), st.text()
    )
)
def test_hostile_headers_are_read_or_refused(headers: dict[str, str]) -> None:
    try:
        read = from_headers(headers)
    except InvalidValue:
        return
    assert read.id


@given(st.lists(st.text(max_size=5), max_size=4), st.lists(st.text(max_size=5), max_size=4))
def test_ids_differ_where_their_parts_do(one: list[str], other: list[str]) -> None:
    plain = all("\x1f" not in part for part in (*one, *other)) and one and other
    if plain:
        assert (derived_id(*one) == derived_id(*other)) == (one == other)


def test_ids_are_the_same_in_every_release() -> None:
    assert derived_id("p03", 7, 1207, 0) == derived_id("p03", "7", "1207", "0")
    assert derived_id("p03", 7, 1207, 0) == "38779ed04fa8954b2f4911838df0d268"
