"""Whatever is given, loading gives documents or a `ManifestError`, and nothing else."""

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster_domain.queues import PriorityClass
from muster_domain.workload import LocalQueueRef
from muster_manifests import (
    Document,
    JobSubmission,
    LoadOptions,
    ManifestError,
    SubmissionContext,
    WorkloadRecord,
    dump,
    load,
    load_object,
    make_workload,
    workload_state,
)
from muster_manifests.read_document import KNOWN_KINDS

Step = str | int
T = TypeVar("T")

EVERY_KIND = Path(__file__).parent / "examples" / "every_kind.yaml"
EXAMPLES = load(EVERY_KIND.read_bytes(), source=EVERY_KIND.name).documents
CLASSES = tuple(found.content for found in EXAMPLES if isinstance(found.content, PriorityClass))
CONTEXT = SubmissionContext(
    id="w",
    created_at_ms=0,
    priority_classes=CLASSES,
    default_queue=LocalQueueRef(name="q"),
)


def places(value: object, path: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    """Every path inside a JSON value, its root left out."""
    steps: list[tuple[Step, object]] = []
    if isinstance(value, dict):
        steps = list(value.items())
    elif isinstance(value, list):
        steps = list(enumerate(value))
    for step, item in steps:
        yield (*path, step)
        yield from places(item, (*path, step))


TARGETS = [(document, place) for document in EXAMPLES for place in places(document.manifest)]
WORDS = st.sampled_from([
    "a", "1", "0.5", "500m", "1Gi", "-1", "", "true", "Always", "${A}", "é", "\t", "a b", "[{}]",
    "2026-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59Z", "(", "9" * 40,
    "9" * 5000,
    "1e39", "{", "²", "٣", "Job", "v1", "PodFailed", "0.000001g",
])  # fmt: skip
LEAVES = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | WORDS
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
OPTIONS = st.builds(LoadOptions, admission_rules=st.booleans())


@st.composite
def spoilt_objects(draw: st.DrawFn) -> dict[str, Any]:
    """An object of some kind with some of its values replaced, removed or repeated."""
    document, place = draw(st.sampled_from(TARGETS))
    manifest: Any = copy.deepcopy(dict(document.manifest))
    spoil(manifest, place, draw(st.sampled_from(["replace", "remove", "repeat"])), draw(VALUES))
    for other in draw(st.lists(st.sampled_from(sorted(places(manifest), key=str)), max_size=2)):
        spoil(manifest, other, "replace", draw(VALUES))
    return manifest


def spoil(manifest: dict[str, Any], place: tuple[Step, ...], how: str, value: object) -> None:
    parent: Any = manifest
    for step in place[:-1]:
        try:
            parent = parent[step]
        except (KeyError, IndexError, TypeError):
            return
    step = place[-1]
    if isinstance(parent, list) and isinstance(step, int) and step < len(parent):
        if how == "repeat":
            parent.append(copy.deepcopy(parent[step]))
        elif how == "remove":
            del parent[step]
        else:
            parent[step] = value
    elif isinstance(parent, dict) and isinstance(step, str):
        if how == "remove":
            parent.pop(step, None)
        else:
            parent[step] = value


def loads(call: Callable[[], T]) -> T | None:
    """What loading gives, or None where it is refused with at least one problem."""
    try:
        return call()
    except ManifestError as error:
        if not error.problems or not str(error):
            pytest.fail("refused without a reason")
        return None


@pytest.mark.parametrize("document", EXAMPLES, ids=lambda document: document.key)
def test_the_examples_load_from_yaml_and_json_alike(document: Document) -> None:
    again = load_object(json.loads(json.dumps(document.manifest)), source="f")
    assert again.manifest == document.manifest
    if document.kind != "Job" or "batch.volcano.sh" not in document.api_version:
        assert again.content == document.content


def test_there_is_an_example_of_every_kind() -> None:
    kinds = {(document.api_version.rpartition("/")[0], document.kind) for document in EXAMPLES}
    assert kinds >= set(KNOWN_KINDS) - {("scheduling.x-k8s.io", "PodGroup")}


@given(st.binary(max_size=400) | st.text(max_size=400).map(lambda text: text.encode()))
def test_any_bytes(text: bytes) -> None:
    loads(lambda: load(text, source="f"))


@given(st.lists(st.sampled_from(list("ab1:-[]{}&*<>|!%@#,?'\"\\\n\t ~")), max_size=60).map("".join))
def test_anything_of_the_signs_of_yaml(text: str) -> None:
    loads(lambda: load(text, source="f"))


@settings(max_examples=300)
@given(spoilt_objects(), OPTIONS)
def test_any_spoilt_object(manifest: dict[str, Any], options: LoadOptions) -> None:
    document = loads(lambda: load_object(manifest, source="f", options=options))
    if document is None:
        return
    if isinstance(document.content, WorkloadRecord):
        workload_state(document.content)
    again = load(dump(document), source="f", options=options)
    assert [found.content for found in again.documents] == [document.content]


@given(st.lists(spoilt_objects(), max_size=4), OPTIONS)
def test_any_spoilt_objects_of_one_file(
    manifests: list[dict[str, Any]], options: LoadOptions
) -> None:
    text = "---\n".join(json.dumps(manifest) + "\n" for manifest in manifests)
    loads(lambda: load(text, source="f", options=options))


@given(VALUES)
def test_any_json_value(value: object) -> None:
    loads(lambda: load_object(value, source="f"))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("document", EXAMPLES, ids=lambda document: document.key)
def test_every_job_of_the_examples_becomes_a_workload(document: Document) -> None:
    content = document.content
    submission = content.submission if isinstance(content, WorkloadRecord) else content
    if isinstance(submission, JobSubmission):
        assert make_workload(submission, CONTEXT).total_requests
