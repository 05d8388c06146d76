"""A workload: what somebody wants to run, as one gang of pod sets."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

from muster_domain.job_policies import JobPolicies
from muster_domain.quantity import Resources, add, scale
from muster_domain.selectors import Labels, NodeDemand


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentVariable:
    """A name and value given to a container."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """What a runtime starts. Resources are already counted in the pod set."""

    name: str
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    environment: tuple[EnvironmentVariable, ...] = ()
    working_directory: str = ""


class TopologyMode(StrEnum):
    """How strongly a pod set wants to sit together."""

    REQUIRED = "required"
    PREFERRED = "preferred"
    UNCONSTRAINED = "unconstrained"


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceConstraint:
    """Each `size` pods sit in one domain of the level named by `node_label`."""

    node_label: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyRequest:
    """Where a pod set wants to sit. `node_label` names the level; empty means the lowest."""

    mode: TopologyMode
    node_label: str = ""
    pod_set_group: str = ""
    slices: tuple[SliceConstraint, ...] = ()


class NetworkTopologyMode(StrEnum):
    """Whether a gang may spread beyond the tier it names."""

    HARD = "hard"
    SOFT = "soft"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkTopology:
    """Volcano's bound on a gang over HyperNodes: the highest tier its pods may span.

    The tier is given by number or by name, never both; neither leaves it open.
    """

    mode: NetworkTopologyMode = NetworkTopologyMode.HARD
    highest_tier: int | None = None
    highest_tier_name: str = ""


class RestartPolicy(StrEnum):
    """What the runtime does when a container of the pod exits."""

    NEVER = "Never"
    ON_FAILURE = "OnFailure"
    ALWAYS = "Always"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSet:
    """`count` equal pods. `min_count` below `count` allows a smaller gang (elastic or partial).

    `requests` are milli-units of one pod, after defaults. `init_containers` run one after another
    before the containers start.
    """

    name: str
    count: int
    requests: Resources = field(default_factory=dict[str, int])
    min_count: int | None = None
    demand: NodeDemand = NodeDemand()
    topology: TopologyRequest | None = None
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    restart_policy: RestartPolicy = RestartPolicy.NEVER
    labels: Labels = field(default_factory=dict[str, str])
    annotations: Labels = field(default_factory=dict[str, str])

    @property
    def least(self) -> int:
        """The fewest pods that are worth starting."""
        return self.count if self.min_count is None else self.min_count

    @property
    def total_requests(self) -> dict[str, int]:
        """Milli-units of the whole set."""
        return scale(self.requests, self.count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Managed:
    """Muster's agents start the pods."""

    kind: Literal["managed"] = "managed"


CHECKPOINT = "muster.dev/checkpoint"
CHECKPOINT_NEVER = "never"
"""What a job annotates that cannot save its work."""


ADMISSION_GATES = "kueue.x-k8s.io/admission-gated-by"
"""What a job annotates with the gates, comma-separated, that it is not to be looked at behind."""


ELASTIC_JOB = "kueue.x-k8s.io/elastic-job"
"""What a job annotates with "true" whose number of pods may be changed while it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class External:
    """The submitter runs the job itself and renews a lease; silence for `lease_ms` ends it."""

    lease_ms: int
    kind: Literal["external"] = "external"


Execution = Managed | External


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueueRef:
    """A Kueue LocalQueue in the workload's own namespace."""

    name: str
    kind: Literal["local_queue"] = "local_queue"


@dataclass(frozen=True, slots=True, kw_only=True)
class VolcanoQueueRef:
    """A Volcano Queue, for a job that names no LocalQueue."""

    name: str
    kind: Literal["volcano_queue"] = "volcano_queue"


QueueRef = LocalQueueRef | VolcanoQueueRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The object that a workload was made from."""

    api_version: str
    kind: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What was asked for; what happened to it is a `WorkloadState`.

    Never changes, but for the numbers of pods of one that `is_scalable`.

    `id` is unique for ever and derived from the submission, so the same submission twice is the
    same workload. Higher `priority` goes first. `volcano_queue` is set beside a LocalQueue when the
    job names both: its capability is a ceiling, its quota is charged to the LocalQueue. Only a
    Volcano Job has `job_policies`; any other gang ends as soon as one of its pods has failed.
    `keep_finished_ms` is how long it stays listed after its end, where it says so.
    """

    id: str
    namespace: str
    name: str
    queue: QueueRef
    pod_sets: tuple[PodSet, ...]
    owner: Owner
    created_at_ms: int
    priority: int = 0
    priority_class: str = ""
    execution: Execution = Managed()
    max_execution_time_ms: int | None = None
    keep_finished_ms: int | None = None
    active: bool = True
    volcano_queue: str = ""
    network_topology: NetworkTopology | None = None
    job_policies: JobPolicies | None = None
    user: str = ""
    labels: Labels = field(default_factory=dict[str, str])
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def key(self) -> str:
        """`namespace/name`, the name that people use."""
        return f"{self.namespace}/{self.name}"

    @property
    def never_checkpoints(self) -> bool:
        """Whether it said that it cannot save its work, so that an eviction costs all of it."""
        return self.annotations.get(CHECKPOINT) == CHECKPOINT_NEVER

    @property
    def admission_gates(self) -> tuple[str, ...]:
        """What it waits for before it may stand in line."""
        written = self.annotations.get(ADMISSION_GATES, "").split(",")
        return tuple(gate.strip() for gate in written if gate.strip())

    @property
    def is_scalable(self) -> bool:
        """Whether it may be asked for another number of pods while it lives (R-110)."""
        return self.annotations.get(ELASTIC_JOB) == "true"

    @property
    def grows_by_itself(self) -> bool:
        """Whether it is started with some of its pods and gets the others as there is room.

        So do Volcano's elastic gangs; Kueue's partial admission decides once.
        """
        of_volcano = self.job_policies is not None or isinstance(self.queue, VolcanoQueueRef)
        return of_volcano and any(pod_set.least < pod_set.count for pod_set in self.pod_sets)

    def scaled(self, counts: Mapping[str, int]) -> "Workload":
        """The same with other numbers of pods."""
        pod_sets = tuple(
            replace(pod_set, count=counts.get(pod_set.name, pod_set.count))
            for pod_set in self.pod_sets
        )
        return replace(self, pod_sets=pod_sets)

    @property
    def total_requests(self) -> dict[str, int]:
        """Milli-units of all pods together."""
        total: dict[str, int] = {}
        for pod_set in self.pod_sets:
            total = add(total, pod_set.total_requests)
        return total
