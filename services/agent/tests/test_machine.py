from dataclasses import replace

import pytest

from muster_agent.machine import NodeMachine, RestartRules
from muster_agent.pods import (
    Checkpoint,
    Commanded,
    ContainerRun,
    CutOff,
    Run,
    RunBegan,
    RunEnded,
    Save,
    Stop,
    actions,
    checkpoint_of,
)
from muster_contracts.events import PodFinished, PodRestarting, PodStarted
from muster_domain.workload import RestartPolicy

from .builders import run_pod, stop_pod

UID = "w1-1-0"
RULES = RestartRules(failures_max=2, pause_first_ms=100, pause_max_ms=150, forget_after_ms=1000)


def machine(refusal: str = "") -> NodeMachine:
    return NodeMachine("n1", RULES, refusal=refusal)


def run(number: int = 1, container: int = 0) -> ContainerRun:
    return ContainerRun(UID, container, number)


def ended(code: int = 0, number: int = 1, container: int = 0, *, lost: bool = False) -> RunEnded:
    return RunEnded(id=run(number, container), exit_code=code, lost=lost)


def restarting(times: int, code: int = 1) -> PodRestarting:
    message = f"a container ended with {code}"
    return PodRestarting(
        pod_uid=UID, workload_id="w1", attempt=1, node="n1", times=times, message=message
    )


def finished(code: int = 0, message: str = "", *, stopped: bool = False) -> PodFinished:
    return PodFinished(
        pod_uid=UID,
        workload_id="w1",
        attempt=1,
        node="n1",
        exit_code=code,
        stopped=stopped,
        message=message,
    )


STARTED = PodStarted(pod_uid=UID, workload_id="w1", attempt=1, node="n1")


def demanded(one: NodeMachine) -> list[str]:
    found: list[str] = []
    for action in actions(one.pods[UID]) if UID in one.pods else ():
        match action:
            case Run(task):
                found.append(f"run {task.id.container}.{task.id.run}")
            case Save(task):
                found.append(f"save {task.id.container}.{task.id.run}")
            case Stop(task, kill=kill):
                found.append(f"{'kill' if kill else 'stop'} {task.id.container}.{task.id.run}")
    return found


def test_a_pod_runs_once_and_is_reported() -> None:
    one = machine()
    one.handle(Commanded(run_pod()), 0)
    assert demanded(one) == ["run 0.1"]
    one.handle(RunBegan(run()), 5)
    assert demanded(one) == ["run 0.1"]
    one.handle(ended(3), 10)
    assert one.take_changes().reports == (
        STARTED,
        finished(3, "container c0 ended with 3"),
    )
    assert one.pods == {}
    one.handle(Commanded(run_pod()), 20)
    one.handle(ended(3), 21)
    assert not one.take_changes()


def test_a_pod_is_started_when_all_containers_are_and_over_when_all_are() -> None:
    one = machine()
    one.handle(Commanded(run_pod(UID, ("a",), ("b",))), 0)
    one.handle(RunBegan(run(container=0)), 1)
    one.handle(ended(0, container=0), 2)
    assert one.take_changes().reports == ()
    one.handle(RunBegan(run(container=1)), 3)
    assert one.take_changes().reports == (STARTED,)
    one.handle(ended(7, container=1), 4)
    assert one.take_changes().reports == (finished(7, "container c1 ended with 7"),)


def test_stopping_asks_first_and_kills_after_the_grace() -> None:
    one = machine()
    one.handle(Commanded(run_pod()), 0)
    one.handle(RunBegan(run()), 1)
    one.handle(Commanded(stop_pod(grace_ms=500)), 10)
    assert demanded(one) == ["stop 0.1"]
    assert one.wake_at_ms() == 510
    one.tick(509)
    assert demanded(one) == ["stop 0.1"]
    one.tick(510)
    assert demanded(one) == ["kill 0.1"]
    assert one.wake_at_ms() is None
    one.take_changes()
    one.handle(ended(137), 520)
    assert one.take_changes().reports == (
        finished(137, "container c0 ended with 137", stopped=True),
    )


SAVING = {"muster.dev/checkpoint-signal": "SIGUSR1", "muster.dev/checkpoint-seconds": "20"}


def running(annotations: dict[str, str]) -> NodeMachine:
    one = machine()
    one.handle(Commanded(run_pod(annotations=annotations)), 0)
    one.handle(RunBegan(run()), 1)
    return one


def test_a_pod_that_can_is_told_to_save_its_work_before_it_is_asked_to_end() -> None:
    one = running(SAVING)
    one.handle(Commanded(stop_pod(grace_ms=500)), 10)
    assert demanded(one) == ["save 0.1"]
    one.handle(Commanded(stop_pod(grace_ms=500)), 9_000)
    assert one.wake_at_ms() == 20_010
    one.tick(20_010)
    assert demanded(one) == ["stop 0.1"]
    assert one.wake_at_ms() == 20_510
    one.tick(20_510)
    assert demanded(one) == ["kill 0.1"]


def test_a_pod_that_has_saved_its_work_ends_by_itself() -> None:
    one = running(SAVING)
    one.handle(Commanded(stop_pod(grace_ms=500)), 10)
    one.take_changes()
    one.handle(ended(0), 30)
    assert one.take_changes().reports == (finished(0, stopped=True),)
    assert one.wake_at_ms() is None


def test_a_node_that_is_cut_off_has_no_time_to_save() -> None:
    one = running(SAVING)
    one.handle(Commanded(stop_pod(grace_ms=500)), 10)
    one.handle(CutOff(grace_ms=1000, message="cut off"), 20)
    assert demanded(one) == ["stop 0.1"]
    assert one.wake_at_ms() == 1020


def test_what_never_began_has_nothing_to_save() -> None:
    one = machine()
    one.handle(Commanded(run_pod(annotations=SAVING)), 0)
    one.handle(Commanded(stop_pod(grace_ms=500)), 10)
    assert demanded(one) == ["stop 0.1"]


@pytest.mark.parametrize(
    ("signal", "seconds", "expected"),
    [
        ("SIGKILL", "5", None),
        ("", "5", None),
        ("SIGHUP", "", Checkpoint(signal="SIGHUP", within_ms=30_000)),
        ("SIGHUP", "soon", Checkpoint(signal="SIGHUP", within_ms=30_000)),
        ("SIGUSR2", "90000", Checkpoint(signal="SIGUSR2", within_ms=3_600_000)),
    ],
)
def test_how_long_saving_may_take_is_bounded(
    signal: str, seconds: str, expected: Checkpoint | None
) -> None:
    written = {"muster.dev/checkpoint-signal": signal, "muster.dev/checkpoint-seconds": seconds}
    assert checkpoint_of(run_pod(annotations=written)) == expected


def test_a_stop_for_an_unknown_pod_is_reported_and_keeps_it_from_ever_starting() -> None:
    one = machine()
    one.handle(Commanded(stop_pod()), 0)
    report = finished(0, "it did not run", stopped=True)
    assert one.take_changes().reports == (report,)
    one.handle(Commanded(run_pod()), 1)
    assert not one.take_changes()
    one.handle(Commanded(stop_pod()), 2)
    assert one.take_changes().reports == (report,)


def test_failures_are_restarted_with_growing_pauses_up_to_the_bound() -> None:
    one = machine()
    one.handle(Commanded(run_pod(restart_policy=RestartPolicy.ON_FAILURE)), 0)
    now_ms = 0
    pauses: list[int] = []
    for number in (1, 2):
        one.handle(RunBegan(run(number)), now_ms)
        one.handle(ended(1, number), now_ms)
        assert demanded(one) == []
        due_ms = one.wake_at_ms() or 0
        pauses.append(due_ms - now_ms)
        now_ms = due_ms
        one.tick(now_ms)
        assert demanded(one) == [f"run 0.{number + 1}"]
    one.handle(ended(1, 3), now_ms)
    assert pauses == [100, 150]
    message = "container c0 ended with 1 after 2 restarts"
    assert one.take_changes().reports == (
        STARTED,
        restarting(1),
        replace(STARTED, times=2),
        restarting(2),
        finished(1, message),
    )


def test_a_pod_is_whole_again_when_all_its_containers_run() -> None:
    one = machine()
    pair = run_pod(UID, ("a",), ("b",), restart_policy=RestartPolicy.ALWAYS)
    one.handle(Commanded(pair), 0)
    one.handle(RunBegan(run(1, 0)), 0)
    one.handle(RunBegan(run(1, 1)), 0)
    one.handle(ended(3, 1, 0), 1)
    one.handle(ended(3, 1, 1), 2)
    one.tick(200)
    one.handle(RunBegan(run(2, 1)), 200)
    assert one.take_changes().reports == (STARTED, restarting(1, code=3))
    one.handle(RunBegan(run(2, 0)), 201)
    assert one.take_changes().reports == (replace(STARTED, times=2),)


def test_a_long_run_makes_the_pause_short_again() -> None:
    one = machine()
    one.handle(Commanded(run_pod(restart_policy=RestartPolicy.ALWAYS)), 0)
    one.handle(ended(0, 1), 0)
    one.tick(100)
    one.handle(RunBegan(run(2)), 100)
    one.handle(ended(0, 2), 1100)
    assert one.wake_at_ms() == 1200


def test_success_ends_a_pod_that_restarts_on_failure() -> None:
    one = machine()
    one.handle(Commanded(run_pod(restart_policy=RestartPolicy.ON_FAILURE)), 0)
    one.handle(ended(0), 1)
    assert one.take_changes().reports == (finished(),)


def test_a_stop_while_waiting_for_a_restart_ends_it_at_once() -> None:
    one = machine()
    one.handle(Commanded(run_pod(restart_policy=RestartPolicy.ON_FAILURE)), 0)
    one.handle(ended(9), 1)
    one.handle(Commanded(stop_pod()), 2)
    message = "container c0 ended with 9 after 1 restarts"
    assert one.take_changes().reports == (finished(9, message, stopped=True),)


def test_a_node_that_is_cut_off_stops_its_pods_within_the_grace() -> None:
    one = machine()
    one.handle(Commanded(run_pod()), 0)
    one.handle(RunBegan(run()), 1)
    one.take_changes()
    one.handle(CutOff(grace_ms=50, message="cut off"), 100)
    assert demanded(one) == ["stop 0.1"]
    one.tick(150)
    assert demanded(one) == ["kill 0.1"]
    one.handle(ended(137), 151)
    assert one.take_changes().reports == (finished(137, "cut off", stopped=True),)


def test_being_cut_off_shortens_a_long_grace_but_never_lengthens_one() -> None:
    one = machine()
    one.handle(Commanded(run_pod()), 0)
    one.handle(Commanded(stop_pod(grace_ms=60_000)), 10)
    one.handle(CutOff(grace_ms=50, message="cut off"), 100)
    assert one.wake_at_ms() == 150
    one.handle(CutOff(grace_ms=50_000, message="cut off"), 101)
    assert one.wake_at_ms() == 150


def test_a_lost_run_is_not_the_pods_own_end_and_is_not_restarted() -> None:
    one = machine()
    one.handle(Commanded(run_pod(UID, ("a",), ("b",), restart_policy=RestartPolicy.ALWAYS)), 0)
    one.handle(ended(137, lost=True), 5)
    one.tick(5)
    assert demanded(one) == ["kill 1.1"]
    one.handle(ended(137, container=1), 6)
    assert one.take_changes().reports == (
        finished(137, "container c0 ended with 137", stopped=True),
    )


def test_a_command_from_before_the_records_is_not_run_and_what_is_left_of_it_is_killed() -> None:
    one = machine()
    one.handle(Commanded(run_pod(), recorded=False), 0)
    assert demanded(one) == ["kill 0.1"]
    one.handle(ended(137), 1)
    message = "the node has no record of the pod any more"
    assert one.take_changes().reports == (finished(137, message, stopped=True),)


def test_a_node_that_runs_nothing_says_so() -> None:
    one = machine(refusal="this node runs no pods")
    one.handle(Commanded(run_pod()), 0)
    assert one.take_changes().reports == (finished(126, "this node runs no pods"),)


def test_what_is_about_another_run_changes_nothing() -> None:
    one = machine()
    one.handle(Commanded(run_pod()), 0)
    one.take_changes()
    one.handle(RunBegan(run(2)), 1)
    one.handle(ended(1, 2), 1)
    one.handle(ended(1, 1, container=4), 1)
    one.handle(RunEnded(id=ContainerRun("other", 0, 1), exit_code=1), 1)
    assert not one.take_changes()
