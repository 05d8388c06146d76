"""What was declared, and when."""

import pytest

from muster_domain.queues import (
    UNLIMITED,
    ClusterQueue,
    Cohort,
    FlavorQuotas,
    ResourceFlavor,
    ResourceGroup,
    ResourceQuota,
)
from muster_rating.catalogs import Catalog, QueueQuota, build_catalog, quota_windows, root_of
from muster_rating.windows import Window

PAIR = ("h100", "gpu")


def group(nominal: int, lending: int | None = None) -> tuple[ResourceGroup, ...]:
    quota = ResourceQuota(nominal_milli=nominal, lending_limit_milli=lending)
    flavors = (FlavorQuotas(flavor="h100", resources={"gpu": quota}),)
    return (ResourceGroup(covered_resources=("gpu",), flavors=flavors),)


def test_a_queue_has_an_entry_for_every_pair_of_its_tree() -> None:
    catalog = build_catalog(
        7,
        [ResourceFlavor(name="h100")],
        [
            ClusterQueue(name="b", cohort="left", resource_groups=group(4000, UNLIMITED)),
            ClusterQueue(name="a", cohort="right"),
            ClusterQueue(name="alone", resource_groups=group(1000, 500)),
        ],
        [Cohort(name="left", parent="top"), Cohort(name="right", parent="top")],
    )

    assert catalog.from_ms == 7
    assert catalog.quotas == {
        PAIR: {
            "a": QueueQuota(nominal_milli=0, tree="top"),
            "alone": QueueQuota(nominal_milli=1000, lending_limit_milli=500),
            "b": QueueQuota(nominal_milli=4000, tree="top"),
        }
    }


def test_quota_of_a_cohort_covers_its_members() -> None:
    catalog = build_catalog(
        0,
        [],
        [ClusterQueue(name="a", cohort="top")],
        [Cohort(name="top", resource_groups=group(8000))],
    )

    assert catalog.quotas[PAIR] == {"a": QueueQuota(nominal_milli=0, tree="top")}
    assert catalog.flavor_map([("h100", "cpu")]).covered == {PAIR, ("h100", "cpu")}


@pytest.mark.parametrize(
    ("parents", "root"),
    [
        pytest.param({}, "a", id="a cohort that nobody declared"),
        pytest.param({"a": "b", "b": "c"}, "c", id="a chain"),
        pytest.param({"a": "c", "b": "c", "c": "b"}, "b", id="a cycle"),
    ],
)
def test_the_root_of_a_tree(parents: dict[str, str], root: str) -> None:
    cohorts = {name: Cohort(name=name, parent=parent) for name, parent in parents.items()}

    assert root_of("a", cohorts) == root
    assert root_of("", cohorts) == ""


def test_a_window_is_cut_only_where_the_quota_of_the_pair_changes() -> None:
    small, large = ({"q": QueueQuota(nominal_milli=size, tree="t")} for size in (1, 2))
    catalogs = [
        Catalog(from_ms=50, quotas={PAIR: small}),
        Catalog(from_ms=60, quotas={PAIR: small, ("x", "y"): {}}),
        Catalog(from_ms=70, quotas={PAIR: large}),
        Catalog(from_ms=900, quotas={}),
    ]

    assert quota_windows(catalogs, PAIR, Window(0, 100)) == [
        (Window(0, 50), {}),
        (Window(50, 70), small),
        (Window(70, 100), large),
    ]
    assert quota_windows(catalogs, PAIR, Window(80, 90)) == [(Window(80, 90), large)]
    assert quota_windows([], PAIR, Window(0, 9)) == [(Window(0, 9), {})]
