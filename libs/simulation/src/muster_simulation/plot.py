"""A picture of a run: how much of the quota each queue uses, and how many wait."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from muster_simulation.house import Happening, What
from muster_simulation.replay import Replayed

POINTS_MAX = 1_500
_TEMPLATE = """<!doctype html>
<meta charset="utf-8"><title>muster simulate</title>
<style>
body {{ font: 14px system-ui, sans-serif; margin: 2em; background: #fff; color: #222 }}
svg {{ width: 100%; height: 300px; border: 1px solid #ccc }}
i {{ display: inline-block; width: .8em; height: .8em; margin: 0 .4em 0 1em }}
</style>
<h2>In use, by queue (most: {used_max:g})</h2>{used}
<h2>Waiting, by queue (most: {waiting_max})</h2>{waiting}
<p>0 to {hours:.1f} hours of virtual time.{legend}</p>
"""
_Series = dict[str, list[int]]


def write_plot(replayed: Replayed, path: Path) -> None:
    """Write the picture as one HTML file that needs nothing else."""
    used, waiting = _series(replayed)
    names = sorted(used)
    colours = {
        name: f"hsl({360 * place // len(names)} 60% 55%)" for place, name in enumerate(names)
    }
    used_max = max((sum(column) for column in zip(*used.values(), strict=True)), default=0)
    waiting_max = max((sum(column) for column in zip(*waiting.values(), strict=True)), default=0)
    legend = "".join(f'<i style="background:{colours[name]}"></i>{name}' for name in names)
    path.write_text(
        _TEMPLATE.format(
            used=_stacked(used, used_max, colours),
            waiting=_stacked(waiting, waiting_max, colours),
            used_max=used_max / 1000,
            waiting_max=waiting_max,
            hours=replayed.summary.until_ms / 3_600_000,
            legend=legend,
        ),
        encoding="utf-8",
    )


def _series(replayed: Replayed) -> tuple[_Series, _Series]:
    """Milli-units in use and workloads waiting, at evenly spaced moments."""
    until_ms = max(1, replayed.summary.until_ms)
    names = sorted({h.queue for h in replayed.happenings if h.queue})
    counts = _Counts(replayed.amounts_milli)
    used_series: _Series = {name: [] for name in names}
    waiting_series: _Series = {name: [] for name in names}
    happenings = iter(replayed.happenings)
    happening = next(happenings, None)
    for point in range(POINTS_MAX):
        moment_ms = until_ms * (point + 1) // POINTS_MAX
        while happening is not None and happening.at_ms <= moment_ms:
            counts.take(happening)
            happening = next(happenings, None)
        for name in names:
            used_series[name].append(counts.used[name])
            waiting_series[name].append(counts.waiting[name])
    return used_series, waiting_series


@dataclass(slots=True)
class _Counts:
    """Where everybody is at one moment."""

    amounts_milli: Mapping[str, int]
    used: Counter[str] = field(default_factory=Counter[str])
    waiting: Counter[str] = field(default_factory=Counter[str])
    holders: set[str] = field(default_factory=set[str])

    def take(self, happening: Happening) -> None:
        queue, name = happening.queue, happening.workload
        match happening.what:
            case What.SUBMITTED:
                self.waiting[queue] += 1
            case What.ADMITTED:
                self.waiting[queue] -= 1
                self.holders.add(name)
                self.used[queue] += self.amounts_milli[name]
            case What.REQUEUED:
                self.waiting[queue] += 1
                self._let_go(queue, name)
            case What.FINISHED if name in self.holders:
                self._let_go(queue, name)
            case What.FINISHED if queue:
                self.waiting[queue] -= 1
            case _:
                pass

    def _let_go(self, queue: str, name: str) -> None:
        self.holders.discard(name)
        self.used[queue] -= self.amounts_milli[name]


def _stacked(series: _Series, most: int, colours: dict[str, str]) -> str:
    """Areas on top of each other, in a view of POINTS_MAX by 1000."""
    base = [0] * POINTS_MAX
    shapes: list[str] = []
    for name in sorted(series):
        top = [low + value for low, value in zip(base, series[name], strict=True)]
        points = [_point(x, y, most) for x, y in enumerate(top)]
        points += [_point(x, y, most) for x, y in reversed(list(enumerate(base)))]
        shapes.append(
            f'<polygon fill="{colours[name]}" points="{" ".join(points)}">'
            f"<title>{name}</title></polygon>"
        )
        base = top
    return (
        f'<svg viewBox="0 0 {POINTS_MAX} 1000" preserveAspectRatio="none">{"".join(shapes)}</svg>'
    )


def _point(x: int, y: int, most: int) -> str:
    return f"{x},{1000 - (1000 * y // most if most else 0)}"
