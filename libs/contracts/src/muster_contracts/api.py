"""What the gateway's HTTP API answers, beyond what owners answer through it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster_contracts.jobs import Decision
from muster_contracts.queries import LedgerReport, Plan, QuotaPage, WorkloadPage
from muster_domain.checks import CheckState, PodSetUpdate
from muster_domain.job_flow import FlowPhase, StepState


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong. `field` says where, `fix` what to write instead."""

    problem: str
    field: str = ""
    fix: str = ""
    source: str = ""
    line: int = 0
    column: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a request was not served. `problems` lists all that is wrong with a manifest."""

    kind: str
    problem: str
    field: str = ""
    fix: str = ""
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalAnswer:
    """The body of every answer that is not a success."""

    error: Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedJob:
    """A job that is on the log. `decision` only where the request waited for one and it fell."""

    id: str
    namespace: str
    name: str
    kind: str
    queue: str
    cluster_queue: str
    partition: str
    priority: int
    decision: Decision | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedObject:
    """What became of one object of a file: `created`, `configured`, `unchanged` or `deleted`."""

    kind: str
    namespace: str
    name: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """What became of a file. With `dry_run` nothing was changed."""

    jobs: tuple[AcceptedJob, ...] = ()
    objects: tuple[AppliedObject, ...] = ()
    warnings: tuple[str, ...] = ()
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """What would become of one job of a file."""

    namespace: str
    name: str
    kind: str
    queue: str
    cluster_queue: str
    requests_milli: Mapping[str, int]
    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Plans:
    """What would become of a file's jobs; nothing was changed."""

    jobs: tuple[PlannedJob, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadList:
    """A page of workloads; `silent` partitions did not answer, so theirs are missing."""

    page: WorkloadPage
    silent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaList:
    """Queues and quota; `silent` partitions did not answer, so theirs are missing."""

    page: QuotaPage
    silent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """What every partition says about its books; `silent` ones did not answer."""

    reports: tuple[LedgerReport, ...]
    silent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectView:
    """A declared object as it stands; `text` is its YAML where it was written in YAML."""

    kind: str
    namespace: str
    name: str
    document: Mapping[str, Any]
    text: str = ""
    by: str = ""
    sequence: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectList:
    """Declared objects, sorted by kind, namespace and name."""

    objects: tuple[ObjectView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowStepView:
    """A step of a JobFlow: the job it is about, how far that is, and what stands in its way."""

    name: str
    job: str
    state: StepState
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowView:
    """A JobFlow and how far it is."""

    namespace: str
    name: str
    phase: FlowPhase
    steps: tuple[FlowStepView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndJob:
    """The body of `cancel` and `finish`."""

    outcome: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The attempt that has saved its work; 0 means whichever runs."""

    attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """Whether a workload is to be looked at."""

    active: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckAnswer:
    """The answer of an admission check, for one attempt, and one size (`resize`) of it.

    `provisioning_class_details` are what the check's ProvisioningRequestConfig, if it follows one,
    makes node labels of (its `podSetUpdates`).
    """

    state: CheckState
    attempt: int
    resize: int = 0
    message: str = ""
    requeue_after_seconds: int | None = None
    pod_set_updates: tuple[PodSetUpdate, ...] = ()
    provisioning_class_details: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """A wish about one workload is on the log; whether it is met shows in its decisions."""

    id: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WhoAmI:
    """Who the caller is taken for. Empty `namespaces` means all."""

    name: str
    role: str
    namespaces: tuple[str, ...] = field(default_factory=tuple)
    everywhere: bool = False
