"""What accounting is fed: facts of admission, declared objects, and rows of attempts."""

import json
from typing import Any

from muster_contracts import codec, envelope, events, subjects
from muster_contracts.subjects import Service
from muster_domain.conditions import Outcome
from muster_domain.nodes import Placement, PodAssignment
from muster_domain.states import Admission, Admitted, Finished, PodSetAdmission
from muster_domain.workload import LocalQueueRef, Owner, PodSet, Workload
from muster_runtime.publisher import Outgoing
from muster_runtime.reader import Received

GPU = "nvidia.com/gpu"
AT_MS = 1_780_272_000_000
KUEUE = "kueue.x-k8s.io/v1beta2"


def of_jobs(count: int) -> list[Outgoing]:
    """Two facts of each job: it was admitted, and it finished."""
    found: list[Outgoing] = []
    for number in range(count):
        workload = Workload(
            id=f"wl-{number}",
            namespace="team-a",
            name=f"job-{number}",
            user="ana",
            queue=LocalQueueRef(name="main"),
            owner=Owner(api_version="batch/v1", kind="Job", name=f"job-{number}"),
            pod_sets=(PodSet(name="main", count=1, requests={GPU: 1_000}),),
            created_at_ms=AT_MS,
        )
        admission = Admission(
            cluster_queue="cq-0",
            pod_sets=(
                PodSetAdmission(name="main", count=1, flavors={GPU: "h100"}, usage={GPU: 1_000}),
            ),
        )
        seat = PodAssignment(pod_set="main", index=0, rank=0, node="n0", devices={GPU: (0,)})
        admitted = Admitted(
            admission=admission,
            placement=Placement(pods=(seat,)),
            reserved_at_ms=AT_MS + number,
            admitted_at_ms=AT_MS + number,
            attempt=1,
            queued_at_ms=AT_MS,
        )
        finished = Finished(
            outcome=Outcome.SUCCEEDED, finished_at_ms=AT_MS + number + 1_000, attempt=1
        )
        found.append(_fact(events.WorkloadAdmitted(workload=workload, version=1, state=admitted)))
        found.append(
            _fact(events.WorkloadFinished(workload_id=workload.id, version=2, state=finished))
        )
    return found


def _fact(fact: events.Event) -> Outgoing:
    name = codec.EVENT_NAMES[type(fact)]
    body = codec.encode(fact)
    identity = envelope.derived_id(name, body.decode())
    said = envelope.Envelope(
        id=identity,
        source="/muster/admission",
        type=envelope.event_type(Service.ADMISSION, name),
        time_ms=AT_MS,
    )
    subject = subjects.workload_event(Service.ADMISSION, name, "p00", "team-a", identity)
    return Outgoing(subject=subject, body=body, headers=envelope.to_headers(said))


def objects(at_ms: int, teams: int) -> list[Received]:
    """A flavor, and a ClusterQueue of one cohort for each team."""
    flavor = {"nodeLabels": {"gpu": "h100"}}
    found = [_object(1, "ResourceFlavor", "h100", flavor, at_ms)]
    for team in range(teams):
        quota = {"name": GPU, "nominalQuota": 200}
        spec = {
            "cohort": "all",
            "namespaceSelector": {},
            "resourceGroups": [
                {"coveredResources": [GPU], "flavors": [{"name": "h100", "resources": [quota]}]}
            ],
        }
        found.append(_object(team + 2, "ClusterQueue", f"cq-{team}", spec, at_ms))
    return found


def _object(sequence: int, kind: str, name: str, spec: dict[str, Any], at_ms: int) -> Received:
    document = {"apiVersion": KUEUE, "kind": kind, "metadata": {"name": name}, "spec": spec}
    fact = events.ObjectApplied(kind=kind, namespace="", name=name, document=document)
    said = envelope.Envelope(
        id=f"object-{sequence}",
        source="/muster/gateway",
        type=envelope.event_type(Service.GATEWAY, "object_applied"),
        time_ms=at_ms,
    )
    return Received(
        sequence=sequence,
        subject=subjects.declared_object(kind, "", name),
        headers=envelope.to_headers(said),
        body=codec.encode(fact),
        published_ms=at_ms,
    )


def attempt_columns(
    identity: str, team: int, node: str, opened_ms: int, closed_ms: int
) -> dict[str, object]:
    """A row of one GPU for some time."""
    charge = ["h100", GPU, 1_000]
    return {
        "workload_id": identity,
        "number": 1,
        "opened_ms": opened_ms,
        "opened_version": 1,
        "namespace": f"ns-{team}",
        "workload": "job",
        "cluster_queue": f"cq-{team}",
        "local_queue": "main",
        "team": f"team-{team}",
        "user_name": f"user-{team}",
        "kind": "Job",
        "priority": 0,
        "priority_class": "",
        "labels": json.dumps({"project": f"project-{team}"}),
        "annotations": "{}",
        "charges": json.dumps([charge]),
        "seated_ms": opened_ms,
        "seated_version": 2,
        "seats": json.dumps([[node, 1, 1, [charge]]]),
        "nodes": 1,
        "devices": 1,
        "evicted_ms": None,
        "evicted_version": None,
        "evicted_reason": None,
        "preemption_reason": None,
        "preemptor": None,
        "closed_ms": closed_ms,
        "closed_version": 3,
        "checkpointed_ms": None,
        "outcome": "Succeeded",
    }
