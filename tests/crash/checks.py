"""What the submitters were promised, held against the log, the streams and the stores."""

import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from muster_accounting.facts import INPUTS, read_fact, told
from muster_accounting.store import UsageStore
from muster_contracts import codec, events, subjects
from muster_contracts.jobs import Decision
from muster_contracts.partitions import PARTITIONS, PLACEMENT_SHARD
from muster_contracts.stored import is_admission_fact
from muster_contracts.streams import DEAD_LETTERS, DECISIONS, EVENTS, JOBS
from muster_contracts.subjects import Service
from muster_domain.conditions import Outcome
from muster_domain.nodes import Placement
from muster_domain.workload import Workload
from muster_ledger.redis_store import RedisStore
from muster_ledger.store import OUTBOX_START
from muster_runtime.bus import Bus
from muster_runtime.reader import Received
from muster_stack.bus import joined
from muster_stack.stack import Stack
from muster_testing.waiting import wait_until_async

from .traffic import Plan

BOOKS_S = 60.0
BATCH = 500
LATE_CANCEL = "no live workload is named"


@dataclass(slots=True)
class LogCheck:
    """Reads the log in order; `wrong` says what must not be."""

    wrong: list[str] = field(default_factory=list[str])
    workloads: dict[str, Workload] = field(default_factory=dict[str, Workload])
    ends: dict[str, list[Outcome]] = field(
        default_factory=lambda: defaultdict[str, list[Outcome]](list)
    )
    counts: Counter[str] = field(default_factory=Counter[str])
    _seen: set[str] = field(default_factory=set[str])
    _versions: dict[str, int] = field(default_factory=dict[str, int])
    _capacity: dict[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    _used: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    _seated: dict[tuple[str, int], Placement] = field(
        default_factory=dict[tuple[str, int], Placement]
    )
    _admitted: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    _started: dict[tuple[str, int], set[str]] = field(
        default_factory=lambda: defaultdict[tuple[str, int], set[str]](set)
    )
    _over: set[str] = field(default_factory=set[str])

    def read(self, log: Iterable[Received]) -> "LogCheck":
        """Take in everything; what is there twice counts once."""
        for received in log:
            identity = received.headers.get("ce-id", "")
            if identity in self._seen:
                continue
            self._seen.add(identity)
            name = subjects.event_name(received.subject)
            self.counts[name] += 1
            self._take(codec.decode_event(name, received.body), received.subject)
        return self

    def _take(self, fact: events.Event, subject: str) -> None:
        if is_admission_fact(fact):
            self._in_order(subjects.event_partition(subject), fact.version)
        if isinstance(fact, events.NodeFact):
            self._of_node(fact)
        elif isinstance(fact, events.WorkloadFact):
            self._of_workload(fact)

    def _of_workload(self, fact: events.WorkloadFact) -> None:
        match fact:
            case events.WorkloadSubmitted(workload=workload):
                self.workloads.setdefault(workload.id, workload)
            case events.WorkloadFinished(workload_id=workload_id, state=state):
                self.ends[workload_id].append(state.outcome)
            case events.WorkloadAdmitted(workload=workload, state=state):
                self._admitted.add((workload.id, state.attempt))
            case events.GangPlaced():
                self._seat((fact.workload_id, fact.attempt), fact.placement, 1)
            case events.GangStarted():
                self._gang_started((fact.workload_id, fact.attempt))
            case events.GangReleased() | events.GangFinished():
                self._unseat((fact.workload_id, fact.attempt))
            case _:
                pass

    def _of_node(self, fact: events.NodeFact) -> None:
        match fact:
            case events.NodeRegistered(node=node):
                self._capacity[node.name] = node.allocatable
            case events.PodStarted():
                self._pod_started(fact)
            case events.PodFinished():
                self._over.add(fact.pod_uid)
            case _:
                pass

    def _in_order(self, partition: str, version: int) -> None:
        before = self._versions.get(partition, 0)
        if version < before:
            self.wrong.append(f"{partition}: version {version} was published after {before}")
        self._versions[partition] = max(before, version)

    def _seat(self, gang: tuple[str, int], placement: Placement, sign: int) -> None:
        if sign > 0:
            self._seated[gang] = placement
        workload = self.workloads[gang[0]]
        requests = {pod_set.name: pod_set.requests for pod_set in workload.pod_sets}
        for pod in placement.pods:
            for resource, amount in requests[pod.pod_set].items():
                self._used[pod.node, resource] += sign * amount
                most = self._capacity[pod.node].get(resource, 0)
                if self._used[pod.node, resource] > most:
                    self.wrong.append(f"{pod.node} gives {resource} beyond {most}: {gang}")

    def _unseat(self, gang: tuple[str, int]) -> None:
        placement = self._seated.pop(gang, None)
        if placement is None:
            return
        self._seat(gang, placement, -1)
        running = self._started.get(gang, set()) - self._over
        if running:
            self.wrong.append(f"{gang} gave its seats back while {sorted(running)} ran")

    def _gang_started(self, gang: tuple[str, int]) -> None:
        pods = len(self._seated[gang].pods)
        if len(self._started[gang]) != pods:
            self.wrong.append(f"{gang} is said to run with {len(self._started[gang])} of {pods}")

    def _pod_started(self, fact: events.PodStarted) -> None:
        gang = (fact.workload_id, fact.attempt)
        if gang not in self._admitted:
            self.wrong.append(f"{fact.pod_uid} started before its workload was admitted")
        self._started[gang].add(fact.pod_uid)


async def broken_promises(
    stack: Stack, plans: Iterable[Plan], accepted: Mapping[str, str]
) -> tuple[LogCheck, list[str]]:
    """What became of everything that was accepted, and what is not as it must be."""
    store = RedisStore(stack.ledger_login("operator").full_url)
    async with AsyncExitStack() as end:
        bus = await end.enter_async_context(_operator(stack))
        end.push_async_callback(store.close)
        check = LogCheck().read(await bus.read_to_end(EVENTS.name, "muster.evt.>"))
        decisions = {
            received.subject: codec.decode(Decision, received.body)
            for received in await bus.read_to_end(DECISIONS.name, "muster.v1.decisions.>")
        }
        wrong = [*check.wrong, *_ends(check, plans, accepted, decisions)]
        for letter in await bus.read_to_end(DEAD_LETTERS.name, "muster.dlq.>"):
            reason = letter.headers["Muster-Reason"]
            if LATE_CANCEL not in reason:
                wrong.append(f"dead letter on {letter.subject}: {reason}")
        jobs = await bus.client.jetstream().stream_info(JOBS.name)
        if jobs.state.messages:
            wrong.append(f"{jobs.state.messages} jobs were not worked off")
        wrong += [
            f"{shard}: the outbox is not empty"
            for shard in (*PARTITIONS, PLACEMENT_SHARD)
            if await store.read_outbox(shard, OUTBOX_START, 1)
        ]
        return check, wrong


@asynccontextmanager
async def _operator(stack: Stack) -> AsyncIterator[Bus]:
    async with joined(stack.bus_login()) as client:
        yield Bus(client, Service.GATEWAY)


async def differing_books(stack: Stack, folder: Path) -> list[str]:
    """What accounting's books, kept through all crashes, say otherwise than books made anew."""
    async with _operator(stack) as bus:
        log = await bus.read_to_end(EVENTS.name, "muster.evt.>")
    facts = [
        fact for received in log if is_input(received) if (fact := read_fact(received)) is not None
    ]
    fresh = UsageStore(f"sqlite+aiosqlite:///{folder / 'anew.db'}")
    kept = UsageStore(f"sqlite+aiosqlite:///{stack.folder / 'accounting' / 'accounting.db'}")
    try:
        await fresh.prepare()
        await fresh.claim(1, 0)
        for start in range(0, len(facts), BATCH):
            batch = facts[start : start + BATCH]
            await fresh.apply_facts(1, start + 1, 0, told(batch))
        wanted = (await fresh.all_attempts(), await fresh.node_facts())

        async def is_equal() -> bool:
            return (await kept.all_attempts(), await kept.node_facts()) == wanted

        with suppress(TimeoutError):
            await wait_until_async(is_equal, BOOKS_S, str)
            return [f"{a.key} is still open" for a in wanted[0] if a.is_open]
        found = {attempt.key: attempt for attempt in await kept.all_attempts()}
        return [
            f"books differ: {found.get(attempt.key)} instead of {attempt}"
            for attempt in wanted[0]
            if found.get(attempt.key) != attempt
        ] or ["books differ in what they say of nodes, or hold more than the log"]
    finally:
        await fresh.close()
        await kept.close()


def rebuilt_otherwise(stack: Stack) -> list[str]:
    """What admission kept otherwise than the command that rebuilds it makes it; it is stopped."""
    names = stack.names(Service.ADMISSION)
    for name in names:
        stack.process(name).stop()
    done = subprocess.run(
        (sys.executable, "-m", "muster_admission.rebuild"),
        env=dict(stack.process(names[0]).spec.environment),
        capture_output=True,
        text=True,
        timeout=BOOKS_S,
        check=False,
    )
    said = done.stdout.splitlines()
    holds = [f"{partition}: 0 holds" for partition in PARTITIONS]
    return [] if (done.returncode, said) == (0, holds) else [*said, done.stderr[-2000:]]


def is_input(received: Received) -> bool:
    """Whether accounting reads that fact."""
    name = subjects.event_name(received.subject)
    return any(f".v1.{name}." in subject for subject in INPUTS)


def _ends(
    check: LogCheck,
    plans: Iterable[Plan],
    accepted: Mapping[str, str],
    decisions: Mapping[str, Decision],
) -> list[str]:
    """Everybody who was told yes has one workload, which ended once, as it had to."""
    wrong: list[str] = []
    ids: dict[str, list[str]] = defaultdict(list)
    for workload in check.workloads.values():
        ids[workload.key].append(workload.id)
    strangers = set(ids) - set(accepted)
    wrong += [f"nobody submitted {key}" for key in sorted(strangers)]
    for plan in plans:
        key = f"{plan.team}/{plan.name}"
        if len(ids[key]) != 1 or accepted[key] not in ("", ids[key][0]):
            wrong.append(f"{key} was accepted as {accepted[key]} and became {ids[key]}")
            continue
        (identity,) = ids[key]
        ends = check.ends[identity]
        if len(ends) != 1 or ends[0] not in _possible(plan):
            wrong.append(f"{key} ({identity}) ended as {ends}, of {sorted(_possible(plan))}")
        said = decisions.get(subjects.decision(plan.team, plan.name))
        if said is None or said.id != identity or said.outcome not in ends:
            wrong.append(f"{key}: the last decision is {said}")
    return wrong


def _possible(plan: Plan) -> frozenset[Outcome]:
    if plan.impossible:
        return frozenset({Outcome.REFUSED})
    if plan.lease_ms is not None and not plan.hold_polls:
        return frozenset({Outcome.LEASE_EXPIRED})
    if plan.cancelled:
        return frozenset({Outcome.CANCELLED, Outcome.SUCCEEDED})
    return frozenset({Outcome.SUCCEEDED})
