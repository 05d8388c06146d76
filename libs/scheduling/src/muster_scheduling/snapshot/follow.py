"""Keeping a view in step with what becomes of workloads.

Whoever follows the states of workloads (their owner, and those who read its events) makes the same
steps, so that all of them decide on the same view.
"""

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
from muster_scheduling.snapshot.view import AdmissionView
from muster_scheduling.snapshot.workloads import hold, prepare, prepare_slice


def follow(
    view: AdmissionView,
    workload: Workload,
    before: WorkloadState | None,
    after: WorkloadState,
    now_ms: int,
) -> None:
    """Take a workload from one state to the next; `before` is None for one that is new."""
    match before, after:
        case ((Reserved() | Admitted()), Admitted()):
            view.mark_admitted(workload.id)
            view.mark_saved(workload.id, after.unsaved_since_ms)
            if after.admission != before.admission:
                view.resize(workload.id, after.admission)
            _follow_growth(view, workload, after, now_ms)
        case ((Reserved() | Admitted()), Evicting()):
            view.remove_pending(workload.id)
            view.mark_evicting(workload.id)
        case (Reserved(), Reserved()) | (Evicting(), Evicting()):
            pass
        case _:
            _leave(view, workload, before)
            _enter(view, workload, after, now_ms)


def _follow_growth(view: AdmissionView, workload: Workload, state: Admitted, now_ms: int) -> None:
    """Let a workload that runs stand in line for more pods, or not any more."""
    growing = state.resize
    known = view.pending(workload.id)
    if not isinstance(growing, Growing):
        if known is not None:
            view.remove_pending(workload.id)
        return
    asked = prepare_slice(
        workload,
        state.pods,
        view.policy,
        queued_at_ms=growing.queued_at_ms,
        attempt=state.attempt,
        reclaimable=state.reclaimable,
    )
    asked.requeue_at_ms = growing.requeue_at_ms
    if known is None or (known.shape, known.order) != (asked.shape, asked.order):
        view.remove_pending(workload.id)
        view.add_pending(asked, now_ms)
    elif known.requeue_at_ms != growing.requeue_at_ms:
        known.requeue_at_ms = growing.requeue_at_ms
        view.retry(workload.id)


def _leave(view: AdmissionView, workload: Workload, before: WorkloadState | None) -> None:
    match before:
        case Pending():
            view.remove_pending(workload.id)
        case Reserved() | Admitted() | Evicting():
            view.remove_pending(workload.id)
            view.release(workload.id)
        case Finished() | None:
            pass


def _enter(view: AdmissionView, workload: Workload, after: WorkloadState, now_ms: int) -> None:
    match after:
        case Pending(active=False):
            pass
        case Pending():
            waiting = prepare(workload, view.policy, queued_at_ms=after.queued_at_ms)
            waiting.requeue_at_ms = after.requeue_at_ms
            waiting.attempt = after.attempt
            waiting.avoided = frozenset(after.avoided_flavors)
            view.add_pending(waiting, now_ms)
        case Reserved() | Admitted() | Evicting():
            evicting = isinstance(after, Evicting)
            granted = {pod_set.name: pod_set.count for pod_set in after.admission.pod_sets}
            view.charge(
                hold(
                    workload.scaled(granted),
                    after.admission,
                    view.policy,
                    reserved_at_ms=after.since_ms if evicting else after.reserved_at_ms,
                    attempt=after.attempt,
                    queued_at_ms=after.queued_at_ms,
                    evicting=evicting,
                    admitted=isinstance(after, Admitted),
                    unsaved_since_ms=after.unsaved_since_ms
                    if isinstance(after, Admitted)
                    else None,
                )
            )
            if isinstance(after, Admitted):
                _follow_growth(view, workload, after, now_ms)
        case Finished():
            pass
