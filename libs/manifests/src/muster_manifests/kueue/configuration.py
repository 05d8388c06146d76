"""Kueue's component configuration (R-120): the file beside the objects."""

import re
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

from muster_domain.queues import UndeclaredResources
from muster_domain.selectors import Selector
from muster_manifests.problems import ManifestError, Report
from muster_manifests.reader import LoadOptions, ObjectReader
from muster_manifests.terms import read_label_selector
from muster_manifests.yaml_source import read_yaml

_GROUP = "config.kueue.x-k8s.io/"
_DURATION = re.compile(r"(?:[0-9]{1,9}(?:\.[0-9]{1,6})?(?:ms|h|m|s))+|0")
_DURATION_PART = re.compile(r"([0-9.]+)(ms|h|m|s)")
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_ACCEPTED = (
    "namespace", "clientConnection", "controller", "internalCertManagement", "leaderElection",
    "health", "webhook", "visibilityServer", "tls", "multiKueue", "queueVisibility",
)  # fmt: skip


class RequeuingTimestamp(StrEnum):
    """Which time orders a workload that was evicted for not getting ready."""

    EVICTION = "Eviction"
    CREATION = "Creation"


class FairSharingStrategy(StrEnum):
    """When fair sharing lets a workload of another ClusterQueue be preempted."""

    FINAL_SHARE = "LessThanOrEqualToFinalShare"
    INITIAL_SHARE = "LessThanInitialShare"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitForPodsReady:
    """How long pods may take to run, and how a workload waits after they did not.

    `recovery_timeout_ms` `None` never gives up on pods that ran once. `backoff_limit` `None` is
    endless.
    """

    timeout_ms: int = 1_800_000
    recovery_timeout_ms: int | None = 1_800_000
    block_admission: bool = False
    timestamp: RequeuingTimestamp = RequeuingTimestamp.EVICTION
    backoff_limit: int | None = None
    backoff_base_ms: int = 60_000
    backoff_max_ms: int = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionFairSharing:
    """How usage of LocalQueues is remembered; weights are thousandths, 1000 where none is given."""

    usage_half_life_ms: int
    usage_sampling_interval_ms: int = 300_000
    resource_weights_milli: dict[str, int] = field(default_factory=dict[str, int])


class TransformationStrategy(StrEnum):
    """Whether the resource that is transformed still counts itself."""

    RETAIN = "Retain"
    REPLACE = "Replace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformation:
    """`outputs` are milli-units for one unit of `resource`, times that of `multiply_by` (R-12)."""

    resource: str
    strategy: TransformationStrategy = TransformationStrategy.RETAIN
    outputs: dict[str, int] = field(default_factory=dict[str, int])
    multiply_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueConfiguration:
    """What of Kueue's configuration bears on decisions; the defaults are Kueue's.

    `fair_sharing` `None` is off, `wait_for_pods_ready` `None` waits for ever. A retention of `None`
    keeps finished workloads.
    """

    wait_for_pods_ready: WaitForPodsReady | None = WaitForPodsReady()
    fair_sharing: tuple[FairSharingStrategy, ...] | None = None
    admission_fair_sharing: AdmissionFairSharing | None = None
    undeclared_resources: UndeclaredResources = UndeclaredResources.BLOCK
    exclude_resource_prefixes: tuple[str, ...] = ()
    transformations: tuple[Transformation, ...] = ()
    manage_jobs_without_queue_name: bool = False
    managed_jobs_namespaces: Selector | None = None
    frameworks: tuple[str, ...] = ()
    cluster_queue_metrics: bool = False
    keep_finished_ms: int | None = None
    keep_deactivated_ms: int | None = None
    feature_gates: dict[str, bool] = field(default_factory=dict[str, bool])


def load_configuration(text: str | bytes, *, source: str) -> KueueConfiguration:
    """Load Kueue's `Configuration`. Raises `ManifestError` with every problem found."""
    documents = read_yaml(text, source=source)
    report = Report(source, documents[0].marks if documents else {})
    value = documents[0].value if len(documents) == 1 else None
    configuration = KueueConfiguration()
    if isinstance(value, dict):
        configuration = _read(ObjectReader(value, (), report, LoadOptions()))
    else:
        report.problem((), "not one object", f"write apiVersion: {_GROUP}v1beta2")
    problems = (*(found for written in documents for found in written.problems), *report.problems)
    if problems:
        raise ManifestError(problems)
    return configuration


def _read(reader: ObjectReader) -> KueueConfiguration:
    reader.accept(*_ACCEPTED)
    if not reader.text("apiVersion").startswith(_GROUP) or reader.text("kind") != "Configuration":
        reader.problem("kind", "not Kueue's configuration", f"write apiVersion: {_GROUP}v1beta2")
    fair_sharing = reader.object("fairSharing")
    resources = reader.object("resources")
    retention = reader.object("objectRetentionPolicies").object("workloads")
    selector = reader.object("managedJobsNamespaceSelector")
    gates = reader.object("featureGates")
    return KueueConfiguration(
        wait_for_pods_ready=_wait_for_pods_ready(reader.object("waitForPodsReady")),
        fair_sharing=_fair_sharing(fair_sharing) if "fairSharing" in reader else None,
        admission_fair_sharing=_admission_fair_sharing(reader),
        undeclared_resources=resources.choice(
            "quotaCheckStrategy", UndeclaredResources, UndeclaredResources.BLOCK
        ),
        exclude_resource_prefixes=resources.texts("excludeResourcePrefixes"),
        transformations=tuple(
            _transformation(item) for item in resources.objects("transformations")
        ),
        manage_jobs_without_queue_name=reader.flag("manageJobsWithoutQueueName"),
        managed_jobs_namespaces=read_label_selector(selector) if selector.present else None,
        frameworks=reader.object("integrations").texts("frameworks"),
        cluster_queue_metrics=reader.object("metrics").flag("enableClusterQueueResources"),
        keep_finished_ms=_duration_ms(retention, "afterFinished"),
        keep_deactivated_ms=_duration_ms(retention, "afterDeactivatedByKueue"),
        feature_gates={name: gates.flag(name) for name in gates.keys},
    )


def _wait_for_pods_ready(reader: ObjectReader) -> WaitForPodsReady | None:
    if not reader.flag("enable", default=True):
        return None
    default = WaitForPodsReady()
    timeout_ms = _duration_ms(reader, "timeout") or default.timeout_ms
    recovery_ms = _duration_ms(reader, "recoveryTimeout")
    requeuing = reader.object("requeuingStrategy")
    return WaitForPodsReady(
        timeout_ms=timeout_ms,
        recovery_timeout_ms=timeout_ms if recovery_ms is None else (recovery_ms or None),
        block_admission=reader.flag("blockAdmission"),
        timestamp=requeuing.choice("timestamp", RequeuingTimestamp, default.timestamp),
        backoff_limit=requeuing.optional_integer("backoffLimitCount", low=0),
        backoff_base_ms=requeuing.integer("backoffBaseSeconds", 60, low=0) * 1000,
        backoff_max_ms=requeuing.integer("backoffMaxSeconds", 3600, low=0) * 1000,
    )


def _fair_sharing(reader: ObjectReader) -> tuple[FairSharingStrategy, ...] | None:
    """Read the strategies; Kueue allows each alone, or both with the final share first."""
    if not reader.flag("enable", default=True):
        return None
    words = reader.texts("preemptionStrategies")
    both = (FairSharingStrategy.FINAL_SHARE, FairSharingStrategy.INITIAL_SHARE)
    for allowed in (both, both[:1], both[1:]):
        if words in (tuple(word.value for word in allowed), ()):
            return allowed
    reader.problem(
        "preemptionStrategies",
        f"{', '.join(words)} is not allowed",
        f"write [{both[0]}, {both[1]}] or one of them",
    )
    return both


def _admission_fair_sharing(reader: ObjectReader) -> AdmissionFairSharing | None:
    sharing = reader.object("admissionFairSharing")
    if not sharing.present:
        return None
    half_life_ms = _duration_ms(sharing, "usageHalfLifeTime")
    if half_life_ms is None:
        sharing.problem("usageHalfLifeTime", "missing", "write usageHalfLifeTime: 168h")
    interval_ms = _duration_ms(sharing, "usageSamplingInterval")
    return AdmissionFairSharing(
        usage_half_life_ms=half_life_ms or 0,
        usage_sampling_interval_ms=300_000 if interval_ms is None else interval_ms,
        resource_weights_milli=sharing.quantities("resourceWeights"),
    )


def _transformation(item: ObjectReader) -> Transformation:
    outputs = item.object("outputs")
    return Transformation(
        resource=item.required_text("input"),
        strategy=item.choice("strategy", TransformationStrategy, TransformationStrategy.RETAIN),
        outputs={name: outputs.quantity(name) or 0 for name in outputs.keys},
        multiply_by=item.text("multiplyBy"),
    )


def _duration_ms(reader: ObjectReader, key: str) -> int | None:
    """Read a Go duration such as `1h30m`, or None where none is written."""
    written = reader.text(key)
    if not written:
        return None
    if not _DURATION.fullmatch(written):
        reader.problem(key, f"{written!r} is not a duration", "write 30m, 1h30m or 90s")
        return None
    parts = _DURATION_PART.findall(written)
    return int(sum(Decimal(number) * _UNITS_MS[unit] for number, unit in parts))
