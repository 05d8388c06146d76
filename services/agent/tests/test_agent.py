"""The agent as a process, on a real bus, with real processes as pods."""

import json
import signal
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from muster_agent.machine_reading import read_machine
from muster_agent.runtimes.process import MARK
from muster_contracts import codec, subjects
from muster_contracts.commands import PodOutput
from muster_contracts.subjects import Service
from muster_domain.selectors import Taint, TaintEffect
from muster_domain.workload import RestartPolicy
from muster_testing.servers import KillableServer, NatsServer

from .bench import LEASE_MS, Bench, bench_on, until
from .builders import run_pod, shell, stop_pod

pytestmark = pytest.mark.servers


@pytest.fixture
async def bench(nats: KillableServer, tmp_path: Path) -> AsyncIterator[Bench]:
    async with bench_on(nats.url, tmp_path) as made:
        yield made


@pytest.fixture
def node(request: pytest.FixtureRequest) -> str:
    return f"n-{request.node.name[5:40]}-{time.monotonic_ns()}"


def pids_of(uid: str) -> list[int]:
    found: list[int] = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK, "").startswith(f"{uid}/"):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def uid_of(node: str) -> str:
    return f"{node}-1-0"


async def test_the_agent_reports_this_machine_and_beats(bench: Bench, node: str) -> None:
    bench.start_agent(
        agent_node=node, agent_labels="zone=a,rack=r1", agent_taints="gpu=yes:NoSchedule"
    )
    await until(lambda: bench.registrations(node))
    fact = bench.registrations(node)[0]
    machine = read_machine(bench.folder)
    assert fact.node.allocatable["cpu"] == machine.cpu_milli
    assert fact.node.allocatable["memory"] == machine.memory_bytes * 1000
    assert fact.node.labels["zone"] == "a"
    assert fact.node.labels["kubernetes.io/hostname"] == node
    assert fact.node.taints == (Taint(key="gpu", value="yes", effect=TaintEffect.NO_SCHEDULE),)
    assert fact.running_pods == ()
    await until(lambda: sum(beat.node == node for beat in bench.beats) >= 3)
    beats = [beat for beat in bench.beats if beat.node == node]
    assert {beat.incarnation for beat in beats} == {fact.incarnation}


async def test_the_host_name_is_the_default_name(bench: Bench) -> None:
    bench.start_agent()
    await until(lambda: bench.registrations(socket.gethostname()))


async def test_a_pod_runs_and_its_output_and_end_are_heard(bench: Bench, node: str) -> None:
    heard: list[PodOutput] = []
    uid = uid_of(node)
    await bench.bus.listen(
        subjects.pod_output_of(node), lambda body: heard.append(codec.decode(PodOutput, body))
    )
    bench.start_agent(agent_node=node)
    await until(lambda: bench.registrations(node))
    await bench.say(node, run_pod(uid, shell("echo hello; sleep 0.3; exit 7")))
    end = await bench.end_of(uid)
    assert (end.exit_code, end.stopped, end.node) == (7, False, node)
    assert len(bench.started(uid)) == 1
    assert bench.facts.index(bench.started(uid)[0]) < bench.facts.index(end)
    await until(lambda: heard)
    assert (heard[0].text, heard[0].stream, heard[0].pod_uid) == ("hello\n", "stdout", uid)
    answer = await bench.bus.ask(
        subjects.query(Service.AGENT, "output", subjects.token(node)), {"pod_uid": uid}
    )
    assert json.loads(answer) == {"text": "hello\n"}


async def test_a_stopped_pod_is_reported_when_it_is_gone(bench: Bench, node: str) -> None:
    uid = uid_of(node)
    bench.start_agent(agent_node=node)
    await until(lambda: bench.registrations(node))
    await bench.say(node, run_pod(uid, shell("trap '' TERM; while :; do sleep 0.1; done")))
    await until(lambda: bench.started(uid))
    await bench.say(node, stop_pod(uid, grace_ms=500))
    end = await bench.end_of(uid)
    assert (end.exit_code, end.stopped) == (137, True)
    assert pids_of(uid) == []


async def test_failures_are_restarted(bench: Bench, node: str) -> None:
    uid = uid_of(node)
    bench.start_agent(agent_node=node, agent_restart_pause_ms=50)
    await until(lambda: bench.registrations(node))
    script = "test -e again && exit 0; touch again; exit 1"
    await bench.say(node, run_pod(uid, shell(script), restart_policy=RestartPolicy.ON_FAILURE))
    assert (await bench.end_of(uid)).exit_code == 0
    assert [fact.times for fact in bench.started(uid)] == [1, 2]


async def test_a_killed_agent_neither_starts_twice_nor_forgets(bench: Bench, node: str) -> None:
    marks = bench.folder / "marks"
    gate = bench.folder / "gate"
    running, over, later = (f"{node}-1-{rank}" for rank in range(3))
    bench.start_agent(agent_node=node)
    await until(lambda: bench.registrations(node))
    wait = f"echo x >> {marks}; while ! test -e {gate}; do sleep 0.05; done; exit 3"
    await bench.say(node, run_pod(running, shell(wait)), run_pod(over, shell(f"echo x >> {marks}")))
    await until(lambda: bench.started(running) and bench.finished(over))
    pids = pids_of(running)
    bench.end_agents(signal.SIGKILL)
    await bench.say(node, run_pod(later, shell("exit 5")))
    bench.start_agent(agent_node=node)
    await until(lambda: len(bench.registrations(node)) == 2)
    first, second = bench.registrations(node)
    assert second.incarnation > first.incarnation
    assert second.running_pods == (running,)
    assert (await bench.end_of(later)).exit_code == 5
    assert set(pids) & set(pids_of(running))
    gate.touch()
    assert (await bench.end_of(running)).exit_code == 3
    assert marks.read_text() == "x\nx\n"
    assert len(bench.started(running)) == 1


async def test_what_ended_while_the_agent_was_away_is_reported(bench: Bench, node: str) -> None:
    gate = bench.folder / "gate"
    uid = uid_of(node)
    bench.start_agent(agent_node=node)
    await until(lambda: bench.registrations(node))
    script = f"while ! test -e {gate}; do sleep 0.05; done; exit 6"
    await bench.say(node, run_pod(uid, shell(script)))
    await until(lambda: bench.started(uid))
    bench.end_agents(signal.SIGKILL)
    gate.touch()
    await until(lambda: not pids_of(uid))
    bench.start_agent(agent_node=node)
    end = await bench.end_of(uid)
    assert (end.exit_code, end.stopped) == (6, False)


async def test_commands_said_again_change_nothing(bench: Bench, node: str) -> None:
    marks = bench.folder / "marks"
    uid, last = f"{node}-1-0", f"{node}-1-1"
    bench.start_agent(agent_node=node)
    await until(lambda: bench.registrations(node))
    command = run_pod(uid, shell(f"echo x >> {marks}"))
    await bench.say(node, command, command)
    await bench.end_of(uid)
    await bench.say(node, command, run_pod(last, shell("exit 0")))
    await bench.end_of(last)
    assert marks.read_text() == "x\n"
    assert len(bench.finished(uid)) == 1


async def test_an_agent_that_lost_its_records_ends_what_it_finds(bench: Bench, node: str) -> None:
    marks = bench.folder / "marks"
    uid = uid_of(node)
    bench.start_agent(agent_node=node)
    await until(lambda: bench.registrations(node))
    await bench.say(node, run_pod(uid, shell(f"echo x >> {marks}; sleep 300")))
    await until(lambda: bench.started(uid))
    bench.end_agents(signal.SIGKILL)
    bench.start_agent(agent_node=node, agent_data_dir=bench.folder / "other")
    end = await bench.end_of(uid)
    assert end.stopped
    assert "no record" in end.message
    assert pids_of(uid) == []
    assert marks.read_text() == "x\n"


async def test_a_node_without_a_runtime_refuses(bench: Bench, node: str) -> None:
    bench.start_agent(agent_node=node, agent_runtime="none")
    await until(lambda: bench.registrations(node))
    await bench.say(node, run_pod(uid_of(node), shell("exit 0")))
    end = await bench.end_of(uid_of(node))
    assert (end.exit_code, end.stopped) == (126, False)
    assert "runs no pods" in end.message


async def test_a_poisoned_command_is_put_aside(bench: Bench, node: str) -> None:
    bench.start_agent(agent_node=node)
    await until(lambda: bench.registrations(node))
    await bench.bus.client.publish(subjects.pod_command(node, "bad"), b'{"desired": "dance"}')
    await bench.say(node, run_pod(uid_of(node), shell("exit 0")))
    assert (await bench.end_of(uid_of(node))).exit_code == 0


LEASE = {
    "node_lease_ms": 6000,
    "agent_stop_window_ms": 2000,
    "agent_heartbeat_interval_ms": 200,
}
LONG_LEASE = {**LEASE, "node_lease_ms": LEASE_MS}


class TestCutOff:
    """The bus goes away. Leases are short; the bus is the test's own."""

    @pytest.fixture
    async def bench(self, tmp_path: Path) -> AsyncIterator[Bench]:
        with NatsServer(tmp_path / "nats") as server:
            self.server = server
            async with bench_on(server.url, tmp_path) as made:
                yield made

    async def test_a_blip_shorter_than_the_lease_moves_nothing(
        self, bench: Bench, node: str
    ) -> None:
        uid = uid_of(node)
        bench.start_agent(agent_node=node, **LONG_LEASE)
        await until(lambda: bench.registrations(node))
        await bench.say(node, run_pod(uid, shell("sleep 300")))
        await until(lambda: bench.started(uid))
        pids = pids_of(uid)
        self.server.kill()
        self.server.restart()
        beats = len(bench.beats)
        await until(lambda: len(bench.beats) > beats + 15)
        assert pids_of(uid) == pids
        assert bench.finished(uid) == []

    async def test_a_node_that_is_cut_off_ends_its_pods_by_itself(
        self, bench: Bench, node: str
    ) -> None:
        uid = uid_of(node)
        bench.start_agent(agent_node=node, **LEASE)
        await until(lambda: bench.registrations(node))
        await bench.say(node, run_pod(uid, shell("trap '' TERM; while :; do sleep 0.1; done")))
        await until(lambda: bench.started(uid))
        self.server.kill()
        await until(lambda: not pids_of(uid))
        self.server.restart()
        end = await bench.end_of(uid)
        assert end.stopped
        assert "cut off" in end.message

    async def test_a_frozen_agent_does_not_keep_pods_alive(self, bench: Bench, node: str) -> None:
        uid = uid_of(node)
        agent = bench.start_agent(agent_node=node, **LEASE)
        await until(lambda: bench.registrations(node))
        await bench.say(node, run_pod(uid, shell("sleep 300")))
        await until(lambda: bench.started(uid))
        agent.send_signal(signal.SIGSTOP)
        try:
            await until(lambda: not pids_of(uid))
        finally:
            agent.send_signal(signal.SIGCONT)
        assert (await bench.end_of(uid)).stopped
