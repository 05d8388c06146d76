"""Why a ClusterQueue admits nothing, in Kueue's words (its `Active` condition)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from muster_domain.queues import (
    AdmissionCheck,
    ClusterQueue,
    ResourceFlavor,
    StopPolicy,
    Topology,
)

_MULTIKUEUE = "kueue.x-k8s.io/multikueue"
_PROVISIONING = "kueue.x-k8s.io/provisioning-request"


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
    """One cause, and what people are told."""

    reason: InactiveReason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a ClusterQueue refers to. `None` where nobody keeps a list."""

    flavors: Mapping[str, ResourceFlavor]
    topologies: Mapping[str, Topology] | None = None
    checks: Mapping[str, AdmissionCheck] | None = None
    inactive_checks: frozenset[str] = frozenset()
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


def _of_checks(
    queue: ClusterQueue, around: Surroundings, checks: Mapping[str, AdmissionCheck]
) -> list[Obstruction]:
    names = [rule.name for rule in queue.admission_checks]
    missing = [name for name in names if name not in checks]
    inactive = [name for name in names if name in around.inactive_checks]
    known = [checks[name] for name in names if name in checks]
    multi = [check.name for check in known if check.controller == _MULTIKUEUE]
    provisioning = [check.name for check in known if check.controller == _PROVISIONING]
    by_flavor = [r.name for r in queue.admission_checks if r.name in multi and r.on_flavors]
    found: list[Obstruction] = []
    if missing:
        text = f"references missing AdmissionCheck(s): {','.join(missing)}"
        found.append(Obstruction(InactiveReason.ADMISSION_CHECK_NOT_FOUND, text))
    if inactive:
        text = f"references inactive AdmissionCheck(s): {','.join(inactive)}"
        found.append(Obstruction(InactiveReason.ADMISSION_CHECK_INACTIVE, text))
    if len(multi) > 1:
        text = (
            "Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, "
            f"found: {','.join(multi)}"
        )
        found.append(Obstruction(InactiveReason.SEVERAL_MULTIKUEUE_CHECKS, text))
    if by_flavor:
        text = f"Cannot specify MultiKueue AdmissionCheck per flavor, found: {by_flavor[0]}"
        found.append(Obstruction(InactiveReason.MULTIKUEUE_CHECK_BY_FLAVOR, text))
    if multi and provisioning:
        text = (
            "Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, "
            f"found: {multi[0]}, {provisioning[0]}"
        )
        found.append(Obstruction(InactiveReason.MULTIKUEUE_WITH_PROVISIONING, text))
    return found


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
