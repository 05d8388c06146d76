"""Which devices of a node a pod gets, by index."""

from collections.abc import Sequence

from muster_domain.nodes import Device


def pick_devices(free: Sequence[Device], count: int) -> tuple[int, ...]:
    """Indices of `count` of the free devices, as near to each other as the node allows.

    All from one NUMA node if one can: the one with the fewest free that suffice, so that whole
    NUMA nodes stay free. Otherwise from the NUMA nodes with the most free, so that few are
    involved. Within a NUMA node the lowest indices first. `count` must not exceed `len(free)`.
    """
    by_numa: dict[int, list[int]] = {}
    for device in free:
        by_numa.setdefault(device.numa_node, []).append(device.index)
    enough = [(len(indices), numa) for numa, indices in by_numa.items() if len(indices) >= count]
    if enough:
        return tuple(sorted(by_numa[min(enough)[1]])[:count])
    taken: list[int] = []
    for _, numa in sorted((-len(indices), numa) for numa, indices in by_numa.items()):
        taken += sorted(by_numa[numa])[: count - len(taken)]
    return tuple(sorted(taken))
