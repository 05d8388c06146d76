"""A Volcano queue seen as a ClusterQueue.

`capability` is a ceiling per resource and becomes nominal quota in one flavor without labels;
resources that it does not name are not limited. There is no cohort, hence no borrowing. One that
is not open is a stopped ClusterQueue: what runs in it runs on.
"""

from collections.abc import Mapping

from muster_domain.queue_tree import VOLCANO_PREFIX
from muster_domain.queues import (
    ClusterQueue,
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


def shut_by(queue: str, queues: Mapping[str, VolcanoQueue]) -> str:
    """The queue by whose state a Volcano queue takes no work; empty where it is open.

    That is the queue itself, or the nearest queue above it: closing a queue closes what is under
    it, and opening it opens what was not closed by itself.
    """
    passed: list[str] = []
    while queue in queues and queue not in passed:
        if queues[queue].state is not QueueState.OPEN:
            return queue
        passed.append(queue)
        queue = queues[queue].parent
    return ""


def cluster_queue_of(queue: VolcanoQueue, *, shut: bool = False) -> ClusterQueue:
    """The ClusterQueue that decides like the Volcano queue's ceiling, and by whether it is open."""
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
        stop_policy=StopPolicy.HOLD if shut else StopPolicy.NONE,
    )
