"""Real processes, real keepers. `watching` is what an agent has; a second one is a restart."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from muster_agent.pods import ContainerRun, RunBegan, RunEnded, RunTask
from muster_agent.runtimes import keeper
from muster_agent.runtimes.process import (
    EXIT_NEVER_STARTED,
    MARK,
    ProcessRuntime,
    mark_of,
    output_file,
    pod_folder,
    prune_output,
)
from muster_contracts.commands import RunPod
from muster_domain.errors import Conflict
from muster_domain.nodes import MigInstance

from .bench import until
from .builders import run_pod, shell

LAST_CPU = max(os.sched_getaffinity(0))


@dataclass
class Watching:
    runtime: ProcessRuntime
    seen: list[RunBegan | RunEnded]
    written: list[tuple[str, str]]

    def text(self, stream: str = "stdout") -> str:
        return "".join(text for name, text in self.written if name == stream)

    async def end(self, task: RunTask) -> RunEnded:
        def ended() -> RunEnded | None:
            return next(
                (one for one in self.seen if isinstance(one, RunEnded) and one.id == task.id), None
            )

        await until(lambda: ended() is not None)
        found = ended()
        assert found is not None
        return found


def identified(resource: str, index: int) -> str:
    """As of a machine whose cards three pods each take turns on."""
    return f"MIG-{resource}-{index // 3 if resource.endswith('.shared') else index}"


async def divided_on_paper(pod: RunPod) -> tuple[str, ...]:
    """As a card would be that is in nobody's way; one that is numbered 9 cannot be divided."""
    if any(one.card == 9 for one in pod.instances):
        raise Conflict("something still computes on card 9")
    return tuple(f"MIG-{one.card}-{one.profile}-{one.start}" for one in pod.instances)


@asynccontextmanager
async def watching(folder: Path, lease: Path | None = None) -> AsyncIterator[Watching]:
    seen: list[RunBegan | RunEnded] = []
    written: list[tuple[str, str]] = []
    runtime = ProcessRuntime(
        folder,
        lease or folder / "lease",
        observe=seen.append,
        write=lambda _task, stream, text: written.append((stream, text)),
        identify=identified,
        divide=divided_on_paper,
        processors=lambda pod: (LAST_CPU,) if "MUSTER_NUMA_NODES" in pod.environment else (),
    )
    try:
        yield Watching(runtime, seen, written)
    finally:
        await runtime.close()


def task_of(pod: RunPod, run: int = 1, container: int = 0) -> RunTask:
    return RunTask(id=ContainerRun(pod.pod_uid, container, run), pod=pod)


def keeper_of(folder: Path) -> int:
    (started,) = folder.rglob(keeper.STARTED)
    return int(started.read_text())


def marked(task: RunTask) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark_of(task.id):
                found.append(process)
        except psutil.Error:
            continue
    return found


async def test_a_command_runs_and_its_exit_code_and_output_are_reported(tmp_path: Path) -> None:
    task = task_of(run_pod("w1-1-0", shell("echo one; echo two >&2; printf three; exit 3")))
    async with watching(tmp_path) as watch:
        watch.runtime.run(task)
        end = await watch.end(task)
    assert watch.seen[0] == RunBegan(task.id)
    assert (end.exit_code, end.lost) == (3, False)
    assert watch.text() == "one\nthree"
    assert watch.text("stderr") == "two\n"
    assert output_file(tmp_path, "w1-1-0", 0, "stdout").read_text() == "one\nthree"


async def test_a_run_starts_once_however_often_it_is_asked_for(tmp_path: Path) -> None:
    task = task_of(run_pod("w1-1-0", shell("echo started; sleep 0.3")))
    async with watching(tmp_path) as first, watching(tmp_path) as second:
        for _ in range(3):
            first.runtime.run(task)
            second.runtime.run(task)
        assert (await first.end(task)).exit_code == 0
        assert (await second.end(task)).exit_code == 0
        first.runtime.forget("w1-1-0")
        first.runtime.run(task)
        await until(lambda: sum(isinstance(one, RunEnded) for one in first.seen) == 2)
    assert output_file(tmp_path, "w1-1-0", 0, "stdout").read_text() == "started\n"


async def test_a_process_outlives_the_agent_and_the_next_one_takes_it_over(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = f"echo begun; while ! test -e {gate}; do sleep 0.05; done; echo over; exit 4"
    task = task_of(run_pod("w1-1-0", shell(script)))
    async with watching(tmp_path) as first:
        first.runtime.run(task)
        await until(lambda: first.text() == "begun\n")
    async with watching(tmp_path) as second:
        second.runtime.run(task)
        await until(lambda: second.seen == [RunBegan(task.id)])
        gate.touch()
        assert (await second.end(task)).exit_code == 4
        assert second.text() == "over\n"


async def test_a_process_that_ended_while_no_agent_ran_keeps_its_exit_code(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = f"while ! test -e {gate}; do sleep 0.05; done; exit 5"
    task = task_of(run_pod("w1-1-0", shell(script)))
    async with watching(tmp_path) as first:
        first.runtime.run(task)
        await until(lambda: first.seen)
    gate.touch()
    await until(lambda: list(tmp_path.rglob(keeper.ENDED)))
    async with watching(tmp_path) as second:
        second.runtime.run(task)
        end = await second.end(task)
    assert (end.exit_code, end.lost) == (5, False)
    assert second.seen[0] == RunBegan(task.id)


async def test_stopping_asks_the_whole_group_first_and_then_kills_it(tmp_path: Path) -> None:
    forever = "while :; do sleep 0.05; done"
    script = (
        f"(trap 'echo child asked' TERM; echo child ready; {forever}) & "
        f"trap 'echo asked' TERM; echo ready; {forever}"
    )
    task = task_of(run_pod("w1-1-0", shell(script)))
    async with watching(tmp_path) as watch:
        watch.runtime.run(task)
        await until(lambda: {"ready", "child ready"} <= set(watch.text().splitlines()))
        watch.runtime.stop(task, kill=False)
        await until(lambda: {"asked", "child asked"} <= set(watch.text().splitlines()))
        watch.runtime.stop(task, kill=True)
        end = await watch.end(task)
    assert (end.exit_code, end.lost) == (137, False)
    assert marked(task) == []


async def test_a_process_gets_its_checkpoint_signal_and_goes_on(tmp_path: Path) -> None:
    script = "trap 'echo saved' HUP; echo ready; while :; do sleep 0.05; done"
    asked = run_pod("w1-1-0", shell(script), annotations={"muster.dev/checkpoint-signal": "SIGHUP"})
    task = task_of(asked)
    async with watching(tmp_path) as watch:
        watch.runtime.run(task)
        await until(lambda: watch.text() == "ready\n")
    async with watching(tmp_path) as second:
        second.runtime.checkpoint(task)
        await until(lambda: "saved" in watch.text() + second.text())
        assert second.seen == [RunBegan(task.id)]
        second.runtime.stop(task, kill=True)
        assert (await second.end(task)).exit_code == 137


async def test_a_process_that_says_nothing_of_checkpoints_gets_none(tmp_path: Path) -> None:
    task = task_of(run_pod("w1-1-0", shell("trap 'exit 9' TERM; echo ready; sleep 60 & wait")))
    async with watching(tmp_path) as watch:
        watch.runtime.run(task)
        await until(lambda: watch.text() == "ready\n")
        watch.runtime.checkpoint(task)
        watch.runtime.stop(task, kill=False)
        assert (await watch.end(task)).exit_code == 9


async def test_a_process_is_kept_to_the_processors_of_its_zones(tmp_path: Path) -> None:
    command = shell("grep Cpus_allowed_list /proc/self/status")
    near = task_of(run_pod("w1-1-0", command, environment={"MUSTER_NUMA_NODES": "1"}))
    async with watching(tmp_path) as watch:
        watch.runtime.run(near)
        assert (await watch.end(near)).exit_code == 0
        assert watch.text().split() == ["Cpus_allowed_list:", str(LAST_CPU)]


async def test_a_command_that_obeys_ends_with_its_own_code(tmp_path: Path) -> None:
    task = task_of(run_pod("w1-1-0", shell("trap 'exit 9' TERM; echo ready; sleep 60 & wait")))
    async with watching(tmp_path) as watch:
        watch.runtime.run(task)
        await until(lambda: watch.text() == "ready\n")
        watch.runtime.stop(task, kill=False)
        assert (await watch.end(task)).exit_code == 9
    assert marked(task) == []


async def test_what_left_the_group_is_gone_before_the_end_is_reported(tmp_path: Path) -> None:
    task = task_of(run_pod("w1-1-0", shell("setsid sleep 300 >/dev/null 2>&1 & exit 0")))
    async with watching(tmp_path) as watch:
        watch.runtime.run(task)
        assert (await watch.end(task)).exit_code == 0
        assert marked(task) == []


async def test_a_run_that_is_stopped_before_it_starts_never_starts(tmp_path: Path) -> None:
    task = task_of(run_pod("w1-1-0", shell("touch started")))
    async with watching(tmp_path) as watch:
        watch.runtime.stop(task, kill=False)
        assert (await watch.end(task)).exit_code == EXIT_NEVER_STARTED
        watch.runtime.forget("w1-1-0")
        watch.runtime.run(task)
        await until(lambda: len(watch.seen) == 2)
    assert not (pod_folder(tmp_path, "w1-1-0") / "work").exists()


async def test_a_keeper_that_comes_too_late_does_nothing(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    descriptor = keeper.claim(tmp_path / "run", "nobody")
    assert descriptor is not None
    os.close(descriptor)
    assert keeper.claim(tmp_path / "run", "somebody") is None
    assert (tmp_path / "run" / keeper.STARTED).read_text() == "nobody"
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [keeper.STARTED]


async def test_a_killed_keeper_loses_the_run_and_what_it_kept_is_killed(tmp_path: Path) -> None:
    task = task_of(run_pod("w1-1-0", shell("echo ready; sleep 300")))
    async with watching(tmp_path) as watch:
        watch.runtime.run(task)
        await until(lambda: watch.text() == "ready\n")
        os.kill(keeper_of(tmp_path), signal.SIGKILL)
        end = await watch.end(task)
    assert (end.exit_code, end.lost) == (137, True)
    assert marked(task) == []


async def test_a_keeper_ends_its_process_when_the_lease_is_over(tmp_path: Path) -> None:
    lease = tmp_path / "lease"
    lease.write_text(str(keeper.steady_ms() + 60_000))
    task = task_of(run_pod("w1-1-0", shell("echo ready; sleep 300")))
    async with watching(tmp_path, lease) as watch:
        watch.runtime.run(task)
        await until(lambda: watch.text() == "ready\n")
    assert len(marked(task)) == 2
    lease.write_text(str(keeper.steady_ms() - 1))
    await until(lambda: not marked(task))
    async with watching(tmp_path, lease) as second:
        second.runtime.run(task)
        end = await second.end(task)
    assert (end.exit_code, end.lost) == (137, True)


@pytest.mark.parametrize(
    ("command", "directory", "code", "message"),
    [
        pytest.param(("no-such-program",), "", 127, "no-such-program", id="no program"),
        pytest.param(("/etc/passwd",), "", 126, "Permission denied", id="not a program"),
        pytest.param(("true",), "/no/such/folder", 127, "/no/such/folder", id="no folder"),
        pytest.param((), "", 126, "has no command", id="no command"),
    ],
)
async def test_what_cannot_start_says_why(
    tmp_path: Path, command: tuple[str, ...], directory: str, code: int, message: str
) -> None:
    task = task_of(run_pod("w1-1-0", command, directory=directory))
    async with watching(tmp_path) as watch:
        watch.runtime.run(task)
        end = await watch.end(task)
    assert end.exit_code == code
    assert message in end.message
    assert RunBegan(task.id) not in watch.seen


async def test_a_pod_sees_what_it_was_given_and_nothing_of_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_NATS_PASSWORD", "secret")
    monkeypatch.setenv("SOMETHING_ELSE", "secret")
    pod = run_pod(
        "w1-1-0",
        ("sh", "-c", "env; echo 'rank $(RANK) of $$(RANK)'"),
        environment={"RANK": "2", "CUDA_VISIBLE_DEVICES": "3"},
        own={"NAME": "job-$(RANK)", "CUDA_VISIBLE_DEVICES": "0,1,2,3"},
    )
    task = task_of(pod)
    async with watching(tmp_path) as watch:
        watch.runtime.run(task)
        assert (await watch.end(task)).exit_code == 0
    *lines, last = watch.text().splitlines()
    found = dict(line.split("=", 1) for line in lines)
    found.pop("PWD", None)
    found.pop("_", None)
    found.pop("SHLVL", None)
    assert found == {
        "PATH": os.environ["PATH"],
        "HOME": os.environ["HOME"],
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "RANK": "2",
        "CUDA_VISIBLE_DEVICES": "3",
        "NAME": "job-2",
        "MUSTER_POD_UID": "w1-1-0",
        MARK: "w1-1-0/0/1",
    }
    assert last == "rank 2 of $(RANK)"


async def test_mig_devices_are_visible_by_their_uuid(tmp_path: Path) -> None:
    pod = run_pod(
        "w1-1-0",
        shell("echo $CUDA_VISIBLE_DEVICES"),
        devices={"nvidia.com/mig-1g.10gb": (0, 2)},
        environment={"CUDA_VISIBLE_DEVICES": ""},
    )
    task = task_of(pod)
    async with watching(tmp_path) as watch:
        watch.runtime.run(task)
        await watch.end(task)
    assert watch.text() == "MIG-nvidia.com/mig-1g.10gb-0,MIG-nvidia.com/mig-1g.10gb-2\n"


async def test_a_card_that_two_replicas_are_of_is_seen_once(tmp_path: Path) -> None:
    pod = run_pod(
        "w1-1-0", shell("echo $CUDA_VISIBLE_DEVICES"), devices={"nvidia.com/gpu.shared": (3, 4)}
    )
    task = task_of(pod)
    async with watching(tmp_path) as watch:
        watch.runtime.run(task)
        await watch.end(task)
    assert watch.text() == "MIG-nvidia.com/gpu.shared-1\n"


async def test_instances_are_made_before_the_pod_starts_and_are_all_it_sees(tmp_path: Path) -> None:
    instances = (
        MigInstance(card=0, profile="3g.40gb", start=4),
        MigInstance(card=1, profile="1g.10gb", start=6),
    )
    pod = run_pod(
        "w1-1-0",
        ("echo", "$(CUDA_VISIBLE_DEVICES)"),
        instances=instances,
        environment={"CUDA_VISIBLE_DEVICES": ""},
    )
    task = task_of(pod)
    async with watching(tmp_path) as watch:
        watch.runtime.run(task)
        await watch.end(task)
    assert watch.text() == "MIG-0-3g.40gb-4,MIG-1-1g.10gb-6\n"


async def test_a_pod_whose_instances_cannot_be_made_ends_with_the_reason(tmp_path: Path) -> None:
    taken = (MigInstance(card=9, profile="1g.10gb", start=0),)
    task = task_of(run_pod("w1-1-0", shell("exit 0"), instances=taken))
    async with watching(tmp_path) as watch:
        watch.runtime.run(task)
        end = await watch.end(task)
    assert (end.exit_code, end.message) == (126, "something still computes on card 9")


async def test_an_image_is_ignored_and_that_is_said_once(tmp_path: Path) -> None:
    pod = run_pod("w1-1-0", shell("exit 1"), image="pytorch:2")
    async with watching(tmp_path) as watch:
        for number in (1, 2):
            task = task_of(pod, number)
            watch.runtime.run(task)
            await watch.end(task)
    assert watch.text("stderr").count("image pytorch:2 is ignored") == 1


async def test_old_output_is_pruned_and_that_of_living_pods_is_not(tmp_path: Path) -> None:
    async with watching(tmp_path) as watch:
        for uid in ("w1-1-0", "w2-1-0"):
            task = task_of(run_pod(uid, shell("echo x")))
            watch.runtime.run(task)
            await watch.end(task)
        watch.runtime.forget("w1-1-0")
    prune_output(tmp_path, ["w2-1-0"], keep_s=3600)
    assert pod_folder(tmp_path, "w1-1-0").exists()
    os.utime(pod_folder(tmp_path, "w1-1-0") / "over", (0, 0))
    prune_output(tmp_path, ["w2-1-0"], keep_s=3600)
    assert not pod_folder(tmp_path, "w1-1-0").exists()
    assert pod_folder(tmp_path, "w2-1-0").exists()
