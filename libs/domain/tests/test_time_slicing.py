"""Labels of the device plugin say how many pods take turns on a card."""

from collections.abc import Mapping

import pytest

from muster_domain.time_slicing import REPLICAS, STRATEGY, replicas_on


@pytest.mark.parametrize(
    ("labels", "turns"),
    [
        ({REPLICAS: "4", STRATEGY: "time-slicing"}, 4),
        ({REPLICAS: "1", STRATEGY: "time-slicing"}, 1),
        ({REPLICAS: "0", STRATEGY: "time-slicing"}, 1),
        ({REPLICAS: "many", STRATEGY: "time-slicing"}, 1),
        ({REPLICAS: "4", STRATEGY: "mps"}, 1),
        ({REPLICAS: "4"}, 1),
        ({}, 1),
    ],
)
def test_replicas(labels: Mapping[str, str], turns: int) -> None:
    assert replicas_on(labels) == turns
