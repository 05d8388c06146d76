"""Assignments that change while the workload runs: lost nodes, growing and shrinking, balance."""

import pytest

from muster_scheduling.placement.topology.assignment import merge, truncate
from muster_scheduling.placement.topology.find import Replacement, find_assignments
from muster_scheduling.placement.topology.terms import TopologyOptions

from .floor import assignment, counts, floor, pods, refusal, request

ELASTIC = TopologyOptions(elastic=True)


def lost(host: str, held: dict[str, int], *, owned_by_pod: bool = False) -> Replacement:
    return Replacement(
        hostname=host, existing={"main": assignment(held)}, owned_by_pod=owned_by_pod
    )


@pytest.mark.parametrize(
    ("mode", "slices", "held", "expected"),
    [
        pytest.param("required", "", {"x1": 2, "x2": 2}, {"x1": 4}, id="the required rack"),
        pytest.param("preferred", "", {"x1": 4, "x2": 3}, {"x1": 4, "x4": 3}, id="anywhere"),
        pytest.param(
            "required", "rack:4", {"x1": 3, "x2": 1}, {"x1": 4}, id="the rack of the broken slice"
        ),
        pytest.param("required", "", {"x2": 5}, {"x4": 5}, id="all pods were on it"),
    ],
)
def test_pods_of_a_lost_node_move_and_the_others_stay(
    mode: str, slices: str, held: dict[str, int], expected: dict[str, int]
) -> None:
    snapshot = floor({"b r1 x1": 4, "b r2 x4": 5})
    remaining = {host: count for host, count in held.items() if host != "x2"}
    snapshot.charge(assignment(remaining), {"cpu": 1000})
    label = "block" if slices else "rack"
    asked = pods(sum(held.values()), request(mode, label, slices=slices))
    found = find_assignments(snapshot, [asked], replacement=lost("x2", held))
    assert counts(found) == expected


def test_a_replacement_outside_of_the_required_domain_is_refused() -> None:
    snapshot = floor({"b r1 x1": 2, "b r10 x4": 5})
    snapshot.charge(assignment({"x1": 2}), {"cpu": 1000})
    asked = pods(4, request("required", "rack"))
    found = find_assignments(snapshot, [asked], replacement=lost("x2", {"x1": 2, "x2": 2}))
    assert refusal(found).fitting == 0


def test_the_innermost_broken_slice_decides() -> None:
    snapshot = floor({"b r1 x1": 2, "b r1 x3": 4, "b r2 x4": 4})
    snapshot.charge(assignment({"x1": 1}), {"cpu": 1000})
    asked = pods(4, request("required", "block", slices="rack:4 host:2"))
    found = find_assignments(snapshot, [asked], replacement=lost("x2", {"x1": 1, "x2": 1}))
    assert counts(found) == {"x1": 2}


def test_lost_inner_slices_are_replaced_whole() -> None:
    snapshot = floor({"b r1 x1": 3, "b r1 x3": 1})
    snapshot.charge(assignment({"x1": 2}), {"cpu": 1000})
    asked = pods(4, request("required", "block", slices="rack:4 host:2"))
    found = find_assignments(snapshot, [asked], replacement=lost("x2", {"x1": 2, "x2": 2}))
    assert refusal(found).needed == 1


def test_nothing_is_replaced_when_a_second_node_has_gone() -> None:
    asked = pods(4, request("required", "rack"))
    found = find_assignments(
        floor({"b r1 x1": 8}), [asked], replacement=lost("x2", {"x1": 1, "x2": 1, "x3": 2})
    )
    assert refusal(found).reason == "cannot replace x2: x3 has gone as well"


def test_nothing_is_replaced_when_no_pod_sat_there() -> None:
    asked = pods(4, request())
    found = find_assignments(floor({"b r1 x1": 8}), [asked], replacement=lost("x2", {"x1": 4}))
    assert refusal(found).reason == "cannot replace x2: no pod of it was found"


@pytest.mark.parametrize(("keep", "expected"), [(True, {"x2": 1}), (False, {"x1": 1})])
def test_a_single_pod_keeps_its_place(keep: bool, expected: dict[str, int]) -> None:  # noqa: FBT001 - a column of the table
    found = find_assignments(
        floor({"b r1 x1": 8}),
        [pods(1, request())],
        TopologyOptions(keep_pod_owned=keep),
        replacement=lost("x2", {"x2": 1}, owned_by_pod=True),
    )
    assert counts(found) == expected


def test_pod_sets_that_hold_nothing_are_not_replaced() -> None:
    found = find_assignments(
        floor({"b r1 x1": 8}), [pods(1, name="other")], replacement=lost("x2", {"x2": 1})
    )
    assert found == {}


@pytest.mark.parametrize(
    ("previous", "count", "expected"),
    [
        pytest.param({"x1": 1, "x2": 1}, 4, {"x1": 1, "x2": 1, "x3": 2}, id="grows"),
        pytest.param({"x1": 2, "x3": 2}, 3, {"x1": 2, "x3": 1}, id="shrinks from the end"),
        pytest.param({"x3": 2}, 2, {"x3": 2}, id="stays"),
        pytest.param({"x3": 1, "gone": 1}, 2, {"x1": 2}, id="is placed anew"),
    ],
)
def test_elastic_workloads_keep_the_pods_that_run(
    previous: dict[str, int], count: int, expected: dict[str, int]
) -> None:
    snapshot = floor({"b r x1": 2, "b r x2": 2, "b r x3": 3})
    taken = {host: 1 for host in ("x1", "x2") if count == 4}
    snapshot.charge(assignment(taken), {"cpu": 1000})
    asked = pods(count, request(), previous=assignment(previous))
    assert counts(find_assignments(snapshot, [asked], ELASTIC)) == expected


def test_without_the_option_elastic_workloads_are_placed_anew() -> None:
    asked = pods(2, request(), previous=assignment({"x2": 2}))
    assert counts(find_assignments(floor({"b r x1": 2, "b r x2": 2}), [asked])) == {"x1": 2}


def test_growth_that_is_no_whole_slice_is_placed_anew() -> None:
    topology = request("required", "block", slices="host:2")
    asked = pods(4, topology, previous=assignment({"x2": 3}))
    found = find_assignments(floor({"b r x1": 4, "b r x2": 4}), [asked], ELASTIC)
    assert counts(found) == {"x1": 4}


def test_growth_that_does_not_fit_is_refused() -> None:
    asked = pods(4, request(), previous=assignment({"x1": 2}))
    assert refusal(find_assignments(floor({"b r x1": 3}), [asked], ELASTIC)).fitting == 1


def test_the_leader_of_an_elastic_group_stays() -> None:
    topology = request(group="g")
    leader = pods(1, topology, name="leader", previous=assignment({"x2": 1}))
    workers = pods(3, topology, name="workers", previous=assignment({"x1": 2}))
    found = find_assignments(floor({"b r x1": 2, "b r x2": 2}), [leader, workers], ELASTIC)
    assert counts(found, "leader") == {"x2": 1}
    assert counts(found, "workers") == {"x1": 2, "x2": 1}


def test_merging_adds_up_and_follows_the_paths() -> None:
    paths = {("z",): ("a", "z"), ("y",): ("b", "y"), ("x",): ("b", "x")}
    merged = merge(assignment({"y": 1, "z": 2}), assignment({"x": 1, "z": 1}), paths)
    assert merged == assignment({"z": 3, "x": 1, "y": 1})


@pytest.mark.parametrize(
    ("count", "expected"), [(0, {}), (2, {"z": 2}), (4, {"z": 3, "a": 1}), (9, {"z": 3, "a": 2})]
)
def test_truncating_keeps_the_order(count: int, expected: dict[str, int]) -> None:
    assert truncate(assignment({"z": 3, "a": 2}), count) == assignment(expected)


@pytest.mark.parametrize(
    ("label", "count", "expected"),
    [
        pytest.param("rack", 7, {"x1": 3, "x2": 2, "x3": 2}, id="even over hosts"),
        pytest.param("rack", 6, {"x4": 3, "x5": 3}, id="few hosts before even ones"),
        pytest.param("rack", 3, {"x4": 3}, id="the rack with less to spare"),
        pytest.param("block", 12, {"x1": 3, "x2": 3, "x4": 3, "x5": 3}, id="even over racks"),
        pytest.param("rack", 99, None, id="nowhere"),
    ],
)
def test_balanced_placement_is_even_over_as_few_domains_as_best_fit(
    label: str, count: int, expected: dict[str, int] | None
) -> None:
    snapshot = floor(
        {"b r1 x1": 3, "b r1 x2": 3, "b r1 x3": 3, "b r2 x4": 3, "b r2 x5": 3, "b r2 x6": 1}
    )
    asked = pods(count, request("preferred", label))
    found = find_assignments(snapshot, [asked], TopologyOptions(balanced=True))
    if expected is None:
        assert refusal(found).needed == count
    else:
        assert counts(found) == expected


def test_balance_is_no_more_than_the_smallest_domain_holds() -> None:
    snapshot = floor({"b r x1": 5, "b r x2": 5, "b r x3": 2})
    asked = pods(11, request("preferred", "rack"))
    found = find_assignments(snapshot, [asked], TopologyOptions(balanced=True))
    assert counts(found) == {"x1": 5, "x2": 4, "x3": 2}


def test_a_balanced_group_has_its_leader_beside_workers() -> None:
    snapshot = floor({"b r1 x1": 3, "b r1 x2": 3, "b r2 x3": 9})
    topology = request("preferred", "rack", group="g")
    sets = [pods(4, topology, name="workers"), pods(1, topology, name="leader")]
    found = find_assignments(snapshot, sets, TopologyOptions(balanced=True))
    assert counts(found, "workers") == {"x3": 4}
    assert counts(found, "leader") == {"x3": 1}
