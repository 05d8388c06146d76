"""Commands about declared objects and nodes: apply, get, delete, stop, resume, drain, uncordon."""

import json
import sys
import uuid
from io import StringIO
from typing import Annotated, Any, cast

import typer
from rich.table import Table
from ruamel.yaml import YAML

from muster.cli.files import ManifestFile, read_files
from muster.cli.options import Namespace, Output, connect, namespace_or_default, refer
from muster.cli.output import Format, complain, emit, lines, say, stdout, warn
from muster.cli.reads import now_ms
from muster.client import Client
from muster.errors import BadArgument, ExitCode, Refused
from muster.rendering.manifest import workload_manifest
from muster.rendering.tables import plain_table
from muster.rendering.words import short_id
from muster.rendering.workloads import flow_table, workload_table
from muster_contracts.api import Accepted, ObjectView
from muster_manifests import dump_manifest

_WORKLOADS = ("wl", "workload", "workloads", "job", "jobs")
_CLUSTER_QUEUES = ("cq", "clusterqueue", "clusterqueues")
_LOCAL_QUEUES = ("lq", "localqueue", "localqueues")
_VOLCANO_QUEUES = ("vq", "queue", "queues")
Target = Annotated[
    str,
    typer.Argument(
        metavar="QUEUE|KIND",
        help="A ClusterQueue, NAMESPACE/LOCALQUEUE, or workload, cq, lq, queue",
    ),
]
TargetName = Annotated[str, typer.Argument(help="After a kind: which one")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (apply, get, flow, delete, stop, resume, drain, uncordon):
        app.command(rich_help_panel="Declared objects and machines")(command)


def apply(
    files: Annotated[list[str], typer.Option("-f", "--filename", help="A file, a folder, or -")],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check, change nothing")] = False,
    namespace: Namespace = "",
    output: Output = Format.TABLE,
) -> None:
    """Declare objects, and send the jobs among them. Each file counts whole or not at all."""
    code = ExitCode.OK
    with connect() as client:
        for file in [found for place in files for found in read_files(place)]:
            try:
                accepted = _apply(client, file, namespace, dry_run=dry_run)
            except Refused as error:
                say(f"{file.name}: nothing of it was applied", "bold red")
                complain(error)
                code = code or error.exit_code
                continue
            warn(accepted.warnings)
            emit(accepted, output, lambda _wide, found=accepted: lines(_applied_lines(found)))
    raise typer.Exit(code)


def _apply(client: Client, file: ManifestFile, namespace: str, *, dry_run: bool) -> Accepted:
    return client.submit(
        file.content,
        key=uuid.uuid4().hex,
        parameters={
            "namespace": namespace_or_default(namespace),
            "source": file.name,
            "dry_run": dry_run,
        },
    )


def _applied_lines(accepted: Accepted) -> list[str]:
    dry = " (dry run)" if accepted.dry_run else ""
    found = [
        f"{item.kind} {_place(item.namespace)}{item.name} {item.effect}{dry}"
        for item in accepted.objects
    ]
    verb = "would be submitted" if accepted.dry_run else "submitted"
    found += [
        f"{job.kind} {job.namespace}/{job.name} {verb}: {job.id} in {job.queue}"
        for job in accepted.jobs
    ]
    return found


def _place(namespace: str) -> str:
    return f"{namespace}/" if namespace else ""


def get(
    kinds: Annotated[str, typer.Argument(help="cq, lq, rf, ...; several with commas")],
    name: Annotated[str, typer.Argument()] = "",
    *,
    namespace: Annotated[str, typer.Option("-n", "--namespace", help="Only this one")] = "",
    active: Annotated[
        bool | None,
        typer.Option("--active/--inactive", help="Only queues that let jobs in, or that do not"),
    ] = None,
    cluster_queue: Annotated[
        str, typer.Option("--cluster-queue", help="Only LocalQueues of this ClusterQueue")
    ] = "",
    output: Output = Format.TABLE,
) -> None:
    """Show declared objects; -o yaml gives them back as they were written."""
    with connect() as client:
        views: list[ObjectView] = []
        for kind in kinds.split(","):
            if kind.lower() in _WORKLOADS:
                _show_workloads(client, name, namespace, output)
            elif name:
                views.append(client.object(kind, name, namespace_or_default(namespace)))
            else:
                views += client.objects(kind, namespace).objects
        if cluster_queue:
            views = [view for view in views if _door_to(view) == cluster_queue]
        if active is not None:
            views = _by_activity(client, views, active=active)
    if views or not any(kind.lower() in _WORKLOADS for kind in kinds.split(",")):
        _show_objects(views, output)


def _door_to(view: ObjectView) -> str:
    """The ClusterQueue that a LocalQueue leads to; empty for other kinds."""
    spec = cast("dict[str, Any]", view.document.get("spec") or {})
    return str(spec.get("clusterQueue", "")) if view.kind == "LocalQueue" else ""


def _by_activity(client: Client, views: list[ObjectView], *, active: bool) -> list[ObjectView]:
    """The queues that let jobs in, or the others. A LocalQueue does if its ClusterQueue does."""
    rows = {row.name: row.active for row in client.quota().page.queues}
    found: list[ObjectView] = []
    for view in views:
        spec = cast("dict[str, Any]", view.document.get("spec") or {})
        name = view.name if view.kind == "ClusterQueue" else _door_to(view)
        if not name:
            raise BadArgument(
                f"a {view.kind} is neither active nor inactive", fix="muster get cq,lq --active"
            )
        open_ = rows.get(name, False) and str(spec.get("stopPolicy", "None")) == "None"
        if open_ is active:
            found.append(view)
    return found


def flow(
    name: Annotated[str, typer.Argument(help="The JobFlow")],
    *,
    namespace: Namespace = "",
    output: Output = Format.TABLE,
) -> None:
    """Show how far a JobFlow is, step by step."""
    with connect() as client:
        found = client.flow(name, namespace_or_default(namespace))
    emit(found, output, lambda _wide: flow_table(found))


def _show_workloads(client: Client, name: str, namespace: str, output: Format) -> None:
    if name and output in (Format.YAML, Format.JSON):
        manifest = workload_manifest(client.workload(refer(name, namespace)))
        text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
        sys.stdout.write(dump_manifest(manifest) if output is Format.YAML else text)
        return
    page = client.workloads({"name": name, "namespace": namespace, "limit": 500}).page
    emit(page, output, lambda wide: workload_table(page.rows, now_ms(), wide=wide))


def _show_objects(views: list[ObjectView], output: Format) -> None:
    match output:
        case Format.YAML:
            sys.stdout.write("---\n".join(_as_written(view) for view in views))
        case Format.JSON:
            documents = [dict(view.document) for view in views]
            shown: object = documents[0] if len(documents) == 1 else documents
            sys.stdout.write(json.dumps(shown, indent=2, ensure_ascii=False) + "\n")
        case _:
            stdout().print(_object_table(views, wide=output is Format.WIDE))


def _as_written(view: ObjectView) -> str:
    text = view.text or dump_manifest(dict(view.document))
    return text if text.endswith("\n") else f"{text}\n"


def _object_table(views: list[ObjectView], *, wide: bool) -> Table:
    states = [_state(view) for view in views]
    state_column = ["STATE"] if any(states) else []
    table = plain_table(
        ["KIND", "NAMESPACE", "NAME", *state_column, *(["BY", "SEQUENCE", "SPEC"] if wide else [])]
    )
    for view, state in zip(views, states, strict=True):
        cells = [view.kind, view.namespace or "-", view.name]
        cells += [state or "-"] if state_column else []
        if wide:
            spec = json.dumps(view.document.get("spec", {}), separators=(",", ":"))
            cells += [view.by, str(view.sequence), spec]
        table.add_row(*cells)
    return table


def _state(view: ObjectView) -> str:
    """The state of a Volcano Queue."""
    status = cast("dict[str, Any]", view.document.get("status") or {})
    return str(status.get("state", "")) if view.kind == "Queue" else ""


def delete(
    kind: Annotated[str, typer.Argument(help="cq, lq, rf, ...")],
    name: Annotated[str, typer.Argument()],
    *,
    namespace: Namespace = "",
) -> None:
    """Delete a declared object that nothing uses any more."""
    with connect() as client:
        gone = client.delete(kind, name, namespace_or_default(namespace))
    say(f"{gone.kind} {gone.name} {gone.effect}")


def stop(
    target: Target,
    name: TargetName = "",
    *,
    drained: Annotated[
        bool, typer.Option("--drain", help="Evict what runs, too (HoldAndDrain)")
    ] = False,
    namespace: Namespace = "",
) -> None:
    """Let a queue admit nothing more, or take a workload out of the line until it is resumed.

    What runs in a queue may stay unless --drain; a workload gives back what it holds. `queue` is a
    Volcano Queue: it is closed, with those under it, and new jobs for it are refused.
    """
    if name and target in _WORKLOADS:
        _set_active(name, namespace, active=False)
    elif name and target in _VOLCANO_QUEUES:
        if drained:
            raise BadArgument("a Volcano Queue is closed, never drained", fix="leave --drain out")
        _set_state(name, "Closed")
    else:
        _set_stop_policy(_queue(target, name, namespace), "HoldAndDrain" if drained else "Hold")


def resume(target: Target, name: TargetName = "", *, namespace: Namespace = "") -> None:
    """Let a stopped queue admit again, or put a workload back into the line."""
    if name and target in _WORKLOADS:
        _set_active(name, namespace, active=True)
    elif name and target in _VOLCANO_QUEUES:
        _set_state(name, "Open")
    else:
        _set_stop_policy(_queue(target, name, namespace), "None")


def _queue(target: str, name: str, namespace: str) -> str:
    """The queue that is meant, as ClusterQueue or NAMESPACE/LOCALQUEUE."""
    if not name:
        return target
    if target in _CLUSTER_QUEUES:
        return name
    if target in _LOCAL_QUEUES:
        return f"{namespace_or_default(namespace)}/{name}"
    raise BadArgument(
        f"a {target!r} cannot be stopped", fix="write workload, cq, lq or queue, and a name"
    )


def _set_active(name: str, namespace: str, *, active: bool) -> None:
    with connect() as client:
        noted = client.set_active(refer(name, namespace), active=active)
    what = "is put back into the line" if active else "is taken out of the line"
    say(f"{short_id(noted.id)} {noted.namespace}/{noted.name} {what}")


def _set_stop_policy(queue: str, policy: str) -> None:
    namespace, separator, name = queue.rpartition("/")
    kind = "LocalQueue" if separator else "ClusterQueue"
    with connect() as client:
        accepted = _edit(client, client.object(kind, name, namespace or "default"), policy)
    for item in accepted.objects:
        say(f"{item.kind} {queue} {item.effect}: stopPolicy {policy}")


def _set_state(queue: str, state: str) -> None:
    with connect() as client:
        accepted = _edit(client, client.object("Queue", queue, ""), state)
    for item in accepted.objects:
        say(f"{item.kind} {queue} {item.effect}: {state}")


def _edit(client: Client, view: ObjectView, value: str) -> Accepted:
    """Apply a queue again, stopped or not."""
    section, field = ("status", "state") if view.kind == "Queue" else ("spec", "stopPolicy")
    accepted = client.submit(
        with_value(_as_written(view), section, field, value),
        key=uuid.uuid4().hex,
        parameters={
            "namespace": view.namespace or "default",
            "source": f"{view.kind} {view.name}",
        },
    )
    warn(accepted.warnings)
    return accepted


def with_value(text: str, section: str, field: str, value: str) -> str:
    """The manifest with another value in a section; comments stay where they are."""
    yaml: Any = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096
    document = cast("dict[str, Any]", yaml.load(text))
    document.setdefault(section, {})[field] = value
    stream = StringIO()
    yaml.dump(document, stream)
    return stream.getvalue()


def drain(node: Annotated[str, typer.Argument()]) -> None:
    """Keep a node empty: what is there is moved, nothing new comes."""
    with connect() as client:
        client.drain(node)
    say(f"{node} is being drained; see: muster nodes")


def uncordon(node: Annotated[str, typer.Argument()]) -> None:
    """Use a node again."""
    with connect() as client:
        client.drain(node, drained=False)
    say(f"{node} takes jobs again")
