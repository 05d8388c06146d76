"""`muster explain`: one verdict line, then every rule with its numbers, then what would help."""

from collections.abc import Iterable, Mapping

from muster.durations import short
from muster.rendering.fit import fit_lines
from muster.rendering.turns import turn_lines
from muster.rendering.words import asks, gpus_milli, is_gpu, short_id
from muster_contracts.fit import FitPage
from muster_contracts.queries import (
    Ahead,
    NodeRow,
    Phase,
    WaitEstimate,
    WorkloadDetail,
    WorkloadRow,
)
from muster_domain.conditions import FlavorVerdict, PendingReason
from muster_domain.quantity import format_quantity

_AHEAD_SHOWN = 5
_NOT_TRIED = f"{PendingReason.NO_MATCHING_FLAVOR}: "
_MINUTE_MS = 60_000
_NOT_KNOWN = "largest  not known: placement does not answer"
SEEKING = frozenset({Phase.PENDING, Phase.RESERVED})
"""Whoever is in one of these would like seats."""


def explain(
    detail: WorkloadDetail,
    now_ms: int,
    nodes: Iterable[NodeRow] = (),
    fit: FitPage | None = None,
) -> list[str]:
    """The lines of an explanation.

    `nodes` are those that it sits on, `fit` is where it would sit, as far as these are known.
    """
    row = detail.row
    lines = [_verdict(detail, now_ms), f"asks     {_asks(detail)}, priority {row.priority}"]
    if row.pods_now is not None:
        lines.append(f"pods     {row.message}")
    lines += [_flavor(verdict) for verdict in _distinct(detail.explanation.flavors)]
    if row.phase in SEEKING:
        lines += [_NOT_KNOWN] if fit is None else fit_lines(fit)
    if row.phase is Phase.PENDING:
        lines += _pending(detail)
        lines += turn_lines(detail.turns)
    else:
        lines += _placed(detail, {node.name: node for node in nodes})
    lines += _work(detail, now_ms)
    lines += _tries(detail, now_ms)
    if detail.explanation.message and not detail.explanation.flavors:
        lines.append(f"because  {detail.explanation.message}")
    return lines


def _verdict(detail: WorkloadDetail, now_ms: int) -> str:
    row = detail.row
    reason = detail.explanation.reason or row.reason
    parts = [f"{row.phase.upper()}  {reason}", _standing(row, now_ms)]
    text = "   ".join(part for part in parts if part)
    return f"{text}; {_estimate(detail.estimate)}" if detail.estimate is not None else text


def _standing(row: WorkloadRow, now_ms: int) -> str:
    if row.phase is Phase.PENDING:
        places = [
            f"{position + 1} in {name}"
            for position, name in (
                (row.position_in_local_queue, row.queue),
                (row.position_in_cluster_queue, row.cluster_queue),
            )
            if position is not None
        ]
        return f"position {', '.join(places)}" if places else ""
    if row.phase is Phase.FINISHED:
        return f"{row.outcome or ''}".strip()
    since = f" for {short(now_ms - row.admitted_at_ms)}" if row.admitted_at_ms is not None else ""
    return f"on {', '.join(row.nodes)}{since}" if row.nodes else since.strip()


def _estimate(estimate: WaitEstimate) -> str:
    low, high = estimate.low_ms // _MINUTE_MS, -(-estimate.high_ms // _MINUTE_MS)
    return f"estimate {low}-{high} min (history of {estimate.samples} admissions)"


def _asks(detail: WorkloadDetail) -> str:
    row = detail.row
    text = asks(row.requests_milli)
    if row.pods > 1 and len(detail.pods_by_set) <= 1:
        each = gpus_milli(row.requests_milli) // row.pods
        return f"{text} (gang of {row.pods}{f' x {format_quantity(each)}' if each else ''})"
    if len(detail.pods_by_set) > 1:
        sets = ", ".join(f"{name} {count}" for name, count in detail.pods_by_set.items())
        return f"{text} (gang of {row.pods}: {sets})"
    return text


def _distinct(verdicts: Iterable[FlavorVerdict]) -> list[FlavorVerdict]:
    """Verdicts without exact repetition; several pod sets often hear the same."""
    return list(dict.fromkeys(verdicts))


def _flavor(verdict: FlavorVerdict) -> str:
    head = f"flavor {verdict.flavor}   "
    if verdict.reason.startswith(_NOT_TRIED):
        return f"{head}not tried: {verdict.reason.removeprefix(_NOT_TRIED)}"
    nominal, used = verdict.nominal_milli, verdict.used_milli
    free = max(0, nominal - used)
    of = "" if is_gpu(verdict.resource) else f"{verdict.resource} "
    numbers = (format_quantity(nominal), format_quantity(used), format_quantity(free))
    parts = [f"{of}quota {numbers[0]} used {numbers[1]} free {numbers[2]}"]
    borrowable = max(0, verdict.available_milli - free)
    if borrowable:
        parts.append(f"may borrow {format_quantity(borrowable)} from cohort")
    if verdict.requested_milli > verdict.max_milli > 0:
        most = f"at most {format_quantity(verdict.max_milli)} ever"
        return (
            f"{head}{'; '.join(parts)} -> {most}, {format_quantity(verdict.requested_milli)} asked"
        )
    if verdict.short_by_milli:
        return f"{head}{'; '.join(parts)} -> short by {format_quantity(verdict.short_by_milli)}"
    return f"{head}{'; '.join(parts)} -> enough{' by borrowing' if verdict.borrowing else ''}"


def _pending(detail: WorkloadDetail) -> list[str]:
    explanation = detail.explanation
    lines: list[str] = []
    if detail.ahead_total:
        shown = [_ahead(ahead) for ahead in detail.ahead[:_AHEAD_SHOWN]]
        left = detail.ahead_total - len(shown)
        lines.append(f"ahead    {', '.join([*shown, f'{left} more'] if left > 0 else shown)}")
    if explanation.blocked_by:
        blockers = ", ".join(short_id(identity) for identity in explanation.blocked_by)
        lines.append(f"blocked  by {blockers}")
    if explanation.preemption:
        lines.append(f"preempt  {explanation.preemption}")
    if explanation.remedy:
        lines.append(f"would start if  {explanation.remedy}")
    return lines


def _work(detail: WorkloadDetail, now_ms: int) -> list[str]:
    """What an eviction costs it."""
    saved_ms, lost_ms = detail.checkpointed_at_ms, detail.lost_work_ms
    if lost_ms is not None:
        return [f"work     {short(lost_ms)} of each pod is lost with this eviction"]
    if detail.never_checkpoints:
        return ["work     cannot be saved: an eviction costs all of it"]
    if saved_ms is not None:
        ago = short(max(0, now_ms - saved_ms))
        return [f"work     saved {ago} ago: an eviction costs what came since"]
    return []


def _tries(detail: WorkloadDetail, now_ms: int) -> list[str]:
    """What others have to say to it, and what became of earlier attempts."""
    lines = [
        f"check    {check.name}: {check.state}{f', {check.message}' if check.message else ''}"
        for check in detail.checks
    ]
    if detail.requeue_at_ms is not None:
        pause = short(max(0, detail.requeue_at_ms - now_ms))
        tries = f", after {detail.requeue_count} tries" if detail.requeue_count else ""
        lines.append(f"back-off held back for {pause} more{tries}")
    for count in detail.evictions:
        cause = f" ({count.cause})" if count.cause else ""
        lines.append(f"evicted  {count.reason}{cause}, {count.count} times")
    return lines


def _ahead(ahead: Ahead) -> str:
    cards = gpus_milli(ahead.requests_milli)
    what = f"{format_quantity(cards)} GPUs" if cards else asks(ahead.requests_milli)
    about = ", ".join(part for part in (ahead.namespace, what, ahead.user) if part)
    return f"{short_id(ahead.id) or ahead.name} ({about})"


def _placed(detail: WorkloadDetail, nodes: Mapping[str, NodeRow]) -> list[str]:
    lines: list[str] = []
    if detail.flavors:
        chosen = ", ".join(f"{name} {flavor}" for name, flavor in sorted(detail.flavors.items()))
        lines.append(f"flavors  {chosen}")
    for seat in detail.seats:
        devices = "; ".join(
            f"{resource} {','.join(str(index) for index in indices)}"
            for resource, indices in sorted(seat.devices.items())
        )
        instances = ", ".join(
            f"{one.profile} at slice {one.start} of card {one.card}" for one in seat.instances
        )
        devices = "; ".join(part for part in (devices, instances) if part)
        place = f"{seat.node} {devices}".strip()
        inside = _inside(nodes.get(seat.node))
        lines.append(f"seat     {seat.pod_set} rank {seat.rank}: {place}{inside}")
    return lines


def _inside(node: NodeRow | None) -> str:
    """The domains that a node is in, by topology."""
    if node is None:
        return ""
    places = [f"{topology} {'/'.join(path)}" for topology, path in sorted(node.domains.items())]
    return f"  in {', '.join(places)}" if places else ""
