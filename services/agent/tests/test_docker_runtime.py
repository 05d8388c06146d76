"""Real containers, from any image with a shell (`MUSTER_TEST_IMAGE`)."""

import gc
import os
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiodocker
import pytest

from muster_agent.pods import ContainerRun, RunBegan, RunEnded, RunTask
from muster_agent.runtimes.docker import (
    EXIT_NEVER_STARTED,
    POD_LABEL,
    DockerRuntime,
    container_name,
)
from muster_contracts.commands import RunPod
from muster_domain.nodes import MigInstance

from .bench import until
from .builders import run_pod, shell

pytestmark = [
    pytest.mark.docker,
    pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning"),
    pytest.mark.skipif(
        not Path("/var/run/docker.sock").exists(), reason="there is no Docker engine"
    ),
]
LAST_CPU = max(os.sched_getaffinity(0))
IMAGE = os.environ.get("MUSTER_TEST_IMAGE", "muster-local/debian:slim")


@pytest.fixture(autouse=True)
def _dropped() -> Iterator[None]:
    """Drop here, and not in another test, what `aiodocker` leaves of a log stream that is cut."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


async def divided_on_paper(pod: RunPod) -> tuple[str, ...]:
    return tuple(f"MIG-{one.card}-{one.start}" for one in pod.instances)


class Watching:
    def __init__(self) -> None:
        self.seen: list[RunBegan | RunEnded] = []
        self.written: list[str] = []
        self.runtime = DockerRuntime(
            aiodocker.Docker(),
            observe=self.seen.append,
            write=lambda _task, _stream, text: self.written.append(text),
            identify=lambda _resource, index: str(index),
            divide=divided_on_paper,
            processors=lambda pod: (LAST_CPU,) if "MUSTER_NUMA_NODES" in pod.environment else (),
        )

    async def end(self) -> RunEnded:
        await until(lambda: any(isinstance(one, RunEnded) for one in self.seen))
        (end,) = (one for one in self.seen if isinstance(one, RunEnded))
        return end


@asynccontextmanager
async def watching() -> AsyncIterator[Watching]:
    watch = Watching()
    try:
        yield watch
    finally:
        await watch.runtime.close()


async def containers_of(uid: str) -> list[aiodocker.containers.DockerContainer]:
    filters = f'{{"label": ["{POD_LABEL}={uid}"]}}'
    async with aiodocker.Docker() as engine:
        return await engine.containers.list(all="true", filters=filters)


@pytest.fixture
async def uid(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    name = f"{request.node.name[5:30]}-1-0"
    yield name
    async with aiodocker.Docker() as engine:
        for found in await containers_of(name):
            await engine.containers.container(found.id).delete(force=True)


def task_of(pod: RunPod) -> RunTask:
    return RunTask(id=ContainerRun(pod.pod_uid, 0, 1), pod=pod)


def task(uid: str, script: str = "echo ready; sleep 300") -> RunTask:
    return task_of(run_pod(uid, shell(script), image=IMAGE, environment={"RANK": "3"}))


async def test_a_container_runs_and_its_exit_code_and_output_are_reported(uid: str) -> None:
    one = task(uid, "echo rank $(RANK); echo oh >&2; exit 4")
    async with watching() as watch:
        watch.runtime.run(one)
        watch.runtime.run(one)
        end = await watch.end()
    assert (end.exit_code, end.lost) == (4, False)
    assert watch.seen[0] == RunBegan(one.id)
    assert sorted("".join(watch.written).split("\n")) == ["", "oh", "rank 3"]


async def test_a_container_outlives_the_agent_and_is_stopped_by_the_next(uid: str) -> None:
    one = task(uid)
    async with watching() as first:
        first.runtime.run(one)
        await until(lambda: "ready" in "".join(first.written))
    async with watching() as second:
        second.runtime.run(one)
        await until(lambda: second.seen == [RunBegan(one.id)])
        second.runtime.stop(one, kill=True)
        assert (await second.end()).exit_code == 137


async def test_a_container_that_ended_unseen_is_reported_and_not_started_again(uid: str) -> None:
    one = task(uid)
    async with watching() as first:
        first.runtime.run(one)
        await until(lambda: first.seen)
    async with aiodocker.Docker() as engine:
        container = engine.containers.container(container_name(one.id))
        await container.kill(signal="SIGKILL")
        await container.wait()
    async with watching() as second:
        second.runtime.run(one)
        assert (await second.end()).exit_code == 137


async def test_a_container_that_obeys_ends_with_its_own_code(uid: str) -> None:
    one = task(uid, "trap 'exit 9' TERM; echo ready; while :; do sleep 0.1; done")
    async with watching() as watch:
        watch.runtime.run(one)
        await until(lambda: "ready" in "".join(watch.written))
        watch.runtime.stop(one, kill=False)
        assert (await watch.end()).exit_code == 9


async def test_a_run_that_is_stopped_before_it_starts_never_starts(uid: str) -> None:
    async with watching() as watch:
        watch.runtime.stop(task(uid), kill=False)
        assert (await watch.end()).exit_code == EXIT_NEVER_STARTED
    assert await containers_of(uid) == []


async def test_a_pod_that_is_over_leaves_no_container(uid: str) -> None:
    async with watching() as watch:
        watch.runtime.run(task(uid, "exit 0"))
        await watch.end()
        assert len(await containers_of(uid)) == 1
        watch.runtime.forget(uid)
        for _ in range(500):
            if not await containers_of(uid):
                break
        else:
            pytest.fail("the container is still there")


async def test_an_image_that_cannot_be_had_is_said(uid: str) -> None:
    async with watching() as watch:
        watch.runtime.run(task_of(run_pod(uid, image="no.such.registry.invalid/nothing:1")))
        end = await watch.end()
    assert end.exit_code == 126
    assert "cannot pull no.such.registry.invalid/nothing:1" in end.message


async def test_a_pod_of_a_zone_is_kept_to_its_processors_and_memory(uid: str) -> None:
    script = "grep -E '^(Cpus|Mems)_allowed_list' /proc/self/status"
    pod = run_pod(uid, shell(script), image=IMAGE, environment={"MUSTER_NUMA_NODES": "0"})
    async with watching() as watch:
        watch.runtime.run(task_of(pod))
        await watch.end()
    kept = dict(line.split(":\t") for line in "".join(watch.written).split("\n") if line)
    assert kept == {"Cpus_allowed_list": str(LAST_CPU), "Mems_allowed_list": "0"}


async def test_the_engine_is_asked_for_exactly_the_devices_of_a_pod(uid: str) -> None:
    """What it is asked, since here is no driver that could give them."""
    pod = run_pod(
        uid,
        shell("exit 0"),
        image=IMAGE,
        devices={"nvidia.com/gpu": (2, 5)},
        instances=(MigInstance(card=1, profile="3g.40gb", start=4),),
    )
    async with watching() as watch:
        watch.runtime.run(task_of(pod))
        for _ in range(500):
            found = await containers_of(uid)
            if found:
                break
        else:
            pytest.fail("there is no container")
        async with aiodocker.Docker() as engine:
            description = await engine.containers.container(found[0].id).show()
    (asked,) = description["HostConfig"]["DeviceRequests"]
    assert asked["DeviceIDs"] == ["2", "5", "MIG-1-4"]
    assert asked["Capabilities"] == [["gpu"]]
