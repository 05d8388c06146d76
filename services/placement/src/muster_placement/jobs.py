"""What a Volcano Job's policies make of what happens to its pods, as one step of its gang.

A step is data: the gang as it is afterwards, which pods to stop, which to run anew, or how the job
ends. Pods that are to run anew keep their seats; each starts once the one before it is over.
"""

from dataclasses import dataclass, replace

from muster_domain.conditions import Outcome
from muster_domain.job_policies import JobAction, JobEvent, JobPolicies
from muster_domain.nodes import PodAssignment
from muster_placement.record import GangPhase, SeatedGang, uid_of
from muster_scheduling.jobs import life
from muster_scheduling.jobs.life import End, Pod, PodPhase


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What follows. `stop` and `run` are seats; with an `end` or an `abort` nothing else counts."""

    gang: SeatedGang
    stop: tuple[PodAssignment, ...] = ()
    run: tuple[PodAssignment, ...] = ()
    end: End | None = None
    abort: str = ""


def pod_event(
    gang: SeatedGang,
    policies: JobPolicies,
    seat: PodAssignment,
    event: JobEvent,
    now_ms: int,
    exit_code: int | None = None,
) -> Step:
    """Follow the policy for an event of a pod, or of its task after it."""
    policy = life.policy_for(policies, seat.pod_set, event, exit_code)
    if policy is None:
        return settled(gang, policies, now_ms)
    if policy.timeout_ms and event is not JobEvent.POD_PENDING:
        dues = {**gang.dues, _key(seat, event, exit_code): now_ms + policy.timeout_ms}
        return settled(replace(gang, dues=dues), policies, now_ms)
    return _act(gang, policies, seat, policy.action, event, now_ms)


def task_event(gang: SeatedGang, policies: JobPolicies, seat: PodAssignment, now_ms: int) -> Step:
    """Follow the policy for the event that the pods of a seat's task amount to, if to any."""
    event = life.task_event(policies, pods_of(gang), seat.pod_set)
    if event is None:
        return settled(gang, policies, now_ms)
    return pod_event(gang, policies, seat, event, now_ms)


def time_came(gang: SeatedGang, policies: JobPolicies, now_ms: int) -> Step:
    """Follow the first policy whose time has come."""
    for key, at_ms in sorted(gang.dues.items(), key=lambda due: (due[1], due[0])):
        if at_ms > now_ms:
            break
        rank, event, exit_code = _parsed(key)
        gang = replace(gang, dues={other: at for other, at in gang.dues.items() if other != key})
        seat = _seats(gang)[rank]
        policy = life.policy_for(policies, seat.pod_set, event, exit_code)
        if policy is not None:
            return _act(gang, policies, seat, policy.action, event, now_ms)
    return settled(gang, policies, now_ms)


def settled(gang: SeatedGang, policies: JobPolicies, now_ms: int) -> Step:
    """Run anew what is over and was to, start what was held, or end the job."""
    seats = _seats(gang)
    renewed = tuple(seats[rank] for rank in gang.renewing if _phase(gang, seats[rank]).over)
    after = _renew(gang, policies, renewed, now_ms)
    members = pods_of(after)
    if not after.renewing and not renewed:
        end = life.end_of(policies, members)
        if end is not None:
            return Step(gang=after, end=end)
    started = tuple(seats[pod.rank] for pod in life.startable(policies, members))
    after = _assign(after, policies, started, now_ms)
    return Step(gang=after, run=(*renewed, *started))


def pods_of(gang: SeatedGang) -> tuple[Pod, ...]:
    """The members as the decisions about jobs see them, less those that are to leave."""
    return tuple(
        Pod(
            rank=seat.rank,
            task=seat.pod_set,
            index=seat.index,
            phase=_phase(gang, seat),
            restarts=gang.heard.get(uid_of(gang, seat), 0) // 2,
        )
        for seat in gang.gang.placement.pods
        if seat.rank not in gang.leaving
    )


def dues_without(gang: SeatedGang, ranks: frozenset[int]) -> dict[str, int]:
    """When delayed policies are due, less those of these ranks."""
    return {key: at_ms for key, at_ms in gang.dues.items() if _parsed(key)[0] not in ranks}


def _act(
    gang: SeatedGang,
    policies: JobPolicies,
    seat: PodAssignment,
    action: JobAction,
    event: JobEvent,
    now_ms: int,
) -> Step:
    cause = f"{event} of {seat.pod_set}-{seat.index}"
    cause = f"{cause} ({gang.message})" if gang.message else cause
    members = pods_of(gang)
    mine = next((pod for pod in members if pod.rank == seat.rank), None)
    chosen = () if mine is None else life.restarted(policies, action, mine, members)
    match action:
        case JobAction.TERMINATE_JOB:
            return Step(gang=gang, end=End(outcome=Outcome.FAILED, message=f"{action}: {cause}"))
        case JobAction.COMPLETE_JOB:
            message = f"{action}: {cause}"
            return Step(gang=gang, end=End(outcome=Outcome.SUCCEEDED, message=message))
        case JobAction.ABORT_JOB:
            return Step(gang=gang, abort=f"{action}: {cause}")
        case _ if chosen:
            end = life.retries_end(policies, gang.retries, cause)
            if end is not None:
                return Step(gang=gang, end=end)
            return _restart(gang, policies, chosen, now_ms)
        case _:
            return settled(gang, policies, now_ms)


def _restart(gang: SeatedGang, policies: JobPolicies, chosen: tuple[Pod, ...], now_ms: int) -> Step:
    seats = _seats(gang)
    ranks = {pod.rank for pod in chosen if pod.phase is not PodPhase.HELD}
    after = replace(
        gang,
        retries=gang.retries + 1,
        renewing=tuple(sorted({*gang.renewing, *ranks})),
        dues=dues_without(gang, frozenset(ranks)),
        message="",
    )
    stop = tuple(seats[pod.rank] for pod in chosen if pod.rank in ranks and not pod.phase.over)
    step = settled(after, policies, now_ms)
    return replace(step, stop=stop)


def _renew(
    gang: SeatedGang, policies: JobPolicies, seats: tuple[PodAssignment, ...], now_ms: int
) -> SeatedGang:
    if not seats:
        return gang
    old = {uid_of(gang, seat) for seat in seats}
    ranks = {seat.rank for seat in seats}
    after = replace(
        gang,
        pods={uid: phase for uid, phase in gang.pods.items() if uid not in old},
        heard={uid: rank for uid, rank in gang.heard.items() if uid not in old},
        renewing=tuple(rank for rank in gang.renewing if rank not in ranks),
        anew={**gang.anew, **{str(rank): gang.anew.get(str(rank), 0) + 1 for rank in ranks}},
    )
    return _assign(after, policies, seats, now_ms)


def _assign(
    gang: SeatedGang, policies: JobPolicies, seats: tuple[PodAssignment, ...], now_ms: int
) -> SeatedGang:
    """Count the pods of these seats as assigned, and watch those that may pend for too long."""
    dues = dict(gang.dues)
    for seat in seats:
        policy = life.policy_for(policies, seat.pod_set, JobEvent.POD_PENDING)
        if policy is not None and policy.timeout_ms:
            dues[_key(seat, JobEvent.POD_PENDING)] = now_ms + policy.timeout_ms
    assigned = {uid_of(gang, seat): PodPhase.ASSIGNED for seat in seats}
    return replace(gang, pods={**gang.pods, **assigned}, dues=dues)


def _seats(gang: SeatedGang) -> dict[int, PodAssignment]:
    return {seat.rank: seat for seat in gang.gang.placement.pods}


def _phase(gang: SeatedGang, seat: PodAssignment) -> PodPhase:
    return gang.pods[uid_of(gang, seat)]


def no_longer_pending(gang: SeatedGang, seat: PodAssignment) -> SeatedGang:
    """The gang whose pod in this seat runs: it does not pend any more."""
    key = _key(seat, JobEvent.POD_PENDING)
    if key not in gang.dues:
        return gang
    return replace(gang, dues={other: at for other, at in gang.dues.items() if other != key})


def _key(seat: PodAssignment, event: JobEvent, exit_code: int | None = None) -> str:
    return f"{seat.rank}:{event}:{'' if exit_code is None else exit_code}"


def _parsed(key: str) -> tuple[int, JobEvent, int | None]:
    rank, event, exit_code = key.split(":")
    return int(rank), JobEvent(event), int(exit_code) if exit_code else None


def lost(gang: SeatedGang, node: str, message: str) -> Step | None:
    """How a running job ends that loses seats, where it says that it should (PodEvicted).

    Without such a policy it is None: the gang waits again as a whole, which is no retry.
    """
    policies = gang.workload.job_policies
    if policies is None or gang.phase is not GangPhase.RUNNING:
        return None
    tasks = (seat.pod_set for seat in gang.gang.placement.pods if seat.node == node)
    action = life.after_eviction(policies, tasks)
    told = f"{action}: {message}"
    match action:
        case JobAction.TERMINATE_JOB:
            return Step(gang=gang, end=End(outcome=Outcome.FAILED, message=told))
        case JobAction.COMPLETE_JOB:
            return Step(gang=gang, end=End(outcome=Outcome.SUCCEEDED, message=told))
        case JobAction.ABORT_JOB:
            return Step(gang=gang, abort=told)
        case _:
            return None
