"""What can never fit, said before anybody waits for it."""

from dataclasses import dataclass

from muster_domain.conditions import Explanation, FlavorVerdict, PendingReason
from muster_domain.queues import UndeclaredResources
from muster_scheduling.admission.eligibility import obstacle
from muster_scheduling.admission.explain import amount
from muster_scheduling.quota.tree import is_unlimited
from muster_scheduling.snapshot.catalog import QueueEntry
from muster_scheduling.snapshot.view import AdmissionView
from muster_scheduling.snapshot.volcano import capped_by, volcano_queue_name
from muster_scheduling.snapshot.workloads import PendingWorkload, PodSetRequest


def max_possible(view: AdmissionView, workload: PendingWorkload) -> Explanation | None:
    """Why the workload could not start even with everybody else gone; `None` when it could.

    Looks at the smallest size that would do: at all pod sets together, which may use every flavor
    that any of them may, and at each by itself, which must do with one flavor. Pod sets that pass
    both and still never fit are found when it is their turn.
    """
    name = view.catalog.cluster_queue_name(
        workload.namespace, workload.queue_name, volcano=workload.volcano
    )
    entry = view.catalog.queues.get(name)
    key = (name, workload.shape)
    if entry is None or (key in view.possible and not workload.avoided):
        return None
    asks = [
        _Ask(pod_set.name, _asked(view, entry, pod_set), pod_set) for pod_set in workload.pod_sets
    ]
    uncovered = sorted({r for ask in asks for r in ask.amounts if r not in entry.group_of})
    if uncovered:
        return Explanation(
            reason=PendingReason.NO_MATCHING_FLAVOR,
            message="; ".join(
                f"ClusterQueue {entry.name} has no quota for {resource}" for resource in uncovered
            ),
            remedy="leave that resource out, or have quota for it declared",
        )
    found: list[tuple[str, FlavorVerdict]] = []
    for resource in sorted({resource for ask in asks for resource in ask.amounts}):
        found += _too_much_of(view, workload, entry, resource, asks)
    if not found:
        if not workload.avoided:
            view.possible[key] = True
        return None
    return Explanation(
        reason=PendingReason.EXCEEDS_MAX_QUOTA,
        message="; ".join(dict.fromkeys(message for message, _ in found)),
        flavors=tuple(verdict for _, verdict in found),
        remedy="ask less, or have the quota raised",
    )


@dataclass(frozen=True, slots=True)
class _Ask:
    """What one pod set asks, in milli-units by resource."""

    name: str
    amounts: dict[str, int]
    pod_set: PodSetRequest


def _too_much_of(
    view: AdmissionView,
    workload: PendingWorkload,
    entry: QueueEntry,
    resource: str,
    asks: list[_Ask],
) -> list[tuple[str, FlavorVerdict]]:
    """What the workload asks too much of one resource: the total if that is it, else pod sets."""
    group = entry.group_of[resource]
    asking = [ask for ask in asks if resource in ask.amounts]
    total = sum(ask.amounts[resource] for ask in asking)
    for flavor in group.flavors:
        if total <= entry.node.potential.get((flavor, resource), 0) and not any(
            obstacle(view, workload, ask.pod_set, entry, flavor) for ask in asking
        ):
            return []
    usable = {
        ask.name: [
            flavor
            for flavor in group.flavors
            if not obstacle(view, workload, ask.pod_set, entry, flavor)
        ]
        for ask in asking
    }
    together = [f for f in group.flavors if any(f in flavors for flavors in usable.values())]
    if together and total > _reach(entry, together, resource):
        name = asking[0].name if len(asking) == 1 else "all pod sets"
        return [_finding(view, entry, together, resource, (name, total))]
    return [
        _finding(view, entry, [best], resource, (ask.name, ask.amounts[resource]))
        for ask in asking
        if usable[ask.name]
        and ask.amounts[resource]
        > _reach(entry, [best := _best(entry, usable[ask.name], resource)], resource)
    ]


def _reach(entry: QueueEntry, flavors: list[str], resource: str) -> int:
    return sum(entry.node.potential.get((flavor, resource), 0) for flavor in flavors)


def _best(entry: QueueEntry, flavors: list[str], resource: str) -> str:
    return max(flavors, key=lambda flavor: (_reach(entry, [flavor], resource), flavor))


def _finding(
    view: AdmissionView,
    entry: QueueEntry,
    flavors: list[str],
    resource: str,
    asking: tuple[str, int],
) -> tuple[str, FlavorVerdict]:
    name, asked = asking
    own = sum(entry.node.nominal((flavor, resource)) for flavor in flavors)
    reach = _reach(entry, flavors, resource)
    verdict = FlavorVerdict(
        pod_set=name,
        resource=resource,
        flavor=", ".join(flavors),
        reason=PendingReason.EXCEEDS_MAX_QUOTA,
        requested_milli=asked,
        nominal_milli=own,
        used_milli=sum(entry.node.used((flavor, resource)) for flavor in flavors),
        max_milli=reach,
    )
    volcano = volcano_queue_name(entry.name)
    if volcano:
        queue = capped_by(volcano, resource, view.catalog.configuration.volcano_queues)
        message = (
            f"asks {amount(asked)} {resource}; Volcano queue {queue} is capped at "
            f"{amount(reach)} (capability)"
        )
    else:
        message = _too_much(entry, resource, asked, own, reach)
    return message, verdict


def _asked(view: AdmissionView, entry: QueueEntry, pod_set: PodSetRequest) -> dict[str, int]:
    asked = pod_set.totals(pod_set.min_count)
    if "pods" in entry.group_of:
        asked["pods"] = pod_set.min_count * 1000
    ignored = (
        view.policy.ignore_undeclared
        or volcano_queue_name(entry.name)
        or entry.queue.undeclared_resources is UndeclaredResources.IGNORE
    )
    return {
        name: asked[name]
        for name in sorted(asked)
        if asked[name] > 0 and (name in entry.group_of or not ignored)
    }


def _too_much(entry: QueueEntry, resource: str, asked: int, own: int, reach: int) -> str:
    text = f"asks {amount(asked)} {resource}; {entry.name} can have at most {amount(reach)}"
    if entry.node.parent is None or is_unlimited(reach):
        return f"{text} (its own quota)"
    lent = max(0, reach - own)
    return (
        f"{text} ({amount(own)} nominal + {amount(lent)} lent by the cohort "
        f"{entry.node.parent.name})"
    )
