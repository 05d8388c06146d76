import sqlite3
import stat
from pathlib import Path

import pytest

from muster_agent.pods import ContainerRecord, Ended, Pod, Running
from muster_agent.store import AgentStore, CycleRecord, Letter
from muster_contracts.events import PodFinished
from muster_domain.errors import Conflict

from .builders import run_pod, shell

NOW_MS = 1_700_000_000_000


def pod(uid: str = "w1-1-0") -> Pod:
    record = ContainerRecord(state=Running(5), run=2, failures=1, pause_ms=10, exit_code=3)
    return Pod(command=run_pod(uid, shell("exit 0")), containers=(record,), reported=True)


def ended(uid: str = "w1-1-0", at_ms: int = 7) -> Ended:
    report = PodFinished(pod_uid=uid, workload_id="w1", attempt=1, node="n1", exit_code=0)
    return Ended(report=report, at_ms=at_ms)


def letter(name: str) -> Letter:
    return Letter(name=name, node="n1", message_id=name, time_ms=1, body=b"{}")


def test_a_cycle_is_found_again(tmp_path: Path) -> None:
    store = AgentStore(tmp_path)
    store.open_node("n1", origin=4, now_ms=NOW_MS)
    store.commit(
        CycleRecord(
            positions={"n1": 9},
            pods=(("n1", pod("a-1-0")), ("n1", pod("b-1-0"))),
            letters=(letter("one"), letter("two")),
        )
    )
    store.commit(CycleRecord(ended=(("n1", ended("b-1-0")),), letters=(letter("three"),)))
    store.close()

    again = AgentStore(tmp_path)
    image = again.open_node("n1", origin=99, now_ms=NOW_MS)
    assert (image.origin, image.position) == (4, 9)
    assert image.pods == (pod("a-1-0"),)
    assert image.ended == (ended("b-1-0"),)
    letters = again.letters(2)
    assert [one.name for _, one in letters] == ["one", "two"]
    again.delivered(letters[-1][0])
    assert [one.name for _, one in again.letters(2)] == ["three"]
    assert again.letters_waiting() == 1
    again.forget_ended(8)
    assert again.open_node("n1", origin=0, now_ms=NOW_MS).ended == ()
    again.close()


def test_incarnations_grow_even_without_records(tmp_path: Path) -> None:
    store = AgentStore(tmp_path / "a")
    first = store.open_node("n1", origin=0, now_ms=NOW_MS).incarnation
    second = store.open_node("n1", origin=0, now_ms=NOW_MS).incarnation
    store.close()
    wiped = AgentStore(tmp_path / "b")
    third = wiped.open_node("n1", origin=0, now_ms=NOW_MS + 5000).incarnation
    wiped.close()
    assert first < second < third


def test_positions_never_go_back(tmp_path: Path) -> None:
    store = AgentStore(tmp_path)
    store.open_node("n1", origin=0, now_ms=NOW_MS)
    store.commit(CycleRecord(positions={"n1": 9}))
    store.commit(CycleRecord(positions={"n1": 3}))
    assert store.open_node("n1", origin=0, now_ms=NOW_MS).position == 9
    store.close()


def test_nodes_have_records_of_their_own(tmp_path: Path) -> None:
    store = AgentStore(tmp_path)
    for name in ("n1", "n2"):
        store.open_node(name, origin=0, now_ms=NOW_MS)
    store.commit(CycleRecord(positions={"n2": 5}, pods=(("n2", pod()),)))
    assert store.open_node("n1", origin=0, now_ms=NOW_MS).pods == ()
    assert store.open_node("n2", origin=0, now_ms=NOW_MS).pods == (pod(),)
    store.close()


def test_a_cycle_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    store = AgentStore(tmp_path)
    store.open_node("n1", origin=0, now_ms=NOW_MS)
    broken = Letter(name="x", node="n1", message_id="x", time_ms="soon", body=b"")  # type: ignore[arg-type]
    with pytest.raises(sqlite3.Error):
        store.commit(CycleRecord(positions={"n1": 9}, pods=(("n1", pod()),), letters=(broken,)))
    image = store.open_node("n1", origin=0, now_ms=NOW_MS)
    assert (image.position, image.pods) == (0, ())
    store.close()


def test_two_agents_never_share_a_folder(tmp_path: Path) -> None:
    store = AgentStore(tmp_path)
    with pytest.raises(Conflict, match="another agent"):
        AgentStore(tmp_path)
    store.close()
    AgentStore(tmp_path).close()


def test_only_the_owner_reads_the_records(tmp_path: Path) -> None:
    AgentStore(tmp_path / "agent").close()
    mode = stat.S_IMODE((tmp_path / "agent" / "agent.db").stat().st_mode)
    assert mode == 0o600
