"""The public messages: what CI publishes and what it reads back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from muster_domain.checks import CheckStatus
from muster_domain.conditions import Explanation, Outcome
from muster_domain.nodes import MigInstance, TopologyAssignment


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitJob:
    """A manifest (`manifest` as an object, or `yaml` as text) with one job in it.

    `external_lease_ms` set means that the submitter runs the job itself.
    """

    manifest: Mapping[str, Any] | None = None
    yaml: str = ""
    user: str = ""
    external_lease_ms: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishJob:
    """The job ended. Name it by `id`, or by `name` in the subject's namespace."""

    id: str = ""
    name: str = ""
    outcome: Literal[Outcome.SUCCEEDED, Outcome.FAILED] = Outcome.SUCCEEDED
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelJob:
    """The job is no longer wanted."""

    id: str = ""
    name: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatJob:
    """The holder of an external job is alive."""

    id: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointJob:
    """The job has saved its work; `attempt` is the one that did, 0 whichever runs."""

    id: str = ""
    name: str = ""
    attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTokens:
    """Rows of a proxy's spend log, as LiteLLM writes them, of models served in the namespace."""

    rows: tuple[Mapping[str, Any], ...]


class Verdict(StrEnum):
    """What was decided about a workload, in the words of the public decision."""

    QUEUED = "queued"
    ADMITTED = "admitted"
    REFUSED = "refused"
    PREEMPTED = "preempted"
    EVICTED = "evicted"
    REQUEUED = "requeued"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """One pod's node and devices, and its MIG instances on cards that are divided as needed."""

    rank: int
    pod_set: str
    node: str
    devices: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    instances: tuple[MigInstance, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The last word about one workload. A late reader still finds it on its subject.

    `reason` is a reason word of `muster_domain.conditions`; `outcome` is set once finished or
    refused. `assignments` say who sits where, by rank; `topology` says it in counts, by pod set,
    where a topology seated it. `lease_until_ms` only for external jobs. `checks` of the `attempt`,
    while it holds quota: who answers for a check finds here what is asked.
    """

    id: str
    namespace: str
    name: str
    decision: Verdict
    reason: str
    message: str
    queue: str
    cluster_queue: str
    partition: str
    attempt: int
    at_ms: int
    priority: int = 0
    flavors: Mapping[str, str] = field(default_factory=dict[str, str])
    assignments: tuple[Seat, ...] = ()
    topology: Mapping[str, TopologyAssignment] = field(
        default_factory=dict[str, TopologyAssignment]
    )
    outcome: Outcome | None = None
    explanation: Explanation | None = None
    preemptor: str = ""
    lease_until_ms: int | None = None
    checks: tuple[CheckStatus, ...] = ()
