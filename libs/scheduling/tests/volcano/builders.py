"""Small clusters for sessions."""

from collections.abc import Mapping, Sequence

from muster_domain.nodes import Node
from muster_domain.quantity import parse_quantity_milli
from muster_domain.queues import HyperNode, PriorityClass, VolcanoQueue
from muster_domain.volcano import Pod, PodGroup, PodGroupPhase, PodPhase
from muster_domain.volcano_scheduler import PluginOption, SchedulerConfiguration
from muster_scheduling.volcano import Plan, SessionSnapshot

_AMOUNTS = ("capability", "deserved", "guarantee")
NOW_MS = 1_800_000_000_000


def amounts(text: str) -> dict[str, int]:
    """`cpu=1 memory=2Gi` in milli-units."""
    parts = (part.split("=") for part in text.split())
    return {name: parse_quantity_milli(quantity) for name, quantity in parts}


def node(name: str, offers: str = "cpu=4 memory=8Gi", **labels: str) -> Node:
    """A node."""
    return Node(name=name, allocatable=amounts(offers), labels=labels)


def queue(name: str = "q", **fields: object) -> VolcanoQueue:
    """A queue; amounts are texts."""
    read = {
        key: amounts(value) if isinstance(value, str) and key in _AMOUNTS else value
        for key, value in fields.items()
    }
    return VolcanoQueue(name=name, **read)  # pyright: ignore[reportArgumentType]


def gang(
    name: str,
    least: int,
    pods: Sequence[Pod],
    *,
    queue: str = "q",
    phase: PodGroupPhase = PodGroupPhase.INQUEUE,
    **fields: object,
) -> tuple[PodGroup, tuple[Pod, ...]]:
    """A gang and its pods."""
    group = PodGroup(
        namespace="ns",
        name=name,
        min_member=least,
        queue=queue,
        phase=phase,
        **fields,  # pyright: ignore[reportArgumentType]
    )
    return group, tuple(pods)


def pod(gang: str, name: str, asks: str = "cpu=1", on: str = "", **fields: object) -> Pod:
    """A pod of a gang; running where it is on a node."""
    return Pod(
        namespace="ns",
        name=name,
        pod_group=gang,
        requests=amounts(asks),
        node=on,
        phase=PodPhase.RUNNING if on else PodPhase.PENDING,
        **fields,  # pyright: ignore[reportArgumentType]
    )


def pods(gang: str, count: int, asks: str = "cpu=1", **fields: object) -> list[Pod]:
    """Equal pending pods."""
    return [pod(gang, f"{gang}-{number}", asks, **fields) for number in range(count)]


def configure(actions: str, *tiers: str) -> SchedulerConfiguration:
    """Plugins by name, everything on that is on by default."""
    return SchedulerConfiguration(
        actions=tuple(actions.split()),
        tiers=tuple(tuple(PluginOption(name=name) for name in tier.split()) for tier in tiers),
    )


def snapshot(
    nodes: Sequence[Node],
    gangs: Sequence[tuple[PodGroup, tuple[Pod, ...]]],
    *,
    queues: Sequence[VolcanoQueue] = (VolcanoQueue(name="q"),),
    priorities: Mapping[str, int] | None = None,
    hyper_nodes: Sequence[HyperNode] = (),
) -> SessionSnapshot:
    """A cluster."""
    classes = (priorities or {}).items()
    return SessionSnapshot(
        now_ms=NOW_MS,
        nodes=tuple(nodes),
        queues=tuple(queues),
        pod_groups=tuple(group for group, _ in gangs),
        pods=tuple(one for _, members in gangs for one in members),
        priority_classes=tuple(
            PriorityClass(name=name, value=value, of_pods=True) for name, value in classes
        ),
        hyper_nodes=tuple(hyper_nodes),
    )


def binds(plan: Plan) -> dict[str, str]:
    """Nodes by pod name."""
    return {bind.pod.removeprefix("ns/"): bind.node for bind in plan.binds}


def evicted(plan: Plan) -> list[str]:
    """Names of the victims, sorted."""
    return sorted(eviction.pod.removeprefix("ns/") for eviction in plan.evictions)
