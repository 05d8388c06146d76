"""Kueue, Volcano, Kubernetes, Kubeflow, Ray and CI manifests to domain values and back.

`load` reads a YAML stream, `load_object` one JSON object; both give `Document`s whose content is a
declared object or a job submission, or raise `ManifestError` with every problem and its place.
"""

from muster_manifests.document import Content, DeclaredObject, Document, LoadResult
from muster_manifests.dump import dump, dump_manifest
from muster_manifests.gang import GangFinding, GangResult
from muster_manifests.kubernetes import NodeObject
from muster_manifests.kueue.configuration import KueueConfiguration
from muster_manifests.kueue.state import make_admission, workload_state
from muster_manifests.kueue.status import (
    AdmissionStatus,
    CheckStatus,
    Condition,
    ConditionStatus,
    EvictionCount,
    PodSetAssignment,
    RequeueState,
    TopologyAssignment,
    TopologyDomain,
    WorkloadStatus,
)
from muster_manifests.kueue.workload import WorkloadRecord
from muster_manifests.loader import load, load_object, load_objects, load_workload_status
from muster_manifests.problems import ManifestError, Mark, Problem
from muster_manifests.reader import LoadOptions
from muster_manifests.submission import (
    JobSubmission,
    ResolvedPriority,
    SubmissionContext,
    make_workload,
    resolve_priority,
)
from muster_manifests.volcano.cluster import SessionObject, load_session_objects
from muster_manifests.volcano.pod_group import PodGroup, join_pod_group
from muster_manifests.volcano.scheduler import LoadedScheduler, load_scheduler

__all__ = [
    "AdmissionStatus",
    "CheckStatus",
    "Condition",
    "ConditionStatus",
    "Content",
    "DeclaredObject",
    "Document",
    "EvictionCount",
    "GangFinding",
    "GangResult",
    "JobSubmission",
    "KueueConfiguration",
    "LoadOptions",
    "LoadResult",
    "LoadedScheduler",
    "ManifestError",
    "Mark",
    "NodeObject",
    "PodGroup",
    "PodSetAssignment",
    "Problem",
    "RequeueState",
    "ResolvedPriority",
    "SessionObject",
    "SubmissionContext",
    "TopologyAssignment",
    "TopologyDomain",
    "WorkloadRecord",
    "WorkloadStatus",
    "dump",
    "dump_manifest",
    "join_pod_group",
    "load",
    "load_object",
    "load_objects",
    "load_scheduler",
    "load_session_objects",
    "load_workload_status",
    "make_admission",
    "make_workload",
    "resolve_priority",
    "workload_state",
]
