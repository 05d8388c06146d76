"""What each fact of the log does to the floor. Idempotent by (workload id, attempt) and pod uid."""

from collections.abc import Callable
from dataclasses import replace

from muster_contracts import events
from muster_domain.checks import all_ready
from muster_domain.nodes import NodeCondition, PodAssignment
from muster_placement.floor import Floor, SeatRequest
from muster_placement.pods import Heard, lose, pod_became, start, stop, tell_to_stop
from muster_placement.record import GangPhase, NodeEntry, SeatedGang, seat_of, uid_of
from muster_scheduling.jobs.life import PodPhase
from muster_scheduling.placement.failures import gangs_on_lost_devices


def quota_reserved(
    floor: Floor,
    fact: events.QuotaReserved | events.ChecksPassed,
    partition: str,
    traceparent: str,
) -> None:
    """Admission holds quota for it: it needs seats, once its admission checks agree."""
    if not all_ready(fact.state.checks):
        return
    seated = floor.gangs.get(fact.workload.id)
    if seated is not None and seated.attempt >= fact.state.attempt:
        return
    if fact.state.attempt <= floor.last_gone(fact.workload.id):
        return
    floor.ask(
        SeatRequest(
            workload=fact.workload,
            partition=partition,
            attempt=fact.state.attempt,
            admission=fact.state.admission,
            traceparent=traceparent,
        )
    )


def workload_admitted(floor: Floor, workload_id: str, attempt: int, now_ms: int) -> None:
    """The seats are confirmed: the pods may run."""
    seated = _of_attempt(floor, workload_id, attempt)
    if seated is not None and seated.phase is GangPhase.BOUND:
        start(floor, seated, now_ms)


def workload_evicted(
    floor: Floor, fact: events.WorkloadEvicted, namespace: str, partition: str, now_ms: int
) -> None:
    """Admission wants everything back. What was never seated is gone already."""
    request = floor.requests.get(fact.workload_id)
    if request is not None and request.attempt == fact.state.attempt:
        floor.answered(fact.workload_id)
    seated = _of_attempt(floor, fact.workload_id, fact.state.attempt)
    if seated is None:
        floor.remember_gone(fact.workload_id, fact.state.attempt, now_ms)
        gone = events.GangReleased(workload_id=fact.workload_id, attempt=fact.state.attempt)
        floor.announcer.about_id(fact.workload_id, namespace, partition, gone, now_ms)
    elif seated.phase is not GangPhase.STOPPING:
        stop(floor, seated, GangPhase.STOPPING, now_ms)


def workload_finished(floor: Floor, fact: events.WorkloadFinished, now_ms: int) -> None:
    """It has ended for admission; nothing of it may keep a seat, or have one kept for it."""
    floor.drop_claim(fact.workload_id)
    floor.answered(fact.workload_id)
    seated = _of_attempt(floor, fact.workload_id, fact.state.attempt)
    if seated is not None and seated.phase is not GangPhase.STOPPING:
        stop(floor, seated, GangPhase.STOPPING, now_ms)


def node_registered(floor: Floor, fact: events.NodeRegistered, now_ms: int) -> None:
    """A node reported its inventory; that is also a sign of life."""
    before = floor.nodes.get(fact.node.name)
    drained = before.drained if before is not None else False
    condition = NodeCondition.CORDONED if drained else NodeCondition.READY
    entry = NodeEntry(
        node=fact.node, condition=condition, drained=drained, incarnation=fact.incarnation
    )
    floor.heard(fact.node.name, now_ms)
    if before == entry:
        return
    floor.put_node(entry)
    if before is None or before.condition is not condition:
        floor.announcer.node_condition(fact.node.name, condition, now_ms)
    for lost in gangs_on_lost_devices(floor.table, fact.node.name):
        seated = floor.gangs[lost.workload]
        lose(floor, seated, fact.node.name, f"a device of {fact.node.name} failed", now_ms)
    floor.capacity_grew()


def pod_started(floor: Floor, fact: events.PodStarted, now_ms: int) -> None:
    """A pod's process runs, for the first time or again. Idempotent by (pod uid, times)."""
    seated = _of_attempt(floor, fact.workload_id, fact.attempt)
    if seated is not None and _is_news(seated, fact.pod_uid, 2 * fact.times - 1):
        heard = {**seated.heard, fact.pod_uid: 2 * fact.times - 1}
        started = Heard(uid=fact.pod_uid, phase=PodPhase.STARTED)
        pod_became(floor, replace(seated, heard=heard), started, now_ms)


def pod_restarting(floor: Floor, fact: events.PodRestarting, now_ms: int) -> None:
    """A container of a pod that ran is to start again. Idempotent by (pod uid, times)."""
    seated = _of_attempt(floor, fact.workload_id, fact.attempt)
    if seated is not None and _is_news(seated, fact.pod_uid, 2 * fact.times):
        heard = {**seated.heard, fact.pod_uid: 2 * fact.times}
        again = Heard(uid=fact.pod_uid, phase=PodPhase.ASSIGNED)
        pod_became(floor, replace(seated, heard=heard), again, now_ms)


def pod_finished(floor: Floor, fact: events.PodFinished, now_ms: int) -> None:
    """A pod's process is gone. Says nothing about a pod that was replaced."""
    seated = _of_attempt(floor, fact.workload_id, fact.attempt)
    if seated is None or fact.pod_uid not in seated.pods:
        return
    seat = seat_of(seated, fact.pod_uid)
    if fact.stopped or (seat is not None and seat.rank in seated.leaving):
        gone = Heard(uid=fact.pod_uid, phase=PodPhase.GONE, message=fact.message)
        pod_became(floor, seated, gone, now_ms)
        remaining = floor.gangs.get(fact.workload_id)
        asked = seat is not None and seat.rank in (*seated.renewing, *seated.leaving)
        if remaining is not None and remaining.phase is GangPhase.RUNNING and not asked:
            lose(floor, remaining, fact.node, f"node {fact.node} stopped the pod", now_ms)
        return
    phase = PodPhase.SUCCEEDED if fact.exit_code == 0 else PodPhase.FAILED
    message = fact.message or f"pod {fact.pod_uid} on {fact.node} ended with {fact.exit_code}"
    ended = Heard(uid=fact.pod_uid, phase=phase, message=message, exit_code=fact.exit_code)
    pod_became(floor, seated, ended, now_ms)


def drain_requested(floor: Floor, fact: events.DrainRequested, now_ms: int) -> None:
    """A person wants the node empty, or used again."""
    entry = floor.nodes.get(fact.node)
    if entry is None or entry.drained == fact.drained:
        return
    if entry.condition is NodeCondition.FENCED:
        floor.put_node(replace(entry, drained=fact.drained))
        return
    condition = NodeCondition.CORDONED if fact.drained else NodeCondition.READY
    floor.put_node(replace(entry, drained=fact.drained, condition=condition))
    floor.announcer.node_condition(fact.node, condition, now_ms)
    if not fact.drained:
        floor.capacity_grew()
        return
    by = f" by {fact.by}" if fact.by else ""
    for workload_id in _gangs_at_work(floor, fact.node):
        lose(floor, floor.gangs[workload_id], fact.node, f"{fact.node} is drained{by}", now_ms)


def fence(floor: Floor, name: str, now_ms: int, replaced: Callable[[SeatedGang], bool]) -> None:
    """A node was silent past its lease: its pods are gone by themselves.

    Its gangs are lost, save those that could be `replaced` and those whose pods there are done.
    """
    floor.set_condition(name, NodeCondition.FENCED, now_ms)
    for workload_id in floor.table.gangs_on(name):
        seated = floor.gangs[workload_id]
        for seat in seated.gang.placement.pods:
            if seat.node == name and seat.rank in seated.leaving:
                _pod_gone(floor, workload_id, seat, now_ms)
    for workload_id in _gangs_at_work(floor, name):
        seated = floor.gangs[workload_id]
        if replaced(seated):
            continue
        lose(floor, seated, name, f"node {name} was silent and is fenced", now_ms)
        for seat in seated.gang.placement.pods:
            if seat.node == name:
                _pod_gone(floor, workload_id, seat, now_ms)


def _gangs_at_work(floor: Floor, node: str) -> list[str]:
    """Gangs that need a node still: not all that they had to do there has succeeded."""
    return [
        workload_id
        for workload_id in floor.table.gangs_on(node)
        if not _is_done_there(floor.gangs[workload_id], node)
    ]


def _is_done_there(seated: SeatedGang, node: str) -> bool:
    there = (seat for seat in seated.gang.placement.pods if seat.node == node)
    return all(
        seat.rank in seated.leaving or seated.pods.get(uid_of(seated, seat)) is PodPhase.SUCCEEDED
        for seat in there
    )


def _pod_gone(floor: Floor, workload_id: str, seat: PodAssignment, now_ms: int) -> None:
    """Count a pod as gone, and tell its agent so, should that come back and not know."""
    seated = floor.gangs.get(workload_id)
    if seated is None:
        return
    uid = uid_of(seated, seat)
    if uid in seated.pods and not seated.pods[uid].over:
        tell_to_stop(floor, seated, seat, now_ms)
        pod_became(floor, seated, Heard(uid=uid, phase=PodPhase.GONE), now_ms)


def _is_news(seated: SeatedGang, uid: str, rank: int) -> bool:
    return uid in seated.pods and rank > seated.heard.get(uid, 0)


def _of_attempt(floor: Floor, workload_id: str, attempt: int) -> SeatedGang | None:
    seated = floor.gangs.get(workload_id)
    return seated if seated is not None and seated.attempt == attempt else None
