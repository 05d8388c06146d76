"""The map of the floor, on wide and on narrow terminals."""

import pytest

from muster.rendering.node_map import largest_gang_table, node_map
from muster_contracts.floor import DomainPage
from muster_contracts.queries import NodePage

from .examples import card, domains, node_row, nodes, shown


def test_the_map_draws_every_card_in_its_domain() -> None:
    assert shown(node_map(nodes(), domains(), 90, wide=True)) == [
        "3 nodes (1 cordoned), GPUs free 1/10",
        "",
        "dc  block > rack",
        "block b  1/8 GPUs free, 1 of 2 nodes not ready",
        "  rack r1  1/4 GPUs free",
        "    n1      a b x ?    1/4  team-a/train, team-b/eval",
        "  rack r2  0/4 GPUs free, 1 of 1 nodes not ready",
        "    node-2  · · · ·    4/4  cordoned",
        "",
        "in no topology",
        "  lonely  & A        0/2  team-a/x, team-b/y",
        "    card 0: team-a/x 50 %, team-b/y 25 %, free 0 %",
        "    card 1: team-a/x 50 %, free 0 %",
        "",
        "· free   x failed   ? used outside Muster   a team-a   b team-b   A part of a card",
        "& parts of several teams",
    ]


@pytest.mark.parametrize("width", [26, 30, 40, 60, 200])
def test_the_map_fits_the_terminal(width: int) -> None:
    row = node_row("a-node-with-a-long-name.example.com", *(card(index) for index in range(16)))
    page = NodePage(nodes=(*nodes().nodes, row), largest_gang_of_one_gpu=0)
    drawn = node_map(page, domains(), width, wide=False).plain.splitlines()
    assert max(map(len, drawn)) <= width
    assert sum(line.count("·") for line in drawn) == 16 + 4 + 1


def test_the_largest_gangs_are_told_with_the_best_domain_of_each_level() -> None:
    assert shown(largest_gang_table(domains(), 100)) == [
        "LARGEST GANG NOW OF        ANYWHERE  IN ONE block  IN ONE rack",
        "1 x nvidia.com/gpu, cpu 8  1         1 (b)         1 (b/r2)",
        "8 x nvidia.com/gpu         0         0             0",
    ]
    assert shown(largest_gang_table(domains(), 40))[0] == (
        "1 of 1 x nvidia.com/gpu, cpu 8, 1 in one block, 1 in one rack"
    )


def test_without_a_topology_the_map_is_a_list() -> None:
    alone = node_row("n1", card(0), card(1))
    page = NodePage(nodes=(alone,), largest_gang_of_one_gpu=2)
    none = DomainPage(pods=(), domains=(), total=0)
    assert largest_gang_table(none, 100) is None
    assert shown(node_map(page, none, 100, wide=False))[1] == "n1  · ·    2/2"
