from collections.abc import Callable
from typing import Any

import pytest

from muster_domain.job_flow import FlowStep, JobFlow, JobTemplate

LoadContent = Callable[[str], Any]
Refused = Callable[[str], list[tuple[str, str]]]

TASK = "{name: main, template: {spec: {containers: [{name: c}]}}}"


def template(spec: str = f"tasks: [{TASK}]") -> str:
    return (
        "apiVersion: flow.volcano.sh/v1alpha1\nkind: JobTemplate\n"
        f"metadata: {{name: train, namespace: team}}\nspec: {{{spec}}}\n"
    )


def flow(steps: str, more: str = "") -> str:
    return (
        "apiVersion: flow.volcano.sh/v1alpha1\nkind: JobFlow\n"
        f"metadata: {{name: nightly, namespace: team}}\nspec: {{{more}flows: [{steps}]}}\n"
    )


def test_a_template_is_held_to_the_rules_of_a_job(
    load_content: LoadContent, refused: Refused
) -> None:
    assert load_content(template()) == JobTemplate(namespace="team", name="train")
    assert refused(template("queue: q")) == [("spec.tasks", "missing")]


def test_a_flow(load_content: LoadContent) -> None:
    text = flow(
        "{name: prepare}, {name: train, dependsOn: {targets: [prepare]}}",
        "jobRetainPolicy: delete, ",
    )
    assert load_content(text) == JobFlow(
        namespace="team",
        name="nightly",
        steps=(FlowStep(name="prepare"), FlowStep(name="train", targets=("prepare",))),
    )


@pytest.mark.parametrize(
    ("text", "field", "problem"),
    [
        (flow(""), "spec.flows", "missing"),
        (flow("{dependsOn: {targets: []}}"), "spec.flows[0].name", "missing"),
        (flow("{name: a}, {name: a}"), "spec.flows[0].name", "a second step 'a'"),
        (
            flow("{name: a, dependsOn: {targets: [b]}}"),
            "spec.flows[0].dependsOn",
            "no step is named 'b'",
        ),
        (
            flow("{name: a, dependsOn: {targets: [b]}}, {name: b, dependsOn: {targets: [a]}}"),
            "spec.flows[0].dependsOn",
            "the steps wait for each other",
        ),
        (
            flow("{name: a, dependsOn: {probe: {httpGetList: []}}}"),
            "spec.flows[0].dependsOn.probe",
            "is not evaluated",
        ),
        (flow("{name: a, patch: {spec: {}}}"), "spec.flows[0].patch", "is not applied"),
        (
            flow("{name: a}", "jobRetainPolicy: burn, "),
            "spec.jobRetainPolicy",
            "'burn' is none of its values",
        ),
    ],
)
def test_a_flow_that_is_refused(refused: Refused, text: str, field: str, problem: str) -> None:
    assert refused(text)[0] == (field, problem)
