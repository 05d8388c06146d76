"""AppWrapper: several objects admitted as one job."""

from collections.abc import Callable
from dataclasses import replace

from muster_domain.workload import PodSet
from muster_manifests.jobs.job_metadata import JobSpec, make_submission
from muster_manifests.manifest import Manifest
from muster_manifests.reader import ObjectReader
from muster_manifests.submission import JobSubmission

ComponentReader = Callable[[ObjectReader, str], JobSubmission | None]
"""Reads an object inside another, of a namespace; None for what asks for no pods."""


def read_app_wrapper(manifest: Manifest, read_component: ComponentReader) -> JobSubmission:
    """Read an AppWrapper: the pod sets of all its components are one gang."""
    spec = manifest.body.object("spec")
    spec.accept("suspend", "managedBy")
    components: list[JobSubmission] = []
    for reader in spec.objects("components"):
        reader.accept("annotations", "podSets", "podSetInfos")
        component = read_component(reader.object("template"), manifest.metadata.namespace)
        if component is not None:
            components.append(component)
    if not components:
        spec.problem("components", "no component asks for pods", "write a Job as a component")
    joined = make_submission(
        manifest,
        (),
        _pod_sets(components),
        JobSpec(priority_class=_first([found.priority_class for found in components])),
    )
    times = [found.max_execution_time_ms for found in components]
    return replace(
        joined,
        max_execution_time_ms=joined.max_execution_time_ms
        or max((time for time in times if time is not None), default=None),
        volcano_queue=joined.volcano_queue or _first([found.volcano_queue for found in components]),
    )


def _pod_sets(components: list[JobSubmission]) -> tuple[PodSet, ...]:
    """Return all pod sets, each under a name of its own."""
    if len(components) == 1:
        return components[0].pod_sets
    return tuple(
        replace(pod_set, name=f"{pod_set.name}-{index}")
        for index, component in enumerate(components)
        for pod_set in component.pod_sets
    )


def _first(words: list[str]) -> str:
    return next((word for word in words if word), "")
