"""Where a waiting gang would fit, in words."""

from dataclasses import replace

from muster.rendering.fit import Room, fit_lines, fit_map
from muster_contracts.fit import DomainFit, FitPage, PodSetAsked, PodSetFit, Way

from .examples import GPU

ASKED = PodSetAsked(
    name="main",
    pods=4,
    requests_milli={GPU: 4000, "cpu": 1000},
    main=GPU,
    flavors=("h100",),
    level="example.com/rack",
    required=True,
)
WAY = Way(pod_sets=(ASKED,), asked=4, enough=4, largest=2, path=("b", "r1"), message="2 of 4")
FULL = PodSetFit(pods=0, usable=2, refused={"insufficient": 2}, largest_free_milli=3000)
SOME = PodSetFit(pods=2, usable=2, largest_free_milli=8000)
OTHERS = PodSetFit(pods=0, usable=0, refused={"node selector: kind=h100": 2})


def domain(found: PodSetFit, *path: str, **changes: object) -> DomainFit:
    known: dict[str, object] = {
        "topology": "dc" if path else "",
        "level": f"example.com/{('block', 'rack')[len(path) - 1]}" if path else "",
        "path": path,
        "nodes": 2,
        "ready": 2,
        "allocatable_milli": {GPU: 16_000},
        "free_milli": {GPU: 8000},
        "fits": ((found,),),
    }
    return DomainFit(**{**known, **changes})  # type: ignore[arg-type]


def page() -> FitPage:
    sitting = ("vision/train", "nlp/eval")
    return FitPage(
        ways=(WAY,),
        domains=(
            domain(SOME, nodes=6),
            domain(SOME, "b", sitting=sitting, sitting_total=2),
            domain(SOME, "b", "r1"),
            domain(FULL, "b", "r2", sitting=sitting, sitting_total=7, free_milli={GPU: 6000}),
            domain(OTHERS, "b", "r3"),
        ),
        total=5,
    )


def test_every_place_says_what_fits_what_is_free_why_not_and_who_is_there() -> None:
    assert fit_lines(page()) == [
        "largest  gang of this shape that finds seats now: 2 of 4 pods, all in one rack: b/r1",
        "place    the whole floor: 2 of 4 fit in all of it; 8 of 16 GPUs free",
        "place      block b: 2 of 4 fit in all of it; 8 of 16 GPUs free",
        "place        rack r1: 2 of 4 fit; 8 of 16 GPUs free",
        (
            "place        rack r2: 0 of 4 fit; 6 of 16 GPUs free; "
            "at most 3 GPUs on one node, 4 asked; here: vision/train, nlp/eval and 5 more"
        ),
        "place        rack r3: no node for it; 8 of 16 GPUs free; 2 nodes without kind=h100",
    ]


def test_the_page_draws_the_same_places() -> None:
    found = fit_map(page(), 100)
    (hall,) = found.halls
    (block,) = hall.places
    assert found.floor is not None
    assert (found.floor.name, hall.name, hall.levels) == (
        "the whole floor",
        "dc",
        ("block", "rack"),
    )
    assert [place.room for place in block.inside] == [Room.SOME, Room.NONE, Room.APART]
    assert [place.name for place in block.inside] == ["r1", "r2", "r3"]


def test_only_the_topology_of_the_level_asked_for_is_drawn() -> None:
    other = replace(domain(SOME, "s"), topology="HyperNode", level="tier 1")
    more = replace(page(), domains=(*page().domains, other))
    assert [hall.name for hall in fit_map(more, 100).halls] == ["dc"]
    anywhere = replace(WAY, pod_sets=(replace(ASKED, level="", required=False),))
    free = fit_map(replace(more, ways=(anywhere,)), 100)
    assert [hall.name for hall in free.halls] == ["dc", "HyperNode"]


def test_of_many_places_those_with_most_room_are_told() -> None:
    racks = tuple(domain(FULL, "b", f"s{number:02}") for number in range(50))
    many = replace(page(), domains=(*page().domains[:3], *racks))
    lines = fit_lines(many)
    assert len(lines) == 19
    assert "rack r1: 2 of 4 fit" in lines[3]
    assert lines[-1] == "         36 more places: nothing fits in them"


def test_of_one_that_runs_only_the_places_where_it_sits_are_drawn() -> None:
    rows = (
        domain(SOME, seated=2, fits=()),
        domain(SOME, "b", seated=2, fits=()),
        domain(SOME, "b", "r1", fits=()),
        domain(SOME, "b", "r2", seated=2, fits=(), sitting=("nlp/eval",), sitting_total=1),
    )
    (hall,) = fit_map(FitPage(ways=(), domains=rows, total=4), 100).halls
    (block,) = hall.places
    assert [(place.name, place.who) for place in block.inside] == [
        ("r2", "2 of its pods here; here: nlp/eval")
    ]


def test_around_the_domain_that_must_hold_all_of_it_there_is_no_more_room_than_inside() -> None:
    whole = replace(SOME, pods=4)
    rows = (domain(whole), domain(whole, "b"), domain(SOME, "b", "r1"), domain(SOME, "b", "r2"))
    found = fit_map(FitPage(ways=(WAY,), domains=rows, total=4), 100)
    (block,) = found.halls[0].places
    assert found.floor is not None
    assert (found.floor.room, block.room) == (Room.SOME, Room.SOME)
    assert block.fits == "4 of 4 fit in all of it"
    fitting = (*rows[:2], domain(whole, "b", "r1"))
    best = replace(WAY, largest=4, message="")
    found = fit_map(FitPage(ways=(best,), domains=fitting, total=3), 100)
    assert found.floor is not None
    assert (found.floor.room, found.halls[0].places[0].room) == (Room.ALL, Room.ALL)


def test_large_numbers_of_cards_are_written_out() -> None:
    many = domain(SOME, free_milli={GPU: 76_800_000}, allocatable_milli={GPU: 80_000_000})
    anywhere = replace(WAY, pod_sets=(replace(ASKED, level="", required=False),))
    lines = fit_lines(FitPage(ways=(anywhere,), domains=(many,), total=1))
    assert lines[1] == "place    the whole floor: 2 of 4 fit; 76800 of 80000 GPUs free"


def test_several_ways_and_pod_sets_are_told_apart() -> None:
    leader = replace(ASKED, name="leader", pods=1, level="", required=False)
    workers = replace(ASKED, name="worker", level="", required=False)
    first = Way(pod_sets=(leader, workers), asked=5, enough=3, largest=1, message="no")
    second = Way(pod_sets=(replace(leader, flavors=("a100",)),), asked=1, enough=1, largest=1)
    one = replace(SOME, pods=1)
    floor = domain(SOME, fits=((one, FULL), (one,)))
    assert fit_lines(FitPage(ways=(first, second), domains=(floor,), total=1)) == [
        "largest  gang of this shape that finds seats now: 1 of 5 pods (it starts with 3) in h100",
        "largest  gang of this shape that finds seats now: 1 of 1 pods in a100",
        (
            "place    the whole floor: 1 of 1 leader and 0 of 4 worker fit in h100, "
            "1 of 1 fit in a100; 8 of 16 GPUs free; at most 3 GPUs on one node, 4 asked"
        ),
    ]


def test_nodes_that_are_kept_or_away_are_told_beside_those_that_are_full() -> None:
    refused = {"excluded: by the request": 1, "not ready: cordoned": 2, "insufficient": 1}
    busy = PodSetFit(pods=0, usable=1, refused=refused, largest_free_milli=8000)
    (_, line) = fit_lines(FitPage(ways=(WAY,), domains=(domain(busy),), total=1))
    assert line.endswith(
        "1 node kept for another gang, 2 nodes cordoned, 1 node without enough of something else"
    )


def test_without_ways_or_nodes_there_is_nothing_to_tell() -> None:
    ended = tuple(replace(row, fits=()) for row in page().domains)
    assert fit_lines(replace(page(), ways=(), domains=ended)) == []
    assert fit_lines(FitPage(ways=(WAY,), domains=(domain(FULL, nodes=0),), total=1)) == []
