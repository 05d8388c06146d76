"""What loading gives: documents, and what was found on the way."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from muster_domain.budgets import Budget
from muster_domain.checks import ProvisioningRequestConfig
from muster_domain.job_flow import JobFlow, JobTemplate
from muster_domain.pod_defaults import LimitRange, RuntimeClass
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
from muster_domain.volcano_scheduler import VolcanoScheduler
from muster_manifests.kubernetes import NodeObject
from muster_manifests.kueue.configuration import KueueConfiguration
from muster_manifests.kueue.workload import WorkloadRecord
from muster_manifests.plain import Plain
from muster_manifests.problems import Mark, Problem
from muster_manifests.submission import JobSubmission
from muster_manifests.volcano.pod_group import PodGroup
from muster_rating.policies import ChargingPolicy
from muster_rating.prices import PriceList

DeclaredObject: TypeAlias = (
    AdmissionCheck
    | Budget
    | ChargingPolicy
    | ClusterQueue
    | Cohort
    | HyperNode
    | JobFlow
    | JobTemplate
    | KueueConfiguration
    | LimitRange
    | LocalQueue
    | Namespace
    | NodeObject
    | PodGroup
    | PriceList
    | PriorityClass
    | ProvisioningRequestConfig
    | ResourceFlavor
    | RuntimeClass
    | Topology
    | VolcanoQueue
    | VolcanoScheduler
)
"""Objects that stand until they are changed."""

Content: TypeAlias = DeclaredObject | JobSubmission | WorkloadRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One loaded object.

    `manifest` is the object as written, as JSON values; `text` its YAML as written, empty when it
    was not read from YAML. `namespace` is empty for cluster-wide kinds. Pods of one group are one
    document, whose manifest is a List.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    content: Content
    manifest: Mapping[str, Plain]
    text: str = ""
    source: str = ""
    mark: Mark = Mark()
    warnings: tuple[Problem, ...] = ()

    @property
    def key(self) -> str:
        """`kind/namespace/name`, or `kind/name` for cluster-wide kinds."""
        return "/".join(part for part in (self.kind, self.namespace, self.name) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """The documents of a file, in order, and every warning about it."""

    documents: tuple[Document, ...]
    warnings: tuple[Problem, ...] = ()
