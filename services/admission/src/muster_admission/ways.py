"""The flavors in which a workload that waits for quota could seek seats. Pure."""

from muster_contracts.fit import WAYS_MAX
from muster_domain.states import Admission, PodSetAdmission
from muster_domain.workload import PodSet, Workload
from muster_scheduling.placement.record import is_extended
from muster_scheduling.snapshot.catalog import Group, QueueEntry


def ways_of(workload: Workload, entry: QueueEntry) -> tuple[Admission, ...]:
    """The whole of it in each flavor of the resource group that matters most, in their order.

    That is the group of its cards, or of what it asks for first by name. The other groups count
    with their first flavor. In a queue that limits nothing of it there is one way, in no flavor.
    """
    wanted = {name for pod_set in workload.pod_sets for name in pod_set.requests}
    covered = sorted(wanted & entry.group_of.keys(), key=lambda name: (not is_extended(name), name))
    main = entry.group_of[covered[0]] if covered else Group(-1, frozenset(), ("",))
    return tuple(
        Admission(
            cluster_queue=entry.name,
            pod_sets=tuple(_granted(each, entry, main, flavor) for each in workload.pod_sets),
        )
        for flavor in main.flavors[:WAYS_MAX]
    )


def _granted(pod_set: PodSet, entry: QueueEntry, main: Group, flavor: str) -> PodSetAdmission:
    flavors: dict[str, str] = {}
    for resource in sorted(pod_set.requests.keys() & entry.group_of.keys()):
        group = entry.group_of[resource]
        flavors[resource] = flavor if group.index == main.index else group.flavors[0]
    return PodSetAdmission(
        name=pod_set.name,
        count=pod_set.count,
        flavors=flavors,
        usage={name: pod_set.total_requests[name] for name in flavors},
    )
