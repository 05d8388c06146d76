"""What admission checks are asked: which of them, and for how many pods (R-102, R-109)."""

from collections.abc import Mapping
from dataclasses import replace

from muster_admission.book import Book
from muster_contracts.stored import Record
from muster_domain.checks import (
    CAPACITY_CHECK,
    CheckState,
    CheckStatus,
    ProvisioningRequestConfig,
)
from muster_domain.states import Admission
from muster_domain.workload import Workload


def checks_for(
    book: Book, record: Record, admission: Admission, pods: Mapping[str, int], now_ms: int
) -> tuple[CheckStatus, ...]:
    """The checks that the ClusterQueue wants for the flavors that were granted, for these pods.

    None is answered, but for capacity of which they want nothing.
    """
    entry = book.view.catalog.queues[record.cluster_queue]
    if not entry.queue.admission_checks:
        return ()
    flavors = {flavor for pod_set in admission.pod_sets for flavor in pod_set.flavors.values()}
    retries = dict(record.state.history.check_retries)
    asked = (
        CheckStatus(name=rule.name, since_ms=now_ms, retry_count=retries.get(rule.name, 0))
        for rule in entry.queue.admission_checks
        if not rule.on_flavors or not flavors.isdisjoint(rule.on_flavors)
    )
    return tuple(_asking_for(book, record.workload, check, pods) for check in asked)


def kept_answers(
    known: tuple[CheckStatus, ...], wanted: tuple[CheckStatus, ...]
) -> tuple[CheckStatus, ...]:
    """The checks that are wanted, with what is known of those that were asked before."""
    before = {check.name: check for check in known}
    return tuple(before.get(check.name, check) for check in wanted)


def _asking_for(
    book: Book, workload: Workload, check: CheckStatus, counts: Mapping[str, int]
) -> CheckStatus:
    """The check with the pods that it asks capacity for, if it asks for any."""
    config = provisioning_of(book, check.name)
    if config is None:
        return check
    groups = config.asked_together(workload)
    pods = {group[0]: sum(counts.get(name, 0) for name in group) for group in groups}
    pods = {name: count for name, count in pods.items() if count}
    if pods:
        return replace(check, pods=pods)
    message = f"asks for none of {', '.join(config.managed_resources)}"
    return replace(check, state=CheckState.READY, message=message)


def provisioning_of(book: Book, check: str) -> ProvisioningRequestConfig | None:
    """How a capacity check asks, where it follows a configuration of Kueue's that is declared."""
    configuration = book.view.catalog.configuration
    declared = (configuration.admission_checks or {}).get(check)
    if declared is None or declared.controller not in CAPACITY_CHECK:
        return None
    if declared.parameters.get("kind") != "ProvisioningRequestConfig":
        return None
    return (configuration.provisioning or {}).get(declared.parameters.get("name", ""))
