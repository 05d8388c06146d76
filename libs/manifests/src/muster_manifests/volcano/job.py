"""Volcano's Job: tasks that start together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter

from muster_domain.job_policies import JobPolicies, TaskPolicies
from muster_domain.workload import RestartPolicy
from muster_manifests.gang import with_min_member
from muster_manifests.jobs.job_metadata import JobSpec, keep_finished_ms, make_submission
from muster_manifests.manifest import Manifest
from muster_manifests.metadata import check_name
from muster_manifests.pods import PodTemplate, read_pod_template
from muster_manifests.reader import ObjectReader
from muster_manifests.submission import JobSubmission
from muster_manifests.volcano.policies import read_policies
from muster_manifests.volcano.topology import read_network_topology

DEFAULT_MAX_RETRY = 3
_ENVIRONMENT_PLUGINS = ("env", "svc", "ssh", "pytorch", "tensorflow", "mpi")
"""Plugins whose variables every pod gets anyway, see `muster_contracts.pod_environment`."""


class DependsOn(StrEnum):
    """How many of the tasks that a task depends on must be ready."""

    ALL = "all"
    ANY = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    name: str
    replicas: int
    min_available: int
    template: PodTemplate
    policies: TaskPolicies


def read_volcano_job(manifest: Manifest) -> JobSubmission:
    """Read a Job: each task is a pod set of one gang.

    `minAvailable` below the number of pods lets the gang start smaller (see `with_min_member`).
    """
    spec = manifest.body.object("spec")
    spec.accept("schedulerName", "runningEstimate")
    spec.not_acted_on("volumes")
    _check_plugins(spec)
    readers = spec.objects("tasks")
    if not readers:
        _refuse_without_tasks(spec)
    tasks = [_read_task(reader, index) for index, reader in enumerate(readers)]
    _check_names(readers, tasks)
    _check_dependencies(readers, tasks)
    submission = make_submission(
        manifest,
        tuple(task.template for task in tasks),
        tuple(task.template.pod_set(task.name, task.replicas) for task in tasks),
        JobSpec(
            priority_class=spec.text("priorityClassName"),
            volcano_queue=spec.text("queue"),
            keep_finished_ms=keep_finished_ms(spec),
            network_topology=read_network_topology(spec),
        ),
    )
    return replace(_with_minimum(submission, spec, tasks), job_policies=_job_policies(spec, tasks))


def _job_policies(spec: ObjectReader, tasks: Sequence[_Task]) -> JobPolicies:
    each = sum(task.min_available for task in tasks)
    return JobPolicies(
        min_available=spec.integer("minAvailable", each, low=0),
        tasks=tuple(task.policies for task in tasks),
        policies=read_policies(spec),
        max_retry=spec.integer("maxRetry", DEFAULT_MAX_RETRY, low=0),
        min_success=spec.optional_integer("minSuccess", low=1),
    )


def _check_plugins(spec: ObjectReader) -> None:
    """Say of the plugins that are asked for which do nothing here."""
    plugins = spec.object("plugins")
    plugins.accept(*_ENVIRONMENT_PLUGINS)
    plugins.not_acted_on(*(name for name in plugins.keys if name not in _ENVIRONMENT_PLUGINS))


def _refuse_without_tasks(spec: ObjectReader) -> None:
    if "template" in spec:
        spec.accept("template", "parallelism", "completions", "backoffLimit", "suspend")
        spec.problem(
            "tasks",
            "missing; this is written like a batch Job",
            "write apiVersion: batch/v1, or tasks: [{name: worker, replicas: 1, template: ...}]",
        )
    else:
        spec.problem(
            "tasks", "missing", "write tasks: [{name: worker, replicas: 1, template: ...}]"
        )


def _read_task(reader: ObjectReader, index: int) -> _Task:
    reader.not_acted_on("topologyPolicy")
    partitions = reader.object("partitionPolicy")
    partitions.not_acted_on("networkTopology")
    size = partitions.integer("partitionSize", 0, low=0)
    total = partitions.integer("totalPartitions", 1, low=1)
    replicas = reader.integer("replicas", total * (size or 1), low=0)
    least = partitions.integer("minPartitions", total, low=0)
    if least > total:
        partitions.rule("minPartitions", f"more than the {total} partitions", "lower it")
    min_available = reader.integer(
        "minAvailable", min(least * size, replicas) if size else replicas, low=0
    )
    if min_available > replicas:
        reader.rule(
            "minAvailable", f"more than the {replicas} replicas", "lower it or raise replicas"
        )
    name = reader.text("name", f"default{index}")
    depends_on = reader.object("dependsOn")
    return _Task(
        name=name,
        replicas=replicas,
        min_available=min_available,
        template=read_pod_template(reader.object("template"), RestartPolicy.NEVER),
        policies=TaskPolicies(
            name=name,
            min_available=min_available,
            policies=read_policies(reader),
            max_retry=_max_retry(reader),
            depends_on=depends_on.texts("name"),
            depends_on_any=depends_on.choice("iteration", DependsOn, DependsOn.ALL)
            is DependsOn.ANY,
            partition_size=size,
        ),
    )


def _max_retry(reader: ObjectReader) -> int | None:
    limit = reader.integer("maxRetry", DEFAULT_MAX_RETRY, low=-1)
    return None if limit < 0 else limit


def _check_names(readers: Sequence[ObjectReader], tasks: Sequence[_Task]) -> None:
    seen: set[str] = set()
    for reader, task in zip(readers, tasks, strict=True):
        check_name(reader, "name", task.name)
        if task.name in seen:
            reader.problem("name", f"a second task {task.name!r}", "give each task its own name")
        seen.add(task.name)


def _check_dependencies(readers: Sequence[ObjectReader], tasks: Sequence[_Task]) -> None:
    names = {task.name for task in tasks}
    for reader, task in zip(readers, tasks, strict=True):
        unknown = [name for name in task.policies.depends_on if name not in names]
        if unknown:
            reader.rule("dependsOn", f"no task is named {unknown[0]!r}", "name a task of this job")
    try:
        TopologicalSorter({task.name: task.policies.depends_on for task in tasks}).prepare()
    except CycleError:
        readers[0].rule("dependsOn", "the tasks wait for each other", "break the circle")


def _with_minimum(
    submission: JobSubmission, spec: ObjectReader, tasks: Sequence[_Task]
) -> JobSubmission:
    total = sum(task.replicas for task in tasks)
    by_task = {task.name: task.min_available for task in tasks}
    minimum = spec.integer("minAvailable", sum(by_task.values()), low=0)
    if minimum > total and "minAvailable" in spec:
        spec.rule(
            "minAvailable",
            f"{minimum} is more than the {total} replicas of all tasks",
            "lower it or raise replicas",
        )
    if len(tasks) == 1:
        result = with_min_member(submission, minimum)
    elif sum(by_task.values()) < total:
        result = with_min_member(submission, minimum, _raised(tasks, minimum))
    else:
        result = with_min_member(submission, minimum)
    for finding in result.findings:
        spec.warn("minAvailable", finding.problem, finding.fix)
    return result.submission


def _raised(tasks: Sequence[_Task], minimum: int) -> dict[str, int]:
    """Return each task's minimum, the first tasks' raised until together they reach `minimum`."""
    lacking = minimum - sum(task.min_available for task in tasks)
    minima: dict[str, int] = {}
    for task in tasks:
        more = max(0, min(lacking, task.replicas - task.min_available))
        minima[task.name] = task.min_available + more
        lacking -= more
    return minima
