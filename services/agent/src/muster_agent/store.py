"""What the agent must not forget, in one SQLite file.

One cycle is one transaction: what became of the pods, how far the commands were read, and the
reports that say so. A crash before it leaves nothing of the cycle behind, one after it loses
nothing; reports stay until the bus has acknowledged them.
"""

import fcntl
import os
import sqlite3
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from muster_agent.pods import Ended, Pod
from muster_domain.errors import Conflict

if TYPE_CHECKING:
    from io import TextIOWrapper

_POD = TypeAdapter(Pod)
_ENDED = TypeAdapter(Ended)
_SCHEMA = """
CREATE TABLE IF NOT EXISTS nodes (
  name TEXT PRIMARY KEY, incarnation INTEGER NOT NULL, origin INTEGER NOT NULL,
  position INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS pods (
  uid TEXT PRIMARY KEY, node TEXT NOT NULL, body BLOB NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS ended (
  uid TEXT PRIMARY KEY, node TEXT NOT NULL, at_ms INTEGER NOT NULL, body BLOB NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS outbox (
  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, node TEXT NOT NULL,
  message_id TEXT NOT NULL, time_ms INTEGER NOT NULL, body BLOB NOT NULL
) STRICT;
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeImage:
    """What is stored about a node.

    Commands up to `origin` are older than these records; up to `position` they were taken in.
    """

    incarnation: int
    origin: int
    position: int
    pods: tuple[Pod, ...] = ()
    ended: tuple[Ended, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """An event of a node on its way to the bus. `name` is the event's name in subjects."""

    name: str
    node: str
    message_id: str
    time_ms: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleRecord:
    """Everything that one cycle changed, by node where it matters."""

    positions: Mapping[str, int] = field(default_factory=dict[str, int])
    pods: tuple[tuple[str, Pod], ...] = ()
    ended: tuple[tuple[str, Ended], ...] = ()
    letters: tuple[Letter, ...] = ()


class AgentStore:
    """The agent's records. One process at a time has them; calls may come from any thread."""

    def __init__(self, folder: Path, *, survive_power_loss: bool = True) -> None:
        """Open or create. Raises `Conflict` when another agent has the folder."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._claim = _claim(folder)
        path = folder / "agent.db"
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        self._mutex = threading.Lock()
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        synchronous = "FULL" if survive_power_loss else "NORMAL"
        self._database.execute(f"PRAGMA synchronous={synchronous}")
        self._database.executescript(_SCHEMA)

    def close(self) -> None:
        """Close the file and let another agent have it."""
        with self._mutex:
            self._database.close()
        self._claim.close()

    def open_node(self, name: str, *, origin: int, now_ms: int) -> NodeImage:
        """Begin a new life of a node: its records and a higher incarnation.

        `origin` counts only for a node without records. The incarnation is at least the time in
        seconds, so that it grows even if the records are lost.
        """
        with self._mutex, self._database:
            self._database.execute("BEGIN IMMEDIATE")
            self._database.execute(
                "INSERT INTO nodes VALUES (?, 0, ?, 0) ON CONFLICT DO NOTHING", (name, origin)
            )
            self._database.execute(
                "UPDATE nodes SET incarnation = max(incarnation + 1, ?) WHERE name = ?",
                (now_ms // 1000, name),
            )
            row = self._database.execute(
                "SELECT incarnation, origin, position FROM nodes WHERE name = ?", (name,)
            ).fetchone()
            pods = self._database.execute(
                "SELECT body FROM pods WHERE node = ? ORDER BY uid", (name,)
            ).fetchall()
            ended = self._database.execute(
                "SELECT body FROM ended WHERE node = ? ORDER BY at_ms, uid", (name,)
            ).fetchall()
        return NodeImage(
            incarnation=row[0],
            origin=row[1],
            position=row[2],
            pods=tuple(_POD.validate_json(body) for (body,) in pods),
            ended=tuple(_ENDED.validate_json(body) for (body,) in ended),
        )

    def commit(self, record: CycleRecord) -> None:
        """Store one cycle, all of it or nothing."""
        with self._mutex, self._database:
            self._database.execute("BEGIN IMMEDIATE")
            self._database.executemany(
                "INSERT OR REPLACE INTO pods VALUES (?, ?, ?)",
                [(pod.uid, node, _POD.dump_json(pod)) for node, pod in record.pods],
            )
            self._database.executemany(
                "DELETE FROM pods WHERE uid = ?",
                [(ended.report.pod_uid,) for _, ended in record.ended],
            )
            self._database.executemany(
                "INSERT OR REPLACE INTO ended VALUES (?, ?, ?, ?)",
                [
                    (ended.report.pod_uid, node, ended.at_ms, _ENDED.dump_json(ended))
                    for node, ended in record.ended
                ],
            )
            self._database.executemany(
                "INSERT INTO outbox (name, node, message_id, time_ms, body) VALUES (?, ?, ?, ?, ?)",
                [
                    (letter.name, letter.node, letter.message_id, letter.time_ms, letter.body)
                    for letter in record.letters
                ],
            )
            self._database.executemany(
                "UPDATE nodes SET position = max(position, ?) WHERE name = ?",
                [(position, node) for node, position in record.positions.items()],
            )

    def letters(self, limit: int) -> list[tuple[int, Letter]]:
        """The oldest unacknowledged letters and their numbers."""
        with self._mutex:
            rows = self._database.execute(
                "SELECT id, name, node, message_id, time_ms, body FROM outbox ORDER BY id LIMIT ?",
                (limit,),
            ).fetchall()
        return [
            (
                row[0],
                Letter(name=row[1], node=row[2], message_id=row[3], time_ms=row[4], body=row[5]),
            )
            for row in rows
        ]

    def delivered(self, up_to: int) -> None:
        """Forget the letters that the bus has acknowledged."""
        with self._mutex, self._database:
            self._database.execute("DELETE FROM outbox WHERE id <= ?", (up_to,))

    def letters_waiting(self) -> int:
        """How many letters are not acknowledged."""
        with self._mutex:
            return self._database.execute("SELECT count(*) FROM outbox").fetchone()[0]

    def forget_ended(self, before_ms: int) -> None:
        """Forget pods that ended before a time."""
        with self._mutex, self._database:
            self._database.execute("DELETE FROM ended WHERE at_ms < ?", (before_ms,))


def _claim(folder: Path) -> "TextIOWrapper":
    lock = (folder / "lock").open("a", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.close()
        raise Conflict(f"another agent works in {folder}") from error
    return lock
