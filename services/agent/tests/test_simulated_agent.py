"""An agent of simulated nodes, as a process on a real bus."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster_agent.runtimes.simulated import DURATION, EXIT_CODE, START_DURATION, STOP_DURATION
from muster_contracts.commands import ControlAction
from muster_testing.servers import KillableServer

from .bench import Bench, bench_on, until
from .builders import run_pod, stop_pod

pytestmark = pytest.mark.servers


@pytest.fixture
async def bench(nats: KillableServer, tmp_path: Path) -> AsyncIterator[Bench]:
    async with bench_on(nats.url, tmp_path) as made:
        yield made


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    return f"{request.node.name[5:25]}-{time.monotonic_ns()}"


def two_nodes(prefix: str) -> str:
    return f'[{{"count": 2, "gpus": 4, "name": "{prefix}-{{n}}"}}]'


async def test_many_nodes_register_beat_and_run_pods(bench: Bench, prefix: str) -> None:
    text = f'[{{count: 16, gpus: 4, name: "{prefix}-{{n}}", labels: {{rack: "r{{n/4}}"}}}}]'
    names = [f"{prefix}-{number}" for number in range(16)]
    bench.start_agent(agent_simulate=text, agent_simulated_duration_ms=50)
    await until(lambda: all(bench.registrations(name) for name in names))
    assert [bench.registrations(name)[0].node.labels["rack"] for name in (names[0], names[15])] == [
        "r0",
        "r3",
    ]
    await until(lambda: {beat.node for beat in bench.beats} >= set(names))
    for name in names:
        await bench.say(name, run_pod(f"{name}-1-0"))
    for name in names:
        end = await bench.end_of(f"{name}-1-0")
        assert (end.exit_code, end.stopped, end.node) == (0, False, name)
        assert len(bench.started(f"{name}-1-0")) == 1


async def test_annotations_say_how_a_pod_runs(bench: Bench, prefix: str) -> None:
    node = f"{prefix}-0"
    bench.start_agent(agent_simulate=two_nodes(prefix))
    await until(lambda: bench.registrations(node))
    failing, endless, wrong, pending = (f"{node}-1-{rank}" for rank in range(4))
    slow = {DURATION: "100000", STOP_DURATION: "100000"}
    await bench.say(
        node,
        run_pod(failing, annotations={DURATION: "30", EXIT_CODE: "4"}),
        run_pod(endless, annotations=slow),
        run_pod(wrong, annotations={DURATION: "soon"}),
        run_pod(pending, annotations={START_DURATION: "100000"}),
    )
    assert (await bench.end_of(failing)).exit_code == 4
    assert "'soon' is not a whole number" in (await bench.end_of(wrong)).message
    await until(lambda: bench.started(endless))
    await bench.say(node, stop_pod(endless, grace_ms=100))
    end = await bench.end_of(endless)
    assert (end.exit_code, end.stopped) == (137, True)
    await bench.say(node, stop_pod(pending))
    assert (await bench.end_of(pending)).stopped
    assert bench.started(pending) == []


async def test_a_node_without_power_is_silent_and_has_lost_its_pods(
    bench: Bench, prefix: str
) -> None:
    node, other = f"{prefix}-0", f"{prefix}-1"
    uid, missed = f"{node}-1-0", f"{node}-1-1"
    bench.start_agent(agent_simulate=two_nodes(prefix), agent_simulated_duration_ms=100_000)
    await until(lambda: bench.registrations(node) and bench.registrations(other))
    await bench.say(node, run_pod(uid))
    await until(lambda: bench.started(uid))

    await bench.control(node, ControlAction.FAIL)
    await until(lambda: _silent(bench, node, other, beats=5))
    await bench.say(node, run_pod(missed, annotations={DURATION: "10"}))
    assert bench.finished(uid) == []

    await bench.control(node, ControlAction.RECOVER)
    end = await bench.end_of(uid)
    assert end.stopped
    assert "lost power" in end.message
    assert (await bench.end_of(missed)).exit_code == 0
    first, second = bench.registrations(node)
    assert second.incarnation > first.incarnation
    assert second.running_pods == (uid,)
    assert len(bench.registrations(other)) == 1


async def test_power_lost_for_longer_than_the_lease_stops_what_was_on_the_node(
    bench: Bench, prefix: str
) -> None:
    node, other = f"{prefix}-0", f"{prefix}-1"
    uid = f"{node}-1-0"
    bench.start_agent(
        agent_simulate=two_nodes(prefix),
        agent_simulated_duration_ms=100_000,
        node_lease_ms=1000,
        agent_stop_window_ms=500,
    )
    await until(lambda: bench.registrations(node))
    await bench.say(node, run_pod(uid))
    await until(lambda: bench.started(uid))
    await bench.control(node, ControlAction.FAIL)
    await until(lambda: _silent(bench, node, other, beats=10))
    await bench.control(node, ControlAction.RECOVER)
    end = await bench.end_of(uid)
    assert end.stopped
    assert "longer than its lease" in end.message


async def test_simulated_pods_go_on_when_the_agent_is_restarted(bench: Bench, prefix: str) -> None:
    node = f"{prefix}-0"
    uid = f"{node}-1-0"
    bench.start_agent(agent_simulate=two_nodes(prefix))
    await until(lambda: bench.registrations(node))
    await bench.say(node, run_pod(uid, annotations={DURATION: "2000"}))
    await until(lambda: bench.started(uid))
    bench.end_agents()
    bench.start_agent(agent_simulate=two_nodes(prefix))
    assert (await bench.end_of(uid)).exit_code == 0
    assert len(bench.started(uid)) == 1


def _silent(bench: Bench, node: str, other: str, *, beats: int) -> bool:
    """Of the two nodes the other one was heard so many times in a row; it beats every 100 ms."""
    heard = [beat.node for beat in bench.beats if beat.node in (node, other)]
    return heard[-beats:] == [other] * beats
