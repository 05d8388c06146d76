"""A Volcano queue seen as a ClusterQueue.

`capability` is a ceiling per resource and becomes nominal quota in one flavor without labels;
resources that it does not name are not limited. There is no cohort, hence no borrowing.
"""

from muster_domain.queue_tree import VOLCANO_PREFIX
from muster_domain.queues import (
    ClusterQueue,
    FlavorQuotas,
    ResourceFlavor,
    ResourceGroup,
    ResourceQuota,
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


def cluster_queue_of(queue: VolcanoQueue) -> ClusterQueue:
    """The ClusterQueue that decides like the Volcano queue's ceiling."""
    quotas = {
        resource: ResourceQuota(nominal_milli=queue.capability[resource])
        for resource in sorted(queue.capability)
    }
    groups = (
        ResourceGroup(
            covered_resources=tuple(quotas),
            flavors=(FlavorQuotas(flavor=VOLCANO_FLAVOR, resources=quotas),),
        ),
    )
    return ClusterQueue(
        name=derived_queue_name(queue.name),
        resource_groups=groups if quotas else (),
        namespace_selector=Selector(),
        undeclared_resources=UndeclaredResources.IGNORE,
    )
