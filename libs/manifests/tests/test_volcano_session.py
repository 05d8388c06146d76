"""The state that a Volcano session reads, and the file that says what it does."""

import pytest

from muster_domain.selectors import Requirement, Selector, SelectorOperator
from muster_domain.volcano import (
    CpuPlace,
    DeviceClaim,
    DeviceClass,
    DeviceSlice,
    DisruptionBudget,
    NamespaceQuota,
    NumaTopology,
    Pod,
    PodAffinityTerm,
    PodPhase,
    SpreadConstraint,
)
from muster_domain.volcano_scheduler import BUILT_IN, INSTALLED, PluginOption, Switch
from muster_manifests import LoadOptions, ManifestError, load_scheduler, load_session_objects
from muster_manifests.volcano.cluster import SessionObject

GIB = 1 << 30


def read(manifest: dict[str, object]) -> SessionObject:
    (found,) = load_session_objects([manifest], source="test", options=LoadOptions())
    return found


def labelled(key: str, value: str) -> Selector:
    return Selector(
        requirements=(Requirement(key=key, operator=SelectorOperator.IN, values=(value,)),)
    )


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "p-0",
        "namespace": "ns",
        "labels": {"app": "a"},
        "annotations": {
            "scheduling.volcano.sh/pod-group-name": "pg",
            "volcano.sh/task-spec": "worker",
        },
    },
    "spec": {
        "nodeName": "n1",
        "priority": 7,
        "preemptionPolicy": "Never",
        "containers": [
            {
                "resources": {
                    "requests": {"cpu": "1", "memory": "1Gi"},
                    "limits": {"cpu": "1", "memory": "1Gi"},
                },
                "ports": [{"hostPort": 80}],
            }
        ],
        "initContainers": [{"resources": {"requests": {"cpu": "3"}}}],
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "a"}}}
                ]
            }
        },
        "topologySpreadConstraints": [
            {
                "topologyKey": "rack",
                "maxSkew": 2,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": "a"}},
            }
        ],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "claim"}],
    },
    "status": {
        "phase": "Running",
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "1970-01-01T00:00:05Z"}
        ],
    },
}


def test_a_pod_is_charged_for_its_containers_and_starts_with_its_init_containers() -> None:
    assert read(POD) == Pod(
        namespace="ns",
        name="p-0",
        pod_group="pg",
        role="worker",
        phase=PodPhase.RUNNING,
        node="n1",
        priority=7,
        may_preempt=False,
        requests={"cpu": 1000, "memory": GIB * 1000},
        init_requests={"cpu": 3000, "memory": GIB * 1000},
        containers=({"cpu": 1000, "memory": GIB * 1000},),
        guaranteed=True,
        affinity=(PodAffinityTerm(topology_key="rack", selector=labelled("app", "a"), anti=True),),
        spread=(
            SpreadConstraint(
                topology_key="rack", selector=labelled("app", "a"), max_skew=2, required=False
            ),
        ),
        host_ports=("TCP/80",),
        volume_claims=("data",),
        resource_claims=("claim",),
        labels={"app": "a"},
        annotations={
            "scheduling.volcano.sh/pod-group-name": "pg",
            "volcano.sh/task-spec": "worker",
        },
        scheduled_at_ms=5000,
    )


@pytest.mark.parametrize(
    ("manifest", "value"),
    [
        pytest.param(
            {
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "b", "namespace": "ns"},
                "spec": {"selector": {"matchLabels": {"app": "a"}}},
                "status": {"disruptionsAllowed": 1},
            },
            DisruptionBudget(
                namespace="ns", name="b", selector=labelled("app", "a"), disruptions_allowed=1
            ),
            id="budget",
        ),
        pytest.param(
            {
                "kind": "ResourceQuota",
                "metadata": {"name": "q", "namespace": "ns"},
                "spec": {"hard": {"requests.cpu": "4"}},
                "status": {"used": {"requests.cpu": "1"}},
            },
            NamespaceQuota(
                namespace="ns", name="q", hard={"requests.cpu": 4000}, used={"requests.cpu": 1000}
            ),
            id="quota",
        ),
        pytest.param(
            {
                "kind": "Numatopology",
                "metadata": {"name": "n1"},
                "spec": {
                    "policies": {
                        "CPUManagerPolicy": "static",
                        "TopologyManagerPolicy": "restricted",
                    },
                    "cpuDetail": {"0": {"core": 0, "socket": 0, "numa": 0}},
                    "numares": {"cpu": {"allocatable": "0-1,4"}},
                },
            },
            NumaTopology(
                node="n1",
                cpu_manager_policy="static",
                topology_manager_policy="restricted",
                cpus=(CpuPlace(cpu=0, core=0, socket=0, numa=0),),
                free_cpus=frozenset({0, 1, 4}),
            ),
            id="numa",
        ),
        pytest.param(
            {
                "kind": "ResourceClaim",
                "metadata": {"name": "c", "namespace": "ns"},
                "spec": {
                    "devices": {"requests": [{"name": "g", "exactly": {"deviceClassName": "gpu"}}]}
                },
            },
            DeviceClaim(namespace="ns", name="c", devices={"gpu": 1}),
            id="claim",
        ),
        pytest.param(
            {
                "kind": "DeviceClass",
                "metadata": {"name": "gpu"},
                "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.io'"}}]},
            },
            DeviceClass(name="gpu", driver="gpu.io"),
            id="class",
        ),
        pytest.param(
            {
                "kind": "DeviceClass",
                "metadata": {"name": "gpu"},
                "spec": {"selectors": [{"cel": {"expression": "device.attributes.ok"}}]},
            },
            DeviceClass(name="gpu", unreadable="device.attributes.ok"),
            id="class-unreadable",
        ),
        pytest.param(
            {
                "kind": "ResourceSlice",
                "metadata": {"name": "s"},
                "spec": {"nodeName": "n1", "driver": "gpu.io", "devices": [{"name": "0"}]},
            },
            DeviceSlice(node="n1", driver="gpu.io", devices=1),
            id="slice",
        ),
    ],
)
def test_what_guards_pods_and_what_nodes_report(
    manifest: dict[str, object], value: SessionObject
) -> None:
    assert read(manifest) == value


def test_a_kind_that_is_no_state_is_refused() -> None:
    with pytest.raises(ManifestError, match="'Deployment' is no state"):
        read({"kind": "Deployment", "metadata": {"name": "d"}})


INSTALLED_FILE = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""


def test_the_file_that_the_chart_installs_is_what_we_say_it_is() -> None:
    assert load_scheduler(INSTALLED_FILE, source="conf").configuration == INSTALLED


def test_a_file_without_actions_does_what_volcano_does_without_a_file() -> None:
    text = """
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
    assert load_scheduler(text, source="conf").configuration == BUILT_IN


def test_arguments_are_kept_as_they_are_written() -> None:
    text = """
actions: "allocate, preempt"
tiers:
- plugins:
  - name: overcommit
    enableHierarchy: true
    arguments: {overcommit-factor: 1.5, list: [a, 2], nested: {on: true}}
configurations:
- name: preempt
  arguments: {enableTopologyAwarePreemption: true}
"""
    configuration = load_scheduler(text, source="conf").configuration
    (option,) = configuration.tiers[0]
    assert option == PluginOption(
        name="overcommit",
        enabled=frozenset(Switch) - {Switch.CLUSTER_ORDER},
        arguments={"overcommit-factor": "1.5", "list": ("a", 2), "nested": {"on": True}},
    )
    assert configuration.action_arguments == {"preempt": {"enableTopologyAwarePreemption": True}}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("actions: allocate, fly\ntiers: [{plugins: [{name: gang}]}]", "'fly' is no action"),
        ("tiers: [{plugins: [{name: gangs}]}]", "'gangs' is no plugin"),
        ("tiers: [{plugins: [{name: gang}, {name: gang}]}]", "plugin gang is there twice"),
        ("tiers: []", "no plugin"),
        ("- a", "not one mapping"),
        (
            "tiers: [{plugins: [{name: drf, enableHierarchy: true}, {name: proportion}]}]",
            "drf with enableHierarchy excludes proportion",
        ),
    ],
)
def test_a_file_that_cannot_be_followed_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ManifestError, match=problem):
        load_scheduler(text, source="conf")


def test_what_does_not_do_what_it_seems_to_is_told() -> None:
    loaded = load_scheduler(INSTALLED_FILE, source="conf")
    assert [warning.problem for warning in loaded.warnings] == [
        "backfill seats pods that ask for nothing past proportion's quotas",
        "proportion does not look at a queue's deserved",
    ]
