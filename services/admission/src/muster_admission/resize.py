"""Workloads that run and are to have other numbers of pods: elastic jobs, and Volcano's gangs.

A workload is on its way to the pods that it declares, one step at a time: what is too much goes
first, what lacks waits in line as its next slice (R-110). Placement hears what size to bring the
gang to, by number; its answer to an older number ends no step. Quota is held for the larger size
until placement has said that the pods are gone. Idempotent by (workload id, attempt, number).
"""

from collections.abc import Mapping
from dataclasses import replace

from muster_admission.asking import checks_for, kept_answers
from muster_admission.book import Book
from muster_admission.lifecycle import retry_ms
from muster_admission.settings import NeverFits
from muster_contracts import events
from muster_contracts.stored import Record
from muster_domain.checks import CheckStatus, all_ready
from muster_domain.conditions import Explanation, PendingReason
from muster_domain.states import Admission, Admitted, Finished, Growing, Resizing
from muster_domain.workload import Workload
from muster_scheduling.admission import max_possible
from muster_scheduling.snapshot.workloads import prepare


def scale_requested(book: Book, fact: events.ScaleRequested, now_ms: int) -> None:
    """Somebody wants other numbers of pods; of several wishes the latest holds.

    What its queue could never give is not waited for, and said.
    """
    record = book.records.get(fact.workload_id)
    if record is None or isinstance(record.state, Finished) or not record.workload.is_scalable:
        return
    history = record.state.history
    if fact.at_ms <= history.scaled_at_ms:
        return
    state = replace(record.state, history=replace(history, scaled_at_ms=fact.at_ms))
    counts = {name: max(1, count) for name, count in fact.counts.items()}
    scaled = replace(record, workload=record.workload.scaled(counts))
    never = never_fits(book, scaled.workload)
    if never is not None:
        after = book.become(record, state, now_ms)
        book.announcer.decision(after, never, now_ms)
        return
    if isinstance(state, Admitted):
        state = next_step(scaled.workload, state, now_ms)
    say_resized(book, scaled, state, now_ms)


def never_fits(book: Book, workload: Workload) -> Explanation | None:
    """Why the workload's queue could never admit it; None where it could, or nobody is to ask."""
    if book.settings.never_fits is NeverFits.HOLD:
        return None
    return max_possible(book.view, prepare(workload, book.view.policy))


def give_back(book: Book, record: Record, ranks: tuple[int, ...], now_ms: int) -> None:
    """Let these pods of a Volcano gang go, which is worth running without them."""
    held = record.state
    if not isinstance(held, Admitted):
        return
    going = {*ranks, *_leaving(held)}
    counts = _counts_without(held, going)
    state = _told(held, counts, tuple(sorted(going)))
    say_resized(book, record, state, now_ms)


def can_do_without(record: Record, ranks: tuple[int, ...]) -> bool:
    """Whether these pods are surplus of its gang."""
    held = record.state
    if not isinstance(held, Admitted):
        return False
    left = _counts_without(held, {*ranks, *_leaving(held)})
    return all(left.get(pod_set.name, 0) >= pod_set.least for pod_set in record.workload.pod_sets)


def granted(book: Book, record: Record, admission: Admission, now_ms: int) -> None:
    """There is quota for more of its pods, as is seen already: placement is to seat them."""
    held = record.state
    if not isinstance(held, Admitted) or not isinstance(held.resize, Growing):
        raise AssertionError(f"{record.workload.key} was decided on while it asked for nothing")  # noqa: TRY004
    done = held.reclaimable
    counts = {p.name: p.count + done.get(p.name, 0) for p in admission.pod_sets}
    state = _told(replace(held, admission=admission), counts)
    checks = _checks_for_more(book, record, state, counts, now_ms)
    state = next_step(record.workload, _asking(state, checks, now_ms), now_ms)
    say_resized(book, record, state, now_ms, in_view=True)


def follow_queue(book: Book, record: Record, held: Admitted, step: Resizing, now_ms: int) -> None:
    """Ask about more pods what the queue wants to be asked now, while somebody has not agreed."""
    if all_ready(step.checks):
        return
    checks = _checks_for_more(book, record, held, step.counts, now_ms)
    checks = kept_answers(step.checks, checks)
    if checks != step.checks:
        say_resized(book, record, _asking(held, checks, now_ms), now_ms)


def _checks_for_more(
    book: Book, record: Record, held: Admitted, counts: Mapping[str, int], now_ms: int
) -> tuple[CheckStatus, ...]:
    seats = held.placement.counts
    more = {name: max(0, count - seats.get(name, 0)) for name, count in counts.items()}
    asked = checks_for(book, record, held.admission, more, now_ms)
    return tuple(replace(check, resize=held.resizes) for check in asked)


def checked(book: Book, record: Record, held: Admitted, now_ms: int) -> None:
    """A check of the pods that it is to have besides was answered: all agree, or not yet."""
    step = held.resize
    if isinstance(step, Resizing):
        say_resized(book, record, _asking(held, step.checks, now_ms), now_ms)


def send_back(
    book: Book, record: Record, held: Admitted, message: str, again_ms: int, now_ms: int
) -> None:
    """A check wants another try for more pods: their quota comes back, and it runs on as it is."""
    if _is_sought(held):
        withdraw(book, record, held, now_ms)
        return
    state = next_step(record.workload, _without_more(held), now_ms)
    if isinstance(state.resize, Growing):
        why = Explanation(reason=PendingReason.PENDING_EVALUATION, message=message)
        waits = replace(state.resize, requeue_at_ms=again_ms, explanation=why)
        state = replace(state, resize=waits)
    say_resized(book, record, state, now_ms)


def give_up(book: Book, record: Record, held: Admitted, message: str, now_ms: int) -> None:
    """A check rejects more pods: it is to have those that run, until somebody scales it again."""
    as_is = replace(record, workload=record.workload.scaled(held.placement.counts))
    state = next_step(as_is.workload, _without_more(held), now_ms)
    if _is_sought(held):
        state = _told(held, held.placement.counts)
    why = Explanation(reason=PendingReason.PENDING_EVALUATION, message=message)
    say_resized(book, as_is, state, now_ms, why=why)


def withdraw(book: Book, record: Record, held: Admitted, now_ms: int) -> None:
    """Placement is asked for more pods, and is to leave the gang as it is after all.

    Their quota stays charged until it has, because they may sit by now.
    """
    say_resized(book, record, _told(held, held.placement.counts), now_ms)


def seated(
    book: Book, workload: Workload, before: Admitted, fact: events.GangPlaced, now_ms: int
) -> Admitted:
    """What is held once placement has said who sits now, and the step that follows."""
    after = replace(before, placement=fact.placement)
    step = before.resize
    if not isinstance(step, Resizing) or fact.placement.resizes != before.resizes:
        return after
    counts = fact.placement.counts
    gone = {name: count - counts.get(name, 0) for name, count in before.placement.counts.items()}
    reclaimable = {
        name: max(0, done - max(0, gone.get(name, 0))) for name, done in before.reclaimable.items()
    }
    after = replace(
        after,
        admission=before.admission.without(reclaimable, counts),
        reclaimable=reclaimable,
        checks=step.checks or before.checks,
        resize=None,
    )
    if all(counts.get(name, 0) >= count for name, count in step.counts.items()):
        return next_step(workload, after, now_ms)
    return _unseated(book, workload, after, step.unseated_times, None, now_ms)


def unseated(
    book: Book, record: Record, held: Admitted, fact: events.GangUnplaceable, now_ms: int
) -> None:
    """There are no seats for more pods: their quota comes back, and it runs on as it is."""
    step = held.resize
    if not isinstance(step, Resizing) or fact.resize != held.resizes:
        return
    why = replace(fact.explanation, reason=PendingReason.TOPOLOGY_PLACEMENT_FAILED)
    after = _without_more(held)
    state = _unseated(book, record.workload, after, step.unseated_times, why, now_ms)
    say_resized(book, record, state, now_ms)


def begun(book: Book, workload: Workload, state: Admitted, now_ms: int) -> Admitted:
    """A workload that is seated for the first time: with less than it has quota for, perhaps."""
    counts = state.placement.counts
    lacks = any(p.count > counts.get(p.name, 0) for p in state.admission.pod_sets)
    if not lacks:
        return next_step(workload, state, now_ms)
    after = replace(state, admission=state.admission.without({}, counts))
    return _unseated(book, workload, after, 0, None, now_ms)


def look_again(book: Book, record: Record, now_ms: int) -> None:
    """Seats came free, or the back-off is over: whoever lacks pods may try for them at once."""
    state = record.state
    if isinstance(state, Admitted) and isinstance(state.resize, Growing):
        again = replace(state.resize, requeue_at_ms=None)
        book.become(record, replace(state, resize=again), now_ms)


def next_step(workload: Workload, state: Admitted, now_ms: int) -> Admitted:
    """The state with the step that it has to take now, if any."""
    wanted = {pod_set.name: pod_set.count for pod_set in workload.pod_sets}
    step = state.resize
    size = step.counts if isinstance(step, Resizing) else state.placement.counts
    target = {name: min(count, size.get(name, 0)) for name, count in wanted.items()}
    if any(target[name] < size.get(name, 0) for name in wanted):
        return _told(state, target, _leaving(state))
    if isinstance(step, Resizing):
        return state
    lacks = any(size.get(name, 0) < count for name, count in wanted.items())
    if not lacks or not (workload.is_scalable or workload.grows_by_itself):
        return state if step is None else replace(state, resize=None)
    return replace(state, resize=step or Growing(queued_at_ms=now_ms))


def say_resized(
    book: Book,
    record: Record,
    state: events.LiveState,
    now_ms: int,
    *,
    why: Explanation | None = None,
    in_view: bool = False,
) -> None:
    """Make it so, and say it to those who follow, and why if there is more to it."""
    after = book.become(record, state, now_ms, in_view=in_view)
    resized = events.WorkloadResized(
        workload=after.workload, version=book.announcer.version, state=state
    )
    book.announcer.event(after, resized, now_ms)
    book.announcer.decision(after, why, now_ms)


def _asking(state: Admitted, checks: tuple[CheckStatus, ...], now_ms: int) -> Admitted:
    """Seats for more pods are sought from now on, if all the checks agree."""
    if not isinstance(state.resize, Resizing):
        return state
    since_ms = now_ms if all_ready(checks) else None
    return replace(state, resize=replace(state.resize, checks=checks, since_ms=since_ms))


def _is_sought(state: Admitted) -> bool:
    """Whether placement may be seating more pods already."""
    return isinstance(state.resize, Resizing) and state.resize.since_ms is not None


def _without_more(state: Admitted) -> Admitted:
    """It holds quota for the pods that sit, and is on its way to no others."""
    left = state.admission.without(state.reclaimable, state.placement.counts)
    return replace(state, admission=left, resize=None)


def _unseated(
    book: Book,
    workload: Workload,
    state: Admitted,
    times: int,
    why: Explanation | None,
    now_ms: int,
) -> Admitted:
    """The state in which it waits for seats; longer each time in a row."""
    after = next_step(workload, state, now_ms)
    if not isinstance(after.resize, Growing):
        return after
    waits = replace(
        after.resize,
        requeue_at_ms=now_ms + retry_ms(book.settings, times + 1),
        unseated_times=times + 1,
        explanation=why,
    )
    return replace(after, resize=waits)


def _told(state: Admitted, counts: Mapping[str, int], leaving: tuple[int, ...] = ()) -> Admitted:
    before = state.resize
    step = Resizing(
        counts=counts,
        leaving=leaving,
        unseated_times=before.unseated_times if before is not None else 0,
    )
    seats = state.placement.counts
    if isinstance(before, Resizing) and any(n > seats.get(name, 0) for name, n in counts.items()):
        step = replace(step, checks=before.checks, since_ms=before.since_ms)
    return replace(state, resizes=state.resizes + 1, resize=step)


def _leaving(state: Admitted) -> tuple[int, ...]:
    return state.resize.leaving if isinstance(state.resize, Resizing) else ()


def _counts_without(state: Admitted, ranks: set[int]) -> dict[str, int]:
    """Pods by pod set without these ranks; never more than it is on its way to."""
    counts = dict.fromkeys(state.placement.counts, 0)
    for pod in state.placement.pods:
        counts[pod.pod_set] += pod.rank not in ranks
    if isinstance(state.resize, Resizing):
        return {name: min(n, state.resize.counts.get(name, 0)) for name, n in counts.items()}
    return counts
