"""Checks a table from its nodes and gangs alone, apart from the code that keeps and searches it."""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from muster_domain.mig import MIG_PREFIX
from muster_domain.nodes import PodAssignment
from muster_domain.quantity import Resources
from muster_scheduling.placement.outcome import Gang
from muster_scheduling.placement.record import pod_usage
from muster_scheduling.placement.shares import (
    GPU,
    PODS_ON_A_CARD_MAX,
    WHOLE,
    Share,
    share_of,
)
from muster_scheduling.placement.table import NodeTable


class ViolationKind(StrEnum):
    """What is wrong. The first two can also come from a node that shrank under its pods."""

    NODE_OVERSUBSCRIBED = "node oversubscribed"
    DEVICE_MISSING = "device missing"
    DEVICE_GIVEN_TWICE = "device given twice"
    DEVICE_COUNT = "devices do not match the request"
    GANG_PARTLY_SEATED = "gang partly seated"
    UNKNOWN_NODE = "seat on an unknown node"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One broken rule. `subject` is a node or a workload."""

    kind: ViolationKind
    subject: str
    message: str


def violations(table: NodeTable) -> tuple[Violation, ...]:
    """Every broken rule, sorted by kind, subject and message; empty when all is well."""
    found = [*_on_nodes(table), *_on_devices(table), *_on_slices(table)]
    for gang in table.gangs():
        found += _in_gang(gang)
    return tuple(sorted(found, key=lambda v: (v.kind, v.subject, v.message)))


def _on_nodes(table: NodeTable) -> list[Violation]:
    sums: dict[str, Counter[str]] = {}
    for gang in table.gangs():
        requests = {pod_set.name: pod_set.requests for pod_set in gang.pod_sets}
        for pod in gang.placement.pods:
            on_node = sums.setdefault(pod.node, Counter())
            on_node.update(pod_usage(requests.get(pod.pod_set, {})))
    offered = {node.name: node.allocatable for node in table.nodes()}
    found: list[Violation] = []
    for name, usage in sums.items():
        if name not in offered:
            found.append(_violation(ViolationKind.UNKNOWN_NODE, name, "has seats but no report"))
            continue
        for resource, quantity in usage.items():
            unlimited = resource == "pods" and resource not in offered[name]
            limit = offered[name].get(resource, 0)
            if quantity > limit and not unlimited:
                message = f"{resource}: {quantity} of {limit} milli given out"
                found.append(_violation(ViolationKind.NODE_OVERSUBSCRIBED, name, message))
    return found


def _on_devices(table: NodeTable) -> list[Violation]:
    memory_of = {
        (node.name, device.resource, device.index): device.memory_bytes
        for node in table.nodes()
        for device in node.devices
    }
    known = {node.name for node in table.nodes()}
    holders: dict[tuple[str, str, int], list[tuple[str, Share | None]]] = {}
    for gang in table.gangs():
        shares = {pod_set.name: share_of(pod_set.requests) for pod_set in gang.pod_sets}
        for pod in gang.placement.pods:
            for resource, indices in pod.devices.items():
                share = shares.get(pod.pod_set) if resource == GPU else None
                for index in indices:
                    holder = (f"{gang.workload}[{pod.rank}]", share)
                    holders.setdefault((pod.node, resource, index), []).append(holder)
    found: list[Violation] = []
    for key, given_to in holders.items():
        name, resource, index = key
        device = f"{resource} {index}"
        if len(given_to) > 1 and not _one_card(given_to, memory_of.get(key, 0) or WHOLE):
            message = f"{device}: {', '.join(holder for holder, _ in given_to)}"
            found.append(_violation(ViolationKind.DEVICE_GIVEN_TWICE, name, message))
        if name in known and key not in memory_of:
            found.append(_violation(ViolationKind.DEVICE_MISSING, name, device))
    return found


def _on_slices(table: NodeTable) -> list[Violation]:
    """Every slice of a divided card is in one pod's instance, which its profile allows there."""
    cards = {
        (node.name, device.index): {profile.name: profile for profile in device.profiles}
        for node in table.nodes()
        for device in node.devices
        if device.profiles
    }
    known = {node.name for node in table.nodes()}
    holders: dict[tuple[str, int, int], str] = {}
    found: list[Violation] = []
    for gang in table.gangs():
        for pod in gang.placement.pods:
            for number, one in enumerate(pod.instances if pod.node in known else ()):
                place = f"{one.profile} at slice {one.start} of card {one.card}"
                profile = cards.get((pod.node, one.card), {}).get(one.profile)
                if profile is None or one.start not in profile.starts:
                    found.append(_violation(ViolationKind.DEVICE_MISSING, pod.node, place))
                    continue
                holder = f"{gang.workload}[{pod.rank}] instance {number}"
                for piece in range(one.start, one.start + profile.slices):
                    first = holders.setdefault((pod.node, one.card, piece), holder)
                    if first != holder:
                        message = f"slice {piece} of card {one.card}: {first}, {holder}"
                        kind = ViolationKind.DEVICE_GIVEN_TWICE
                        found.append(_violation(kind, pod.node, message))
    return found


def _one_card(given_to: list[tuple[str, Share | None]], memory: int) -> bool:
    """Whether all that is given out of a card are parts, and at most one card together."""
    parts = [share for _, share in given_to if share is not None]
    return (
        len(parts) == len(given_to) <= PODS_ON_A_CARD_MAX
        and sum(share.cores_milli for share in parts) <= WHOLE
        and sum(int(share.memory_on(memory)) for share in parts) <= memory
    )


def _in_gang(gang: Gang) -> list[Violation]:
    found: list[Violation] = []
    pods = gang.placement.pods
    if not _counts_up([pod.rank for pod in pods], len(pods), gang):
        message = "ranks are not 0, 1, 2 and so on"
        found.append(_violation(ViolationKind.GANG_PARTLY_SEATED, gang.workload, message))
    for pod_set in gang.pod_sets:
        seated = [pod for pod in pods if pod.pod_set == pod_set.name]
        if not _counts_up(sorted(pod.index for pod in seated), pod_set.count, gang):
            message = f"{pod_set.name}: {len(seated)} of {pod_set.count} pods have seats"
            found.append(_violation(ViolationKind.GANG_PARTLY_SEATED, gang.workload, message))
        if pod_set.count < pod_set.min_count:
            message = f"{pod_set.name}: {pod_set.count} pods, at least {pod_set.min_count}"
            found.append(_violation(ViolationKind.GANG_PARTLY_SEATED, gang.workload, message))
        for pod in seated:
            found += _in_pod(gang.workload, pod, pod_set.requests)
    return found


def _counts_up(numbers: list[int], count: int, gang: Gang) -> bool:
    """Whether they are 0, 1, 2 and so on; with gaps where pods have left a gang."""
    if gang.placement.resizes:
        return len(numbers) == count and numbers == sorted(set(numbers))
    return numbers == list(range(count))


def _in_pod(workload: str, pod: PodAssignment, requests: Resources) -> list[Violation]:
    share = share_of(requests)
    asked = dict(requests) if share is None else {**requests, GPU: share.cards * 1000}
    given = Counter({resource: len(set(indices)) for resource, indices in pod.devices.items()})
    given.update(MIG_PREFIX + instance.profile for instance in pod.instances)
    return [
        _violation(
            ViolationKind.DEVICE_COUNT,
            workload,
            f"{pod.pod_set}[{pod.index}]: {count} devices of {resource}",
        )
        for resource, count in given.items()
        if count * 1000 != asked.get(resource, 0)
    ]


def _violation(kind: ViolationKind, subject: str, message: str) -> Violation:
    return Violation(kind=kind, subject=subject, message=message)
