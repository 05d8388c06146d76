from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_console import drawing
from muster_console.drawing import WHOLE, Part, Segment, segments, stages, verdicts
from muster_contracts.floor import DomainPage, DomainRow
from muster_contracts.queries import (
    CardShare,
    DeviceRow,
    NodePage,
    NodeRow,
    QueueRow,
    QuotaPage,
    QuotaRow,
)
from muster_domain.conditions import FlavorVerdict
from muster_domain.nodes import DeviceHealth, NodeCondition

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
    lonely, together = drawing.cohorts(page)
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


def node(name: str, *cards: DeviceRow) -> NodeRow:
    return NodeRow(
        name=name,
        condition=NodeCondition.READY,
        allocatable_milli={"cpu": 8000},
        free_milli={"cpu": 2000},
        labels={},
        devices=cards,
        workloads=(),
        last_heartbeat_ms=0,
    )


def card(index: int, health: DeviceHealth = DeviceHealth.HEALTHY, holder: str = "") -> DeviceRow:
    return DeviceRow(index=index, resource=GPU, model="H100", health=health, holder=holder)


def test_every_card_is_a_cell_coloured_by_its_team() -> None:
    page = NodePage(
        nodes=(
            node("n1", card(1, holder="team-b/x"), card(0, holder="team-a/y")),
            node("n2", card(0, DeviceHealth.FAILED), card(1, DeviceHealth.HELD_BY_OTHERS), card(2)),
        ),
        largest_gang_of_one_gpu=1,
    )
    drawn = drawing.floor(page, DomainPage(pods=(), domains=(), total=0))
    assert drawn.teams == (("team-a", 0), ("team-b", 1))
    first, second = drawn.outside
    assert [(cell.kind, cell.colour) for cell in first.cells] == [("held", 0), ("held", 1)]
    assert [cell.kind for cell in second.cells] == ["failed", "others", "free"]
    assert [(each.kind, each.thousandths) for each in first.cpu] == [("own", 750), ("free", 250)]


def test_a_shared_card_shows_the_part_of_each_team() -> None:
    shares = (CardShare(holder="team-a/x", milli=500), CardShare(holder="team-b/y", milli=250))
    shared = replace(card(0, holder="team-a/x"), shares=shares, left_milli=250)
    page = NodePage(nodes=(node("n1", shared),), largest_gang_of_one_gpu=0)
    drawn = drawing.floor(page, DomainPage(pods=(), domains=(), total=0))
    (cell,) = drawn.outside[0].cells
    assert (cell.kind, cell.parts) == (
        "shared",
        (Part(colour=0, thousandths=500), Part(colour=1, thousandths=250)),
    )
    assert cell.title == "H100 #0: team-a/x 50 %, team-b/y 25 %, free 25 %"


def test_nodes_stand_in_their_domains_and_the_others_apart() -> None:
    def row(level: str, *path: str) -> DomainRow:
        return DomainRow(
            topology="dc", level=f"example.com/{level}", path=path, nodes=2, ready=1,
            allocatable_milli={GPU: 8000}, free_milli={GPU: 3000}, largest=(),
        )  # fmt: skip

    racked = replace(node("n1", card(0)), domains={"dc": ("b", "r1")})
    page = NodePage(nodes=(racked, node("n2")), largest_gang_of_one_gpu=0)
    domains = DomainPage(pods=(), domains=(row("block", "b"), row("rack", "b", "r1")), total=2)
    drawn = drawing.floor(page, domains)
    (topology,) = drawn.topologies
    (block,) = topology.boxes
    (rack,) = block.inside
    assert (topology.levels, block.name, block.nodes) == (("block", "rack"), "b", ())
    assert (rack.level, rack.free_milli, rack.total_milli, rack.not_ready) == (
        "rack",
        3000,
        8000,
        1,
    )
    assert [each.node.name for each in rack.nodes] == ["n1"]
    assert [each.node.name for each in drawn.outside] == ["n2"]
