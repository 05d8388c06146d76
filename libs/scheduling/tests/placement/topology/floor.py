"""Nodes and pod sets for the topology tests, written short."""

from muster_domain.nodes import DomainCount, Node, NodeCondition, TopologyAssignment
from muster_domain.queues import ResourceFlavor, Topology
from muster_domain.selectors import Taint
from muster_domain.workload import SliceConstraint, TopologyMode, TopologyRequest
from muster_scheduling.placement.topology.find import Found, NoTopology, TopologyPodSet
from muster_scheduling.placement.topology.snapshot import TopologySnapshot, topology_snapshot

HOST = "kubernetes.io/hostname"
LEVELS = ("block", "rack", HOST)
FLAVOR = ResourceFlavor(name="flavor")


def machine(path: str, cpu: int, *, pods: int = 100, taints: tuple[Taint, ...] = ()) -> Node:
    """`b1 r1 x1` is host x1 in rack r1 of block b1."""
    labels = dict(zip(LEVELS, path.split(), strict=True))
    allocatable = {"cpu": cpu * 1000, "pods": pods * 1000}
    return Node(
        name=path.rsplit(maxsplit=1)[-1], allocatable=allocatable, labels=labels, taints=taints
    )


def floor(cpus: dict[str, int], levels: tuple[str, ...] = LEVELS) -> TopologySnapshot:
    """A snapshot of ready machines: cores by path."""
    nodes = [(machine(path, cpu), NodeCondition.READY) for path, cpu in cpus.items()]
    return topology_snapshot(Topology(name="floor", levels=levels), FLAVOR, nodes)


def request(
    mode: str = "unconstrained", label: str = "", *, slices: str = "", group: str = ""
) -> TopologyRequest:
    """`slices` is `rack:4 host:2`, the widest first."""
    parts = (part.split(":") for part in slices.split())
    return TopologyRequest(
        mode=TopologyMode(mode),
        node_label=label,
        pod_set_group=group,
        slices=tuple(
            SliceConstraint(node_label=HOST if name == "host" else name, size=int(size))
            for name, size in parts
        ),
    )


def pods(
    count: int,
    topology: TopologyRequest | None = None,
    *,
    name: str = "main",
    cpu: int = 1,
    previous: TopologyAssignment | None = None,
) -> TopologyPodSet:
    """`count` pods of that many cores."""
    return TopologyPodSet(
        name=name, count=count, requests={"cpu": cpu * 1000}, topology=topology, previous=previous
    )


def assignment(counts: dict[str, int], levels: tuple[str, ...] = (HOST,)) -> TopologyAssignment:
    """Counts by host, or by path."""
    domains = (DomainCount(values=tuple(p.split()), count=n) for p, n in counts.items())
    return TopologyAssignment(levels=levels, domains=tuple(domains))


def counts(found: Found, name: str = "main") -> dict[str, int]:
    """What a pod set was given."""
    answer = found[name]
    assert isinstance(answer, TopologyAssignment), answer
    return {" ".join(domain.values): domain.count for domain in answer.domains}


def refusal(found: Found, name: str = "main") -> NoTopology:
    """Why a pod set was given nothing."""
    answer = found[name]
    assert isinstance(answer, NoTopology)
    return answer
