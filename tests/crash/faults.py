"""What is done to the house while jobs flow. Each fault returns once everything is well again."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import httpx

from muster_contracts.partitions import PARTITIONS, partition_of
from muster_contracts.subjects import Service
from muster_stack.stack import Stack
from muster_testing.waiting import wait_until

from . import house

RECOVERY_S = 120.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong, and the way back."""

    name: str
    strike: Callable[[Stack, Say], None]


def kill_service(service: Service) -> Fault:
    """SIGKILL all replicas of a service at once; the supervisor starts them again."""

    def strike(stack: Stack, _say: Say) -> None:
        before = {name: stack.process(name).starts for name in stack.names(service)}
        for name in before:
            stack.kill(name)
        for name, starts in before.items():
            wait_until(
                lambda name=name, starts=starts: stack.process(name).starts > starts,
                RECOVERY_S,
                lambda name=name: f"{name} is not started again",
            )
            stack.wait_ready(name, RECOVERY_S)

    return Fault(f"every {service} is killed", strike)


def _kill_owner(stack: Stack, _say: Say) -> None:
    """SIGKILL the replica that decides for the cohort; it, or the other, decides again."""
    owner, _ = _owner_and_other(stack)
    starts = stack.process(owner).starts
    stack.kill(owner)
    wait_until(
        lambda: stack.process(owner).starts > starts,
        RECOVERY_S,
        lambda: f"{owner} is not started again",
    )
    _owner_and_other(stack)
    stack.wait_all_ready(RECOVERY_S)


def _kill_nats(stack: Stack, _say: Say) -> None:
    stack.kill_nats()
    _wait_not_ready(stack, "gateway")
    stack.restart_nats()
    stack.wait_all_ready(RECOVERY_S)


def _kill_redis(stack: Stack, _say: Say) -> None:
    stack.kill_redis()
    stack.restart_redis()
    stack.wait_all_ready(RECOVERY_S)


def _pause_redis(stack: Stack, say: Say) -> None:
    """Commits get no answer for longer than owners wait, and may have been applied all the same."""
    logs = [stack.process(name).log_path for name in stack.names(Service.ADMISSION)]
    before = [path.stat().st_size for path in logs]

    def is_noticed() -> bool:
        return any(
            b"Timeout" in path.read_bytes()[size:] for path, size in zip(logs, before, strict=True)
        )

    stack.redis.pause()
    try:
        wait_until(is_noticed, RECOVERY_S, lambda: "no owner misses the ledger")
        say("owners have noticed that the ledger does not answer")
    finally:
        stack.redis.resume()
    stack.wait_all_ready(RECOVERY_S)


def _zombie(stack: Stack, say: Say) -> None:
    """The replica that decides sleeps past its leases, and wakes up believing it has them still."""
    asleep, awake = _owner_and_other(stack)
    stack.pause(asleep)
    try:
        _wait_owns(stack, awake, set(PARTITIONS))
        say(f"{awake} has taken over everything from {asleep}")
    finally:
        stack.resume(asleep)
    _owner_and_other(stack)
    stack.wait_all_ready(RECOVERY_S)


def _owner_and_other(stack: Stack) -> tuple[str, str]:
    """Who decides for the cohort and who does not, once the two share all partitions."""
    one, other = stack.names(Service.ADMISSION)
    _wait_shared(stack, one, other)
    is_one = partition_of(house.COHORT) in _owned(stack, one)
    return (one, other) if is_one else (other, one)


def _wait_owns(stack: Stack, name: str, shards: set[str]) -> None:
    wait_until(
        lambda: _owned(stack, name) >= shards,
        RECOVERY_S,
        lambda: f"{name} owns only {sorted(_owned(stack, name))}",
    )


def _wait_shared(stack: Stack, one: str, other: str) -> None:
    def is_shared() -> bool:
        first, second = _owned(stack, one), _owned(stack, other)
        return (
            bool(first and second) and not first & second and len(first | second) == len(PARTITIONS)
        )

    wait_until(
        is_shared,
        RECOVERY_S,
        lambda: f"{one}: {sorted(_owned(stack, one))}, {other}: {sorted(_owned(stack, other))}",
    )


def _owned(stack: Stack, name: str) -> set[str]:
    """The partitions that an admission replica works on, as its metrics say."""
    try:
        text = httpx.get(f"{stack.process(name).url}/metrics", timeout=5.0).text
    except httpx.TransportError:
        return set()
    return set(re.findall(r'^muster_log_pending\{shard="(p\d\d)"\}', text, re.MULTILINE))


def _wait_not_ready(stack: Stack, name: str) -> None:
    wait_until(
        lambda: not stack.process(name).is_ready(),
        RECOVERY_S,
        lambda: f"{name} does not notice",
    )


FAULTS: tuple[Fault, ...] = (
    kill_service(Service.GATEWAY),
    Fault("the deciding replica of admission is killed", _kill_owner),
    kill_service(Service.PLACEMENT),
    Fault("the deciding replica of admission sleeps past its leases", _zombie),
    kill_service(Service.PREEMPTION),
    kill_service(Service.ACCOUNTING),
    kill_service(Service.AGENT),
    Fault("NATS is killed", _kill_nats),
    Fault("Redis is killed", _kill_redis),
    Fault("Redis sleeps", _pause_redis),
    kill_service(Service.ADMISSION),
)
