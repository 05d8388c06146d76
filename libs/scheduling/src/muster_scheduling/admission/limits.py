"""What can never fit, said before anybody waits for it."""

from muster_domain.conditions import Explanation, FlavorVerdict, PendingReason
from muster_scheduling.admission.eligibility import obstacle
from muster_scheduling.admission.explain import amount
from muster_scheduling.quota import FlavorResource, QuotaNode
from muster_scheduling.quota.tree import is_unlimited
from muster_scheduling.snapshot.catalog import Group, QueueEntry
from muster_scheduling.snapshot.view import AdmissionView
from muster_scheduling.snapshot.volcano import volcano_queue_name
from muster_scheduling.snapshot.workloads import PendingWorkload, PodSetRequest


def max_possible(view: AdmissionView, workload: PendingWorkload) -> Explanation | None:
    """Why the workload could not start even with everybody else gone; `None` when it could.

    Looks at every pod set by itself and at the smallest size that would do; pod sets that fit one
    by one but never together are found when it is their turn.
    """
    name = view.catalog.cluster_queue_name(
        workload.namespace, workload.queue_name, volcano=workload.volcano
    )
    entry = view.catalog.queues.get(name)
    if entry is None:
        return None
    verdicts: list[FlavorVerdict] = []
    messages: list[str] = []
    reason = PendingReason.EXCEEDS_MAX_QUOTA
    for pod_set in workload.pod_sets:
        for resource, asked in _asked(entry, pod_set).items():
            group = entry.group_of.get(resource)
            if group is None:
                reason = PendingReason.NO_MATCHING_FLAVOR
                messages.append(f"ClusterQueue {entry.name} has no quota for {resource}")
                continue
            reaches = _reaches(view, workload, pod_set, entry, group, resource)
            if not reaches or max(reach for _, reach in reaches) >= asked:
                continue
            flavor, reach = max(reaches, key=lambda found: (found[1], found[0]))
            messages.append(_too_much(entry, (flavor, resource), asked, reach))
            verdicts += [
                _verdict(pod_set, entry.node, (name, resource), asked) for name, _ in reaches
            ]
    if not messages:
        return None
    return Explanation(
        reason=reason,
        message="; ".join(dict.fromkeys(messages)),
        flavors=tuple(verdicts),
        remedy="ask less, or have the quota raised",
    )


def _asked(entry: QueueEntry, pod_set: PodSetRequest) -> dict[str, int]:
    asked = pod_set.totals(pod_set.min_count)
    if "pods" in entry.group_of:
        asked["pods"] = pod_set.min_count * 1000
    ignored = (
        volcano_queue_name(entry.name) or entry.queue.undeclared_resources == "IgnoreUndeclared"
    )
    return {
        name: asked[name]
        for name in sorted(asked)
        if asked[name] > 0 and (name in entry.group_of or not ignored)
    }


def _reaches(
    view: AdmissionView,
    workload: PendingWorkload,
    pod_set: PodSetRequest,
    entry: QueueEntry,
    group: Group,
    resource: str,
) -> list[tuple[str, int]]:
    """The flavors that may serve the pod set, each with the most that it could ever give."""
    return [
        (flavor, entry.node.potential.get((flavor, resource), 0))
        for flavor in group.flavors
        if not obstacle(view, workload, pod_set, entry, flavor)
    ]


def _too_much(entry: QueueEntry, fr: FlavorResource, asked: int, reach: int) -> str:
    resource = fr[1]
    volcano = volcano_queue_name(entry.name)
    if volcano:
        return (
            f"asks {amount(asked)} {resource}; Volcano queue {volcano} is capped at "
            f"{amount(reach)} (capability)"
        )
    own = entry.node.nominal(fr)
    text = f"asks {amount(asked)} {resource}; {entry.name} can have at most {amount(reach)}"
    if entry.node.parent is None or is_unlimited(reach):
        return f"{text} (its own quota)"
    lent = max(0, reach - own)
    return (
        f"{text} ({amount(own)} nominal + {amount(lent)} lent by the cohort "
        f"{entry.node.parent.name})"
    )


def _verdict(
    pod_set: PodSetRequest, node: QuotaNode, fr: FlavorResource, asked: int
) -> FlavorVerdict:
    return FlavorVerdict(
        pod_set=pod_set.name,
        resource=fr[1],
        flavor=fr[0],
        reason=PendingReason.EXCEEDS_MAX_QUOTA,
        requested_milli=asked,
        nominal_milli=node.nominal(fr),
        used_milli=node.used(fr),
        max_milli=node.potential.get(fr, 0),
    )
