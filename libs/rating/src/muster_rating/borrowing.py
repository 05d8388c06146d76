"""What queues held above their own quota, and from whom they had it.

Borrowed is not a property of a workload: it is the part of a queue's usage above its nominal quota
at each moment, found by a sweep over the moments at which anything changes. Of the members, those
that would be asked first to give back hold the borrowed part, or all in proportion to what they
hold, as the queue's terms say. Lenders share what is borrowed in a
tree in proportion to what each could lend and did not use.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from muster_domain.money import split
from muster_rating.catalogs import QueueQuota
from muster_rating.holdings import Holding
from muster_rating.policies import NO_POLICY, Attribution, PolicyVersion
from muster_rating.windows import Window

COHORT = "__cohort__"
"""Who lends what no queue's own unused quota explains: quota of the cohort itself."""


@dataclass(slots=True)
class Loans:
    """Milli-unit-milliseconds of one pair: borrowed by attempt, the rest by queue.

    `unused` is nominal quota that the queue itself did not use, what it lent included.
    """

    borrowed: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    lent: dict[str, int] = field(default_factory=dict[str, int])
    nominal: dict[str, int] = field(default_factory=dict[str, int])
    unused: dict[str, int] = field(default_factory=dict[str, int])


Steps = list[tuple[int, int]]
"""(from_ms, milli-units) in order of time: a quantity over time."""


def loans(
    holdings: Iterable[Holding],
    quotas: Mapping[str, QueueQuota],
    window: Window,
    version: PolicyVersion = NO_POLICY,
) -> Loans:
    """What was borrowed and lent of one pair in a window in which quotas do not change.

    A queue that stands alone, or that nobody declares, borrows nothing.
    """
    result = Loans()
    steps_by_tree: dict[str, dict[str, Steps]] = {}
    by_queue = _by_queue(holdings, window)
    for queue in sorted(quotas):
        quota = quotas[queue]
        debtors = _Debtors(
            version.terms_of(queue).attribution, result.borrowed if quota.tree else {}
        )
        steps = _sweep_queue(by_queue.get(queue, []), quota.nominal_milli, window, debtors)
        result.nominal[queue] = quota.nominal_milli * window.length_ms
        result.unused[queue] = _unused(steps, quota.nominal_milli, window)
        if quota.tree:
            steps_by_tree.setdefault(quota.tree, {})[queue] = steps
    for tree in sorted(steps_by_tree):
        _sweep_tree(steps_by_tree[tree], quotas, window, result.lent)
    return result


def _unused(steps: Steps, nominal_milli: int, window: Window) -> int:
    ends = [at_ms for at_ms, _ in steps[1:]] + [window.end_ms]
    return sum(
        max(0, nominal_milli - used) * (end_ms - at_ms)
        for (at_ms, used), end_ms in zip(steps, ends, strict=True)
    )


def _by_queue(holdings: Iterable[Holding], window: Window) -> dict[str, list[Holding]]:
    found: dict[str, list[Holding]] = {}
    for holding in holdings:
        if holding.held(window):
            found.setdefault(holding.owner.cluster_queue, []).append(holding)
    return found


def _sweep_queue(
    holdings: Sequence[Holding],
    nominal_milli: int,
    window: Window,
    debtors: "_Debtors",
) -> Steps:
    turns: list[tuple[int, bool, Holding]] = []
    for holding in holdings:
        part = window.clip(holding.seated_ms or 0, holding.end_ms)
        turns += [(part.start_ms, True, holding), (part.end_ms, False, holding)]
    turns.sort(key=lambda turn: turn[0])
    steps: Steps = [(window.start_ms, 0)]
    used = 0
    running: list[Holding] = []
    at_ms = window.start_ms
    for until_ms, group in groupby(turns, key=lambda turn: turn[0]):
        debtors.attribute(running, used - nominal_milli, until_ms - at_ms)
        for _, begins, holding in group:
            used += holding.held_milli if begins else -holding.held_milli
            if begins:
                insort(running, holding, key=_yields_before)
            else:
                del running[bisect_left(running, holding.yields_before, key=_yields_before)]
        steps.append((until_ms, used))
        at_ms = until_ms
    return steps


def _yields_before(holding: Holding) -> tuple[int, int, str, int]:
    return holding.yields_before


@dataclass(frozen=True, slots=True)
class _Debtors:
    """Who of a queue's workloads holds what it borrows; adds up in `borrowed`."""

    attribution: Attribution
    borrowed: dict[tuple[str, int], int]

    def attribute(self, running: Sequence[Holding], above_milli: int, length_ms: int) -> None:
        """Put what is above nominal quota for some time down to those who hold something."""
        if length_ms <= 0 or above_milli <= 0:
            return
        match self.attribution:
            case Attribution.LIFO:
                parts = _first_served(running, above_milli)
            case Attribution.PRORATA:
                parts = split(above_milli, [holding.held_milli for holding in running])
        for holding, part in zip(running, parts, strict=False):
            key = holding.attempt.key
            self.borrowed[key] = self.borrowed.get(key, 0) + part * length_ms


def _first_served(running: Sequence[Holding], above_milli: int) -> Iterator[int]:
    """The part of each, in order, until nothing is left."""
    for holding in running:
        if above_milli <= 0:
            return
        part = min(above_milli, holding.held_milli)
        yield part
        above_milli -= part


def _sweep_tree(
    steps_by_queue: Mapping[str, Steps],
    quotas: Mapping[str, QueueQuota],
    window: Window,
    lent: dict[str, int],
) -> None:
    queues = sorted(steps_by_queue)
    turns = sorted(
        (at_ms, queue, used) for queue in queues for at_ms, used in steps_by_queue[queue]
    )
    above = dict.fromkeys(queues, 0)
    unused = {queue: _lendable(quotas[queue], 0) for queue in queues}
    at_ms = window.start_ms
    for until_ms, group in groupby(turns, key=lambda turn: turn[0]):
        _lend(above, unused, until_ms - at_ms, lent)
        for _, queue, used in group:
            above[queue] = max(0, used - quotas[queue].nominal_milli)
            unused[queue] = _lendable(quotas[queue], used)
        at_ms = until_ms


def _lendable(quota: QueueQuota, used_milli: int) -> int:
    unused = max(0, quota.nominal_milli - used_milli)
    limit = quota.lending_limit_milli
    return unused if limit is None else min(limit, unused)


def _lend(
    above: Mapping[str, int], unused: Mapping[str, int], length_ms: int, lent: dict[str, int]
) -> None:
    """Share what is borrowed at a moment, in whole milli-units, so that any cut of time adds up."""
    total = sum(above.values())
    if total == 0 or length_ms <= 0:
        return
    from_queues = min(total, sum(unused.values()))
    queues = [queue for queue in unused if unused[queue]]
    parts = split(from_queues, [unused[queue] for queue in queues])
    for queue, part in zip(queues, parts, strict=True):
        lent[queue] = lent.get(queue, 0) + part * length_ms
    if total > from_queues:
        lent[COHORT] = lent.get(COHORT, 0) + (total - from_queues) * length_ms
