"""Volcano queues seen as ClusterQueues.

`capability` is a ceiling per resource and becomes nominal quota in one flavor without labels;
resources that it does not name are not limited. One that is not open is a stopped ClusterQueue:
what runs in it runs on.

A queue alone has no cohort. Where queues stand under each other, each that has others under it is a
cohort too, whose quota together with that of all under it is its ceiling, and nobody borrows beyond
a ceiling: so every ceiling on the way up holds.
"""

from collections.abc import Mapping
from dataclasses import replace

from muster_domain.quantity import Resources
from muster_domain.queue_tree import VOLCANO_PREFIX
from muster_domain.queues import (
    UNLIMITED,
    ClusterQueue,
    Cohort,
    FlavorQuotas,
    QueueState,
    ResourceFlavor,
    ResourceGroup,
    ResourceQuota,
    StopPolicy,
    UndeclaredResources,
    VolcanoQueue,
)
from muster_domain.selectors import Selector

VOLCANO_FLAVOR = "volcano"
"""The flavor of everything that is charged to a Volcano queue; it matches every node."""


def derived_queue_name(volcano_queue: str) -> str:
    """Name of the ClusterQueue that stands for a Volcano queue."""
    return f"{VOLCANO_PREFIX}{volcano_queue}"


def volcano_queue_name(cluster_queue: str) -> str:
    """The Volcano queue behind a derived ClusterQueue, or the empty string."""
    prefix, found, name = cluster_queue.partition(VOLCANO_PREFIX)
    return name if found and not prefix else ""


def volcano_flavor() -> ResourceFlavor:
    """The flavor that derived ClusterQueues name."""
    return ResourceFlavor(name=VOLCANO_FLAVOR)


def path_of(queue: str, queues: Mapping[str, VolcanoQueue]) -> tuple[str, ...]:
    """A Volcano queue and those above it that are declared, nearest first."""
    path: dict[str, None] = {}
    while queue in queues and queue not in path:
        path[queue] = None
        queue = queues[queue].parent
    return tuple(path)


def shut_by(queue: str, queues: Mapping[str, VolcanoQueue]) -> str:
    """The queue by whose state a Volcano queue takes no work; empty where it is open.

    That is the queue itself, or the nearest queue above it: closing a queue closes what is under
    it, and opening it opens what was not closed by itself.
    """
    path = path_of(queue, queues)
    return next((name for name in path if queues[name].state is not QueueState.OPEN), "")


def capped_by(queue: str, resource: str, queues: Mapping[str, VolcanoQueue]) -> str:
    """The queue on the way up whose ceiling for a resource is the lowest; itself where none is."""
    naming = [name for name in path_of(queue, queues) if resource in queues[name].capability]
    return min(naming, key=lambda name: queues[name].capability[resource], default=queue)


def volcano_members(
    queues: Mapping[str, VolcanoQueue],
) -> tuple[dict[str, ClusterQueue], dict[str, Cohort]]:
    """ClusterQueues that decide like the queues' ceilings, and by whether they are open."""
    above = {name: path_of(name, queues)[1:] for name in queues}
    inner = {path[0] for path in above.values() if path}
    cluster_queues: dict[str, ClusterQueue] = {}
    cohorts: dict[str, Cohort] = {}
    for name, queue in queues.items():
        derived = derived_queue_name(name)
        named = _named((name, *above[name]), queues)
        own: Resources = {} if name in inner else queue.capability
        cohort = derived if name in inner else _cohort_above(above[name])
        cluster_queues[derived] = ClusterQueue(
            name=derived,
            cohort=cohort,
            resource_groups=_groups(
                {resource: _ceiling(own, resource, below=bool(cohort)) for resource in named}
            ),
            namespace_selector=Selector(),
            undeclared_resources=UndeclaredResources.IGNORE,
            stop_policy=StopPolicy.HOLD if shut_by(name, queues) else StopPolicy.NONE,
        )
        if name in inner:
            under = [one for one in queues if name in above[one]]
            cohorts[derived] = Cohort(
                name=derived,
                parent=_cohort_above(above[name]),
                resource_groups=_groups(
                    {
                        resource: _shared(queue, resource, queues, below=bool(above[name]))
                        for resource in _named((name, *above[name], *under), queues)
                    }
                ),
            )
    return cluster_queues, cohorts


def _cohort_above(above: tuple[str, ...]) -> str:
    return derived_queue_name(above[0]) if above else ""


def _ceiling(capability: Resources, resource: str, *, below: bool) -> ResourceQuota:
    """A ceiling as quota; without one, whatever there is, or `below` others what those have."""
    if resource in capability:
        limit = 0 if below else None
        return ResourceQuota(nominal_milli=capability[resource], borrowing_limit_milli=limit)
    return ResourceQuota(nominal_milli=0 if below else UNLIMITED)


def _shared(
    queue: VolcanoQueue, resource: str, queues: Mapping[str, VolcanoQueue], *, below: bool
) -> ResourceQuota:
    """Quota that makes up the ceiling with what the queues right below bring, perhaps negative."""
    quota = _ceiling(queue.capability, resource, below=below)
    if quota.nominal_milli == UNLIMITED:
        return quota
    children = [one for one in queues.values() if one.parent == queue.name]
    brought = sum(child.capability.get(resource, 0) for child in children)
    return replace(quota, nominal_milli=quota.nominal_milli - brought)


def _named(names: tuple[str, ...], queues: Mapping[str, VolcanoQueue]) -> list[str]:
    """Every resource of which one of these queues has a ceiling, sorted."""
    return sorted({resource for name in names for resource in queues[name].capability})


def _groups(quotas: Mapping[str, ResourceQuota]) -> tuple[ResourceGroup, ...]:
    group = ResourceGroup(
        covered_resources=tuple(quotas),
        flavors=(FlavorQuotas(flavor=VOLCANO_FLAVOR, resources=quotas),),
    )
    return (group,) if quotas else ()
