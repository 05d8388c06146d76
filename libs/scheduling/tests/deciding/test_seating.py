"""Seats on top of quota, where one process decides everything."""

from dataclasses import replace

from muster_domain.conditions import PendingReason, PreemptionReason
from muster_domain.nodes import DomainCount, Node, NodeCondition, TopologyAssignment
from muster_domain.queues import ClusterQueue, ResourceFlavor, Topology, WithinClusterQueue
from muster_domain.workload import TopologyMode, TopologyRequest, Workload
from muster_scheduling import AdmissionView, Configuration, prepare
from muster_scheduling.admission import (
    Decision,
    EvictUnseated,
    EvictWorkload,
    ReserveQuota,
    SeatWorkload,
    decide,
    violations,
)
from muster_scheduling.placement.topology.snapshot import topology_snapshot
from muster_scheduling.snapshot.board import Seats, TopologyBoard

from .builders import GPU, K, admission, configuration, job, queue, running, waiting

HOST = "kubernetes.io/hostname"
TOPOLOGY = Topology(name="hosts", levels=(HOST,))
RACKED = ResourceFlavor(name="a100", topology_name="hosts")
TOGETHER = TopologyRequest(mode=TopologyMode.REQUIRED, node_label=HOST)


def node(name: str, gpus: int) -> Node:
    return Node(name=name, allocatable={GPU: gpus * K}, labels={HOST: name})


def world(*queues: ClusterQueue, nodes: dict[str, int]) -> AdmissionView:
    base = configuration(queues, flavors=[RACKED])
    view = AdmissionView(
        Configuration(
            cluster_queues=base.cluster_queues,
            flavors=base.flavors,
            local_queues=base.local_queues,
            topologies={"hosts": TOPOLOGY},
        )
    )
    ready = [(node(name, gpus), NodeCondition.READY) for name, gpus in nodes.items()]
    view.use_board(TopologyBoard({"a100": topology_snapshot(TOPOLOGY, RACKED, ready)}))
    return view


def gang(workload: Workload) -> Workload:
    pods = tuple(replace(pod_set, topology=TOGETHER) for pod_set in workload.pod_sets)
    return replace(workload, pod_sets=pods)


def decided(view: AdmissionView) -> Decision:
    snapshot = view.snapshot(0)
    decision = decide(snapshot)
    assert violations(snapshot, decision) == ()
    assert decide(view.snapshot(0)) == decision
    return decision


def hosts(decision: Decision) -> dict[str, list[str]]:
    return {
        effect.workload_id: [d.values[0] for s in effect.seats for d in s.assignment.domains]
        for group in decision.groups
        for effect in group.effects
        if isinstance(effect, ReserveQuota)
    }


def on(name: str, pods: int = 1) -> TopologyAssignment:
    domains = (DomainCount(values=(name,), count=pods),)
    return TopologyAssignment(levels=(HOST,), domains=domains)


def seated(view: AdmissionView, workload: Workload, host: str) -> None:
    holder = running(view, workload)
    seats = Seats(
        flavor="a100",
        pod_set="main",
        assignment=on(host, workload.pod_sets[0].count),
        requests=workload.pod_sets[0].requests,
    )
    view.reseat(holder.id, (seats,))


def test_quota_without_seats_is_not_enough() -> None:
    view = world(queue("q", 8), nodes={"n1": 2, "n2": 2})
    waiting(view, gang(job("w", "q", 1, count=4)))
    found = decided(view).explanations["w"]
    assert found.reason == PendingReason.TOPOLOGY_PLACEMENT_FAILED


def test_two_of_one_cycle_do_not_get_the_same_seats() -> None:
    view = world(queue("q", 4), queue("p", 4), nodes={"n1": 2, "n2": 2})
    waiting(view, gang(job("a", "q", 2)), gang(job("b", "p", 2)))
    assert hosts(decided(view)) == {"a": ["n1"], "b": ["n2"]}


def test_entries_of_one_cohort_move_over_within_the_cycle() -> None:
    view = world(queue("q", 4, "all"), queue("p", 4, "all"), nodes={"n1": 2, "n2": 2})
    waiting(view, gang(job("a", "q", 2)), gang(job("b", "p", 2, created=1)))
    assert hosts(decided(view)) == {"a": ["n1"], "b": ["n2"]}


def test_a_fragmented_machine_is_cleared_by_preemption() -> None:
    lower = WithinClusterQueue.LOWER_PRIORITY
    view = world(queue("q", 8, within=lower), nodes={"n1": 2, "n2": 2})
    seated(view, job("low", "q", 1), "n1")
    seated(view, job("high", "q", 1, priority=9), "n2")
    waiting(view, gang(job("w", "q", 2, priority=5)))
    decision = decided(view)
    (effect,) = [e for g in decision.groups for e in g.effects]
    assert isinstance(effect, EvictWorkload)
    assert (effect.workload_id, effect.reason) == ("low", PreemptionReason.IN_CLUSTER_QUEUE)
    view.apply(decision)
    view.release("low")
    assert hosts(decided(view)) == {"w": ["n1"]}


def again(view: AdmissionView, workload: Workload, host: str) -> None:
    pending = prepare(workload, view.policy)
    pending.granted = admission(workload, "q")
    pending.has_quota = True
    pending.seats = view.holders[workload.id].seats
    pending.lost_node = host
    view.look_again(pending)


def test_pods_of_a_lost_node_move_to_another() -> None:
    view = world(queue("q", 4), nodes={"n2": 2})
    workload = gang(job("w", "q", 2))
    seated(view, workload, "n1")
    again(view, workload, "n1")
    decision = decided(view)
    (effect,) = decision.seatings
    assert isinstance(effect, SeatWorkload)
    assert effect.placed == {"main": on("n2")}
    view.apply(decision)
    assert [s.assignment for s in view.holders["w"].seats] == [on("n2")]
    assert decided(view).groups == ()


def test_whoever_cannot_be_seated_again_must_go() -> None:
    view = world(queue("q", 4), nodes={"n2": 1})
    workload = gang(job("w", "q", 2))
    seated(view, workload, "n1")
    again(view, workload, "n1")
    decision = decided(view)
    assert decision.seatings == (EvictUnseated(workload_id="w", lost_node="n1"),)
    view.apply(decision)
    assert view.is_evicting("w")


def test_a_machine_in_two_flavors_is_not_sold_twice() -> None:
    other = ResourceFlavor(name="spot", topology_name="hosts")
    view = world(queue("q", {"a100": 4}), queue("p", {"spot": 4}), nodes={"n1": 2})
    base = view.catalog.configuration
    view.configure(replace(base, flavors={**base.flavors, "spot": other}))
    ready = [(node("n1", 2), NodeCondition.READY)]
    view.use_board(
        TopologyBoard({f.name: topology_snapshot(TOPOLOGY, f, ready) for f in (RACKED, other)})
    )
    waiting(view, gang(job("a", "q", 2)), gang(job("b", "p", 2, created=1)))
    decision = decided(view)
    assert hosts(decision) == {"a": ["n1"]}
    assert decision.explanations["b"].reason == PendingReason.WAITING_FOR_QUOTA


def test_a_decision_leaves_the_board_as_it_was() -> None:
    view = world(queue("q", 4), nodes={"n1": 4})
    waiting(view, gang(job("a", "q", 2)))
    first = hosts(decided(view))
    assert first == hosts(decided(view)) == {"a": ["n1"]}
