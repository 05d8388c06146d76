"""From the phases of a gang's pods to what becomes of the gang.

BOUND ──admitted──▶ RUNNING ──all succeeded──▶ finished
                       │ one failed ──▶ ENDING ──all over──▶ finished (failed)
                       │ one lost ──▶ admission evicts it, whatever its others do now
  any ──evicted──▶ STOPPING ──all over──▶ released
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from muster_contracts.commands import RunPod, StopPod
from muster_contracts.events import (
    GangAborted,
    GangFinished,
    GangLost,
    GangPlaced,
    GangReleased,
    GangStalled,
    GangStarted,
    PodsSucceeded,
    WorkloadFact,
)
from muster_contracts.pod_environment import node_address, pod_environment
from muster_domain.conditions import Outcome
from muster_domain.job_policies import JobEvent
from muster_domain.nodes import PodAssignment
from muster_domain.workload import PodSet
from muster_placement import jobs
from muster_placement.floor import Floor
from muster_placement.record import GangPhase, SeatedGang, seat_of, uid_of
from muster_scheduling.jobs.life import PodPhase
from muster_scheduling.placement.resize import without


def start(floor: Floor, seated: SeatedGang, now_ms: int) -> None:
    """Admission has confirmed: tell the agents to run the pods (an external job has none)."""
    if seated.workload.execution.kind == "external":
        floor.update(replace(seated, phase=GangPhase.RUNNING))
        return
    begin(floor, replace(seated, phase=GangPhase.RUNNING), seated.gang.placement.pods, now_ms)


def begin(floor: Floor, seated: SeatedGang, seats: Iterable[PodAssignment], now_ms: int) -> None:
    """Let the pods of these seats start, as soon as its policies let them where it has some."""
    policies, seats = seated.workload.job_policies, tuple(seats)
    phase = PodPhase.ASSIGNED if policies is None else PodPhase.HELD
    pods = {**seated.pods, **{uid_of(seated, seat): phase for seat in seats}}
    begun = replace(seated, pods=pods)
    if policies is not None:
        take(floor, jobs.settled(begun, policies, now_ms), now_ms)
        return
    floor.update(begun)
    run(floor, begun, seats, now_ms)


def run(floor: Floor, seated: SeatedGang, seats: Iterable[PodAssignment], now_ms: int) -> None:
    """Tell the agents of these seats to run their pods."""
    sets = {pod_set.name: pod_set for pod_set in seated.workload.pod_sets}
    addresses = {
        name: node_address(entry.node)
        for name in seated.gang.placement.nodes
        if (entry := floor.nodes.get(name)) is not None
    }
    for seat in seats:
        command = _run_command(seated, seat, sets[seat.pod_set], addresses)
        floor.announcer.pod(seat.node, command, seated.traceparent, now_ms)


def stop(floor: Floor, seated: SeatedGang, phase: GangPhase, now_ms: int) -> None:
    """Tell the agents to stop whatever of the gang still runs; what was held never will."""
    pods = {uid: PodPhase.GONE if was is PodPhase.HELD else was for uid, was in seated.pods.items()}
    seated = replace(seated, phase=phase, pods=pods, renewing=(), dues={}, counts={}, leaving=())
    floor.update(seated)
    for seat in seated.gang.placement.pods:
        uid = uid_of(seated, seat)
        if uid in seated.pods and not seated.pods[uid].over:
            tell_to_stop(floor, seated, seat, now_ms)
    settle(floor, floor.gangs[seated.workload.id], now_ms)


def tell_to_stop(floor: Floor, seated: SeatedGang, seat: PodAssignment, now_ms: int) -> None:
    """Tell the agent of one seat that its pod should not run, whether or not it does."""
    command = StopPod(
        pod_uid=uid_of(seated, seat),
        workload_id=seated.workload.id,
        attempt=seated.attempt,
        grace_ms=floor.settings.stop_grace_ms,
    )
    floor.announcer.pod(seat.node, command, seated.traceparent, now_ms)


def take(floor: Floor, step: jobs.Step, now_ms: int) -> None:
    """Do what a Volcano Job's policies lead to."""
    gang = step.gang
    if step.abort:
        floor.update(replace(gang, lost=True, dues={}))
        fact = GangAborted(workload_id=gang.workload.id, attempt=gang.attempt, message=step.abort)
        floor.announcer.gang(
            gang.workload, gang.partition, fact, now_ms, traceparent=gang.traceparent
        )
        return
    if step.end is not None:
        ending = replace(gang, outcome=step.end.outcome, message=step.end.message)
        stop(floor, ending, GangPhase.ENDING, now_ms)
        return
    floor.update(gang)
    for seat in step.stop:
        tell_to_stop(floor, gang, seat, now_ms)
    run(floor, gang, step.run, now_ms)
    starting = any(pod.phase is PodPhase.ASSIGNED for pod in jobs.pods_of(gang))
    if starting is gang.started:
        _settle_readiness(floor, gang, now_ms)
    _tell_succeeded(floor, floor.gangs[gang.workload.id], now_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What an agent said of a pod; `exit_code` where it ended by itself."""

    uid: str
    phase: PodPhase
    message: str = ""
    exit_code: int | None = None


def pod_became(floor: Floor, seated: SeatedGang, heard: Heard, now_ms: int) -> None:
    """Take in what is known about one pod; what is over stays over."""
    uid, phase = heard.uid, heard.phase
    before = seated.pods.get(uid)
    if before is None or before.over or before is phase:
        return
    after = replace(
        seated,
        pods={**seated.pods, uid: phase},
        message=heard.message
        if phase is PodPhase.FAILED and not seated.message
        else seated.message,
    )
    floor.update(after)
    after = give_back(floor, after, now_ms)
    step = None if after.phase is not GangPhase.RUNNING else _step(after, heard, now_ms)
    if step is None:
        settle(floor, after, now_ms)
    else:
        take(floor, step, now_ms)


def _step(seated: SeatedGang, heard: Heard, now_ms: int) -> jobs.Step | None:
    """What a Volcano Job's policies make of it; None where there are none to ask."""
    policies, seat = seated.workload.job_policies, seat_of(seated, heard.uid)
    if policies is None or seated.lost:
        return None
    if seat is None or seat.rank in seated.leaving or seat.rank in seated.renewing:
        return jobs.settled(seated, policies, now_ms)
    if heard.phase is not PodPhase.ASSIGNED:
        seated = jobs.no_longer_pending(seated, seat)
    match heard.phase:
        case PodPhase.FAILED:
            failed = JobEvent.POD_FAILED
            return jobs.pod_event(seated, policies, seat, failed, now_ms, heard.exit_code)
        case PodPhase.SUCCEEDED | PodPhase.ASSIGNED:
            return jobs.task_event(seated, policies, seat, now_ms)
        case PodPhase.STARTED:
            return jobs.settled(seated, policies, now_ms)
        case PodPhase.GONE | PodPhase.HELD:
            return None


def give_back(floor: Floor, seated: SeatedGang, now_ms: int) -> SeatedGang:
    """Free the seats of pods that were to leave a running gang, once all of them are gone."""
    gone = [seat for seat in seated.gang.placement.pods if seat.rank in seated.leaving]
    uids = {uid_of(seated, seat) for seat in gone}
    if not gone or not all(seated.pods[uid].over for uid in uids if uid in seated.pods):
        return seated
    ranks = frozenset(seat.rank for seat in gone)
    after = replace(
        seated,
        gang=without(floor.table, seated.gang, ranks),
        pods={uid: phase for uid, phase in seated.pods.items() if uid not in uids},
        heard={uid: rank for uid, rank in seated.heard.items() if uid not in uids},
        anew={rank: times for rank, times in seated.anew.items() if int(rank) not in ranks},
        dues=jobs.dues_without(seated, ranks),
        succeeded=0,
        leaving=(),
    )
    floor.refit(after)
    floor.capacity_grew()
    return after if after.lacks else answer(floor, after, now_ms)


def answer(floor: Floor, seated: SeatedGang, now_ms: int) -> SeatedGang:
    """Say who sits from now on, as the answer to admission's last word about its size."""
    placement = replace(seated.gang.placement, resizes=seated.resizes)
    after = replace(seated, gang=replace(seated.gang, placement=placement), counts={})
    floor.refit(after)
    fact = GangPlaced(
        workload_id=after.workload.id,
        attempt=after.attempt,
        placement=placement,
        message=f"has {len(placement.pods)} pods now",
    )
    floor.announcer.gang(
        after.workload, after.partition, fact, now_ms, traceparent=after.traceparent
    )
    return after


def follow_due(floor: Floor, now_ms: int) -> None:
    """Follow the policies of Volcano Jobs whose time has come."""
    for workload_id, at_ms in sorted(floor.dues.items()):
        seated = floor.gangs[workload_id]
        policies = seated.workload.job_policies
        if at_ms <= now_ms and policies is not None and not seated.lost:
            take(floor, jobs.time_came(seated, policies, now_ms), now_ms)


def lose(floor: Floor, seated: SeatedGang, node: str, message: str, now_ms: int) -> None:
    """A member cannot stay: admission is to evict the gang whole. Said once.

    A gang whose end is decided has nothing to lose, and a Volcano Job may want to end now.
    """
    if seated.lost or seated.phase in (GangPhase.ENDING, GangPhase.STOPPING):
        return
    step = jobs.lost(seated, node, message)
    if step is not None:
        take(floor, step, now_ms)
        return
    after = replace(seated, lost=True, dues={})
    floor.update(after)
    fact = GangLost(
        workload_id=seated.workload.id, attempt=seated.attempt, node=node, message=message
    )
    floor.announcer.gang(
        seated.workload, seated.partition, fact, now_ms, traceparent=seated.traceparent
    )


def settle(floor: Floor, seated: SeatedGang, now_ms: int) -> None:
    """Say what the phases of the pods amount to."""
    over = all(phase.over for phase in seated.pods.values())
    match seated.phase:
        case GangPhase.BOUND:
            pass
        case GangPhase.RUNNING:
            _settle_running(floor, seated, now_ms, over=over)
        case GangPhase.ENDING:
            if over:
                _finish(floor, seated, seated.outcome, now_ms)
        case GangPhase.STOPPING:
            if over:
                release(floor, seated, now_ms)
        case _:
            assert_never(seated.phase)


def release(floor: Floor, seated: SeatedGang, now_ms: int) -> None:
    """Free the seats and say that the gang is gone."""
    floor.free(seated, now_ms)
    fact = GangReleased(workload_id=seated.workload.id, attempt=seated.attempt)
    floor.announcer.gang(
        seated.workload, seated.partition, fact, now_ms, traceparent=seated.traceparent
    )


def _settle_running(floor: Floor, seated: SeatedGang, now_ms: int, *, over: bool) -> None:
    leaving = {uid_of(seated, s) for s in seated.gang.placement.pods if s.rank in seated.leaving}
    phases = [phase for uid, phase in seated.pods.items() if uid not in leaving]
    policies = seated.workload.job_policies
    if not seated.pods:
        return
    if policies is not None:
        if not seated.lost:
            take(floor, jobs.settled(seated, policies, now_ms), now_ms)
    elif PodPhase.FAILED in phases:
        if not seated.lost:
            stop(floor, seated, GangPhase.ENDING, now_ms)
    elif over and not leaving and PodPhase.GONE not in phases:
        _finish(floor, seated, Outcome.SUCCEEDED, now_ms)
    else:
        if (PodPhase.ASSIGNED not in phases) != seated.started:
            _settle_readiness(floor, seated, now_ms)
        _tell_succeeded(floor, floor.gangs[seated.workload.id], now_ms)


def _tell_succeeded(floor: Floor, seated: SeatedGang, now_ms: int) -> None:
    """Say how many pods of each set are done, whenever it is more than was said before."""
    counts = Counter(
        seat.pod_set
        for seat in seated.gang.placement.pods
        if seated.pods.get(uid_of(seated, seat)) is PodPhase.SUCCEEDED
        and seat.rank not in seated.leaving
    )
    if counts.total() <= seated.succeeded:
        return
    floor.update(replace(seated, succeeded=counts.total()))
    fact = PodsSucceeded(
        workload_id=seated.workload.id,
        attempt=seated.attempt,
        counts={name: counts[name] for name in sorted(counts)},
    )
    floor.announcer.gang(
        seated.workload, seated.partition, fact, now_ms, traceparent=seated.traceparent
    )


def _settle_readiness(floor: Floor, seated: SeatedGang, now_ms: int) -> None:
    """Say that all pods run, or that they did and do not any more."""
    workload_id, attempt = seated.workload.id, seated.attempt
    fact: WorkloadFact
    if seated.started:
        after = replace(seated, started=False, stalls=seated.stalls + 1)
        fact = GangStalled(workload_id=workload_id, attempt=attempt, times=after.stalls)
    else:
        after = replace(seated, started=True)
        fact = GangStarted(workload_id=workload_id, attempt=attempt, times=seated.stalls + 1)
    floor.update(after)
    floor.announcer.gang(
        seated.workload, seated.partition, fact, now_ms, traceparent=seated.traceparent
    )


def _finish(floor: Floor, seated: SeatedGang, outcome: Outcome, now_ms: int) -> None:
    floor.free(seated, now_ms)
    count = len(seated.pods)
    done = f"all {count} pods ended with exit code 0" if count > 1 else "ended with exit code 0"
    fact = GangFinished(
        workload_id=seated.workload.id,
        attempt=seated.attempt,
        outcome=outcome,
        message=seated.message if seated.phase is GangPhase.ENDING else done,
    )
    floor.announcer.gang(
        seated.workload, seated.partition, fact, now_ms, traceparent=seated.traceparent
    )


def _run_command(
    seated: SeatedGang, seat: PodAssignment, pod_set: PodSet, addresses: Mapping[str, str]
) -> RunPod:
    workload = seated.workload
    placement = seated.gang.placement
    return RunPod(
        pod_uid=uid_of(seated, seat),
        workload_id=workload.id,
        namespace=workload.namespace,
        workload_name=workload.name,
        attempt=seated.attempt,
        pod_set=seat.pod_set,
        index=seat.index,
        rank=seat.rank,
        containers=pod_set.containers,
        environment=pod_environment(workload, placement, seat, seated.attempt, addresses),
        devices=seat.devices,
        instances=seat.instances,
        restart_policy=pod_set.restart_policy,
        annotations={**workload.annotations, **pod_set.annotations},
    )
