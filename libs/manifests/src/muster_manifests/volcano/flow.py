"""JobTemplate and JobFlow."""

from graphlib import CycleError, TopologicalSorter

from muster_domain.job_flow import FlowStep, JobFlow, JobTemplate
from muster_manifests.manifest import Manifest
from muster_manifests.reader import ObjectReader
from muster_manifests.volcano.job import read_volcano_job

_RETAIN = ("retain", "delete")


def read_job_template(manifest: Manifest) -> JobTemplate:
    """Read a JobTemplate: its spec is that of a Job, and held to the same rules."""
    manifest.body.object("status").accept_all()
    read_volcano_job(manifest)
    return JobTemplate(namespace=manifest.metadata.namespace, name=manifest.metadata.name)


def read_job_flow(manifest: Manifest) -> JobFlow:
    """Read a JobFlow. The records of its jobs age as any others do, whatever it retains."""
    manifest.body.object("status").accept_all()
    spec = manifest.body.object("spec")
    retain = spec.text("jobRetainPolicy", "retain")
    if retain not in _RETAIN:
        spec.problem(
            "jobRetainPolicy", f"{retain!r} is none of its values", "write retain or delete"
        )
    readers = spec.objects("flows")
    if not readers:
        spec.problem("flows", "missing", "write flows: [{name: TEMPLATE}]")
    steps = tuple(_read_step(reader) for reader in readers)
    _check_steps(readers, steps)
    return JobFlow(namespace=manifest.metadata.namespace, name=manifest.metadata.name, steps=steps)


def _read_step(reader: ObjectReader) -> FlowStep:
    depends_on = reader.object("dependsOn")
    if depends_on.object("probe").present:
        depends_on.rule("probe", "is not evaluated", "write targets: [STEP] instead")
        depends_on.object("probe").accept_all()
    if "patch" in reader:
        reader.rule("patch", "is not applied", "write a JobTemplate of its own")
        reader.object("patch").accept_all()
    return FlowStep(name=reader.required_text("name"), targets=depends_on.texts("targets"))


def _check_steps(readers: tuple[ObjectReader, ...], steps: tuple[FlowStep, ...]) -> None:
    names = [step.name for step in steps]
    for reader, step in zip(readers, steps, strict=True):
        if names.count(step.name) > 1:
            reader.rule("name", f"a second step {step.name!r}", "name another template")
        unknown = [target for target in step.targets if target not in names]
        if unknown:
            reader.rule("dependsOn", f"no step is named {unknown[0]!r}", "name a step of this flow")
    try:
        TopologicalSorter({step.name: step.targets for step in steps}).prepare()
    except CycleError:
        readers[0].rule("dependsOn", "the steps wait for each other", "break the circle")
