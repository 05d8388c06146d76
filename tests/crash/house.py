"""The house that is broken: two teams in one cohort, one alone, fewer GPUs than quota.

LocalQueues take turns, and two budgets pay for everybody of a team, so that all that admission can
keep is kept.
"""

from muster_contracts.subjects import Service
from muster_stack.plan import StackOptions

COHORT = "house"
TEAMS = ("red", "blue")
LONER = "green"
GPU = "nvidia.com/gpu"
NODES = 13
GPUS_PER_NODE = 4
IMPOSSIBLE_PODS = 100
LEASE_MS = 120_000
SILENT_LEASE_MS = 5_000

PRICES = """
currency: EUR
flavors:
  any:
    nvidia.com/gpu: {hourly: "1.40"}
    cpu: {hourly: "0.02"}
    memory: {hourly: "0.003", per: 1Gi}
"""

OPTIONS = StackOptions(
    replicas={Service.ADMISSION: 2},
    simulate=f"{NODES}x{GPUS_PER_NODE}gpu",
    environment={"MUSTER_TRACE_RATIO": "0"},
    service_environment={
        Service.ACCOUNTING: {"MUSTER_PRICES": PRICES},
        Service.ADMISSION: {"MUSTER_PLACEMENT_RETRY_MAX_MS": "5000"},
    },
)


def objects() -> str:
    """Flavor, priorities, and a queue for each team; the cohort lends all it does not use."""
    queues = [
        _QUEUE.format(team=team, cohort=COHORT, gpus="24, borrowingLimit: 24") for team in TEAMS
    ]
    return "---".join([_SHARED, *queues, _QUEUE.format(team=LONER, cohort="", gpus="8")])


def job(team: str, name: str, *, pods: int, duration_ms: int, urgent: bool) -> dict[str, object]:
    """A Job of so many pods with one GPU each."""
    requests = {GPU: "1", "cpu": "1", "memory": "1Gi"}
    labels = {"kueue.x-k8s.io/queue-name": "jobs"}
    if urgent:
        labels["kueue.x-k8s.io/priority-class"] = "urgent"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": team, "labels": labels},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "template": {
                "metadata": {"annotations": {"muster.dev/simulated-duration-ms": str(duration_ms)}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [
                        {"name": "main", "image": "ci:1", "resources": {"limits": requests}}
                    ],
                },
            },
        },
    }


_SHARED = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: urgent}
value: 100
---
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
admissionFairSharing: {usageHalfLifeTime: 60s, usageSamplingInterval: 10s}
---
apiVersion: muster.dev/v1alpha1
kind: PriceList
metadata: {name: house}
spec:
  currency: EUR
  flavors:
    any:
      nvidia.com/gpu: {hourly: "1.40"}
      cpu: {hourly: "0.02"}
      memory: {hourly: "0.003", per: 1Gi}
---
apiVersion: muster.dev/v1alpha1
kind: Budget
metadata: {name: red}
spec:
  namespace: red
  currency: EUR
  windows: [{period: month, limit: "1000000.00"}, {period: 1h, limit: "1000000.00"}]
---
apiVersion: muster.dev/v1alpha1
kind: Budget
metadata: {name: blue}
spec:
  namespace: blue
  currency: EUR
  windows: [{period: 24h, limit: "1000000.00"}]
"""

_QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: {team}}}
spec:
  cohortName: "{cohort}"
  queueingStrategy: BestEffortFIFO
  namespaceSelector: {{}}
  admissionScope: {{admissionMode: UsageBasedAdmissionFairSharing}}
  resourceGroups:
    - coveredResources: ["nvidia.com/gpu", "cpu", "memory"]
      flavors:
        - name: any
          resources:
            - {{name: "nvidia.com/gpu", nominalQuota: {gpus}}}
            - {{name: cpu, nominalQuota: 200}}
            - {{name: memory, nominalQuota: 2000Gi}}
  preemption:
    reclaimWithinCohort: Any
    withinClusterQueue: LowerPriority
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: jobs, namespace: {team}}}
spec: {{clusterQueue: {team}}}
"""
