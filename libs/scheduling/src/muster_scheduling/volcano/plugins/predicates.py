"""predicates: what Kubernetes' own filters refuse.

Node selector and affinity, taints, nodes that take no pods, host ports, pod affinity and
anti-affinity, required topology spreading. Arguments, all true: `predicate.NodeAffinityEnable`,
`predicate.NodePortsEnable`, `predicate.TaintTolerationEnable`, `predicate.PodAffinityEnable`,
`predicate.PodTopologySpreadEnable`; and `predicate.DynamicResourceAllocationEnable`, false, for
devices that pods claim. With `enablePreemptable` off, a node that refuses a pod for its
neighbours does so even if they were evicted, as far as preempt looks for the cheapest node.
"""

import numpy as np

from muster_domain.volcano_scheduler import PluginOption
from muster_scheduling.placement.columns import Mask
from muster_scheduling.placement.eligibility import eligibility
from muster_scheduling.placement.outcome import Predicate
from muster_scheduling.placement.request import PodSetRequest
from muster_scheduling.volcano.arguments import Arguments
from muster_scheduling.volcano.device_claims import DeviceClaims
from muster_scheduling.volcano.job import Task
from muster_scheduling.volcano.neighbours import (
    count_by_domain,
    holders,
    in_domain_of,
    labelled,
    meets,
    terms_of,
)
from muster_scheduling.volcano.points import Screening
from muster_scheduling.volcano.session import Session

_NOWHERE = frozenset[str]()
_SWITCHED = {
    Predicate.NODE_SELECTOR: "predicate.NodeAffinityEnable",
    Predicate.NODE_AFFINITY: "predicate.NodeAffinityEnable",
    Predicate.TAINT: "predicate.TaintTolerationEnable",
}


def open_predicates(session: Session, option: PluginOption) -> None:
    """Register the filters."""
    arguments = Arguments(option.arguments)
    off = {
        predicate for predicate, key in _SWITCHED.items() if not arguments.flag(key, default=True)
    }
    anyone_minds = any(pod.affinity for pod in session.snapshot.pods)

    def screen(task: Task, screening: Screening) -> None:
        _screen_node(session, task, screening, off)
        if task.pod.host_ports and arguments.flag("predicate.NodePortsEnable", default=True):
            screening.refuse(_ports_taken(session, task), "node(s) have no free host port")
        if anyone_minds and arguments.flag("predicate.PodAffinityEnable", default=True):
            _screen_affinity(session, task, screening)
        if task.pod.spread and arguments.flag("predicate.PodTopologySpreadEnable", default=True):
            _screen_spread(session, task, screening)

    if arguments.flag("predicate.DynamicResourceAllocationEnable"):
        session.points.screen.add(option, DeviceClaims(session, option).screen)
    session.points.screen.add(option, screen)
    session.points.second_look.add(option, screen)


def _screen_node(session: Session, task: Task, screening: Screening, off: set[Predicate]) -> None:
    request = PodSetRequest(name=task.key, count=1, requests={}, demand=task.pod.demand)
    screening.refuse(~session.nodes.ready, "node(s) take no pods", final=True)
    found = eligibility(session.nodes.columns, request, _NOWHERE)
    for number, (predicate, detail) in enumerate(found.refusals, 1):
        if predicate not in off and predicate is not Predicate.NOT_READY:
            screening.refuse(found.code == number, f"{predicate.value}: {detail}", final=True)


def _ports_taken(session: Session, task: Task) -> Mask:
    wanted = set(task.pod.host_ports)
    return np.array(
        [
            any(not wanted.isdisjoint(other.pod.host_ports) for other in tasks.values())
            for tasks in session.nodes.tasks
        ],
        np.bool_,
    )


def _screen_affinity(session: Session, task: Task, screening: Screening) -> None:
    for other, term in holders(session, anti=True, required=True):
        if meets(term, other, task):
            near = in_domain_of(session, term.topology_key, other.node)
            screening.refuse(near, "node(s) didn't satisfy existing pods anti-affinity rules")
    for term in terms_of(task, anti=True, required=True):
        found = count_by_domain(session, term.topology_key, lambda o, t=term: meets(t, task, o))
        screening.refuse(found > 0, "node(s) didn't match pod anti-affinity rules")
    for term in terms_of(task, anti=False, required=True):
        found = count_by_domain(session, term.topology_key, lambda o, t=term: meets(t, task, o))
        alone = not found.any() and meets(term, task, task)
        fits = labelled(session, term.topology_key) & ((found > 0) | alone)
        screening.refuse(~fits, "node(s) didn't match pod affinity rules", final=True)


def _screen_spread(session: Session, task: Task, screening: Screening) -> None:
    usable = screening.curable
    for constraint in task.pod.spread:
        if not constraint.required:
            continue
        key, selector = constraint.topology_key, constraint.selector
        found = count_by_domain(
            session,
            key,
            lambda other, s=selector: (
                other.pod.namespace == task.pod.namespace and s.matches(other.pod.labels)
            ),
        )
        domains = labelled(session, key) & usable
        fewest = int(found[domains].min()) if domains.any() else 0
        own = int(selector.matches(task.pod.labels))
        screening.refuse(~labelled(session, key), f"node(s) lack the label {key}", final=True)
        screening.refuse(
            found + own - fewest > constraint.max_skew,
            "node(s) didn't match pod topology spread constraints",
        )
