"""A picture of a run as one HTML page that needs nothing else: use, queueing, and waits by team."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from muster_simulation.replay import Replayed
from muster_simulation.summary import Row, span

WIDTH, HEIGHT = 1_160, 250
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 12, 28
BAR_HEIGHT, BAR_GAP, NAME_WIDTH = 14, 10, 150
DAY_MS = 86_400_000
TICKS_MAX = 12
COLOURS = (
    "#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5",
    "#9c6b4e", "#9498a0", "#2f4b7c", "#c79fef", "#0d9488", "#d97706", "#be123c", "#65a30d",
)  # fmt: skip
_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 14px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 1180px; color: #1f2937;
  background: #fff }}
h1 {{ font-size: 1.5rem; margin: 0 }} h2 {{ font-size: 1rem; margin: 1.8rem 0 .3rem }}
p {{ color: #6b7280; margin: .2rem 0 }}
svg {{ width: 100%; height: auto; display: block }}
svg text {{ font: 11px system-ui, sans-serif; fill: #6b7280 }}
.grid {{ stroke: #e5e7eb }} .quota {{ stroke: #111827; stroke-dasharray: 5 4 }}
.area:hover {{ opacity: .75 }}
.facts {{ display: flex; gap: 2.5rem; margin: 1.2rem 0 }}
.facts b {{ display: block; font-size: 1.6rem; font-weight: 600; color: #111827 }}
.legend span {{ display: inline-block; margin: .1rem 1rem .1rem 0; color: #374151 }}
.legend i {{ display: inline-block; width: .75em; height: .75em; border-radius: 2px;
  margin-right: .4em }}
</style>
<h1>{title}</h1><p>{subtitle}</p>
<div class="facts">{facts}</div>
<div class="legend">{legend}</div>
<h2>In use, by team ({resource})</h2>{used}
<h2>Jobs waiting, by team</h2>{waiting}
<h2>How long jobs waited</h2>
<p>Half of a team's jobs started within the dark bar, 90 of 100 within the middle one, 99 of 100
within the light one. The scale is logarithmic.</p>{waits}
</html>
"""


def write_plot(replayed: Replayed, path: Path) -> None:
    """Write the page."""
    summary = replayed.summary
    names = [row.name for row in sorted(summary.queues, key=lambda row: (-row.gpu_ms, row.name))]
    colours = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(names)}
    used = [point[0] for point in replayed.series.points]
    waiting = [point[1] for point in replayed.series.points]
    chart = _Chart(replayed.series.step_ms, names, colours)
    page = _PAGE.format(
        title=escape(replayed.name or "muster simulate"),
        subtitle=f"{summary.total.jobs:,} jobs of {len(names)} teams in {span(summary.until_ms)}",
        facts=_facts(summary.total),
        legend=_legend(names, colours),
        resource=escape(replayed.resource),
        used=chart.stacked(used, 1000, replayed.quota_milli),
        waiting=chart.stacked(waiting, 1, 0),
        waits=_wait_bars([row for row in summary.queues if row.wait_p99_ms is not None]),
    )
    path.write_text(page, encoding="utf-8")


def _facts(total: Row) -> str:
    facts = [
        ("jobs ended", f"{total.finished:,}"),
        ("wait, half of them within", span(total.wait_p50_ms)),
        ("99 of 100 within", span(total.wait_p99_ms)),
        ("preemptions", f"{total.evictions:,}"),
    ]
    if total.used_percent is not None:
        facts.append(("of the quota in use", f"{total.used_percent} %"))
    if total.cost_micros is not None:
        facts.append(("cost", f"{total.cost_micros // 1_000_000:,}"))
    return "".join(f"<div><b>{value}</b>{name}</div>" for name, value in facts)


def _legend(names: Sequence[str], colours: dict[str, str]) -> str:
    return "".join(
        f'<span><i style="background:{colours[name]}"></i>{escape(name)}</span>' for name in names
    )


@dataclass(frozen=True, slots=True)
class _Chart:
    """Areas on top of each other over time, the largest team at the bottom."""

    step_ms: int
    names: Sequence[str]
    colours: dict[str, str]

    def stacked(self, points: Sequence[dict[str, int]], unit: int, quota: int) -> str:
        most = max([quota, *(sum(point.values()) for point in points)], default=0)
        top = round_up(max(1, -(-most // unit))) * unit
        base = [0] * len(points)
        shapes: list[str] = []
        for name in self.names:
            upper = [low + point.get(name, 0) for low, point in zip(base, points, strict=True)]
            shapes.append(self._area(name, base, upper, top))
            base = upper
        line = ""
        if quota:
            y = _y(quota, top)
            line = f'<line class="quota" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>'
            line += f'<text x="{LEFT + 6}" y="{y - 4}">quota {quota // unit:,}</text>'
        axes = _levels(top, unit) + self._days(len(points))
        return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}">{axes}{"".join(shapes)}{line}</svg>'

    def _area(self, name: str, lower: list[int], upper: list[int], top: int) -> str:
        if lower == upper:
            return ""
        count = len(lower)
        there = [f"{_x(place, count)},{_y(value, top)}" for place, value in enumerate(upper)]
        back = [f"{_x(place, count)},{_y(lower[place], top)}" for place in reversed(range(count))]
        return (
            f'<polygon class="area" fill="{self.colours[name]}" points="{" ".join(there + back)}">'
            f"<title>{escape(name)}</title></polygon>"
        )

    def _days(self, count: int) -> str:
        """A mark for each day, or for as many as can be read."""
        whole_ms = count * self.step_ms
        unit_ms, unit = (DAY_MS, "day") if whole_ms >= 2 * DAY_MS else (3_600_000, "hour")
        every = max(1, -(-(whole_ms // unit_ms) // TICKS_MAX))
        marks: list[str] = []
        for number in range(0, whole_ms // unit_ms + 1, every):
            x = _x(number * unit_ms // self.step_ms, count)
            marks.append(
                f'<text x="{x}" y="{HEIGHT - 8}" text-anchor="middle">{unit} {number}</text>'
            )
        return "".join(marks)


def _levels(top: int, unit: int) -> str:
    marks: list[str] = []
    for part in range(5):
        value = top * part // 4
        y = _y(value, top)
        marks.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>'
            f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{value // unit:,}</text>'
        )
    return "".join(marks)


def _wait_bars(rows: Sequence[Row]) -> str:
    """A bar for each team, those that waited longest first."""
    worst_ms = max([row.wait_p99_ms or 0 for row in rows], default=0)
    scale = _log_scale(worst_ms)
    ordered = sorted(rows, key=lambda row: (-(row.wait_p90_ms or 0), row.name))
    bars: list[str] = []
    for place, row in enumerate(ordered):
        y = 8 + place * (BAR_HEIGHT + BAR_GAP)
        waits = (row.wait_p99_ms or 0, row.wait_p90_ms or 0, row.wait_p50_ms or 0)
        said = " / ".join(span(wait) for wait in reversed(waits))
        bars.append(f'<text x="{NAME_WIDTH - 10}" y="{y + 11}" text-anchor="end">')
        bars.append(f"{escape(row.name)}</text>")
        for wait_ms, colour in zip(waits, ("#dbe4fb", "#8fa9ec", "#4269d0"), strict=True):
            bars.append(
                f'<rect x="{NAME_WIDTH}" y="{y}" width="{scale(wait_ms)}" height="{BAR_HEIGHT}" '
                f'rx="2" fill="{colour}"><title>{said}</title></rect>'
            )
        end = NAME_WIDTH + scale(waits[0]) + 8
        bars.append(f'<text x="{end}" y="{y + 11}">{said}</text>')
    height = 16 + len(ordered) * (BAR_HEIGHT + BAR_GAP)
    return f'<svg viewBox="0 0 {WIDTH} {height}">{"".join(bars)}</svg>'


def _log_scale(worst_ms: int) -> Callable[[int], int]:
    """Milliseconds to pixels: every doubling of a second is as wide as the next."""
    width = WIDTH - NAME_WIDTH - 180
    doublings = max(1, (worst_ms // 1000 + 1).bit_length())

    def scale(wait_ms: int) -> int:
        seconds = wait_ms // 1000 + 1
        whole = seconds.bit_length() - 1
        part = (seconds - (1 << whole)) * 1000 >> whole
        return width * (1000 * whole + part) // (1000 * doublings)

    return scale


def round_up(value: int) -> int:
    """The next number of the form 1, 2, 4, 6 or 8 times a power of ten."""
    size = 1
    while True:
        for step in (1, 2, 4, 6, 8):
            if step * size >= value:
                return step * size
        size *= 10


def _x(place: int, count: int) -> int:
    return LEFT + (WIDTH - LEFT - RIGHT) * place // max(1, count - 1)


def _y(value: int, top: int) -> int:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value // top
