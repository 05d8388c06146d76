"""Numatopology: what a node reports of its processors."""

from collections.abc import Iterator

from muster_domain.volcano import CpuPlace, NumaTopology
from muster_manifests.manifest import Manifest
from muster_manifests.reader import ObjectReader, count_of

_MANAGERS = ("CPUManagerPolicy", "TopologyManagerPolicy")


def read_numa_topology(manifest: Manifest) -> NumaTopology:
    """Read a Numatopology, which is named like its node."""
    spec = manifest.body.object("spec")
    policies, details = spec.object("policies"), spec.object("cpuDetail")
    cpu_manager, topology_manager = (policies.text(key) for key in _MANAGERS)
    return NumaTopology(
        node=manifest.metadata.name,
        cpu_manager_policy=cpu_manager,
        topology_manager_policy=topology_manager,
        cpus=tuple(_places(details)),
        free_cpus=frozenset(_cpu_set(spec.object("numares").object("cpu"))),
    )


def _places(details: ObjectReader) -> Iterator[CpuPlace]:
    for key in details.keys:
        cpu = count_of(key)
        place = details.object(key)
        if cpu is None:
            details.problem(key, "is no processor", "write the number of a processor")
            continue
        yield CpuPlace(
            cpu=cpu,
            core=place.integer("core", low=0),
            socket=place.integer("socket", low=0),
            numa=place.integer("numa", low=0),
        )


def _cpu_set(resource: ObjectReader) -> Iterator[int]:
    """The processors of a set as `0-3,8`."""
    for part in resource.text("allocatable").split(","):
        first, _, last = part.strip().partition("-")
        low, high = count_of(first), count_of(last or first)
        if low is not None and high is not None:
            yield from range(low, high + 1)
        elif part.strip():
            resource.problem("allocatable", f"{part!r} is no range", "write 0-3,8")
