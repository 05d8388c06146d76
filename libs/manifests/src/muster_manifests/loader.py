"""From text or JSON to documents: the public entry of this package."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from muster_manifests.document import Document, LoadResult
from muster_manifests.joining import join
from muster_manifests.kueue.status import WorkloadStatus
from muster_manifests.kueue.workload import WorkloadRecord
from muster_manifests.plain import PlainBuilder
from muster_manifests.problems import ManifestError, Mark, Path, Problem
from muster_manifests.read_document import read_document
from muster_manifests.reader import LoadOptions
from muster_manifests.yaml_source import SourceDocument, read_yaml

DEFAULT_OPTIONS = LoadOptions()


def load(text: str | bytes, *, source: str, options: LoadOptions = DEFAULT_OPTIONS) -> LoadResult:
    """Load a YAML (or JSON) stream.

    `source` names the text in problems. Raises `ManifestError` with every problem found; then
    nothing of the text counts.
    """
    return _load(read_yaml(text, source=source), source, options)


def load_objects(
    manifests: Sequence[Mapping[str, object]],
    *,
    source: str,
    options: LoadOptions = DEFAULT_OPTIONS,
) -> LoadResult:
    """Load objects that are already parsed from JSON, as if they stood in one file.

    Raises `ManifestError` with every problem found.
    """
    written = [
        SourceDocument(value=PlainBuilder(source).build(manifest), marks={}, text="")
        for manifest in manifests
    ]
    return _load(written, source, options)


def load_object(
    manifest: Mapping[str, object], *, source: str, options: LoadOptions = DEFAULT_OPTIONS
) -> Document:
    """Load one object that is already parsed from JSON.

    Raises `ManifestError` with every problem found, also when it is an object that asks nothing of
    Muster or a List of several.
    """
    result = load_objects((manifest,), source=source, options=options)
    if len(result.documents) == 1:
        return replace(result.documents[0], warnings=result.warnings)
    problem = f"gives {len(result.documents)} objects, not one"
    raise ManifestError((_of_source(source, Mark(), problem, str(*result.warnings[:1])),))


def load_workload_status(document: Document) -> WorkloadStatus:
    """Return the status of a loaded Workload.

    Raises `ManifestError` when the document is of another kind.
    """
    if isinstance(document.content, WorkloadRecord):
        return document.content.status
    problem = f"a {document.kind} has no workload status"
    raise ManifestError((_of_source(document.source, document.mark, problem, "give a Workload"),))


def _load(written: Iterable[SourceDocument], source: str, options: LoadOptions) -> LoadResult:
    parts = [part for whole in written for part in _parts(whole)]
    loaded = [read_document(part, source, options) for part in parts]
    problems = [problem for part in parts for problem in part.problems]
    warnings = [warning for part in parts for warning in part.warnings]
    documents: list[Document] = []
    for item in join(loaded):
        problems += item.report.problems
        warnings += item.report.warnings
        if item.document is not None:
            told = item.report.warnings
            documents.append(replace(item.document, warnings=told) if told else item.document)
    if problems:
        raise ManifestError(tuple(dict.fromkeys(problems)))
    return LoadResult(documents=tuple(documents), warnings=tuple(warnings))


def _parts(whole: SourceDocument) -> Iterator[SourceDocument]:
    """Take a List apart; its items keep their places."""
    value = whole.value
    if not isinstance(value, dict) or value.get("kind") != "List":
        yield whole
        return
    items = value.get("items")
    for index, item in enumerate(items if isinstance(items, list) else []):
        prefix: Path = ("items", index)
        marks = {path[2:]: mark for path, mark in whole.marks.items() if path[:2] == prefix}
        yield SourceDocument(value=item, marks=marks, text="")


def _of_source(source: str, mark: Mark, problem: str, fix: str) -> Problem:
    return Problem(source=source, mark=mark, field="", problem=problem, fix=fix)
