"""The floor as a plan of the room."""

from dataclasses import replace

import pytest

from muster_console.floor import BOXES_DRAWN, NODES_DRAWN, Part, View, floor, wanted
from muster_contracts.floor import DomainPage, DomainRow
from muster_contracts.queries import CardShare, DeviceRow, InstanceRow, NodePage, NodeRow
from muster_domain.nodes import DeviceHealth, NodeCondition

GPU = "nvidia.com/gpu"
NO_DOMAINS = DomainPage(pods=(), domains=(), total=0)
ALL = View()


def node(name: str, *cards: DeviceRow, path: tuple[str, ...] = ()) -> NodeRow:
    free = sum(1000 for card in cards if not card.holder)
    return NodeRow(
        name=name,
        condition=NodeCondition.READY,
        allocatable_milli={"cpu": 8000, GPU: 1000 * len(cards)},
        free_milli={"cpu": 2000, GPU: free},
        labels={},
        devices=cards,
        workloads=(),
        last_heartbeat_ms=0,
        domains={"dc": path} if path else {},
    )


def card(index: int, health: DeviceHealth = DeviceHealth.HEALTHY, holder: str = "") -> DeviceRow:
    return DeviceRow(index=index, resource=GPU, model="H100", health=health, holder=holder)


def page_of(*nodes: NodeRow) -> NodePage:
    return NodePage(nodes=nodes, largest_gang_of_one_gpu=0)


def domain(level: str, *path: str, nodes: int = 1) -> DomainRow:
    return DomainRow(
        topology="dc", level=f"example.com/{level}", path=path, nodes=nodes, ready=nodes,
        allocatable_milli={}, free_milli={}, largest=(),
    )  # fmt: skip


def test_every_card_is_a_cell_with_the_letter_and_the_colour_of_its_team() -> None:
    page = page_of(
        node("n1", card(1, holder="team-b/x"), card(0, holder="team-a/y")),
        node("n2", card(0, DeviceHealth.FAILED), card(1, DeviceHealth.HELD_BY_OTHERS), card(2)),
    )
    drawn = floor(page, NO_DOMAINS, ALL)
    assert [(team.name, team.letter, team.colour) for team in drawn.teams] == [
        ("team-a", "a", 0),
        ("team-b", "b", 1),
    ]
    first, second = drawn.listed
    assert [(cell.kind, cell.letter, cell.colour) for cell in first.cells] == [
        ("held", "a", 0),
        ("held", "b", 1),
    ]
    assert [(cell.kind, cell.words) for cell in second.cells] == [
        ("failed", "H100 #0: failed"),
        ("others", "H100 #1: used outside Muster"),
        ("free", "H100 #2: free"),
    ]
    assert [(each.kind, each.thousandths) for each in first.cpu] == [("own", 750), ("free", 250)]
    assert (first.free, first.cpu_words) == ("0/2", "2 of 8 cpu free")
    assert drawn.kinds == {"held", "failed", "others", "free"}


def test_a_shared_card_shows_the_part_of_each_team() -> None:
    shares = (CardShare(holder="team-a/x", milli=500), CardShare(holder="team-b/y", milli=250))
    shared = replace(card(0, holder="team-a/x"), shares=shares, left_milli=250)
    (cell,) = floor(page_of(node("n1", shared)), NO_DOMAINS, ALL).listed[0].cells
    assert (cell.kind, cell.parts) == (
        "shared",
        (
            Part(kind="held", thousandths=500, colour=0, letter="a"),
            Part(kind="held", thousandths=250, colour=1, letter="b"),
        ),
    )
    assert cell.words == "H100 #0: team-a/x 50 %, team-b/y 25 %, free 25 %"


def test_a_divided_card_shows_its_instances_where_they_are() -> None:
    instances = (
        InstanceRow(profile="1g.10gb", start=1, slices=1),
        InstanceRow(profile="1g.10gb", start=2, slices=1, health="held_by_others"),
        InstanceRow(profile="3g.40gb", start=4, slices=4, holder="team-a/x"),
    )
    divided = replace(card(0, holder="team-a/x"), slices=8, instances=instances, left_milli=375)
    (cell,) = floor(page_of(node("n1", divided)), NO_DOMAINS, ALL).listed[0].cells
    assert cell.kind == "divided"
    assert [(part.kind, part.thousandths, part.letter) for part in cell.parts] == [
        ("free", 125, ""),
        ("idle", 125, ""),
        ("others", 125, ""),
        ("free", 125, ""),
        ("held", 500, "a"),
    ]
    assert "3g.40gb@4 team-a/x" in cell.words


def test_nodes_whose_cards_are_used_in_turns_say_so() -> None:
    labels = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"}
    turned = replace(node("n1", card(0)), labels=labels)
    (drawn,) = floor(page_of(turned), NO_DOMAINS, ALL).listed
    assert drawn.turns == "4 pods take turns on each card"


def house() -> tuple[NodePage, DomainPage]:
    page = page_of(
        node("n1", card(0), path=("b", "r1")),
        node("n2", card(0, holder="t/w"), path=("b", "r2")),
        node("lonely", card(0)),
    )
    rows = (domain("block", "b", nodes=2), domain("rack", "b", "r1"), domain("rack", "b", "r2"))
    return page, DomainPage(pods=(), domains=rows, total=3)


def test_nodes_stand_in_their_domains_and_the_others_apart() -> None:
    drawn = floor(*house(), ALL)
    (topology,) = drawn.topologies
    (block,) = topology.boxes
    first, second = block.inside
    assert (topology.levels, block.name, block.nodes) == (("block", "rack"), "b", ())
    assert (block.free_milli, block.total_milli) == (1000, 2000)
    assert [each.node.name for box in (first, second) for each in box.nodes] == ["n1", "n2"]
    assert [each.node.name for each in drawn.listed] == ["lonely"]


def test_a_domain_is_opened_by_its_path() -> None:
    drawn = floor(*house(), View(topology="dc", path=("b", "r2")))
    assert [box.path for box in drawn.topologies[0].boxes] == [("b", "r2")]
    assert drawn.listed == ()
    assert floor(*house(), View(topology="dc", path=("b", "r9"))).topologies == ()
    assert floor(*house(), View(topology="other", path=("b",))).topologies == ()


def test_nodes_that_were_found_by_name_are_a_list() -> None:
    page, domains = house()
    drawn = floor(replace(page, total=700), domains, View(name="n"))
    assert (drawn.topologies, len(drawn.listed), drawn.listed_total) == ((), 3, 700)


def test_a_large_floor_is_drawn_as_domains_that_open() -> None:
    racks = [("b", f"r{number:03}") for number in range(BOXES_DRAWN + 50)]
    page = page_of(*(node(f"n-{path[1]}", card(0), path=path) for path in racks))
    count = len(racks)
    rows = (domain("block", "b", nodes=count), *(domain("rack", *path) for path in racks))
    domains = DomainPage(pods=(), domains=rows, total=len(rows))
    (topology,) = floor(page, domains, ALL).topologies
    (block,) = topology.boxes
    assert (block.closed, block.count, block.nodes) == (True, count, ())
    assert len(block.inside) == BOXES_DRAWN
    (opened,) = floor(page, domains, View(topology="dc", path=racks[-1])).topologies[0].boxes
    assert [each.node.name for each in opened.nodes] == ["n-r249"]


def whole(nodes: int, ready: int) -> DomainPage:
    row = DomainRow(
        topology="", level="", path=(), nodes=nodes, ready=ready, largest=(),
        allocatable_milli={GPU: 8000, "nvidia.com/mig-1g.10gb": 7000}, free_milli={GPU: 3000},
    )  # fmt: skip
    return DomainPage(pods=(), domains=(row,), total=1)


LARGE = whole(NODES_DRAWN + 1, NODES_DRAWN)


@pytest.mark.parametrize(
    ("domains", "view", "asked"),
    [
        (whole(2, 2), ALL, {}),
        (LARGE, ALL, {"outside": "true"}),
        (LARGE, View(offset=200), {"outside": "true", "offset": "200"}),
        (LARGE, View(name="n1", offset=200), {"contains": "n1", "offset": "200"}),
        (LARGE, View(topology="dc", path=("b", "r1")), {"topology": "dc", "in": "b/r1"}),
    ],
)
def test_no_more_nodes_are_asked_for_than_are_drawn(
    domains: DomainPage, view: View, asked: dict[str, str]
) -> None:
    found = wanted(domains, view)
    assert found.pop("limit") == str(NODES_DRAWN)
    assert {name: text for name, text in found.items() if (name, text) != ("offset", "0")} == asked
