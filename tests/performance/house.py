"""What is measured with: two cohorts of two teams, a hundred machines, a CI job of one pod."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

GPUS = 0
NODES = 100
SIMULATED_NODES = f"{NODES}x{GPUS}gpu,cpu=128,memory=512Gi:zone=z{{n/50}},rack=r{{n/10}}"
JOBS_THAT_FIT = NODES * 128 * 2
LEASE_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """A namespace with a LocalQueue `jobs` into a ClusterQueue of the same name."""

    name: str
    cohort: str


TEAMS: tuple[Team, ...] = (
    Team(name="vision", cohort="research"),
    Team(name="speech", cohort="research"),
    Team(name="nightly", cohort="build"),
    Team(name="release", cohort="build"),
)


def objects() -> str:
    """Everything that must be applied first; the quota is ample."""
    return "---".join([_FLAVOR, *(_QUEUE.format(team=t.name, cohort=t.cohort) for t in TEAMS)])


def job_name(number: int, run: str) -> str:
    """A name that no other job of the measurement has."""
    return f"{run}-{number:07}"


def job_body(name: str, *, managed: bool) -> bytes:
    """What CI publishes: a Job with what people write into one."""
    body: dict[str, object] = {"manifest": _job(name), "user": "ci"}
    if not managed:
        body["external_lease_ms"] = LEASE_MS
    return json.dumps(body).encode()


def _job(name: str) -> Mapping[str, object]:
    resources = {"cpu": "500m", "memory": "256Mi"}
    container = {
        "name": "main",
        "image": "registry.example.com/team/trainer:2026.11",
        "command": ["python", "-m", "trainer"],
        "args": ["--epochs", "10", "--data", "/data/set-7"],
        "env": [
            {"name": "COMMIT", "value": "0123456789abcdef0123456789abcdef01234567"},
            {"name": "BRANCH", "value": "main"},
        ],
        "resources": {"requests": resources, "limits": resources},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "labels": {"kueue.x-k8s.io/queue-name": "jobs", "pipeline": "4711"},
        },
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "template": {
                "metadata": {"annotations": {"muster.dev/simulated-duration-ms": "3600000"}},
                "spec": {"restartPolicy": "Never", "containers": [container]},
            },
        },
    }


_FLAVOR = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: any}
"""

_QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: {team}}}
spec:
  cohortName: "{cohort}"
  queueingStrategy: BestEffortFIFO
  namespaceSelector: {{}}
  resourceGroups:
    - coveredResources: ["cpu", "memory"]
      flavors:
        - name: any
          resources:
            - {{name: cpu, nominalQuota: 1000000}}
            - {{name: memory, nominalQuota: 1000000Gi}}
  preemption:
    reclaimWithinCohort: Any
    withinClusterQueue: LowerPriority
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: jobs, namespace: {team}}}
spec: {{clusterQueue: {team}}}
"""
