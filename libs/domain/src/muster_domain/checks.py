"""Admission checks: what somebody outside says about a workload that holds quota (R-102, R-109)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from muster_domain.selectors import Labels, Toleration
from muster_domain.workload import PodSet, Workload

CAPACITY_CHECK = ("kueue.x-k8s.io/provisioning-request", "muster.dev/capacity")
"""Controllers whose "try again" is a back-off of the check's own, with an end."""


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
    """One check of one attempt. `retry_count` counts the tries that it sent back before."""

    name: str
    state: CheckState = CheckState.PENDING
    message: str = ""
    since_ms: int = 0
    requeue_after_ms: int | None = None
    retry_count: int = 0
    updates: tuple[PodSetUpdate, ...] = ()


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisioningRequestConfig:
    """Kueue's own words on how capacity is asked for, named by the checks that follow it.

    Nothing is asked for a workload that wants none of the `managed_resources`, where any are named.
    """

    name: str
    managed_resources: tuple[str, ...] = ()
    retry: CapacityRetry = CapacityRetry()


def all_ready(checks: Iterable[CheckStatus]) -> bool:
    """Whether every check agrees; where there is none nobody has to."""
    return all(check.state is CheckState.READY for check in checks)


def conflict_of(workload: Workload, updates: Iterable[PodSetUpdate]) -> str:
    """The first key that two updates, or an update and the pods, want differently; else empty."""
    wanted: dict[tuple[str, str, str], str] = {}
    for pod_set in workload.pod_sets:
        for part, values in _parts(pod_set):
            wanted |= {(pod_set.name, part, key): value for key, value in values.items()}
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
        ("node selector", selector),
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
