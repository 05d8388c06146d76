"""Why a ClusterQueue admits nothing, in Kueue's words (its `Active` condition)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from muster_domain.checks import ProvisioningRequestConfig
from muster_domain.queues import (
    AdmissionCheck,
    ClusterQueue,
    ResourceFlavor,
    StopPolicy,
    Topology,
)

_MULTIKUEUE = "kueue.x-k8s.io/multikueue"
_PROVISIONING = "kueue.x-k8s.io/provisioning-request"
_CONFIG_GROUP = "kueue.x-k8s.io"
_CONFIG_KIND = "ProvisioningRequestConfig"


class InactiveReason(StrEnum):
    """Why a ClusterQueue admits nothing."""

    TERMINATING = "Terminating"
    STOPPED = "Stopped"
    FLAVOR_NOT_FOUND = "FlavorNotFound"
    ADMISSION_CHECK_NOT_FOUND = "AdmissionCheckNotFound"
    ADMISSION_CHECK_INACTIVE = "AdmissionCheckInactive"
    SEVERAL_MULTIKUEUE_CHECKS = "MultipleMultiKueueAdmissionChecks"
    MULTIKUEUE_CHECK_BY_FLAVOR = "MultiKueueAdmissionCheckAppliedPerFlavor"
    MULTIKUEUE_WITH_PROVISIONING = "MultiKueueWithProvisioningRequest"
    TOPOLOGY_NOT_FOUND = "TopologyNotFound"
    COHORT_CYCLE = "CohortCycle"


@dataclass(frozen=True, slots=True)
class Obstruction:
    """One cause, what people are told in Kueue's words, and what is behind it, if anything."""

    reason: InactiveReason
    message: str
    behind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a ClusterQueue refers to. `None` where nobody keeps a list.

    `inactive_checks` tell why each of them is inactive.
    """

    flavors: Mapping[str, ResourceFlavor]
    topologies: Mapping[str, Topology] | None = None
    checks: Mapping[str, AdmissionCheck] | None = None
    inactive_checks: Mapping[str, str] = field(default_factory=dict[str, str])
    cyclic: frozenset[str] = frozenset()


def obstructions(queue: ClusterQueue, around: Surroundings) -> tuple[Obstruction, ...]:
    """Everything that keeps the queue from admitting, the most telling first."""
    found: list[Obstruction] = []
    if queue.stop_policy is not StopPolicy.NONE:
        found.append(Obstruction(InactiveReason.STOPPED, "is stopped"))
    names = [flavor.flavor for group in queue.resource_groups for flavor in group.flavors]
    missing = [name for name in names if name not in around.flavors]
    if missing:
        text = f"references missing ResourceFlavor(s): {','.join(missing)}"
        found.append(Obstruction(InactiveReason.FLAVOR_NOT_FOUND, text))
    if around.checks is not None:
        found += _of_checks(queue, around, around.checks)
    if found or not _runs_elsewhere(queue, around):
        found += _of_topologies([around.flavors[n] for n in names if n in around.flavors], around)
    if queue.name in around.cyclic:
        text = "its cohorts form a cycle or are nested too deeply"
        found.append(Obstruction(InactiveReason.COHORT_CYCLE, text))
    return tuple(found)


def condition(found: tuple[Obstruction, ...]) -> tuple[str, str]:
    """Reason and message of the `Active` condition."""
    if not found:
        return "Ready", "Can admit new workloads"
    if found[0].reason is InactiveReason.TERMINATING:
        return found[0].reason, f"Can't admit new workloads; {found[0].message}"
    messages = ", ".join(obstruction.message for obstruction in found)
    return found[0].reason, f"Can't admit new workloads: {messages}."


def inactive_checks(
    checks: Mapping[str, AdmissionCheck], provisioning: Mapping[str, ProvisioningRequestConfig]
) -> dict[str, str]:
    """Checks that nobody can answer by, and why, in Kueue's words for it (BadParametersRef)."""
    found = {
        name: _bad_reference(check.parameters, provisioning)
        for name, check in checks.items()
        if check.controller == _PROVISIONING
    }
    return {name: why for name, why in found.items() if why}


def delays_topology(queue: ClusterQueue, checks: Mapping[str, AdmissionCheck], flavor: str) -> bool:
    """Whether a check must answer before pods in the flavor are given seats (R-89)."""
    return any(
        checks[rule.name].controller in (_MULTIKUEUE, _PROVISIONING)
        for rule in queue.admission_checks
        if rule.name in checks and (not rule.on_flavors or flavor in rule.on_flavors)
    )


def terminating() -> Obstruction:
    """A queue that is being deleted admits nothing, whatever else is wrong."""
    return Obstruction(InactiveReason.TERMINATING, "clusterQueue is terminating")


def _bad_reference(
    parameters: Mapping[str, str], provisioning: Mapping[str, ProvisioningRequestConfig]
) -> str:
    if not parameters:
        return "missing parameters reference"
    name, group, kind = (parameters.get(key, "") for key in ("name", "apiGroup", "kind"))
    bad = "bad parameters reference"
    if not name:
        return f"empty name: {bad}"
    if group != _CONFIG_GROUP:
        return f'wrong group "{group}", expecting "{_CONFIG_GROUP}": {bad}'
    if kind != _CONFIG_KIND:
        return f'wrong kind "{kind}", expecting "{_CONFIG_KIND}": {bad}'
    return "" if name in provisioning else f'{_CONFIG_KIND}.{_CONFIG_GROUP} "{name}" not found'


def _of_checks(
    queue: ClusterQueue, around: Surroundings, checks: Mapping[str, AdmissionCheck]
) -> list[Obstruction]:
    names = sorted({rule.name for rule in queue.admission_checks})
    missing = [name for name in names if name not in checks]
    inactive = [name for name in names if name in around.inactive_checks]
    found: list[Obstruction] = []
    if missing:
        text = f"references missing AdmissionCheck(s): {','.join(missing)}"
        found.append(Obstruction(InactiveReason.ADMISSION_CHECK_NOT_FOUND, text))
    if inactive:
        text = f"references inactive AdmissionCheck(s): {','.join(inactive)}"
        told = ((name, around.inactive_checks[name]) for name in inactive)
        behind = "; ".join(f"{name}: {why}" for name, why in told if why)
        found.append(Obstruction(InactiveReason.ADMISSION_CHECK_INACTIVE, text, behind))
    return found + _of_other_clusters(queue, checks, [name for name in names if name in checks])


def _of_other_clusters(
    queue: ClusterQueue, checks: Mapping[str, AdmissionCheck], names: list[str]
) -> list[Obstruction]:
    """What a check that sends work to other clusters does not go together with."""
    multi = [name for name in names if checks[name].controller == _MULTIKUEUE]
    provisioning = [name for name in names if checks[name].controller == _PROVISIONING]
    every = {flavors.flavor for group in queue.resource_groups for flavors in group.flavors}
    by_flavor = [
        rule.name
        for rule in queue.admission_checks
        if rule.name in multi and rule.on_flavors and set(rule.on_flavors) != every
    ]
    found: list[Obstruction] = []
    if len(multi) > 1:
        text = (
            "Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, "
            f"found: {','.join(multi)}"
        )
        found.append(Obstruction(InactiveReason.SEVERAL_MULTIKUEUE_CHECKS, text))
    if by_flavor:
        listed = ",".join(sorted(by_flavor))
        text = f"Cannot specify MultiKueue AdmissionCheck per flavor, found: {listed}"
        found.append(Obstruction(InactiveReason.MULTIKUEUE_CHECK_BY_FLAVOR, text))
    if multi and provisioning:
        text = (
            "Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, "
            f"found: {','.join(multi)}, {','.join(provisioning)}"
        )
        found.append(Obstruction(InactiveReason.MULTIKUEUE_WITH_PROVISIONING, text))
    return found


def _runs_elsewhere(queue: ClusterQueue, around: Surroundings) -> bool:
    """Whether other clusters seat its work, so that no topology is needed here."""
    checks = around.checks or {}
    return any(
        checks[rule.name].controller == _MULTIKUEUE
        for rule in queue.admission_checks
        if rule.name in checks
    )


def _of_topologies(flavors: list[ResourceFlavor], around: Surroundings) -> list[Obstruction]:
    topologies = around.topologies
    if topologies is None:
        return []
    return [
        Obstruction(
            InactiveReason.TOPOLOGY_NOT_FOUND,
            f'there is no Topology "{flavor.topology_name}" for TAS flavor "{flavor.name}"',
        )
        for flavor in flavors
        if flavor.topology_name and flavor.topology_name not in topologies
    ]
