"""V-oc: OpenCost's own example of two clusters and three namespaces, shared in every way.

A cluster stands as a node, with idle by node: what OpenCost keeps apart by cluster, Muster keeps
apart by node.
"""

from dataclasses import replace
from fractions import Fraction

import pytest

from muster_domain.money import MICROS
from muster_rating.opencost.allocations import IDLE, Allocation, Properties
from muster_rating.opencost.filters import ALLOCATION_FIELDS, read_filter
from muster_rating.opencost.sets import (
    Split,
    Terms,
    allocation_set,
    read_aggregate,
    read_share,
)
from muster_rating.prices import HOUR_MS
from muster_rating.windows import Window

A_DAY = Window(0, 24 * HOUR_MS)
PER_DAY = Fraction(7 * 730)
"""7 an hour, as an amount for a month of 730 hours."""


def money(amounts: dict[str, int]) -> dict[str, Fraction]:
    return {component: Fraction(amount * MICROS) for component, amount in amounts.items()}


def container(cluster: str, namespace: str, pod: str, ram: int = 1) -> Allocation:
    """One of each component; network, volume and load balancer are the three others."""
    app = {"app": "app1"} if ram > 1 else {}
    return Allocation(
        properties=Properties(node=cluster, namespace=namespace, pod=pod, labels=app),
        start_ms=0,
        end_ms=A_DAY.end_ms,
        time={"cpu": 1, "gpu": 1, "ram": 1},
        cost=money({"cpu": 1, "gpu": 1, "ram": ram, "others": 3}),
    )


def idle(cluster: str, cpu: int, ram: int) -> Allocation:
    return Allocation(
        properties=Properties(node=cluster),
        start_ms=0,
        end_ms=A_DAY.end_ms,
        time={"cpu": 1000, "ram": 1000},
        cost=money({"cpu": cpu, "ram": ram}),
        special=IDLE,
    )


TWO_CLUSTERS = [
    container("c1", "ns1", "pod1", ram=11),
    *(container("c1", "ns1", pod) for pod in ("pod-abc", "pod-def")),
    *(container("c1", "ns2", pod) for pod in ("pod-ghi", "pod-ghj", "pod-jkl")),
    *(container("c2", "ns2", pod) for pod in ("pod-mno", "pod-mnp", "pod-pqr")),
    *(container("c2", "ns3", pod) for pod in ("pod-stu", "pod-vwx", "pod-vwy")),
    idle("c1", 5, 15),
    idle("c2", 5, 5),
]


def rows(filter_text: str = "", **more: object) -> dict[str, str]:
    plain = Terms(
        key=read_aggregate("namespace"),
        keep=read_filter(filter_text, ALLOCATION_FIELDS),
        idle_by_node=True,
    )
    found = allocation_set(TWO_CLUSTERS, A_DAY, replace(plain, **more))  # type: ignore[arg-type]
    total: dict[str, Fraction] = {}
    for key, allocation in found.items():
        total[key[-1]] = total.get(key[-1], Fraction(0)) + allocation.total_cost
    return {name: f"{float(total[name] / MICROS):.4f}" for name in sorted(total)}


NS1, NS3, APP1 = read_share("ns1", ""), read_share("ns3", ""), read_share("", "app:app1")
ONLY_NS2 = 'namespace:"ns2"'


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param(
            {},
            {"ns1": "28.0000", "ns2": "36.0000", "ns3": "18.0000"},
            id="nothing-shared",
        ),
        pytest.param(
            {"share_idle": True},
            {"ns1": "42.6875", "ns2": "46.3125", "ns3": "23.0000"},
            id="idle",
        ),
        pytest.param(
            {"share": NS3, "share_split": Split.EVEN},
            {"ns1": "37.0000", "ns2": "45.0000"},
            id="ns3-even",
        ),
        pytest.param({"share": NS3}, {"ns1": "35.8750", "ns2": "46.1250"}, id="ns3-weighted"),
        pytest.param(
            {"share": APP1, "share_split": Split.EVEN},
            {"ns1": "17.3333", "ns2": "41.3333", "ns3": "23.3333"},
            id="label-even",
        ),
        pytest.param(
            {"share_cost": PER_DAY},
            {"ns1": "85.3659", "ns2": "109.7561", "ns3": "54.8780"},
            id="overhead",
        ),
        pytest.param(
            {"filter_text": ONLY_NS2, "include_idle": True},
            {"__idle__": "10.3125", "ns2": "36.0000"},
            id="filtered-idle-row",
        ),
        pytest.param(
            {"filter_text": ONLY_NS2, "share_cost": PER_DAY},
            {"ns2": "109.7561"},
            id="filtered-overhead",
        ),
        pytest.param(
            {"filter_text": ONLY_NS2, "share": NS1, "share_idle": True},
            {"ns2": "74.7708"},
            id="filtered-ns1-and-idle-shared",
        ),
        pytest.param(
            {"filter_text": ONLY_NS2, "share": NS1, "include_idle": True},
            {"__idle__": "20.1042", "ns2": "54.6667"},
            id="filtered-ns1-shared-idle-row",
        ),
    ],
)
def test_v_oc(more: dict[str, object], expected: dict[str, str]) -> None:
    assert rows(**more) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("share", [None, NS1, APP1])
@pytest.mark.parametrize("share_idle", [True, False])
@pytest.mark.parametrize("split", Split)
def test_every_way_of_sharing_sums_to_the_same(
    share: object, split: Split, *, share_idle: bool
) -> None:
    """82 that was held and 30 of idle, also as what each filter lets through."""
    asked = {"share": share, "share_idle": share_idle, "share_split": split, "include_idle": True}
    whole = rows(**asked)  # type: ignore[arg-type]
    parts = [rows(f'namespace:"{name}"', **asked) for name in ("ns1", "ns2", "ns3")]  # type: ignore[arg-type]

    assert sum(map(Fraction, whole.values())) == pytest.approx(112, abs=0.001)
    filtered = sum(Fraction(amount) for part in parts for amount in part.values())
    assert filtered == pytest.approx(112, abs=0.001)
