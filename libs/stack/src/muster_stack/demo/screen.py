"""What the demonstration shows: a live board on a terminal, plain lines elsewhere."""

import threading
import time
from collections import deque
from types import TracebackType
from typing import Self

import httpx
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from muster_stack.demo.api import FINISHED, Api, Json

GPU = "nvidia.com/gpu"
REFRESH_S = 0.5
LINES_KEPT = 12
ROWS_SHOWN = 14
_TEAM_COLOURS = {"data": "cyan", "research": "magenta"}
_NODE_MARKS = {"ready": "white", "suspect": "yellow", "fenced": "red", "cordoned": "blue"}


class Screen:
    """Tells the story as it happens."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began_s = time.monotonic()
        self._lines: deque[Text] = deque(maxlen=LINES_KEPT)
        self._api: Api | None = None
        self._live: Live | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep_fresh, daemon=True)
        self._board: Group | Text = Text("")

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(
                console=self._console, refresh_per_second=4, get_renderable=self._render
            )
            self._live.start()
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self._live is not None:
            self._thread.join(timeout=5)
            self._live.stop()

    def watch(self, api: Api) -> None:
        """From now on show what this gateway says."""
        self._api = api

    def say(self, text: str, style: str = "") -> None:
        """One line of the story, with the seconds since the start."""
        line = Text(f"{time.monotonic() - self._began_s:6.1f} s  ", style="dim")
        line.append(text, style=style)
        self._lines.append(line)
        if self._live is None:
            self._console.print(line)

    def show(self, table: Table) -> None:
        """Something to keep on the screen."""
        self._console.print(table)

    def _render(self) -> Group:
        return Group(self._board, Panel(Group(*self._lines), title="what happens"))

    def _keep_fresh(self) -> None:
        while not self._stop.wait(REFRESH_S):
            if self._api is None:
                continue
            try:
                self._board = Group(
                    quota_table(self._api.quota()),
                    queue_table(self._api.workloads()),
                    node_map(self._api.nodes()),
                )
            except (httpx.HTTPError, TimeoutError, KeyError):
                continue


def quota_table(page: Json) -> Table:
    """GPUs of each team: nominal, used, borrowed, lent."""
    table = Table(title="GPUs by queue", expand=True)
    for column in ("queue", "nominal", "used", "borrowed", "lent", "", "waiting"):
        table.add_column(column, justify="right" if column not in ("queue", "") else "left")
    waiting = {row["name"]: row["pending"] for row in page["queues"]}
    for row in page["rows"]:
        if row["resource"] != GPU or row["nominal_milli"] > 10**9:
            continue
        used, nominal = row["used_milli"] // 1000, row["nominal_milli"] // 1000
        bar = Text("█" * min(used, nominal), style="green")
        bar.append("█" * max(0, used - nominal), style="yellow")
        bar.append("·" * max(0, nominal - used), style="dim")
        table.add_row(
            row["cluster_queue"],
            str(nominal),
            str(used),
            str(row["borrowed_milli"] // 1000),
            str(row["lent_milli"] // 1000),
            bar,
            str(waiting.get(row["cluster_queue"], 0)),
        )
    return table


def queue_table(rows: list[Json]) -> Table:
    """The workloads that have not ended."""
    live = [row for row in rows if row["phase"] != FINISHED]
    table = Table(title=f"{len(live)} live, {len(rows) - len(live)} ended", expand=True)
    for column, width in (
        ("workload", 24),
        ("state", 13),
        ("GPUs", 4),
        ("pods", 4),
        ("priority", 8),
    ):
        table.add_column(column, no_wrap=True, overflow="ellipsis", min_width=width)
    table.add_column("why", no_wrap=True, overflow="ellipsis", ratio=1)
    for row in live[:ROWS_SHOWN]:
        table.add_row(
            Text(
                f"{row['namespace']}/{row['name']}", style=_TEAM_COLOURS.get(row["namespace"], "")
            ),
            row["phase"],
            str(row["requests_milli"].get(GPU, 0) // 1000),
            str(row["pods"]),
            str(row["priority"]),
            ", ".join(row["nodes"]) or f"{row['reason']}: {row['message']}",
        )
    return table


def node_map(nodes: list[Json]) -> Panel:
    """One cell for each GPU, coloured by team; the node's name by its condition."""
    text = Text()
    for number, node in enumerate(nodes):
        text.append(f"{node['name']:>8} ", style=_NODE_MARKS.get(node["condition"], ""))
        for device in node["devices"]:
            team = device["holder"].partition("/")[0]
            text.append("■" if team else "□", style=_TEAM_COLOURS.get(team, "dim"))
        text.append("\n" if number % 6 == 5 else "  ")  # noqa: PLR2004 - six nodes a line
    return Panel(text, title="nodes")
