"""Why a workload waits, with the numbers behind it."""

from collections.abc import Iterable, Iterator, Mapping

from muster_domain.conditions import Explanation, FlavorVerdict, PendingReason
from muster_domain.quantity import format_quantity
from muster_domain.queues import MigrationMode
from muster_scheduling.admission.assignment import Attempt, PodSetAssignment, ResourceVerdict
from muster_scheduling.admission.cycle import Entry, Verdict
from muster_scheduling.admission.modes import Suit
from muster_scheduling.quota.tree import is_unlimited
from muster_scheduling.snapshot.purse import refusal_text
from muster_scheduling.snapshot.volcano import volcano_queue_name

_RESERVED = Explanation(reason="QuotaReserved", message="Quota is reserved")

_SAID = {
    Verdict.WRONG_NAMESPACE: "workload namespace doesn't match ClusterQueue selector",
    Verdict.STOPPED: "LocalQueue is stopped",
    Verdict.OVERLAPPING: "Workload has overlapping preemption targets with another workload",
    Verdict.NO_LONGER_FITS: "Workload no longer fits after processing another workload",
    Verdict.DEFERRED: "Fits once the preemptions issued for another workload complete",
    Verdict.GATED: "Workload requires preemption, but it's gated",
    Verdict.SURPASSED: "A more favorable variant is already admitted",
    Verdict.MIGRATING: "Pending the migration of 1 workload(s)",
}

_SUIT_REASON = {
    Suit.FIT: "Fit",
    Suit.RECLAIM: "Reclaim",
    Suit.PREEMPT: "Preempt",
    Suit.NO_CANDIDATES: "NoPreemptionCandidates",
}


class Explanations(Mapping[str, Explanation]):
    """Why each workload waits that was looked at; worked out when somebody asks."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._said: dict[str, Explanation] = {}

    def __getitem__(self, workload_id: str) -> Explanation:
        said = self._said.get(workload_id)
        if said is None:
            said = self._said[workload_id] = explain_entry(self._entries[workload_id])
        return said

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, entry: Entry) -> None:
        """A cycle has decided about a workload; its last verdict counts."""
        self._entries[entry.workload.id] = entry


def explain_entry(entry: Entry) -> Explanation:
    """The verdict of one cycle on one workload."""
    if entry.verdict is Verdict.RESERVED:
        return _RESERVED
    pod_sets = entry.assignment.pod_sets
    return Explanation(
        reason=entry.reason,
        message=_message(entry),
        flavors=tuple(v for pod_set in pod_sets for v in _flavor_verdicts(pod_set)),
        preemption=_preemption(entry),
        remedy=_remedy(entry),
        blocked_by=(entry.blocked_by,) if entry.blocked_by else (),
        counts={"victims": len(entry.victims)} if entry.victims else {},
        budgets=entry.refusals,
    )


def attempt_texts(attempts: Iterable[Attempt]) -> list[str]:
    """One line for every obstacle that was met, in order."""
    texts: list[str] = []
    for attempt in attempts:
        if attempt.obstacle:
            texts.append(attempt.obstacle)
        texts += [
            text for verdict in attempt.verdicts if (text := _verdict_text(verdict, attempt.flavor))
        ]
    return texts


def _message(entry: Entry) -> str:
    if entry.refusals:
        return "; ".join(refusal_text(verdict) for verdict in entry.refusals)
    if entry.verdict is Verdict.STAYS:
        return _stays(entry)
    said = _SAID.get(entry.verdict)
    if said is not None:
        return said
    if entry.verdict is Verdict.INADMISSIBLE:
        return _inadmissible(entry)
    volcano = volcano_queue_name(entry.queue.name)
    text = "; ".join(
        dict.fromkeys(_ceiling_texts(entry, volcano))
        if volcano
        else (_pod_set_text(p) for p in entry.assignment.pod_sets if _has_text(p))
    )
    if entry.verdict is not Verdict.PREEMPTING:
        return text
    pending = f"Pending the preemption of {len(entry.victims)} workload(s)"
    waits = pending if entry.victims else "Waiting for victims to be chosen"
    return f"{text}. {waits}" if text else waits


def _inadmissible(entry: Entry) -> str:
    if entry.workload.failed_checks:
        return "an admission check has sent it back or rejected it"
    return entry.workload.inadmissible or f"ClusterQueue {entry.queue.name} is inactive"


def _stays(entry: Entry) -> str:
    rule = entry.queue.queue.concurrent_admission
    if rule.mode is MigrationMode.RETAIN_FIRST_ADMISSION:
        return f"ClusterQueue {entry.queue.name} retains the first admission"
    return f"Target flavor is below LastAcceptableFlavorName {rule.last_acceptable_flavor}"


def _has_text(pod_set: PodSetAssignment) -> bool:
    return bool(pod_set.problem or attempt_texts(pod_set.attempts))


def _pod_set_text(pod_set: PodSetAssignment) -> str:
    texts = attempt_texts(pod_set.attempts)
    if pod_set.problem:
        texts.append(pod_set.problem)
    return f"couldn't assign flavors to pod set {pod_set.name}: {', '.join(texts)}"


def _ceiling_texts(entry: Entry, volcano: str) -> Iterator[str]:
    """What a Volcano queue, or one above it, has no room for: it has no other quota."""
    whose = "its capability and those above it" if entry.queue.queue.cohort else "its capability"
    for verdict, _ in _verdicts(entry):
        if verdict.suit is not Suit.FIT:
            yield (
                f"Volcano queue {volcano}: insufficient {verdict.resource} within {whose}, "
                f"{amount(verdict.requested)} asked, {amount(verdict.available)} of "
                f"{amount(verdict.maximum)} free"
            )


def _verdicts(entry: Entry) -> Iterator[tuple[ResourceVerdict, Attempt]]:
    for pod_set in entry.assignment.pod_sets:
        for attempt in pod_set.attempts:
            for verdict in attempt.verdicts:
                yield verdict, attempt


def _verdict_text(verdict: ResourceVerdict, flavor: str) -> str:
    if verdict.suit is Suit.FIT:
        return ""
    resource = verdict.resource
    if verdict.reason is PendingReason.EXCEEDS_MAX_QUOTA:
        own = verdict.requested - verdict.assumed
        return (
            f"insufficient quota for {resource} in flavor {flavor}, previously considered "
            f"podsets requests ({amount(verdict.assumed)}) + current podset request "
            f"({amount(own)}) > maximum capacity ({amount(verdict.maximum)})"
        )
    short = verdict.requested - verdict.available
    return (
        f"insufficient unused quota for {resource} in flavor {flavor}, {amount(short)} more needed"
    )


def _flavor_verdicts(pod_set: PodSetAssignment) -> list[FlavorVerdict]:
    found: list[FlavorVerdict] = []
    for attempt in pod_set.attempts:
        if attempt.obstacle:
            found += [
                FlavorVerdict(
                    pod_set=pod_set.name,
                    resource=resource,
                    flavor=attempt.flavor,
                    reason=f"{PendingReason.NO_MATCHING_FLAVOR}: {attempt.obstacle}",
                    requested_milli=requested,
                )
                for resource, requested in list(pod_set.requests.items())[:1]
            ]
        found += [
            FlavorVerdict(
                pod_set=pod_set.name,
                resource=verdict.resource,
                flavor=attempt.flavor,
                reason=verdict.reason or _SUIT_REASON[verdict.suit],
                requested_milli=verdict.requested,
                nominal_milli=verdict.nominal,
                used_milli=verdict.used,
                available_milli=verdict.available,
                max_milli=verdict.maximum,
                borrowing=verdict.borrow > 0,
            )
            for verdict in attempt.verdicts
        ]
    return found


def _preemption(entry: Entry) -> str:
    if volcano_queue_name(entry.queue.name):
        return ""
    policy = entry.queue.queue.preemption
    rules = (
        f"withinClusterQueue={policy.within_cluster_queue}, "
        f"reclaimWithinCohort={policy.reclaim_within_cohort}"
    )
    match entry.verdict:
        case Verdict.PREEMPTING if entry.victims:
            names = ", ".join(victim.workload.key for victim in entry.victims)
            return f"waiting for {names} to give way"
        case Verdict.NO_CANDIDATES:
            return f"none: no workload may be preempted for this one ({rules})"
        case Verdict.NO_FIT if entry.reason is PendingReason.WAITING_FOR_QUOTA:
            return f"not tried: it asks more than its own quota could give ({rules})"
        case _:
            return ""


def _remedy(entry: Entry) -> str:
    """The smallest lack among the flavors that could serve it."""
    volcano = volcano_queue_name(entry.queue.name)
    lacks: list[tuple[int, str]] = []
    for verdict, attempt in _verdicts(entry):
        short = verdict.requested - verdict.available
        if short <= 0:
            continue
        if verdict.reason is PendingReason.EXCEEDS_MAX_QUOTA:
            text = f"ask at most {amount(verdict.maximum)} {verdict.resource}"
        else:
            where = f"Volcano queue {volcano}" if volcano else attempt.flavor
            text = f"{amount(short)} more {verdict.resource} free in {where}"
            if verdict.available > verdict.assumed:
                less = verdict.available - verdict.assumed
                text += f", or ask {amount(less)} {verdict.resource}"
        lacks.append((short, text))
    return min(lacks)[1] if lacks else ""


def amount(milli: int) -> str:
    """A quantity for people."""
    return "unlimited" if is_unlimited(milli) else format_quantity(milli)
