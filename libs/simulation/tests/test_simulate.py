import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from muster_domain.errors import InvalidValue
from muster_simulation.command import register
from muster_simulation.plot import round_up
from muster_simulation.premises import Happening, What
from muster_simulation.replay import Replayed, replay_scenario
from muster_simulation.scenario import Line, Replay, Scenario
from muster_simulation.series import FIRST_STEP_MS, POINTS_MAX, Series
from muster_simulation.summary import percentile
from muster_simulation.trace import read_rows

JOBS = st.lists(
    st.tuples(
        st.integers(0, 500), st.sampled_from(("a", "b", "c")), st.sampled_from((1, 2, 4, 8, 16)),
        st.integers(1, 400),
    ),
    min_size=1,
    max_size=30,
)  # fmt: skip
Jobs = list[tuple[int, str, int, int]]
HEADER = "submit_s,team,gpus,duration_s\n"
LINE = Line(reclaim="Any", within="LowerPriority")


def _ignore(_: Happening) -> None:
    pass


def _run(
    folder: Path,
    jobs: Jobs,
    quota: int = 8,
    seed: int = 0,
    tell: Callable[[Happening], None] = _ignore,
) -> Replayed:
    file = folder / "jobs.csv"
    file.write_text(HEADER + "".join(f"{s},{t},{g},{d}\n" for s, t, g, d in jobs))
    trace = Replay(file=file, default_quota=quota, queue=LINE, urgent_gpus_max=1)
    scenario = Scenario(trace=trace, price_per_gpu_hour="2")
    return replay_scenario(scenario, seed=seed, progress=lambda _arrived, _total: None, tell=tell)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


@settings(max_examples=40, deadline=None)
@given(JOBS, st.randoms(use_true_random=False))
def test_the_order_of_the_lines_changes_nothing(
    folder: Path, jobs: Jobs, dice: random.Random
) -> None:
    shuffled = list(jobs)
    dice.shuffle(shuffled)
    told: tuple[list[Happening], list[Happening]] = ([], [])
    ordered = _run(folder, jobs, tell=told[0].append)
    assert ordered == _run(folder, shuffled, tell=told[1].append)
    assert told[0] == told[1]


@settings(max_examples=40, deadline=None)
@given(JOBS, st.integers(1, 16), st.integers(1, 16))
def test_more_quota_never_admits_fewer_in_the_end(
    folder: Path, jobs: Jobs, quota: int, more: int
) -> None:
    little = _run(folder, jobs, quota)
    much = _run(folder, jobs, quota + more)
    assert much.summary.total.admitted >= little.summary.total.admitted


@settings(max_examples=40, deadline=None)
@given(JOBS)
def test_everybody_ends_and_the_hours_add_up(folder: Path, jobs: Jobs) -> None:
    summary = _run(folder, jobs).summary
    assert summary.total.finished + summary.total.refused == len(jobs)
    assert summary.total.waiting == 0
    for rows in (summary.queues, summary.sizes):
        assert sum(row.gpu_ms for row in rows) == summary.total.gpu_ms
        assert sum(row.jobs for row in rows) == summary.total.jobs
    useful = sum(g * d * 1000 for _, _, g, d in jobs if g <= 8 * len({j[1] for j in jobs}))
    assert summary.total.gpu_ms - summary.total.lost_gpu_ms == useful


def test_figures_of_three_jobs_by_hand(folder: Path) -> None:
    jobs = [(0, "a", 8, 100), (10, "a", 8, 100), (20, "a", 16, 5)]
    total = _run(folder, jobs).summary.total
    assert (total.jobs, total.admitted, total.refused) == (3, 2, 1)
    assert (total.wait_p50_ms, total.wait_p90_ms, total.wait_p99_ms) == (0, 90_000, 90_000)
    assert total.used_percent == 100 * 2 * 8 * 100_000 // (8 * 200_000)
    assert total.gpu_ms == 2 * 8 * 100_000
    assert total.cost_micros == 2 * 1_000_000 * total.gpu_ms // 3_600_000


def test_a_sample_is_drawn_by_the_seed(folder: Path) -> None:
    file = folder / "many.csv"
    file.write_text(HEADER + "".join(f"{n},a,1,1\n" for n in range(200)))
    trace = Replay(file=file, keep_one_in=4)
    assert read_rows(trace, 1) == read_rows(trace, 1)
    assert read_rows(trace, 1) != read_rows(trace, 2)
    assert 20 < len(read_rows(trace, 1)) < 80


def test_a_wrong_line_is_named(folder: Path) -> None:
    file = folder / "wrong.csv"
    file.write_text(HEADER + "1,a,1,1\n2,a,many,1\n")
    with pytest.raises(InvalidValue, match=r"wrong\.csv: line 3: .*many"):
        read_rows(Replay(file=file), 0)


def test_percentiles() -> None:
    assert percentile([], 50) is None
    assert percentile([3, 1, 2], 50) == 2
    assert percentile(list(range(1, 101)), 95) == 95


def test_a_series_keeps_its_shape_when_it_gets_too_long() -> None:
    series = Series(lambda _: 4000)
    series.take(Happening(at_ms=0, what=What.SUBMITTED, workload="w", queue="q"))
    half_ms = POINTS_MAX * FIRST_STEP_MS
    series.take(Happening(at_ms=half_ms, what=What.ADMITTED, workload="w", queue="q"))
    series.run_to(2 * half_ms - FIRST_STEP_MS)
    assert series.step_ms == 2 * FIRST_STEP_MS
    assert len(series.points) == POINTS_MAX - 1
    before, after = series.points[: POINTS_MAX // 2], series.points[POINTS_MAX // 2 :]
    assert {waiting["q"] for _, waiting in before} == {1}
    assert {used["q"] for used, _ in after} == {4000}


@pytest.mark.parametrize(("value", "top"), [(1, 1), (3, 4), (9, 10), (401, 600), (10_000, 10_000)])
def test_a_chart_ends_at_a_round_number(value: int, top: int) -> None:
    assert round_up(value) == top


def test_the_command_prints_lines_and_tables_and_a_picture(folder: Path) -> None:
    file = folder / "scenario.yaml"
    file.write_text(
        "queues: {a: {quota: {cpu: 2}}}\n"
        "rounds:\n"
        "- {at: 0, submit: [{name: x, queue: a, each: {cpu: 2}, run: 5s}]}\n"
        "- {at: 1s, expect: {admitted: []}}\n"
    )
    app = typer.Typer()
    register(app)
    picture = folder / "picture.html"
    lines = CliRunner().invoke(app, [str(file), "-o", "json", "--plot", str(picture)])
    assert lines.exit_code == 1
    assert "admitted: expected [], there is ['x']" in lines.stderr
    happenings = [json.loads(line) for line in lines.stdout.splitlines()]
    assert [line.get("what") for line in happenings[:2]] == ["submitted", "admitted"]
    assert happenings[-1]["summary"]["total"]["jobs"] == 1
    page = picture.read_text(encoding="utf-8")
    assert page.count("<polygon") == 1
    assert "1 jobs of 1 teams" in page
    table = CliRunner().invoke(app, [str(file)]).stdout.splitlines()
    assert table[0].strip() == "by queue"
    assert table[1].split()[-2:] == ["quota", "cost"]
