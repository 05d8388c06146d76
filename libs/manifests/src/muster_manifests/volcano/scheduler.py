"""`volcano-scheduler.conf`: actions, tiers of plugins, arguments."""

from collections.abc import Mapping
from dataclasses import dataclass

from muster_domain.volcano_scheduler import (
    OFF_BY_DEFAULT,
    Argument,
    PluginOption,
    SchedulerConfiguration,
    Switch,
    VolcanoScheduler,
)
from muster_manifests.manifest import Manifest
from muster_manifests.plain import Plain
from muster_manifests.problems import ManifestError, Problem, Report
from muster_manifests.reader import LoadOptions, ObjectReader
from muster_manifests.yaml_source import read_yaml

SCHEDULER_FILE = "volcano-scheduler.conf"
ACTIONS = (
    "enqueue", "allocate", "backfill", "preempt", "reclaim", "gangpreempt", "gangreclaim",
    "shuffle",
)  # fmt: skip
PLUGINS = (
    "gang", "priority", "conformance", "proportion", "capacity", "drf", "overcommit", "predicates",
    "nodeorder", "binpack", "resource-strategy-fit", "network-topology-aware", "deviceshare",
    "numa-aware", "task-topology", "sla", "tdm", "nodegroup", "cdp", "pdb", "resourcequota",
    "usage",
)  # fmt: skip
_DEFAULT_ACTIONS = ("enqueue", "allocate", "backfill")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedScheduler:
    """A configuration, and what in it does not do what it seems to."""

    configuration: SchedulerConfiguration
    warnings: tuple[Problem, ...] = ()


def load_scheduler(text: str | bytes, *, source: str) -> LoadedScheduler:
    """Load Volcano's scheduler configuration. Raises `ManifestError` with every problem found.

    Switches that a plugin leaves out are on, but for `enableHierarchy` and `enabledClusterOrder`.
    """
    documents = read_yaml(text, source=source)
    report = Report(source, documents[0].marks if documents else {})
    value = documents[0].value if len(documents) == 1 else None
    configuration = SchedulerConfiguration(actions=_DEFAULT_ACTIONS, tiers=())
    if isinstance(value, dict):
        reader = ObjectReader(value, report, LoadOptions())
        configuration = _read(reader)
        reader.report_unknown()
    else:
        report.problem((), "not one mapping", 'write actions: "enqueue, allocate" and tiers:')
    problems = (*(found for written in documents for found in written.problems), *report.problems)
    if problems:
        raise ManifestError(problems)
    return LoadedScheduler(configuration=configuration, warnings=tuple(report.warnings))


def holds_scheduler(body: ObjectReader) -> bool:
    """Whether a ConfigMap is the one that Volcano's scheduler reads."""
    data = body.raw("data")
    return isinstance(data, dict) and SCHEDULER_FILE in data


def read_scheduler_map(manifest: Manifest) -> VolcanoScheduler:
    """Read the ConfigMap that holds `volcano-scheduler.conf`; its other files are not looked at."""
    data = manifest.body.object("data")
    data.accept_all()
    manifest.body.object("binaryData").accept_all()
    configuration = SchedulerConfiguration(actions=_DEFAULT_ACTIONS, tiers=())
    try:
        loaded = load_scheduler(data.text(SCHEDULER_FILE), source=SCHEDULER_FILE)
    except ManifestError as error:
        for found in error.problems:
            data.problem(SCHEDULER_FILE, f"{found.field}: {found.problem}".lstrip(": "), found.fix)
    else:
        configuration = loaded.configuration
        for found in loaded.warnings:
            data.warn(SCHEDULER_FILE, f"{found.field}: {found.problem}".lstrip(": "), found.fix)
    return VolcanoScheduler(
        namespace=manifest.metadata.namespace,
        name=manifest.metadata.name,
        configuration=configuration,
    )


def _read(reader: ObjectReader) -> SchedulerConfiguration:
    tiers = tuple(
        tuple(_plugin(item) for item in tier.objects("plugins")) for tier in reader.objects("tiers")
    )
    if not any(tiers):
        reader.problem("tiers", "no plugin", "write tiers: [{plugins: [{name: gang}]}]")
    _check_together(reader, tiers)
    return SchedulerConfiguration(
        actions=_actions(reader),
        tiers=tiers,
        action_arguments={
            item.required_text("name"): _arguments(item)
            for item in reader.objects("configurations")
        },
    )


def _actions(reader: ObjectReader) -> tuple[str, ...]:
    if "actions" not in reader:
        return _DEFAULT_ACTIONS
    written = reader.raw("actions")
    names = reader.texts("actions") if isinstance(written, list) else _split(reader.text("actions"))
    for name in names:
        if name not in ACTIONS:
            reader.problem("actions", f"{name!r} is no action", f"write {', '.join(ACTIONS)}")
    return tuple(names)


def _split(written: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in written.split(",") if name.strip())


def _plugin(item: ObjectReader) -> PluginOption:
    name = item.required_text("name")
    if name not in PLUGINS:
        item.problem("name", f"{name!r} is no plugin", f"write one of {', '.join(PLUGINS)}")
    enabled = frozenset(
        switch for switch in Switch if item.flag(switch, default=switch not in OFF_BY_DEFAULT)
    )
    return PluginOption(name=name, enabled=enabled, arguments=_arguments(item))


def _arguments(item: ObjectReader) -> Mapping[str, Argument]:
    reader = item.object("arguments")
    reader.accept_all()
    return {key: _argument(value) for key, value in reader.values.items() if value is not None}


def _argument(value: Plain) -> Argument:
    if isinstance(value, dict):
        return {key: _argument(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return tuple(_argument(item) for item in value if item is not None)
    return "" if value is None else value


def _check_together(reader: ObjectReader, tiers: tuple[tuple[PluginOption, ...], ...]) -> None:
    """Refuse, or doubt, plugins that do not get along."""
    names = [plugin.name for tier in tiers for plugin in tier]
    for name in sorted({name for name in names if names.count(name) > 1}):
        reader.problem("tiers", f"plugin {name} is there twice", "keep one")
    for tier in tiers:
        hierarchical = any(p.name == "drf" and Switch.HIERARCHY in p.enabled for p in tier)
        if hierarchical and any(plugin.name == "proportion" for plugin in tier):
            reader.problem(
                "tiers", "drf with enableHierarchy excludes proportion", "keep one of them"
            )
    if "proportion" in names and "capacity" in names:
        reader.warn("tiers", "proportion and capacity both divide the cluster", "keep one of them")
    quotas = [name for name in ("proportion", "capacity") if name in names]
    if quotas and "backfill" in _actions(reader):
        reader.warn(
            "actions", f"backfill seats pods that ask for nothing past {quotas[0]}'s quotas"
        )
    if "proportion" in names:
        reader.warn("tiers", "proportion does not look at a queue's deserved", "write capacity")
