"""Objects that only a session reads: pods as they stand, and what guards them.

`load` leaves these kinds alone or reads a Pod as a job to submit; here they are the state of a
cluster.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from muster_domain.volcano import (
    DeviceClaim,
    DeviceClass,
    DeviceSlice,
    DisruptionBudget,
    NamespaceQuota,
    NumaTopology,
    Pod,
)
from muster_manifests.manifest import Manifest
from muster_manifests.metadata import read_metadata
from muster_manifests.plain import PlainBuilder
from muster_manifests.problems import ManifestError, Problem, Report
from muster_manifests.reader import LoadOptions, ObjectReader
from muster_manifests.volcano.devices import (
    read_device_claim,
    read_device_class,
    read_device_slice,
)
from muster_manifests.volcano.guards import read_disruption_budget, read_namespace_quota
from muster_manifests.volcano.numa import read_numa_topology
from muster_manifests.volcano.pod import read_session_pod

SessionObject: TypeAlias = (
    Pod | DisruptionBudget | NamespaceQuota | NumaTopology | DeviceClaim | DeviceClass | DeviceSlice
)

_KINDS: Mapping[str, Callable[[Manifest], SessionObject]] = {
    "Pod": read_session_pod,
    "PodDisruptionBudget": read_disruption_budget,
    "ResourceQuota": read_namespace_quota,
    "Numatopology": read_numa_topology,
    "ResourceClaim": read_device_claim,
    "DeviceClass": read_device_class,
    "ResourceSlice": read_device_slice,
}
_CLUSTER_WIDE = frozenset({"Numatopology", "DeviceClass", "ResourceSlice"})
_DEFAULT = LoadOptions()


def load_session_objects(
    manifests: Sequence[Mapping[str, object]],
    *,
    source: str,
    options: LoadOptions = _DEFAULT,
) -> tuple[SessionObject, ...]:
    """Load objects, parsed from JSON, as the state of a cluster.

    Raises `ManifestError` with every problem found, also for a kind that no session reads.
    """
    found: list[SessionObject] = []
    problems: list[Problem] = []
    for written in manifests:
        report = Report(source, {}, admission_rules=options.admission_rules)
        value = PlainBuilder(source).build(written)
        reader = ObjectReader(value if isinstance(value, dict) else {}, report, options)
        kind = reader.text("kind")
        if kind in _KINDS:
            metadata = read_metadata(reader, namespaced=kind not in _CLUSTER_WIDE)
            manifest = Manifest(
                api_version=reader.text("apiVersion"), kind=kind, metadata=metadata, body=reader
            )
            found.append(_KINDS[kind](manifest))
        else:
            report.problem(("kind",), f"{kind!r} is no state", f"write one of {', '.join(_KINDS)}")
        problems += report.problems
    if problems:
        raise ManifestError(tuple(problems))
    return tuple(found)
