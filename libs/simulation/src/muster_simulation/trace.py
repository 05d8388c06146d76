"""Jobs of a CSV file: who submitted how many GPUs when, and for how long they ran."""

import csv
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from muster_domain.errors import InvalidValue
from muster_domain.workload import LocalQueueRef, Owner, PodSet, Workload
from muster_simulation.manifests import DURATION, Naming
from muster_simulation.scenario import Quota, Replay, Scenario

COLUMNS = ("submit_s", "team", "gpus", "duration_s")
_OWNER = Owner(api_version="batch/v1", kind="Job", name="trace")


@dataclass(frozen=True, slots=True, order=True)
class TraceRow:
    """One job. Times in milliseconds."""

    submit_ms: int
    team: str
    gpus: int
    run_ms: int


def read_rows(replay: Replay, seed: int) -> list[TraceRow]:
    """The jobs in the order of their times, whatever the order of the lines.

    `seed` draws which ones are kept where only some are. Raises `InvalidValue` that names file and
    line.
    """
    try:
        with replay.file.open(newline="", encoding="utf-8") as lines:
            rows = sorted(_rows(replay, csv.DictReader(lines)))
    except OSError as error:
        raise InvalidValue(f"cannot be read: {error.strerror}", field=str(replay.file)) from error
    if replay.keep_one_in > 1:
        dice = random.Random(f"{seed}/trace")  # noqa: S311 - a simulation
        rows = [row for row in rows if dice.randrange(replay.keep_one_in) == 0]
    return rows[: replay.first] if replay.first is not None else rows


def workloads(rows: list[TraceRow], replay: Replay, naming: Naming) -> Iterator[Workload]:
    """The jobs as workloads; equal rows are told apart by number."""
    equal: Counter[TraceRow] = Counter()
    for row in rows:
        equal[row] += 1
        name = f"{row.submit_ms:013d}-{row.team}-{row.gpus}-{row.run_ms}-{equal[row]}"
        pods = -(-row.gpus // replay.gpus_per_pod)
        urgent = (
            row.gpus <= replay.urgent_gpus_max and row.run_ms <= replay.urgent_seconds_max * 1000
        )
        yield Workload(
            id=name,
            namespace=naming.namespace,
            name=name,
            queue=LocalQueueRef(name=row.team),
            pod_sets=(
                PodSet(
                    name="main",
                    count=pods,
                    requests={replay.resource: row.gpus * 1000 // pods},
                    annotations={DURATION: str(row.run_ms)},
                ),
            ),
            owner=_OWNER,
            created_at_ms=row.submit_ms,
            priority=1 if urgent else 0,
        )


def with_queues(scenario: Scenario, replay: Replay, rows: list[TraceRow]) -> Scenario:
    """The scenario with a queue for every team that has none."""
    lines = dict(scenario.queues)
    for team in sorted({row.team for row in rows} - set(lines)):
        nominal = str(replay.quota.get(team, replay.default_quota))
        quota = {replay.resource: Quota(nominal=nominal)}
        lines[team] = replay.queue.model_copy(update={"cohort": replay.cohort, "quota": quota})
    return scenario.model_copy(update={"queues": lines})


def _rows(replay: Replay, lines: "csv.DictReader[str]") -> Iterator[TraceRow]:
    missing = [column for column in COLUMNS if column not in (lines.fieldnames or ())]
    if missing:
        raise InvalidValue(f"no column {', '.join(missing)}", field=f"{replay.file}: line 1")
    for number, row in enumerate(lines, start=2):
        try:
            gpus = int(row["gpus"])
            submit_ms = int(float(row["submit_s"]) * 1000) // replay.speed
            run_ms = max(1, int(float(row["duration_s"]) * 1000) // replay.speed)
        except ValueError as error:
            raise InvalidValue(str(error), field=f"{replay.file}: line {number}") from error
        if gpus > 0 and replay.from_ms <= submit_ms < replay.until_ms:
            yield TraceRow(submit_ms, row["team"], gpus, run_ms)
