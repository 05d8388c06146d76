import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_contracts.partitions import EVERY_PARTITION, PARTITION_COUNT, PARTITIONS, partition_of

# Stored state, leases and the log are keyed by these: a change would orphan all of them.
GOLDEN = {
    "lab": "p03",
    "vision": "p07",
    "speech": "p04",
    "all-gpus": "p05",
    "": "p04",
    "höhle": "p02",
    "team-a.b": "p05",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": "p03",
}


@pytest.mark.parametrize(("root", "partition"), GOLDEN.items())
def test_a_tree_stays_in_its_partition(root: str, partition: str) -> None:
    assert partition_of(root) == partition


@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_every_tree_has_a_partition(root: str) -> None:
    assert partition_of(root) in PARTITIONS
    assert EVERY_PARTITION not in PARTITIONS


def test_trees_spread_over_the_partitions() -> None:
    counts = [0] * PARTITION_COUNT
    for number in range(800):
        counts[PARTITIONS.index(partition_of(f"cohort-{number}"))] += 1
    assert min(counts) > 60
