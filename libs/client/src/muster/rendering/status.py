"""`muster status`: the whole house in a few lines, and what to look at next. Pure."""

from collections import Counter
from dataclasses import dataclass

from muster.rendering.head import Head
from muster_contracts.api import QuotaList, WhoAmI, WorkloadList

_QUEUES_NAMED = 5
_NAMESPACES_NAMED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What each owner said; in place of an answer, why there is none.

    `waiting` are those who wait, as far as a list holds them.
    """

    url: str
    who: WhoAmI
    floor: Head | str
    quota: QuotaList | str
    waiting: WorkloadList | str

    @property
    def silent(self) -> tuple[str, ...]:
        """Who did not answer: placement, or partitions of admission."""
        silent: list[str] = ["placement"] if isinstance(self.floor, str) else []
        for answer in (self.quota, self.waiting):
            silent += ["admission"] if isinstance(answer, str) else answer.silent
        return tuple(dict.fromkeys(silent))


def status_lines(status: Status) -> list[str]:
    """One line for each subject."""
    lines = [f"muster   {status.url} answers; you are {_who(status.who)}", _nodes(status.floor)]
    lines += _queues(status.quota)
    lines += _waiting(status.waiting)
    if status.silent:
        lines.append(f"silent   no answer from {', '.join(status.silent)}: this is not complete")
    lines.append(f"next     {_next(status)}")
    return lines


def _who(who: WhoAmI) -> str:
    named = ", ".join(who.namespaces[:_NAMESPACES_NAMED])
    left = len(who.namespaces) - _NAMESPACES_NAMED
    where = f"{named}{f' and {left} more' if left > 0 else ''}" or "every namespace"
    return f"{who.name} ({who.role}, {where})"


def _nodes(floor: Head | str) -> str:
    if isinstance(floor, str):
        return f"nodes    {floor}"
    if not floor.nodes:
        return "nodes    none has reported yet: an agent on a machine makes it one"
    away = [f"{count} {why}" for why, count in floor.away.items()]
    return f"nodes    {', '.join([str(floor.nodes), *away])}; {floor.free} GPUs free"


def _queues(quota: QuotaList | str) -> list[str]:
    if isinstance(quota, str):
        return [f"queues   {quota}"]
    rows = quota.page.queues
    if not rows:
        return ["queues   none is declared yet: muster apply -f queues.yaml"]
    pending, admitted = sum(row.pending for row in rows), sum(row.admitted for row in rows)
    lines = [f"queues   {len(rows)}; {admitted} admitted, {pending} pending"]
    closed = [f"{row.name} ({row.reason})" for row in rows if not row.active]
    if closed:
        more = len(closed) - _QUEUES_NAMED
        named = ", ".join(closed[:_QUEUES_NAMED])
        lines.append(f"inactive {named}{f' and {more} more' if more > 0 else ''}")
    return lines


def _waiting(found: WorkloadList | str) -> list[str]:
    if isinstance(found, str) or not found.page.rows:
        return []
    reasons = Counter(row.reason for row in found.page.rows)
    return [f"waiting  {_counted(reasons)}"]


def _counted(reasons: Counter[str]) -> str:
    ordered = sorted(reasons.items(), key=lambda c: (-c[1], c[0]))
    return ", ".join(f"{count} {reason}" for reason, count in ordered)


def _next(status: Status) -> str:
    if isinstance(status.waiting, str) or not status.waiting.page.rows:
        return "muster queue, muster quota, muster nodes --map"
    first = status.waiting.page.rows[0]
    return f"muster explain {first.namespace}/{first.name}, muster queue, muster nodes --map"
