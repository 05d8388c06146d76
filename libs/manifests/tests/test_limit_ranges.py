"""LimitRanges and RuntimeClasses complete pods and bound them, as they are read."""

import pytest

from muster_domain.pod_defaults import LimitRange, RuntimeClass
from muster_manifests import JobSubmission, LoadOptions, ManifestError, load

JOB = """apiVersion: batch/v1
kind: Job
metadata: {{name: j, namespace: {namespace}}}
spec:
  template:
    spec:
      restartPolicy: Never
      runtimeClassName: sandboxed
      containers: [{{name: main, image: i, resources: {resources}}}]
"""
OPTIONS = LoadOptions(
    limit_ranges=(
        LimitRange(
            namespace="team-a",
            name="bounds",
            least={"cpu": 100},
            most={"cpu": 4000},
            limits={"cpu": 2000, "memory": 5000},
            requests={"cpu": 1000},
        ),
    ),
    runtime_classes={"sandboxed": RuntimeClass(name="sandboxed", overhead={"cpu": 250})},
)


def requests(resources: str, namespace: str = "team-a") -> dict[str, int]:
    text = JOB.format(resources=resources, namespace=namespace)
    (document,) = load(text, source="f", options=OPTIONS).documents
    assert isinstance(document.content, JobSubmission)
    return dict(document.content.pod_sets[0].requests)


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ("{}", {"cpu": 1250, "memory": 5000}),
        ("{limits: {cpu: 3}}", {"cpu": 3250, "memory": 5000}),
        ("{requests: {cpu: 500m, memory: 1}}", {"cpu": 750, "memory": 1000}),
    ],
)
def test_what_is_missing_comes_from_the_limit_range(
    resources: str, expected: dict[str, int]
) -> None:
    assert requests(resources) == expected


def test_another_namespace_has_its_own() -> None:
    assert requests("{requests: {cpu: 9}}", "team-b") == {"cpu": 9250}


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ("{requests: {cpu: 5}}", "requests.cpu: more than the limit"),
        ("{requests: {cpu: 5}, limits: {cpu: 5}}", "more than the 4 of LimitRange bounds"),
        ("{requests: {cpu: 50m}}", "less than the 100m of LimitRange bounds"),
    ],
)
def test_what_is_out_of_bounds_is_refused_with_its_place(resources: str, words: str) -> None:
    with pytest.raises(ManifestError, match=r"f:9:\d+: spec.template.spec.containers") as caught:
        requests(resources)
    assert words in str(caught.value)


def test_without_admission_rules_the_job_is_set_aside() -> None:
    options = LoadOptions(admission_rules=False)
    text = JOB.format(resources="{requests: {cpu: 2}, limits: {cpu: 1}}", namespace="n")
    (document,) = load(text, source="f", options=options).documents
    assert isinstance(document.content, JobSubmission)
    assert "more than the limit" in document.content.misconfigured
