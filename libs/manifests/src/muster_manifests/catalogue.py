"""What is declared at the moment: a projection of every object applied and deleted, in order.

Pure: whoever reads the stream of objects feeds it. Knows no bus and no clock.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar, cast, get_args

from muster_domain.budgets import Budget
from muster_domain.checks import ProvisioningRequestConfig
from muster_domain.job_flow import JobFlow, JobTemplate
from muster_domain.pod_defaults import LimitRange, RuntimeClass
from muster_domain.queue_tree import VOLCANO_PREFIX, tree_root
from muster_domain.queues import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    HyperNode,
    LocalQueue,
    Namespace,
    PriorityClass,
    ResourceFlavor,
    Topology,
    VolcanoQueue,
)
from muster_domain.volcano_scheduler import SchedulerConfiguration, VolcanoScheduler
from muster_manifests.document import DeclaredObject, Document
from muster_manifests.kubernetes import NodeObject
from muster_manifests.kueue.configuration import KueueConfiguration
from muster_manifests.loader import load_object
from muster_manifests.problems import ManifestError, Mark, Problem
from muster_manifests.reader import LoadOptions
from muster_manifests.volcano.pod_group import PodGroup
from muster_rating.policies import ChargingPolicy
from muster_rating.prices import PriceList

T = TypeVar("T", bound=DeclaredObject)

DEFAULT_VOLCANO_QUEUE = "default"
"""A Volcano queue of this name is always there; until somebody declares it, it has no ceiling."""

_DECLARED = get_args(DeclaredObject)


@dataclass(frozen=True, slots=True, order=True)
class ObjectKey:
    """Names an object; the namespace of a cluster-wide kind is empty."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {place}{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """An object as it stands. `sequence` is where in the stream it was applied."""

    document: Document
    content: DeclaredObject
    sequence: int
    by: str = ""
    text: str = ""

    @property
    def key(self) -> ObjectKey:
        """Its name among all objects."""
        return key_of(self.document)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One object became another; `None` is absence."""

    key: ObjectKey
    sequence: int
    before: DeclaredObject | None
    after: DeclaredObject | None


def key_of(document: Document) -> ObjectKey:
    """The key of a loaded document."""
    return ObjectKey(document.kind, document.namespace, document.name)


class ObjectCatalogue:
    """Every declared object, by kind, and what follows from them together.

    The mappings are live views: they change as the stream is applied and must not be written to.
    What lives in a namespace is keyed `namespace/name`, everything else by name.
    """

    def __init__(self) -> None:
        self.sequence = 0
        """Position in the stream up to which everything is applied."""
        self.listeners: list[Callable[[Change], None]] = []
        """Called after each change, in order."""
        self._stored: dict[ObjectKey, StoredObject] = {}
        self._views: dict[type, dict[str, DeclaredObject]] = {kind: {} for kind in _DECLARED}
        self._pod_priorities: dict[str, PriorityClass] = {}
        self._show(VolcanoQueue(name=DEFAULT_VOLCANO_QUEUE))

    @property
    def cluster_queues(self) -> Mapping[str, ClusterQueue]:
        """ClusterQueues by name."""
        return self._view(ClusterQueue)

    @property
    def local_queues(self) -> Mapping[str, LocalQueue]:
        """LocalQueues by `namespace/name`."""
        return self._view(LocalQueue)

    @property
    def cohorts(self) -> Mapping[str, Cohort]:
        """Declared cohorts by name; a cohort may also be there by being named in a queue."""
        return self._view(Cohort)

    @property
    def flavors(self) -> Mapping[str, ResourceFlavor]:
        """ResourceFlavors by name."""
        return self._view(ResourceFlavor)

    @property
    def topologies(self) -> Mapping[str, Topology]:
        """Topologies by name."""
        return self._view(Topology)

    @property
    def admission_checks(self) -> Mapping[str, AdmissionCheck]:
        """AdmissionChecks by name."""
        return self._view(AdmissionCheck)

    @property
    def provisioning(self) -> Mapping[str, ProvisioningRequestConfig]:
        """ProvisioningRequestConfigs by name."""
        return self._view(ProvisioningRequestConfig)

    @property
    def configuration(self) -> KueueConfiguration | None:
        """Kueue's Configuration; the first by name should there be several."""
        found = self._view(KueueConfiguration)
        return found[min(found)] if found else None

    @property
    def limit_ranges(self) -> Mapping[str, LimitRange]:
        """LimitRanges by `namespace/name`."""
        return self._view(LimitRange)

    @property
    def runtime_classes(self) -> Mapping[str, RuntimeClass]:
        """RuntimeClasses by name."""
        return self._view(RuntimeClass)

    @property
    def namespaces(self) -> Mapping[str, Namespace]:
        """Declared namespaces by name; a namespace need not be declared to be used."""
        return self._view(Namespace)

    @property
    def volcano_queues(self) -> Mapping[str, VolcanoQueue]:
        """Volcano queues by name, always with one named `default`."""
        return self._view(VolcanoQueue)

    @property
    def hyper_nodes(self) -> Mapping[str, HyperNode]:
        """HyperNodes by name."""
        return self._view(HyperNode)

    @property
    def nodes(self) -> Mapping[str, NodeObject]:
        """Declared nodes by name."""
        return self._view(NodeObject)

    @property
    def volcano_scheduler(self) -> SchedulerConfiguration | None:
        """What Volcano's scheduler is told; the first by name if it is declared more than once."""
        found = self._view(VolcanoScheduler)
        return found[min(found)].configuration if found else None

    @property
    def job_flows(self) -> Mapping[str, JobFlow]:
        """JobFlows by `namespace/name`."""
        return self._view(JobFlow)

    @property
    def pod_groups(self) -> Mapping[str, PodGroup]:
        """PodGroups by `namespace/name`."""
        return self._view(PodGroup)

    @property
    def budgets(self) -> Mapping[str, Budget]:
        """Budgets by name."""
        return self._view(Budget)

    @property
    def price_lists(self) -> Mapping[str, PriceList]:
        """Price lists by name."""
        return self._view(PriceList)

    @property
    def charging_policies(self) -> Mapping[str, ChargingPolicy]:
        """Charging policies by name."""
        return self._view(ChargingPolicy)

    @property
    def priority_classes(self) -> tuple[PriorityClass, ...]:
        """Kueue's and Kubernetes' priority classes together, sorted by name within each."""
        kueue = self._view(PriorityClass)
        return (
            *(kueue[name] for name in sorted(kueue)),
            *(self._pod_priorities[name] for name in sorted(self._pod_priorities)),
        )

    def root_of(self, cluster_queue: str) -> str:
        """Root of a ClusterQueue's cohort tree; an unknown queue counts as standing alone.

        Volcano queues are one tree, so that one of them may reclaim what another holds in one step.
        """
        if cluster_queue.startswith(VOLCANO_PREFIX):
            return VOLCANO_PREFIX
        queue = self.cluster_queues.get(cluster_queue)
        parents = {name: cohort.parent for name, cohort in self.cohorts.items()}
        return tree_root(cluster_queue, queue.cohort if queue is not None else "", parents)

    def get(self, key: ObjectKey) -> StoredObject | None:
        """The object of that key as it was applied."""
        return self._stored.get(key)

    def stored(self, kind: str = "", namespace: str = "") -> tuple[StoredObject, ...]:
        """Applied objects, of one kind and namespace if given, sorted by key."""
        return tuple(
            self._stored[key]
            for key in sorted(self._stored)
            if kind in ("", key.kind) and namespace in ("", key.namespace)
        )

    def put(
        self,
        sequence: int,
        namespace: str,
        manifest: Mapping[str, object],
        *,
        by: str = "",
        text: str = "",
    ) -> StoredObject:
        """Take in an applied object. Raises `ManifestError` for one that cannot be read."""
        self.advance(sequence)
        options = LoadOptions(default_namespace=namespace or "default")
        document = load_object(manifest, source=f"object {sequence}", options=options)
        return self.put_document(sequence, document, by=by, text=text)

    def put_document(
        self, sequence: int, document: Document, *, by: str = "", text: str = ""
    ) -> StoredObject:
        """Take in a loaded object. Raises `ManifestError` for a kind that is not declared."""
        content = declared(document)
        stored = StoredObject(
            document=document, content=content, sequence=sequence, by=by, text=text
        )
        before = self._stored.get(stored.key)
        self._stored[stored.key] = stored
        self._show(content)
        self.advance(sequence)
        self._tell(stored.key, before, content)
        return stored

    def remove(self, sequence: int, key: ObjectKey) -> None:
        """Take in a deletion; one of an unknown object changes nothing."""
        self.advance(sequence)
        before = self._stored.pop(key, None)
        if before is None:
            return
        self._hide(before.content)
        self._tell(key, before, None)

    def advance(self, sequence: int) -> None:
        """Say that the stream has been applied up to `sequence`."""
        self.sequence = max(self.sequence, sequence)

    def copy(self) -> "ObjectCatalogue":
        """A catalogue of the same objects, without listeners, to try changes on."""
        twin = ObjectCatalogue()
        twin.sequence = self.sequence
        twin._stored = dict(self._stored)
        twin._views = {kind: dict(view) for kind, view in self._views.items()}
        twin._pod_priorities = dict(self._pod_priorities)
        return twin

    def _view(self, kind: type[T]) -> Mapping[str, T]:
        return cast("Mapping[str, T]", self._views[kind])

    def _show(self, content: DeclaredObject) -> None:
        if isinstance(content, PriorityClass) and content.of_pods:
            self._pod_priorities[content.name] = content
        else:
            self._views[type(content)][_view_key(content)] = content

    def _hide(self, content: DeclaredObject) -> None:
        if isinstance(content, PriorityClass) and content.of_pods:
            del self._pod_priorities[content.name]
        else:
            del self._views[type(content)][_view_key(content)]
        if isinstance(content, VolcanoQueue) and content.name == DEFAULT_VOLCANO_QUEUE:
            self._show(VolcanoQueue(name=DEFAULT_VOLCANO_QUEUE))

    def _tell(
        self, key: ObjectKey, before: StoredObject | None, after: DeclaredObject | None
    ) -> None:
        change = Change(
            key=key,
            sequence=self.sequence,
            before=before.content if before is not None else None,
            after=after,
        )
        for listener in self.listeners:
            listener(change)


def declared(document: Document) -> DeclaredObject:
    """The object in a document. Raises `ManifestError` when it is a job."""
    if isinstance(document.content, _DECLARED):
        return cast("DeclaredObject", document.content)
    found = Problem(
        source=document.source,
        mark=Mark(),
        field="kind",
        problem=f"a {document.kind} is not an object that stands by itself",
        fix="submit it as a job",
    )
    raise ManifestError((found,))


def _view_key(content: DeclaredObject) -> str:
    if isinstance(
        content, LimitRange | JobFlow | JobTemplate | LocalQueue | PodGroup | VolcanoScheduler
    ):
        return content.key
    if isinstance(content, NodeObject):
        return content.node.name
    return content.name
