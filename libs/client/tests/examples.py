"""Answers as the owners give them, for the tests of what people see."""

from io import StringIO
from typing import Any

from rich.console import Console, RenderableType

from muster_contracts.floor import DomainPage, DomainRow
from muster_contracts.queries import (
    Ahead,
    CardShare,
    DeviceRow,
    NodePage,
    NodeRow,
    Phase,
    QueueRow,
    QuotaPage,
    QuotaRow,
    WaitEstimate,
    WorkloadDetail,
    WorkloadRow,
)
from muster_domain.conditions import Explanation, FlavorVerdict
from muster_domain.nodes import NodeCondition

GPU = "nvidia.com/gpu"
MINUTE_MS = 60_000


def shown(renderable: RenderableType) -> list[str]:
    text = StringIO()
    Console(file=text, width=200, no_color=True).print(renderable)
    return [line.rstrip() for line in text.getvalue().splitlines()]


def row(**changes: object) -> WorkloadRow:
    known: dict[str, object] = {
        "id": "0123456789abcdef0123456789abcdef",
        "namespace": "team-a",
        "name": "train",
        "kind": "Job",
        "queue": "main",
        "cluster_queue": "gpus",
        "phase": Phase.PENDING,
        "reason": "WaitingForQuota",
        "message": "waits",
        "priority": 500,
        "requests_milli": {GPU: 8000, "cpu": 4000},
        "pods": 1,
        "created_at_ms": 0,
        "attempt": 0,
        "user": "anna",
        "position_in_cluster_queue": 6,
        "position_in_local_queue": 2,
    }
    return WorkloadRow(**{**known, **changes})  # type: ignore[arg-type]


def waiting() -> WorkloadDetail:
    return WorkloadDetail(
        row=row(),
        explanation=Explanation(
            reason="WaitingForQuota",
            message="couldn't assign flavors",
            flavors=(
                FlavorVerdict(
                    pod_set="main",
                    resource=GPU,
                    flavor="a100",
                    reason="WaitingForQuota",
                    requested_milli=8000,
                    nominal_milli=16_000,
                    used_milli=12_000,
                    available_milli=6000,
                    max_milli=24_000,
                ),
                FlavorVerdict(
                    pod_set="main",
                    resource=GPU,
                    flavor="h100",
                    reason="NoMatchingFlavor: nodeSelector model=a100",
                    requested_milli=8000,
                ),
            ),
            preemption="none: 2 candidates are higher or equal priority",
            remedy="2 more GPUs free in cohort gpu, or ask 6 GPUs",
        ),
        ahead=(
            Ahead(
                id="aaaaaaaa" * 4,
                namespace="team-a",
                name="big",
                user="anna",
                priority=500,
                requests_milli={GPU: 8000},
            ),
            Ahead(
                id="",
                namespace="",
                name="(another namespace)",
                user="",
                priority=0,
                requests_milli={GPU: 1000},
            ),
        ),
        ahead_total=6,
        estimate=WaitEstimate(low_ms=25 * MINUTE_MS, high_ms=69 * MINUTE_MS + 1, samples=41),
    )


def quota_row(**changes: object) -> QuotaRow:
    known: dict[str, object] = {
        "cluster_queue": "team-a",
        "cohort": "site",
        "flavor": "a100",
        "resource": GPU,
        "nominal_milli": 8000,
        "used_milli": 0,
        "reserved_milli": 0,
        "borrowed_milli": 0,
        "lent_milli": 0,
        "available_milli": 0,
        "max_milli": 16_000,
    }
    return QuotaRow(**{**known, **changes})  # type: ignore[arg-type]


def queue_row(name: str, *, active: bool = True) -> QueueRow:
    return QueueRow(
        name=name,
        cohort="site",
        strategy="BestEffortFIFO",
        active=active,
        reason="" if active else "FlavorNotFound",
        message="" if active else "Can't admit new workloads.",
        pending=3,
        inadmissible=0,
        reserving=0,
        admitted=2,
        local_queues=(),
    )


def quotas() -> QuotaPage:
    return QuotaPage(
        queues=(queue_row("team-a"), queue_row("team-b", active=False)),
        rows=(
            quota_row(used_milli=12_000, borrowed_milli=4000),
            quota_row(resource="cpu", nominal_milli=64_000, used_milli=1000),
            quota_row(cluster_queue="team-b", used_milli=2000, lent_milli=4000),
        ),
    )


def card(
    index: int, holder: str = "", health: str = "healthy", shares: tuple[CardShare, ...] = ()
) -> DeviceRow:
    return DeviceRow(
        index=index, resource=GPU, model="A100", health=health, holder=holder, shares=shares
    )


def node_row(name: str, *cards: DeviceRow, **changes: object) -> NodeRow:
    free = sum(1000 for one in cards if not one.holder and one.health == "healthy")
    fields: dict[str, Any] = {
        "condition": NodeCondition.READY,
        "allocatable_milli": {GPU: 1000 * len(cards), "cpu": 64_000, "memory": 2**38 * 1000},
        "free_milli": {GPU: free, "cpu": 60_000, "memory": 2**37 * 1000},
        "labels": {"zone": "a"},
        "workloads": (),
        "last_heartbeat_ms": 0,
    }
    return NodeRow(name=name, devices=cards, **{**fields, **changes})


def nodes() -> NodePage:
    first = node_row(
        "n1",
        card(0, "team-a/train"),
        card(1, "team-b/eval"),
        card(2, health="failed"),
        card(3, health="held_by_others"),
        free_milli={GPU: 1000, "cpu": 60_000, "memory": 2**37 * 1000},
        workloads=("team-a/train", "team-b/eval"),
        domains={"dc": ("b", "r1")},
    )
    cards = [card(index) for index in range(4)]
    second = node_row(
        "node-2", *cards, condition=NodeCondition.CORDONED, domains={"dc": ("b", "r2")}
    )
    shares = (CardShare(holder="team-a/x", milli=500), CardShare(holder="team-b/y", milli=250))
    third = node_row(
        "lonely",
        card(0, "team-a/x", shares=shares),
        card(1, "team-a/x", shares=shares[:1]),
        workloads=("team-a/x", "team-b/y"),
    )
    return NodePage(nodes=(first, second, third), largest_gang_of_one_gpu=4)


def domains() -> DomainPage:
    def row(level: str, *path: str, nodes: int, ready: int, free: int, fits: int) -> DomainRow:
        return DomainRow(
            topology="dc" if path else "",
            level=f"example.com/{level}",
            path=path,
            nodes=nodes,
            ready=ready,
            allocatable_milli={GPU: 4000 * nodes},
            free_milli={GPU: free},
            largest=(fits, 0),
        )

    return DomainPage(
        pods=({GPU: 1000, "cpu": 8000}, {GPU: 8000}),
        domains=(
            row("", nodes=3, ready=2, free=1000, fits=1),
            row("block", "b", nodes=2, ready=1, free=1000, fits=1),
            row("rack", "b", "r1", nodes=1, ready=1, free=0, fits=0),
            row("rack", "b", "r2", nodes=1, ready=0, free=1000, fits=1),
        ),
        total=4,
    )
