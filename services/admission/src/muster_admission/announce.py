"""What admission says: its events, and the public decision about a workload."""

from collections.abc import Mapping

from muster_contracts import codec, subjects
from muster_contracts.books import books_kept
from muster_contracts.budgets import BudgetFact
from muster_contracts.events import WorkloadFact
from muster_contracts.jobs import Decision, Seat, Verdict
from muster_contracts.stored import Record
from muster_contracts.subjects import Service
from muster_domain.checks import CheckState, CheckStatus, all_ready
from muster_domain.conditions import EvictionReason, Explanation, Outcome, UnadmittedReason
from muster_domain.states import (
    Admitted,
    Evicting,
    Finished,
    Growing,
    Pending,
    Reserved,
    WorkloadState,
)
from muster_domain.workload import Workload
from muster_ledger.store import OutboxMessage
from muster_runtime.announcer import About, Announcer

DECISION = "decision"


class WorkloadAnnouncer:
    """Says admission's facts and decisions in the next commit."""

    def __init__(self, partition: str, epoch: int, version: int) -> None:
        self._partition = partition
        self._announcer = Announcer(
            service=Service.ADMISSION, shard=partition, epoch=epoch, version=version
        )
        self.causes: dict[str, str] = {}

    @property
    def version(self) -> int:
        """The version of the commit that these messages belong to."""
        return self._announcer.version

    def event(self, record: Record, fact: WorkloadFact, now_ms: int) -> None:
        """Say a fact about the workload."""
        name = codec.EVENT_NAMES[type(fact)]
        workload = record.workload
        subject = subjects.workload_event(
            Service.ADMISSION, name, self._partition, workload.namespace, workload.id
        )
        self._announcer.say(subject, name, codec.encode(fact), self._about(record), now_ms)

    def decision(self, record: Record, explanation: Explanation | None, now_ms: int) -> None:
        """Say what was decided, where submitters read it."""
        workload = record.workload
        body = codec.encode(public_decision(record, self._partition, explanation, now_ms))
        subject = subjects.decision(workload.namespace, workload.name)
        self._announcer.say(subject, DECISION, body, self._about(record), now_ms)

    def budget(self, fact: BudgetFact, budget: str, partition: str, now_ms: int) -> None:
        """Say a fact about a budget, or one of its accounts, to a partition."""
        name = codec.EVENT_NAMES[type(fact)]
        subject = subjects.budget_event(name, partition, budget)
        self._announcer.say(subject, name, codec.encode(fact), About(entity=budget), now_ms)

    def books(self, changes: Mapping[str, bytes | None], now_ms: int) -> None:
        """Say what this commit writes beside the states of workloads, if anything."""
        for fact in books_kept(self._partition, self.version, changes):
            name = codec.EVENT_NAMES[type(fact)]
            subject = subjects.books_kept(self._partition)
            about = About(entity=self._partition)
            self._announcer.say(subject, name, codec.encode(fact), about, now_ms)

    def take(self) -> tuple[OutboxMessage, ...]:
        """The messages of this commit."""
        self.causes.clear()
        return self._announcer.take()

    def committed(self) -> None:
        """Count a commit."""
        self._announcer.committed()

    def _about(self, record: Record) -> About:
        identity = record.workload.id
        return About(
            entity=identity,
            cause=self.causes.get(identity, ""),
            traceparent=record.traceparent,
        )


def public_decision(
    record: Record, partition: str, explanation: Explanation | None, now_ms: int
) -> Decision:
    """The public form of a workload's state."""
    workload = record.workload
    verdict, reason, message = _words(record, explanation)
    state = record.state
    admitted = state if isinstance(state, Admitted) else None
    return Decision(
        id=workload.id,
        namespace=workload.namespace,
        name=workload.name,
        decision=verdict,
        reason=reason,
        message=message,
        queue=workload.queue.name,
        cluster_queue=record.cluster_queue,
        partition=partition,
        attempt=state.attempt,
        at_ms=now_ms,
        priority=workload.priority,
        flavors={} if admitted is None else flavors_of(admitted),
        assignments=() if admitted is None else seats_of(admitted),
        topology={} if admitted is None else admitted.placement.topology,
        outcome=state.outcome if isinstance(state, Finished) else None,
        explanation=explanation,
        preemptor=state.preemptor if isinstance(state, Evicting) else "",
        lease_until_ms=None if admitted is None else admitted.lease_until_ms,
        checks=asked_checks(state),
    )


def asked_checks(state: WorkloadState) -> tuple[CheckStatus, ...]:
    """The checks that were asked last; none where it holds nothing."""
    match state:
        case Reserved(checks=checks):
            return checks
        case Admitted() as held:
            return held.asked_checks
        case _:
            return ()


def flavors_of(state: Reserved | Admitted) -> dict[str, str]:
    """Flavor by resource over all pod sets."""
    flavors: dict[str, str] = {}
    for pod_set in state.admission.pod_sets:
        flavors.update(pod_set.flavors)
    return flavors


def seats_of(state: Admitted) -> tuple[Seat, ...]:
    """Who sits where, in rank order."""
    return tuple(
        Seat(
            rank=pod.rank,
            pod_set=pod.pod_set,
            node=pod.node,
            devices=pod.devices,
            instances=pod.instances,
        )
        for pod in state.placement.pods
    )


def _words(  # noqa: PLR0911 - one line a state
    record: Record, explanation: Explanation | None
) -> tuple[Verdict, str, str]:
    match record.state:
        case Pending(attempt=attempt, explanation=stored):
            why = explanation or stored
            return (Verdict.REQUEUED if attempt else Verdict.QUEUED), why.reason, why.message
        case Reserved(checks=checks) if not all_ready(checks):
            return Verdict.QUEUED, UnadmittedReason.UNSATISFIED_ADMISSION_CHECKS, unready(checks)
        case Reserved():
            return Verdict.QUEUED, "QuotaReserved", "quota is held; placement looks for seats"
        case Admitted() as state:
            return Verdict.ADMITTED, "Admitted", _running(record.workload, state, explanation)
        case Evicting(reason=EvictionReason.PREEMPTED, message=message):
            return Verdict.PREEMPTED, EvictionReason.PREEMPTED, message
        case Evicting(reason=reason, message=message):
            return Verdict.EVICTED, reason, message
        case Finished(outcome=Outcome.REFUSED, message=message, explanation=why):
            return Verdict.REFUSED, why.reason if why else Outcome.REFUSED, message
        case Finished(outcome=outcome, message=message):
            return Verdict.FINISHED, outcome, message


def _running(workload: Workload, state: Admitted, explanation: Explanation | None) -> str:
    """Where it runs, and with how many of its pods if these are not all."""
    where = f"on {_nodes(state.placement.nodes)}"
    lacking = lacks(workload, state)
    if not lacking:
        return where if explanation is None else f"{where}; {explanation.message}"
    why = explanation or growth_of(state)
    return f"{where}; {lacking}{f': {why.message}' if why is not None else ''}"


def lacks(workload: Workload, state: Admitted) -> str:
    """With how many of the pods that it is to have a workload runs; empty where with all."""
    counts = state.placement.counts
    parts = [
        f"{counts.get(pod_set.name, 0)} of {pod_set.count} {pod_set.name}"
        for pod_set in workload.pod_sets
        if counts.get(pod_set.name, 0) != pod_set.count
    ]
    if not parts or state.resize is None:
        return ""
    step = "is being resized"
    if isinstance(state.resize, Growing) or not all_ready(state.asked_checks):
        step = "waits for more"
    return f"runs with {', '.join(parts)} pods and {step}"


def growth_of(state: Admitted) -> Explanation | None:
    """Why it has no more pods yet: placement had no seats, or checks have not agreed."""
    if isinstance(state.resize, Growing):
        return state.resize.explanation
    if all_ready(state.asked_checks):
        return None
    reason = UnadmittedReason.UNSATISFIED_ADMISSION_CHECKS
    return Explanation(reason=reason, message=unready(state.asked_checks))


def _nodes(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:8])
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"  # noqa: PLR2004 - a line


def unready(checks: tuple[CheckStatus, ...]) -> str:
    """Which checks have not agreed."""
    waits = ", ".join(check.name for check in checks if check.state is not CheckState.READY)
    return f"quota is held; waits for the admission checks {waits}"


def is_external(workload: Workload) -> bool:
    """Whether the submitter runs the job itself."""
    return workload.execution.kind == "external"
