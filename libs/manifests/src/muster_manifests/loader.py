"""From text or JSON to documents: the public entry of this package."""

from collections.abc import Mapping

from muster_manifests.document import Document, LoadResult
from muster_manifests.kueue.status import WorkloadStatus
from muster_manifests.kueue.workload import WorkloadRecord
from muster_manifests.manifest import Manifest
from muster_manifests.metadata import read_metadata
from muster_manifests.plain import PlainBuilder
from muster_manifests.problems import ManifestError, Mark, Problem, Report
from muster_manifests.reader import LoadOptions, ObjectReader
from muster_manifests.registry import KINDS, KindEntry
from muster_manifests.yaml_source import SourceDocument, read_yaml

DEFAULT_OPTIONS = LoadOptions()


def load(text: str | bytes, *, source: str, options: LoadOptions = DEFAULT_OPTIONS) -> LoadResult:
    """Load a YAML (or JSON) stream.

    `source` names the text in problems. Raises `ManifestError` with every problem found; then
    nothing of the text counts.
    """
    documents: list[Document] = []
    problems: list[Problem] = []
    warnings: list[Problem] = []
    for written in read_yaml(text, source=source):
        report = Report(source, written.marks)
        document = _load(written, report, options)
        problems += [*written.problems, *report.problems]
        warnings += [*written.warnings, *report.warnings]
        if document is not None:
            documents.append(document)
    if problems:
        raise ManifestError(tuple(problems))
    return LoadResult(documents=tuple(documents), warnings=tuple(warnings))


def load_object(
    manifest: Mapping[str, object], *, source: str, options: LoadOptions = DEFAULT_OPTIONS
) -> Document:
    """Load one object that is already parsed from JSON.

    Raises `ManifestError` with every problem found.
    """
    value = PlainBuilder(source).build(manifest)
    report = Report(source, {})
    document = _load(SourceDocument(value=value, marks={}, text=""), report, options)
    if document is None or report.problems:
        raise ManifestError(report.problems)
    return document


def load_workload_status(document: Document) -> WorkloadStatus:
    """Return the status of a loaded Workload.

    Raises `ManifestError` when the document is of another kind.
    """
    if isinstance(document.content, WorkloadRecord):
        return document.content.status
    found = Problem(
        source=document.source,
        mark=document.mark,
        field="kind",
        problem=f"a {document.kind} has no workload status",
        fix="give a Workload",
    )
    raise ManifestError((found,))


def _load(written: SourceDocument, report: Report, options: LoadOptions) -> Document | None:
    value = written.value
    if not isinstance(value, dict):
        report.problem((), "not an object", "write apiVersion:, kind: and metadata:")
        return None
    reader = ObjectReader(value, (), report, options)
    api_version, kind = reader.required_text("apiVersion"), reader.required_text("kind")
    group, _, version = api_version.rpartition("/")
    entry = KINDS.get((group, kind))
    if entry is None or version not in entry.versions:
        _refuse_kind(reader, api_version, kind, entry)
        return None
    metadata = read_metadata(reader, value, namespaced=entry.namespaced)
    body = Manifest(api_version=api_version, kind=kind, metadata=metadata, body=reader)
    content = entry.parser(body)
    if not isinstance(content, WorkloadRecord):
        reader.accept("status")
    reader.report_unknown()
    return Document(
        api_version=api_version,
        kind=kind,
        namespace=metadata.namespace,
        name=metadata.name,
        content=content,
        manifest=value,
        text=written.text,
        source=report.source,
        mark=written.marks.get((), Mark()),
        warnings=(*written.warnings, *report.warnings),
    )


def _refuse_kind(
    reader: ObjectReader, api_version: str, kind: str, entry: KindEntry | None
) -> None:
    if entry is not None:
        group = api_version.rpartition("/")[0]
        known = " or ".join(f"{group}/{version}" for version in entry.versions)
        reader.problem("apiVersion", f"{api_version} of {kind} is not read", f"write {known}")
    elif api_version and kind:
        names = ", ".join(sorted({name for _, name in KINDS}))
        reader.problem("kind", f"{api_version} {kind} is not read", f"known kinds: {names}")
