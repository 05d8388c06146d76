"""Admission checks: what somebody outside says about a workload that holds quota (R-102, R-109)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import assert_never

from muster_domain.selectors import Labels, Toleration
from muster_domain.workload import PodSet, Workload

CAPACITY_CHECK = ("kueue.x-k8s.io/provisioning-request", "muster.dev/capacity")
"""Controllers whose "try again" is a back-off of the check's own, with an end."""

_NODE_SELECTOR = "node selector"


class CheckState(StrEnum):
    """What an admission check has answered."""

    PENDING = "Pending"
    READY = "Ready"
    RETRY = "Retry"
    REJECTED = "Rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSetUpdate:
    """What a check wants of the pods of a set, besides what was asked for."""

    name: str
    labels: Labels = field(default_factory=dict[str, str])
    annotations: Labels = field(default_factory=dict[str, str])
    node_selector: Labels = field(default_factory=dict[str, str])
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckStatus:
    """One check of one attempt. `retry_count` counts the tries that it sent back before.

    `pods` is for how many pods of which set capacity is asked, where the check follows a
    ProvisioningRequestConfig; of pod sets that are asked for as one the first stands for all.
    `resize` is the number of the size that it is asked about; 0 is the attempt itself.
    """

    name: str
    state: CheckState = CheckState.PENDING
    message: str = ""
    since_ms: int = 0
    requeue_after_ms: int | None = None
    retry_count: int = 0
    updates: tuple[PodSetUpdate, ...] = ()
    pods: Mapping[str, int] = field(default_factory=dict[str, int])
    resize: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityRetry:
    """How often a capacity check is tried again; pauses double up to the longest."""

    limit: int = 3
    base_ms: int = 60_000
    max_ms: int = 1_800_000

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> "CapacityRetry":
        """What a check's parameters say; what is not a whole number counts as not said."""
        default = cls()
        return cls(
            limit=_whole(parameters, "backoffLimitCount", default.limit),
            base_ms=_whole(parameters, "backoffBaseSeconds", default.base_ms // 1000) * 1000,
            max_ms=_whole(parameters, "backoffMaxSeconds", default.max_ms // 1000) * 1000,
        )

    def pause_ms(self, times: int) -> int:
        """The pause before the try after the `times`-th, from 1."""
        return min(self.max_ms, self.base_ms * 2 ** min(times - 1, 40))


class PodSetMergePolicy(StrEnum):
    """Which pod sets of a workload capacity is asked for as one."""

    IDENTICAL_TEMPLATES = "IdenticalPodTemplates"
    IDENTICAL_REQUIREMENTS = "IdenticalWorkloadSchedulingRequirements"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisioningRequestConfig:
    """Kueue's own words on how capacity is asked for, named by the checks that follow it.

    Nothing is asked for pod sets that want none of the `managed_resources`, where any are named.
    `node_selector_details` are node labels, each with the detail of the answer that is its value.
    """

    name: str
    managed_resources: tuple[str, ...] = ()
    retry: CapacityRetry = CapacityRetry()
    node_selector_details: Mapping[str, str] = field(default_factory=dict[str, str])
    merge_policy: PodSetMergePolicy | None = None

    def asked_together(self, workload: Workload) -> tuple[tuple[str, ...], ...]:
        """Pod sets that capacity is asked for, in order; those of one tuple as one."""
        groups: list[list[PodSet]] = []
        for pod_set in workload.pod_sets:
            if not self._manages(pod_set):
                continue
            alike = next((group for group in groups if self._merges(group[0], pod_set)), None)
            if alike is None:
                groups.append([pod_set])
            else:
                alike.append(pod_set)
        return tuple(tuple(pod_set.name for pod_set in group) for group in groups)

    def selector(self, details: Mapping[str, str]) -> dict[str, str]:
        """Node labels that the pods are to have; a detail that nobody told is left out."""
        return {
            label: details[detail]
            for label, detail in self.node_selector_details.items()
            if detail in details
        }

    def _manages(self, pod_set: PodSet) -> bool:
        wanted = (name for name, amount in pod_set.requests.items() if amount)
        return not self.managed_resources or not set(wanted).isdisjoint(self.managed_resources)

    def _merges(self, one: PodSet, other: PodSet) -> bool:
        match self.merge_policy:
            case None:
                return False
            case PodSetMergePolicy.IDENTICAL_TEMPLATES:
                return one == replace(
                    other, name=one.name, count=one.count, min_count=one.min_count
                )
            case PodSetMergePolicy.IDENTICAL_REQUIREMENTS:
                return (one.requests, one.demand) == (other.requests, other.demand)
            case _:
                assert_never(self.merge_policy)


def all_ready(checks: Iterable[CheckStatus]) -> bool:
    """Whether every check agrees; where there is none nobody has to."""
    return all(check.state is CheckState.READY for check in checks)


def any_failed(states: Iterable[CheckState]) -> bool:
    """Whether somebody asked for another try or rejected (R-40): such a workload is not tried."""
    return any(state in (CheckState.RETRY, CheckState.REJECTED) for state in states)


def conflict_of(
    workload: Workload,
    updates: Iterable[PodSetUpdate],
    node_labels: Mapping[str, Labels] | None = None,
) -> str:
    """The first key that two updates, or an update and the pods, want differently; else empty.

    `node_labels` are those of the flavors that each pod set was granted.
    """
    wanted: dict[tuple[str, str, str], str] = {}
    for pod_set in workload.pod_sets:
        for part, values in _parts(pod_set):
            wanted |= {(pod_set.name, part, key): value for key, value in values.items()}
        for key, value in (node_labels or {}).get(pod_set.name, {}).items():
            wanted[pod_set.name, _NODE_SELECTOR, key] = value
    names = {pod_set.name for pod_set in workload.pod_sets}
    for update in updates:
        if update.name not in names:
            return f"there is no pod set {update.name!r}"
        for part, values in _parts(update):
            for key, value in sorted(values.items()):
                before = wanted.setdefault((update.name, part, key), value)
                if before != value:
                    return f"{part} {key} of {update.name} is {before!r} and would become {value!r}"
    return ""


def updated(workload: Workload, checks: Iterable[CheckStatus]) -> Workload:
    """The workload with pods as its checks want them."""
    updates = [update for check in checks for update in check.updates]
    if not updates:
        return workload
    pod_sets = list(workload.pod_sets)
    for update in updates:
        pod_sets = [
            _with(pod_set, update) if pod_set.name == update.name else pod_set
            for pod_set in pod_sets
        ]
    return replace(workload, pod_sets=tuple(pod_sets))


def _parts(source: PodSet | PodSetUpdate) -> tuple[tuple[str, Labels], ...]:
    selector = source.demand.node_selector if isinstance(source, PodSet) else source.node_selector
    return (
        (_NODE_SELECTOR, selector),
        ("label", source.labels),
        ("annotation", source.annotations),
    )


def _with(pod_set: PodSet, update: PodSetUpdate) -> PodSet:
    demand = pod_set.demand
    return replace(
        pod_set,
        labels={**pod_set.labels, **update.labels},
        annotations={**pod_set.annotations, **update.annotations},
        demand=replace(
            demand,
            node_selector={**demand.node_selector, **update.node_selector},
            tolerations=(*demand.tolerations, *update.tolerations),
        ),
    )


def _whole(parameters: Mapping[str, str], key: str, default: int) -> int:
    written = parameters.get(key, "")
    return int(written) if written.isascii() and written.isdecimal() else default
