"""One object to one document: its kind, its metadata, then the kind's own parser."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from muster_manifests.document import Content, Document
from muster_manifests.jobs.appwrapper import read_app_wrapper
from muster_manifests.jobs.job_metadata import QUEUE_NAME
from muster_manifests.kueue.workload import WorkloadRecord
from muster_manifests.manifest import Manifest
from muster_manifests.metadata import read_metadata
from muster_manifests.plain import Plain
from muster_manifests.problems import Mark, Path, Report
from muster_manifests.reader import LoadOptions, ObjectReader
from muster_manifests.registry import KINDS, LEFT_ALONE, RETIRED, KindEntry
from muster_manifests.submission import JobSubmission
from muster_manifests.yaml_source import SourceDocument

_TEMPLATE_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_PROGRAM_TEXT = frozenset({
    "command", "args", "env", "data", "stringData", "annotations", "runtimeEnvYAML", "entrypoint",
    "arguments", "sparkConf", "serveConfigV2",
})  # fmt: skip
_APP_WRAPPER = KindEntry(
    versions=("v1beta2",), parser=lambda manifest: read_app_wrapper(manifest, _read_component)
)
KNOWN_KINDS = {**KINDS, ("workload.codeflare.dev", "AppWrapper"): _APP_WRAPPER}


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A document and the report that its findings belong to; None where there is nothing to use."""

    document: Document | None
    report: Report


def read_document(written: SourceDocument, source: str, options: LoadOptions) -> Loaded:
    """Read one object; what is wrong with it stands in the report."""
    report = Report(source, written.marks, admission_rules=options.admission_rules)
    if not isinstance(written.value, dict):
        report.problem((), "not an object", "write apiVersion:, kind: and metadata:")
        return Loaded(document=None, report=report)
    reader = ObjectReader(written.value, report, options)
    found = _read_object(reader)
    if found is None:
        return Loaded(document=None, report=report)
    manifest, content = found
    for path, variable in _template_variables(written.value, ()):
        report.warn(path, f"{variable} was not filled in", "write the value")
    document = Document(
        api_version=manifest.api_version,
        kind=manifest.kind,
        namespace=manifest.metadata.namespace,
        name=manifest.metadata.name,
        content=content,
        manifest=written.value,
        text=written.text,
        source=source,
        mark=written.marks.get((), Mark()),
    )
    return Loaded(document=document, report=report)


def _read_object(reader: ObjectReader) -> tuple[Manifest, Content] | None:
    api_version, kind = reader.required_text("apiVersion"), reader.required_text("kind")
    if not api_version or not kind:
        return None
    group, _, version = api_version.rpartition("/")
    entry = KNOWN_KINDS.get((group, kind))
    if entry is not None and not entry.concerns(reader):
        entry = None
    if entry is None or version not in entry.versions:
        _decline(reader, group, kind, entry)
        return None
    metadata = read_metadata(reader, namespaced=entry.namespaced, default_name=entry.default_name)
    ranges = reader.options.limit_ranges
    if ranges:
        mine = tuple(found for found in ranges if found.namespace == metadata.namespace)
        reader.options = replace(reader.options, limit_ranges=mine)
    manifest = Manifest(api_version=api_version, kind=kind, metadata=metadata, body=reader)
    content = entry.parser(manifest)
    if not isinstance(content, WorkloadRecord):
        reader.accept("status")
    reader.report_unknown()
    misfits = reader.report.misfits
    return manifest, _set_aside(content, str(misfits[0])) if misfits else content


def _set_aside(content: Content, why: str) -> Content:
    """The job with the reason why none of its pods could be made."""
    match content:
        case JobSubmission():
            return replace(content, misconfigured=why)
        case WorkloadRecord(submission=submission):
            return replace(content, submission=replace(submission, misconfigured=why))
        case _:
            return content


def _read_component(reader: ObjectReader, namespace: str) -> JobSubmission | None:
    """Read an object inside an AppWrapper."""
    options = replace(reader.options, default_namespace=namespace)
    inner = reader.again(options)
    reader.accept_all()
    found = _read_object(inner)
    content = found[1] if found else None
    return content if isinstance(content, JobSubmission) else None


def _decline(reader: ObjectReader, group: str, kind: str, entry: KindEntry | None) -> None:
    """Say why an object is not read: left alone, given up by its project, or unknown."""
    api_version = reader.text("apiVersion")
    retired = RETIRED.get((group, kind))
    if retired is not None:
        reader.problem("apiVersion", f"{api_version} {kind} is no longer in use", retired)
    elif entry is not None:
        known = " or ".join(f"{group}/{version}".lstrip("/") for version in entry.versions)
        reader.problem("apiVersion", f"{api_version} of {kind} is not read", f"write {known}")
    elif kind in LEFT_ALONE:
        labels = reader.object("metadata").object("labels")
        queue = ", its queue label has no effect" if QUEUE_NAME in labels else ""
        reader.warn("kind", f"{kind} asks nothing of Muster: left alone{queue}")
    else:
        _refuse_unknown(reader, api_version, kind)


def _refuse_unknown(reader: ObjectReader, api_version: str, kind: str) -> None:
    elsewhere = [
        f"{group}/{entry.versions[-1]}".lstrip("/")
        for (group, name), entry in KNOWN_KINDS.items()
        if name == kind
    ]
    if elsewhere:
        fix = f"write apiVersion: {' or '.join(elsewhere)}"
        reader.problem("apiVersion", f"there is no {kind} in {api_version}", fix)
    else:
        names = ", ".join(sorted({name for _, name in KNOWN_KINDS}))
        reader.problem("kind", f"{api_version} {kind} is not a known kind", f"known are {names}")


def _template_variables(value: Plain, path: Path) -> Iterator[tuple[Path, str]]:
    """Find `${NAME}` outside of what a program reads."""
    if isinstance(value, str):
        match = _TEMPLATE_VARIABLE.search(value) if "${" in value else None
        if match:
            yield path, match[0]
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _template_variables(item, (*path, index))
    elif isinstance(value, dict):
        for key, item in value.items():
            looked_into = "${" in item if isinstance(item, str) else isinstance(item, list | dict)
            if looked_into and key not in _PROGRAM_TEXT:
                yield from _template_variables(item, (*path, key))
