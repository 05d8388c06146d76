from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_console import drawing
from muster_console.drawing import WHOLE, Segment, segments, stages, verdicts
from muster_contracts.queries import QueueRow, QuotaPage, QuotaRow
from muster_domain.conditions import FlavorVerdict

GPU = "nvidia.com/gpu"


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(-5, 10**15), max_size=6),
    st.integers(0, 10**15),
)
def test_a_bar_is_never_longer_than_the_whole(parts: dict[str, int], scale: int) -> None:
    drawn = segments(parts, scale)
    assert sum(segment.thousandths for segment in drawn) <= WHOLE
    assert all(0 <= segment.thousandths <= WHOLE for segment in drawn)


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 10**15), min_size=1))
def test_parts_that_fill_the_scale_leave_no_gap(parts: dict[str, int]) -> None:
    drawn = segments(parts, sum(parts.values()))
    assert sum(segment.thousandths for segment in drawn) == WHOLE


def test_a_bar_shows_what_is_there_to_scale() -> None:
    assert segments({"own": 2000, "lent": 0, "free": 1000}, 4000) == (
        Segment(kind="own", thousandths=500, quantity=2000),
        Segment(kind="free", thousandths=250, quantity=1000),
    )


def queue(name: str, cohort: str) -> QueueRow:
    return QueueRow(
        name=name,
        cohort=cohort,
        strategy="BestEffortFIFO",
        active=True,
        reason="Ready",
        pending=0,
        inadmissible=0,
        reserving=0,
        admitted=0,
        local_queues=(),
    )


def quota(name: str, resource: str, **numbers: int) -> QuotaRow:
    given_: dict[str, Any] = dict.fromkeys(
        ("nominal_milli", "used_milli", "reserved_milli", "borrowed_milli"), 0
    )
    given_ |= dict.fromkeys(("lent_milli", "available_milli", "max_milli"), 0)
    return QuotaRow(
        cluster_queue=name, cohort="all", flavor="any", resource=resource, **{**given_, **numbers}
    )


def test_queues_that_lend_to_each_other_stand_together_and_share_their_scale() -> None:
    page = QuotaPage(
        queues=(queue("b", "all"), queue("lonely", ""), queue("a", "all")),
        rows=(
            quota("a", "cpu", nominal_milli=4000),
            quota("a", GPU, nominal_milli=4000, used_milli=8000, borrowed_milli=4000),
            quota("b", GPU, nominal_milli=4000, lent_milli=4000),
        ),
    )
    together, lonely = drawing.cohorts(page)
    assert (lonely.name, together.name) == ("", "all")
    first, second = together.cards
    assert [bar.row.resource for bar in first.bars] == [GPU, "cpu"]
    assert [(each.kind, each.thousandths) for each in first.bars[0].bar] == [
        ("own", 500),
        ("borrowed", 500),
    ]
    assert [(each.kind, each.thousandths) for each in second.bars[0].bar] == [("lent", 500)]


@pytest.mark.parametrize(
    ("over", "lasted_ms"), [(False, [1000, 3000, 6000]), (True, [1000, 3000, 0])]
)
def test_the_last_stage_lasts_until_now_unless_all_is_over(
    *, over: bool, lasted_ms: list[int]
) -> None:
    drawn = stages((("admitted", 2000), ("submitted", 1000), ("running", 5000)), 11_000, over=over)
    assert [stage.name for stage in drawn] == ["submitted", "admitted", "running"]
    assert [stage.lasted_ms for stage in drawn] == lasted_ms


def test_a_clock_that_lags_draws_nothing_negative() -> None:
    (stage,) = stages((("submitted", 1000),), 500, over=False)
    assert (stage.lasted_ms, stage.thousandths) == (0, 0)


def test_a_verdict_shows_what_is_used_what_would_be_granted_and_what_is_missing() -> None:
    verdict = FlavorVerdict(
        pod_set="main",
        resource=GPU,
        flavor="h100",
        reason="WaitingForQuota",
        requested_milli=8000,
        used_milli=12_000,
        available_milli=2000,
    )
    (drawn,) = verdicts((verdict, verdict))
    assert [(each.kind, each.quantity) for each in drawn.bar] == [
        ("others", 12_000),
        ("own", 2000),
        ("lacking", 6000),
    ]


def test_quota_of_nothing_that_nobody_uses_has_no_bar() -> None:
    page = QuotaPage(
        queues=(queue("a", ""),), rows=(quota("a", GPU), quota("a", "cpu", max_milli=8))
    )
    (alone,) = drawing.cohorts(page)
    assert [bar.row.resource for bar in alone.cards[0].bars] == ["cpu"]


def test_of_many_queues_a_page_is_drawn_and_they_are_found_by_name() -> None:
    page = QuotaPage(
        queues=tuple(queue(f"q{number:03}", "even" if number % 2 else "") for number in range(100)),
        rows=(),
    )
    everything = drawing.cohorts(page)

    def names(name: str, offset: int) -> list[str]:
        found = drawing.part_of(everything, name, offset)
        return [card.queue.name for cohort in found for card in cohort.cards]

    first, second = names("", 0), names("", drawing.QUEUES_DRAWN)
    assert (len(first), len(second)) == (60, 40)
    assert sorted(first + second) == [f"q{number:03}" for number in range(100)]
    assert names("q09", 0) == ["q091", "q093", "q095", "q097", "q099", "q090", "q092", "q094",
                               "q096", "q098"]  # fmt: skip
    assert names("nothing", 0) == []
