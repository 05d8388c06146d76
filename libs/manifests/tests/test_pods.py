from collections.abc import Callable

import pytest

from muster_domain.selectors import (
    NodeAffinity,
    NodeDemand,
    PreferredTerm,
    Requirement,
    Selector,
    SelectorOperator,
    TaintEffect,
    Toleration,
    TolerationOperator,
)
from muster_domain.workload import (
    Container,
    EnvironmentVariable,
    PodSet,
    RestartPolicy,
    SliceConstraint,
    TopologyMode,
    TopologyRequest,
)
from muster_manifests import JobSubmission

LoadJob = Callable[[str], JobSubmission]
Refused = Callable[[str], list[tuple[str, str]]]
Warned = Callable[[str], list[tuple[str, str]]]


def pod(spec: str, metadata: str = "name: p") -> str:
    return f"apiVersion: v1\nkind: Pod\nmetadata: {{{metadata}}}\nspec: {{{spec}}}\n"


def box(requests: str = "", limits: str = "", name: str = "c", more: str = "") -> str:
    return f"{{name: {name}, resources: {{requests: {{{requests}}}, limits: {{{limits}}}}}{more}}}"


def requests_of(load_job: LoadJob, spec: str) -> dict[str, int]:
    return dict(load_job(pod(spec)).pod_sets[0].requests)


SIDECAR = ", restartPolicy: Always"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(f"containers: [{box('cpu: 500m')}]", {"cpu": 500}, id="one container"),
        pytest.param(
            f"containers: [{box('cpu: 0.5')}, {box('cpu: 1, memory: 1k', name='d')}]",
            {"cpu": 1500, "memory": 10**6},
            id="containers add up",
        ),
        pytest.param(
            f"containers: [{box(limits='cpu: 2')}]", {"cpu": 2000}, id="request is the limit"
        ),
        pytest.param(
            f"containers: [{box('cpu: 1', 'cpu: 2, gpu: 1')}]",
            {"cpu": 1000, "gpu": 1000},
            id="a written request stays, a missing one is the limit",
        ),
        pytest.param(
            f"containers: [{box('cpu: 1')}], initContainers: [{box('cpu: 3', name='i')}]",
            {"cpu": 3000},
            id="a larger init container decides",
        ),
        pytest.param(
            f"containers: [{box('cpu: 4')}], "
            f"initContainers: [{box('cpu: 3', name='i')}, {box('cpu: 2, gpu: 1', name='j')}]",
            {"cpu": 4000, "gpu": 1000},
            id="init containers do not add up",
        ),
        pytest.param(
            f"containers: [{box('cpu: 4')}], "
            f"initContainers: [{box('cpu: 1', name='s', more=SIDECAR)}]",
            {"cpu": 5000},
            id="a sidecar runs beside",
        ),
        pytest.param(
            f"containers: [{box('cpu: 1')}], initContainers: ["
            f"{box('cpu: 1', name='s', more=SIDECAR)}, {box('cpu: 6', name='i')}]",
            {"cpu": 7000},
            id="an init container runs beside the sidecars before it",
        ),
        pytest.param(
            f"containers: [{box('cpu: 1')}], initContainers: ["
            f"{box('cpu: 6', name='i')}, {box('cpu: 1', name='s', more=SIDECAR)}]",
            {"cpu": 6000},
            id="and not beside those after it",
        ),
        pytest.param(
            f"containers: [{box('cpu: 1')}], overhead: {{cpu: 250m}}",
            {"cpu": 1250},
            id="overhead is added",
        ),
        pytest.param(
            f"containers: [{box('cpu: 1, gpu: 2')}], resources: {{requests: {{cpu: 3}}}}",
            {"cpu": 3000, "gpu": 2000},
            id="the pod's own requests replace the sum",
        ),
        pytest.param(
            f"containers: [{box('cpu: 1')}], resources: {{limits: {{cpu: 3}}}}, "
            "overhead: {cpu: 1}",
            {"cpu": 4000},
            id="the pod's own limits too, and overhead comes on top",
        ),
        pytest.param(
            f"containers: [{box('memory: 1500m')}]", {"memory": 1500}, id="thousandths of a byte"
        ),
        pytest.param(f"containers: [{box('gpu: 0.5')}]", {"gpu": 500}, id="half a GPU"),
    ],
)
def test_what_one_pod_asks_for(load_job: LoadJob, spec: str, expected: dict[str, int]) -> None:
    assert requests_of(load_job, spec) == expected


@pytest.mark.parametrize(
    ("spec", "field", "problem"),
    [
        pytest.param(
            f"containers: [{box('cpu: 3', 'cpu: 2')}]",
            "spec.containers[0].resources.requests.cpu",
            "more than the limit",
            id="request above limit",
        ),
        pytest.param(
            f"containers: [{box('cpu: -1')}]",
            "spec.containers[0].resources.requests.cpu",
            "below zero",
            id="negative",
        ),
        pytest.param(
            f"containers: [{box('cpu: 1Core')}]",
            "spec.containers[0].resources.requests.cpu",
            "'1Core' is not a quantity",
            id="no quantity",
        ),
        pytest.param(
            f"containers: [{box('cpu: 1, pods: 1')}]",
            "spec.containers[0].resources",
            "pods is counted, not asked for",
            id="pods as a request",
        ),
        pytest.param("containers: []", "spec.containers", "a pod needs a container", id="none"),
        pytest.param(
            f"containers: [{box('cpu: 1')}, {box('cpu: 1')}]",
            "spec.containers[1].name",
            "a second container 'c'",
            id="one name twice",
        ),
        pytest.param(
            f"containers: [{box('cpu: 1')}], restartPolicy: Sometimes",
            "spec.restartPolicy",
            "'Sometimes' is none of its values",
            id="restart policy",
        ),
        pytest.param(
            f"containers: [{box('cpu: 1')}], affinity: {{nodeAffinity: "
            "{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
            "[{matchFields: [{key: metadata.name, operator: In, values: [n1]}]}]}}}",
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
            ".nodeSelectorTerms[0].matchFields",
            "nodes are matched by labels only",
            id="fields of nodes",
        ),
    ],
)
def test_a_pod_that_is_refused(refused: Refused, spec: str, field: str, problem: str) -> None:
    assert refused(pod(spec)) == [(field, problem)]


def test_a_pod_without_resources_is_warned_of(warned: Warned) -> None:
    for spec in ("containers: [{name: c}]", f"containers: [{box('cpu: 0')}]"):
        assert warned(pod(spec)) == [("spec.containers", "no resources asked for: charged zero")]


def test_replicas_of_shared_cards_are_no_more_of_a_card(warned: Warned) -> None:
    assert warned(pod(f"containers: [{box('nvidia.com/gpu.shared: 1')}]")) == []
    assert warned(pod(f"containers: [{box('nvidia.com/gpu.shared: 3')}]")) == [
        (
            "spec.containers",
            "3 replicas of shared cards may be turns on one card, whose memory all of them share",
        )
    ]


def test_what_a_pod_runs(load_job: LoadJob, warned: Warned) -> None:
    text = """
        apiVersion: v1
        kind: Pod
        metadata: {name: p, labels: {a: b}, annotations: {c: d}}
        spec:
          restartPolicy: OnFailure
          initContainers:
          - {name: fetch, image: fetcher, args: [data]}
          containers:
          - name: main
            image: trainer:1
            command: [python, -m]
            args: [train]
            workingDir: /work
            imagePullPolicy: Always
            ports: [{containerPort: 80}]
            env:
            - {name: EMPTY}
            - {name: SEED, value: "7"}
            - {name: TOKEN, valueFrom: {secretKeyRef: {name: s, key: k}}}
            volumeMounts: [{name: v, mountPath: /v}]
            resources: {limits: {gpu: 1}}
          volumes: [{name: v}]
        """
    assert load_job(text).pod_sets == (
        PodSet(
            name="main",
            count=1,
            requests={"gpu": 1000},
            containers=(
                Container(
                    name="main",
                    image="trainer:1",
                    command=("python", "-m"),
                    args=("train",),
                    environment=(
                        EnvironmentVariable(name="EMPTY", value=""),
                        EnvironmentVariable(name="SEED", value="7"),
                    ),
                    working_directory="/work",
                ),
            ),
            init_containers=(Container(name="fetch", image="fetcher", args=("data",)),),
            restart_policy=RestartPolicy.ON_FAILURE,
            labels={"a": "b"},
            annotations={"c": "d"},
        ),
    )
    assert warned(text) == [
        ("spec.volumes", "not acted upon"),
        ("spec.containers[0].volumeMounts", "not acted upon"),
        (
            "spec.containers[0].env[2].valueFrom",
            "TOKEN is left out: no Secret, ConfigMap or field is read",
        ),
    ]


def test_where_a_pod_may_run(load_job: LoadJob) -> None:
    submission = load_job("""
        apiVersion: v1
        kind: Pod
        metadata: {name: p}
        spec:
          containers: [{name: c, resources: {limits: {gpu: 1}}}]
          nodeSelector: {gpu: a100}
          tolerations: [{key: gpu, operator: Exists, effect: NoSchedule}]
          affinity:
            nodeAffinity:
              requiredDuringSchedulingIgnoredDuringExecution:
                nodeSelectorTerms:
                - matchExpressions:
                  - {key: zone, operator: In, values: [a, b]}
                  - {key: cores, operator: Gt, values: ["8"]}
                - matchExpressions: [{key: spare, operator: Exists}]
              preferredDuringSchedulingIgnoredDuringExecution:
              - weight: 10
                preference: {matchExpressions: [{key: busy, operator: DoesNotExist}]}
        """)
    assert submission.pod_sets[0].demand == NodeDemand(
        node_selector={"gpu": "a100"},
        tolerations=(
            Toleration(
                key="gpu", operator=TolerationOperator.EXISTS, effect=TaintEffect.NO_SCHEDULE
            ),
        ),
        affinity=NodeAffinity(
            required_terms=(
                Selector(
                    requirements=(
                        Requirement(key="zone", operator=SelectorOperator.IN, values=("a", "b")),
                        Requirement(key="cores", operator=SelectorOperator.GT, values=("8",)),
                    )
                ),
                Selector(
                    requirements=(Requirement(key="spare", operator=SelectorOperator.EXISTS),)
                ),
            ),
            preferred_terms=(
                PreferredTerm(
                    weight=10,
                    term=Selector(
                        requirements=(
                            Requirement(key="busy", operator=SelectorOperator.DOES_NOT_EXIST),
                        )
                    ),
                ),
            ),
        ),
    )


TERM = (
    "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
    "{nodeSelectorTerms: [{matchExpressions: [EXPRESSION]}]}}}"
)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("{key: a, operator: In}", "In needs values"),
        ("{key: a, operator: Exists, values: [b]}", "Exists takes no values"),
        ("{key: a, operator: Gt, values: [b]}", "Gt compares with one whole number"),
        ('{key: a, operator: Lt, values: ["1", "2"]}', "Lt compares with one whole number"),
        (
            f'{{key: a, operator: Lt, values: ["{"1" * 5000}"]}}',
            "Lt compares with one whole number",
        ),
        ("{key: a, operator: Like, values: [b]}", "'Like' is none of its values"),
        ("{key: a}", "missing"),
        ("{operator: Exists}", "missing"),
    ],
)
def test_a_node_affinity_that_is_refused(refused: Refused, expression: str, problem: str) -> None:
    spec = f"containers: [{box('cpu: 1')}], {TERM.replace('EXPRESSION', expression)}"
    assert problem in [found for _, found in refused(pod(spec))]


KUEUE = "kueue.x-k8s.io/podset-"
TRUE_SIZE = '[{"topology": "rack", "size": true}]'


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param("x: y", None, id="none"),
        pytest.param(
            f"{KUEUE}required-topology: rack",
            TopologyRequest(mode=TopologyMode.REQUIRED, node_label="rack"),
            id="required",
        ),
        pytest.param(
            f"{KUEUE}preferred-topology: rack, {KUEUE}group-name: g",
            TopologyRequest(mode=TopologyMode.PREFERRED, node_label="rack", pod_set_group="g"),
            id="preferred, in a group",
        ),
        pytest.param(
            f'{KUEUE}unconstrained-topology: "true"',
            TopologyRequest(mode=TopologyMode.UNCONSTRAINED),
            id="unconstrained",
        ),
        pytest.param(
            f'{KUEUE}unconstrained-topology: "false"', None, id="unconstrained set to false"
        ),
        pytest.param(
            f'{KUEUE}slice-required-topology: rack, {KUEUE}slice-size: "4"',
            TopologyRequest(
                mode=TopologyMode.UNCONSTRAINED,
                slices=(SliceConstraint(node_label="rack", size=4),),
            ),
            id="slices alone",
        ),
        pytest.param(
            f"{KUEUE}required-topology: block, {KUEUE}slice-required-topology-constraints: "
            '\'[{"topology": "rack", "size": 4}, {"topology": "host", "size": 2}]\'',
            TopologyRequest(
                mode=TopologyMode.REQUIRED,
                node_label="block",
                slices=(
                    SliceConstraint(node_label="rack", size=4),
                    SliceConstraint(node_label="host", size=2),
                ),
            ),
            id="slices in slices",
        ),
    ],
)
def test_topology_annotations(
    load_job: LoadJob, annotations: str, expected: TopologyRequest | None
) -> None:
    text = pod(f"containers: [{box('cpu: 1')}]", f"name: p, annotations: {{{annotations}}}")
    assert load_job(text).pod_sets[0].topology == expected


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        (
            f"{KUEUE}required-topology: rack, {KUEUE}preferred-topology: rack",
            f"excludes {KUEUE}required-topology",
        ),
        (f"{KUEUE}slice-required-topology: rack", "a slice needs a size"),
        (
            f'{KUEUE}slice-required-topology: rack, {KUEUE}slice-size: "0"',
            "a slice needs a size",
        ),
        (f'{KUEUE}slice-size: "4"', "a slice needs a topology"),
        (
            f"{KUEUE}slice-required-topology-constraints: '[{{}}]'",
            "not a list of one to three slices",
        ),
        (
            f"{KUEUE}slice-required-topology-constraints: '{{'",
            "not a list of one to three slices",
        ),
        (
            f"{KUEUE}slice-required-topology-constraints: '[1]'",
            "not a list of one to three slices",
        ),
        (
            f"{KUEUE}slice-required-topology-constraints: '{TRUE_SIZE}'",
            "not a list of one to three slices",
        ),
        (
            f'{KUEUE}slice-required-topology: rack, {KUEUE}slice-size: "{"9" * 5000}"',
            "a slice needs a size",
        ),
    ],
)
def test_topology_annotations_that_are_refused(
    refused: Refused, annotations: str, problem: str
) -> None:
    text = pod(f"containers: [{box('cpu: 1')}]", f"name: p, annotations: {{{annotations}}}")
    assert [found for _, found in refused(text)] == [problem]
