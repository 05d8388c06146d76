from collections.abc import Callable

import pytest

from muster_manifests import LoadOptions, ManifestError, Problem, load, load_object, load_objects
from muster_manifests.plain import NODES_MAX

Refused = Callable[[str], list[tuple[str, str]]]

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {{name: train}}
spec:
  {spec}
  template:
    spec:
      containers:
      - name: main
        resources: {{requests: {{cpu: 1}}}}
        {container}
"""


def job(spec: str = "suspend: true", container: str = "image: x") -> str:
    return JOB.format(spec=spec, container=container)


@pytest.mark.parametrize(
    ("text", "field", "problem"),
    [
        pytest.param(job("parallelism: two"), "spec.parallelism", "two is not a whole number"),
        pytest.param(job('parallelism: "2"'), "spec.parallelism", "2 is not a whole number"),
        pytest.param(job("parallelism: 1.5"), "spec.parallelism", "1.5 is not a whole number"),
        pytest.param(job("parallelism: true"), "spec.parallelism", "true is not a whole number"),
        pytest.param(job("parallelism: -1"), "spec.parallelism", "-1 is out of range"),
        pytest.param(
            job("parallelism: 3000000000"), "spec.parallelism", "3000000000 is out of range"
        ),
        pytest.param(
            job(container="args: [1]"),
            "spec.template.spec.containers[0].args[0]",
            "1 is not text",
        ),
        pytest.param(
            job(container="args: sleep"),
            "spec.template.spec.containers[0].args",
            "sleep is not a list",
        ),
        pytest.param(
            job(container="env: [{name: A, value: 1}]"),
            "spec.template.spec.containers[0].env[0].value",
            "1 is not text",
        ),
        pytest.param(
            job(container="env: [A=1]"),
            "spec.template.spec.containers[0].env[0]",
            "A=1 is not a mapping",
        ),
        pytest.param(
            job(container="env: {A: b}"),
            "spec.template.spec.containers[0].env",
            "a mapping is not a list",
        ),
    ],
)
def test_a_value_of_the_wrong_type_names_its_field(
    refused: Refused, text: str, field: str, problem: str
) -> None:
    assert refused(text) == [(field, problem)]


def test_all_problems_of_a_file_are_told_with_line_column_and_remedy(
    problems: Callable[[str], tuple[Problem, ...]],
) -> None:
    found = problems("""
        apiVersion: kueue.x-k8s.io/v1beta2
        kind: ClusterQueue
        metadata: {name: gpu}
        spec:
          namespaceSelector: {}
          stopPolicy: Pause
          resourceGroups:
          - coveredResources: [cpu]
            flavors:
            - name: a
              resources:
              - name: cpu
                nominalQuota: 1 core
        ---
        apiVersion: v1
        kind: Job
        """)
    assert [str(problem) for problem in found[:2]] == [
        (
            "team.yaml:14:9: spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: "
            "'1 core' is not a quantity; write a number such as 4, 500m, 1.5, 36Gi or 1e3"
        ),
        (
            "team.yaml:7:3: spec.stopPolicy: 'Pause' is none of its values; "
            "write None or Hold or HoldAndDrain"
        ),
    ]
    assert str(found[2]) == (
        "team.yaml:16:1: apiVersion: there is no Job in v1; "
        "write apiVersion: batch.volcano.sh/v1alpha1 or batch/v1"
    )


def test_an_unknown_field_is_a_warning_with_the_likely_name() -> None:
    result = load(job("parallelisms: 2"), source="f.yaml")
    (warning,) = result.warnings
    assert str(warning) == (
        "f.yaml:6:3: spec.parallelisms: unknown field, ignored; did you mean parallelism?"
    )
    assert result.documents[0].warnings == result.warnings


def test_one_bad_object_spoils_the_whole_file() -> None:
    with pytest.raises(ManifestError):
        load(job() + "---\n" + job("parallelism: x"), source="f.yaml")


@pytest.mark.parametrize(
    ("text", "field", "problem"),
    [
        pytest.param("- a\n- b\n", "", "not an object", id="list"),
        pytest.param("hello\n", "", "not an object", id="text"),
        pytest.param("kind: Pod\nmetadata: {name: a}\n", "apiVersion", "missing", id="no version"),
        pytest.param("apiVersion: v1\nmetadata: {name: a}\n", "kind", "missing", id="no kind"),
        pytest.param(
            "apiVersion: 1\nkind: Pod\n", "apiVersion", "1 is not text", id="version is a number"
        ),
        pytest.param(
            "apiVersion: batch/v2\nkind: Job\n",
            "apiVersion",
            "batch/v2 of Job is not read",
            id="unknown version",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Namespace\n", "metadata.name", "missing", id="no metadata"
        ),
        pytest.param(
            "apiVersion: v1\nkind: Namespace\nmetadata: {name: Team_A}\n",
            "metadata.name",
            "'Team_A' is not a name",
            id="name",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Namespace\nmetadata: {name: 7}\n",
            "metadata.name",
            "7 is not text",
            id="name is a number",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Namespace\nmetadata: {name: a, labels: {tier: 1}}\n",
            "metadata.labels.tier",
            "1 is not text",
            id="label is a number",
        ),
    ],
)
def test_what_is_no_object(refused: Refused, text: str, field: str, problem: str) -> None:
    assert refused(text) == [(field, problem)]


def test_namespaced_objects_get_the_default_namespace() -> None:
    text = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\nmetadata: {name: a}\n"
    text += "spec: {clusterQueue: gpu}\n"
    assert load(text, source="f").documents[0].namespace == "default"
    options = LoadOptions(default_namespace="team-a")
    assert load(text, source="f", options=options).documents[0].namespace == "team-a"


def test_cluster_wide_objects_drop_a_namespace_with_a_warning(
    warned: Callable[[str], list[tuple[str, str]]],
) -> None:
    text = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a, namespace: b}\n"
    assert warned(text) == [("metadata.namespace", "this kind belongs to no namespace, dropped")]
    assert load(text, source="f").documents[0].namespace == ""


def test_a_generated_name_derives_from_the_content() -> None:
    text = job().replace("{name: train}", "{generateName: train-}")
    first, again = (load(text, source="f").documents[0].name for _ in range(2))
    other = load(text.replace("image: x", "image: y"), source="f").documents[0].name
    seeded = load(text, source="f", options=LoadOptions(name_seed="run-2")).documents[0].name
    assert first == again
    assert len({first, other, seeded}) == 3
    assert all(name.startswith("train-") and len(name) == 11 for name in (first, other, seeded))


def test_json_is_loaded_like_yaml() -> None:
    written: dict[str, object] = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {
            "template": {
                "spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": 0.5}}}]}
            }
        },
    }
    document = load_object(written, source="api")
    assert document.content.pod_sets[0].requests == {"cpu": 500}
    assert document.text == ""
    assert document.source == "api"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        pytest.param({"a": b"x"}, "a: a bytes is not a JSON value", id="bytes"),
        pytest.param({"a": object()}, "a: a object is not a JSON value", id="object"),
        pytest.param({1: "x"}, "the key 1 is not text", id="key"),
        pytest.param({"a": [0] * (NODES_MAX + 1)}, "too deep or too large", id="size"),
    ],
)
def test_what_json_cannot_say_is_refused(value: dict[str, object], words: str) -> None:
    with pytest.raises(ManifestError, match=words):
        load_object(value, source="api")


def test_a_json_object_nested_too_deep_is_refused() -> None:
    value: dict[str, object] = {}
    for _ in range(5000):
        value = {"a": value}
    with pytest.raises(ManifestError, match="too deep or too large"):
        load_object(value, source="api")


def test_a_list_is_taken_apart_and_its_items_keep_their_places() -> None:
    text = "apiVersion: v1\nkind: List\nitems:\n"
    text += "- {apiVersion: v1, kind: Namespace, metadata: {name: a}}\n"
    text += "- {apiVersion: v1, kind: Namespace, metadata: {name: B}}\n"
    with pytest.raises(ManifestError) as caught:
        load(text, source="f")
    assert [str(problem).partition(";")[0] for problem in caught.value.problems] == [
        "f:5:48: metadata.name: 'B' is not a name"
    ]


def test_objects_given_together_are_one_file() -> None:
    names = ["a", "b"]
    manifests = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names
    ]
    result = load_objects(manifests, source="api")
    assert [document.name for document in result.documents] == names


def test_load_object_wants_exactly_one_object() -> None:
    with pytest.raises(ManifestError, match=r"gives 0 objects, not one; .*ConfigMap"):
        load_object({"apiVersion": "v1", "kind": "ConfigMap"}, source="api")


def test_a_long_list_of_problems_is_cut_when_shown() -> None:
    texts = [f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: X{n}}}\n" for n in range(14)]
    with pytest.raises(ManifestError) as caught:
        load("---\n".join(texts), source="f")
    assert len(caught.value.problems) == 14
    assert str(caught.value).splitlines()[-1] == "and 4 more"
