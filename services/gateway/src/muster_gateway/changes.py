"""What a set of objects would change, and whether it may. Pure, over two catalogues."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from muster_contracts.partitions import partition_of
from muster_domain.errors import Conflict
from muster_domain.queues import ClusterQueue, Cohort, ResourceGroup
from muster_manifests.catalogue import ObjectCatalogue, ObjectKey, declared, key_of
from muster_manifests.document import Document
from muster_scheduling.snapshot.activity import inactive_checks


class Effect(StrEnum):
    """What applying did to an object, in kubectl's words."""

    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One object of a file and what applying it does."""

    key: ObjectKey
    document: Document
    effect: Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A ClusterQueue that would stand in another tree."""

    cluster_queue: str
    old_root: str
    new_root: str

    @property
    def old_partition(self) -> str:
        """Who decides about it now."""
        return partition_of(self.old_root)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSet:
    """A file's objects, the catalogue after them, and what must be true for them to be taken.

    `moves` may only happen to ClusterQueues without live workloads.
    """

    planned: tuple[Planned, ...]
    after: ObjectCatalogue
    moves: tuple[Move, ...]
    warnings: tuple[str, ...]

    @property
    def changed(self) -> tuple[Planned, ...]:
        """What has to be published."""
        return tuple(plan for plan in self.planned if plan.effect is not Effect.UNCHANGED)


def plan_changes(documents: Iterable[Document], before: ObjectCatalogue) -> ChangeSet:
    """See what applying would do; of two objects of one name the later counts.

    Raises `Conflict` for a second Configuration.
    """
    after = before.copy()
    planned: dict[ObjectKey, Planned] = {}
    for document in documents:
        declared(document)
        key = key_of(document)
        planned[key] = Planned(key=key, document=document, effect=_effect(key, document, before))
        after.put_document(before.sequence, document)
    _check_only_configuration(after)
    return ChangeSet(
        planned=tuple(planned.values()),
        after=after,
        moves=moves(before, after),
        warnings=doubts(planned, after),
    )


def _check_only_configuration(after: ObjectCatalogue) -> None:
    found = [stored.key.name for stored in after.stored("Configuration")]
    if len(found) > 1:
        raise Conflict(
            f"an installation has one Configuration, not {' and '.join(found)}; apply it under the "
            "name that is there (muster get configuration), or delete that one first"
        )


def _effect(key: ObjectKey, document: Document, before: ObjectCatalogue) -> Effect:
    stored = before.get(key)
    if stored is None:
        return Effect.CREATED
    same = stored.document.manifest == document.manifest
    return Effect.UNCHANGED if same else Effect.CONFIGURED


def moves(before: ObjectCatalogue, after: ObjectCatalogue) -> tuple[Move, ...]:
    """ClusterQueues that stand in another tree afterwards, sorted by name."""
    found: list[Move] = []
    for name in sorted(before.cluster_queues):
        old, new = before.root_of(name), after.root_of(name)
        if name in after.cluster_queues and old != new:
            found.append(Move(cluster_queue=name, old_root=old, new_root=new))
    return tuple(found)


def doubts(keys: Iterable[ObjectKey], after: ObjectCatalogue) -> tuple[str, ...]:
    """What makes the applied queues inactive, as Kueue would say in their conditions."""
    found: list[str] = []
    for key in keys:
        match key.kind:
            case "ClusterQueue":
                found += _doubts_of_queue(after.cluster_queues[key.name], after)
            case "Cohort":
                found += _doubts_of_cohort(after.cohorts[key.name], after)
            case "AdmissionCheck":
                found += _doubts_of_check(key.name, after)
            case "LocalQueue":
                local = after.local_queues[f"{key.namespace}/{key.name}"]
                if local.cluster_queue not in after.cluster_queues:
                    found.append(f"{key}: the ClusterQueue {local.cluster_queue!r} does not exist")
            case _:
                continue
    return tuple(found)


def _doubts_of_queue(queue: ClusterQueue, after: ObjectCatalogue) -> list[str]:
    name = f"ClusterQueue {queue.name}"
    found = [
        f"{name} is inactive until the ResourceFlavor {flavor!r} exists"
        for flavor in sorted(_flavors(queue.resource_groups) - set(after.flavors))
    ]
    found += [
        f"{name} is inactive until the AdmissionCheck {rule.name!r} exists"
        for rule in queue.admission_checks
        if rule.name not in after.admission_checks
    ]
    if queue.cohort and _is_cyclic(queue.cohort, after):
        found.append(f"{name} is inactive: its cohort {queue.cohort!r} is its own ancestor")
    if queue.namespace_selector is None:
        found.append(f"{name} has no namespaceSelector, so no namespace may use it")
    return found


def _doubts_of_check(name: str, after: ObjectCatalogue) -> list[str]:
    why = inactive_checks(after.admission_checks, after.provisioning).get(name, "")
    return [f"AdmissionCheck {name} is inactive, and every queue with it: {why}"] if why else []


def _doubts_of_cohort(cohort: Cohort, after: ObjectCatalogue) -> list[str]:
    name = f"Cohort {cohort.name}"
    found = [
        f"{name} names the ResourceFlavor {flavor!r}, which does not exist"
        for flavor in sorted(_flavors(cohort.resource_groups) - set(after.flavors))
    ]
    if _is_cyclic(cohort.name, after):
        found.append(f"{name} is its own ancestor: every queue below it is inactive")
    return found


def _is_cyclic(cohort: str, catalogue: ObjectCatalogue) -> bool:
    seen: set[str] = set()
    name = cohort
    while name and name not in seen:
        seen.add(name)
        declared_cohort = catalogue.cohorts.get(name)
        name = declared_cohort.parent if declared_cohort is not None else ""
    return bool(name)


def _flavors(groups: tuple[ResourceGroup, ...]) -> set[str]:
    return {flavor.flavor for group in groups for flavor in group.flavors}


def check_deletable(key: ObjectKey, catalogue: ObjectCatalogue) -> None:
    """Raise `Conflict` when other objects refer to this one, naming them and what to do."""
    match key.kind:
        case "ClusterQueue":
            users = [
                f"LocalQueue {local.key}"
                for local in catalogue.local_queues.values()
                if local.cluster_queue == key.name
            ]
            remedy = "delete them or point them at another ClusterQueue first"
        case "ResourceFlavor":
            users = _users_of_flavor(catalogue, key.name)
            remedy = "take the flavor out of their resourceGroups first"
        case "Topology":
            users = _users_of_topology(catalogue, key.name)
            remedy = "change their topologyName first"
        case _:
            return
    if users:
        raise Conflict(f"{key} is used by {', '.join(sorted(users))}; {remedy}")


def _users_of_flavor(catalogue: ObjectCatalogue, flavor: str) -> list[str]:
    queues = [
        f"ClusterQueue {queue.name}"
        for queue in catalogue.cluster_queues.values()
        if flavor in _flavors(queue.resource_groups)
    ]
    return queues + [
        f"Cohort {cohort.name}"
        for cohort in catalogue.cohorts.values()
        if flavor in _flavors(cohort.resource_groups)
    ]


def _users_of_topology(catalogue: ObjectCatalogue, topology: str) -> list[str]:
    return [
        f"ResourceFlavor {flavor.name}"
        for flavor in catalogue.flavors.values()
        if flavor.topology_name == topology
    ]


def without(key: ObjectKey, catalogue: ObjectCatalogue) -> ObjectCatalogue:
    """The catalogue as it would be without the object."""
    after = catalogue.copy()
    after.remove(catalogue.sequence, key)
    return after
