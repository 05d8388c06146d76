"""The month of three teams on one node of four GPUs, through the real event path.

What is printed is what a person would send to finance; what is asserted is the same.
"""

import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from muster_accounting.settings import AccountingSettings, load_token_terms
from muster_accounting.token_answers import TokenTerms
from muster_contracts.queries import CostLine, CostReport
from muster_domain.money import ChargingBasis, IdlePolicy, round_rows
from muster_rating.price_lists import read_price_list
from muster_rating.prices import HOUR_MS, PriceBook

from .month import DURATION, GPU, Accounts, Manifest, Month, rows

KUEUE = "kueue.x-k8s.io/v1beta2"
JUNE_MS = 1_780_272_000_000
"""2026-06-01T00:00:00Z."""
LAST_H = 745
LABELS = {"accelerator": "h100-sxm"}
TEAMS: Mapping[str, Mapping[str, int]] = {
    "datos": {"nominalQuota": 2, "borrowingLimit": 2},
    "ia": {"nominalQuota": 1, "lendingLimit": 1},
    "plataforma": {"nominalQuota": 1, "borrowingLimit": 3},
}


def prices(*entries: dict[str, str]) -> PriceBook:
    listed = list(entries) or [{"hourly": "1.40"}]
    return read_price_list({"flavors": {"h100-sxm": {GPU: listed}}}, default_currency="EUR")


def declared() -> list[Manifest]:
    found: list[Manifest] = [
        {
            "apiVersion": KUEUE,
            "kind": "ResourceFlavor",
            "metadata": {"name": "h100-sxm"},
            "spec": {"nodeLabels": LABELS},
        }
    ]
    for team, quota in TEAMS.items():
        flavor = {"name": "h100-sxm", "resources": [{"name": GPU, **quota}]}
        spec = {
            "cohort": "llm-platform",
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": f"ns-{team}"}},
            "resourceGroups": [{"coveredResources": [GPU], "flavors": [flavor]}],
        }
        found += [
            {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": team}, "spec": spec},
            {
                "apiVersion": KUEUE,
                "kind": "LocalQueue",
                "metadata": {"name": "jobs", "namespace": f"ns-{team}"},
                "spec": {"clusterQueue": team},
            },
        ]
    return found


LITELLM = """
model_list:
  - model_name: llama-3-70b
    litellm_params:
      model: hosted_vllm/llama-3-70b
      input_cost_per_token: 0.00000078
      output_cost_per_token: 7.8e-7
  - model_name: llama-3-8b
    litellm_params: {model: hosted_vllm/llama-3-8b}
    model_info: {input_cost_per_token: 3.5e-07, output_cost_per_token: 0.00000035}
"""


def models(config: str = LITELLM) -> TokenTerms:
    return load_token_terms(AccountingSettings(token_prices=config))


def job(team: str, name: str, gpus: int, run_h: int, model: str = "") -> Manifest:
    of_model = {"muster.dev/model": model} if model else {}
    limits = {GPU: str(gpus)}
    container = {"name": "main", "image": "train:1", "resources": {"limits": limits}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": f"ns-{team}",
            "labels": {"kueue.x-k8s.io/queue-name": "jobs", "muster.dev/team": team} | of_model,
        },
        "spec": {
            "template": {
                "metadata": {"annotations": {DURATION: str(run_h * HOUR_MS)}},
                "spec": {"containers": [container], "restartPolicy": "Never"},
            }
        },
    }


Play = Callable[[Month], None]


@asynccontextmanager
async def accounts(
    folder: Path, play: Play, book: PriceBook | None = None, terms: TokenTerms | None = None
) -> AsyncIterator[Accounts]:
    month = Month(JUNE_MS, declared())
    month.node("n1", 4, LABELS)
    play(month)
    month.run(LAST_H)
    opened = await Accounts.open(month, folder, book or prices(), terms or models())
    try:
        yield opened
    finally:
        await opened.store.close()


def article(month: Month) -> None:
    """75 %, 60 % and 35 % of what each team has reserved."""
    month.submit(job("datos", "train", 2, 540, "llama-3-70b"), "datos", 0)
    month.submit(job("ia", "serve", 1, 432, "llama-3-8b"), "ia", 100)
    month.submit(job("plataforma", "eval", 1, 252, "llama-3-8b"), "plataforma", 200)


def money(report: CostReport, of: Callable[[CostLine], int | None]) -> dict[str, str]:
    """Cents by largest remainder."""
    lines = rows(report)
    cents, _ = round_rows([Fraction(of(line) or 0, 10_000) for line in lines])
    return {line.key: f"{amount / 100:,.2f}" for line, amount in zip(lines, cents, strict=True)}


def gpu_hours(times: Mapping[str, int]) -> Fraction:
    return Fraction(times.get(GPU, 0), 1000 * HOUR_MS)


def cost(line: CostLine) -> int | None:
    return line.cost_micros


def show(title: str, report: CostReport, of: Callable[[CostLine], int | None]) -> dict[str, str]:
    amounts = money(report, of)
    say = sys.stdout.write
    say(f"\n{title}\n")
    for line in rows(report):
        hours = f"{float(gpu_hours(line.resource_time)):,.2f}"
        say(f"  {line.key:<16}{hours:>12} GPU-h{amounts[line.key]:>14} {report.currency}\n")
    total = f"{(report.total.cost_micros or 0) / 1e6:,.2f}"
    say(f"  {'total':<16}{total:>32} {report.currency}\n")
    return amounts


async def test_the_month_of_the_article(tmp_path: Path) -> None:
    """G1."""
    async with accounts(tmp_path, article) as books:
        usage = await books.report(by="team")
        shared = await books.report(by="team", idle=IdlePolicy.PROPORTIONAL)
        owned = await books.report(by="cluster_queue", idle=IdlePolicy.OWNER)
        quota = await books.report(by="cluster_queue", basis=ChargingBasis.COMMITMENT)

    assert show("by usage, idle on its own row", usage, cost) == {
        "datos": "1,512.00",
        "ia": "604.80",
        "plataforma": "352.80",
        "__idle__": "1,562.40",
    }
    assert {line.key: gpu_hours(line.resource_time) for line in rows(usage)} == {
        "datos": 1080,
        "ia": 432,
        "plataforma": 252,
        "__idle__": 1116,
    }
    assert show("idle in proportion", shared, lambda line: line.idle_cost_micros) == {
        "datos": "956.57",
        "ia": "382.63",
        "plataforma": "223.20",
    }
    assert show("idle by who reserved it", owned, lambda line: line.idle_cost_micros) == {
        "datos": "504.00",
        "ia": "403.20",
        "plataforma": "655.20",
    }
    assert show("by commitment", quota, cost) == {
        "datos": "2,016.00",
        "ia": "1,008.00",
        "plataforma": "1,008.00",
    }
    for report in (usage, shared, owned, quota):
        assert report.total.cost_micros == 4_032_000_000
        assert sum(line.cost_micros or 0 for line in rows(report)) == 4_032_000_000
        assert not report.provisional


async def test_idle_shared_is_added_to_what_was_used(tmp_path: Path) -> None:
    async with accounts(tmp_path, article) as books:
        by_node = await books.report(by="team", idle=IdlePolicy.NODE)
        left_out = await books.report(by="team", idle=IdlePolicy.NONE)

    assert money(by_node, cost) == {
        "datos": "2,468.57",
        "ia": "987.43",
        "plataforma": "576.00",
    }
    assert left_out.total.cost_micros == 2_469_600_000


async def test_a_filtered_report_has_only_the_idle_that_it_would_carry(tmp_path: Path) -> None:
    """G2."""
    async with accounts(tmp_path, article) as books:
        report = await books.report(by="team", namespaces=("ns-datos",))

    assert money(report, cost) == {"datos": "1,512.00", "__idle__": "956.57"}


async def test_a_price_that_changes_splits_the_time(tmp_path: Path) -> None:
    """G3: two GPUs from June 15 noon to June 16 noon."""
    book = prices({"hourly": "1.40"}, {"hourly": "1.50", "effective_from": "2026-06-16T00:00:00Z"})

    def play(month: Month) -> None:
        month.submit(job("datos", "day", 2, 24), "datos", 14 * 24 + 12)

    async with accounts(tmp_path, play, book) as books:
        report = await books.report(by="team")

    assert money(report, cost)["datos"] == "69.60"


@pytest.mark.parametrize(("ends_h", "used", "borrowed"), [(10, 28, 8), (6, 20, 4)])
async def test_what_is_above_nominal_is_borrowed(
    tmp_path: Path, ends_h: int, used: int, borrowed: int
) -> None:
    """G4a and G4b: A has two GPUs from the start, B two more from hour 4 to 8."""

    def play(month: Month) -> None:
        month.submit(job("datos", "a", 2, ends_h), "datos", 0)
        month.submit(job("datos", "b", 2, 4), "datos", 4)

    async with accounts(tmp_path, play) as books:
        queues = await books.report(by="cluster_queue", until_h=10)
        workloads = await books.report(by="workload", until_h=10)

    datos = next(line for line in queues.lines if line.key == "datos")
    assert (gpu_hours(datos.resource_time), gpu_hours(datos.borrowed_time)) == (used, borrowed)
    by_workload = {line.key: gpu_hours(line.borrowed_time) for line in workloads.lines}
    assert by_workload == {"ns-datos/a": 0, "ns-datos/b": borrowed}
    lent = {line.key: gpu_hours(line.lent_time) for line in queues.lines if line.lent_time}
    assert lent == {"ia": Fraction(borrowed, 2), "plataforma": Fraction(borrowed, 2)}


@pytest.mark.parametrize(
    ("asked", "expected", "total"),
    [
        (
            {"basis": ChargingBasis.BOTH, "lender_credit_percent": 0},
            {"datos": "2,772.00", "ia": "1,008.00", "plataforma": "1,008.00"},
            4_788,
        ),
        (
            {"basis": ChargingBasis.BOTH},
            {"datos": "2,772.00", "ia": "630.00", "plataforma": "630.00"},
            4_032,
        ),
        (
            {"idle": IdlePolicy.OWNER},
            {"datos": "2,772.00", "ia": "630.00", "plataforma": "630.00"},
            4_032,
        ),
    ],
)
async def test_a_loan_is_paid_once(
    tmp_path: Path, asked: dict[str, Any], expected: dict[str, str], total: int
) -> None:
    """G16: one team on all four GPUs for 270 hours, the others on none."""

    def play(month: Month) -> None:
        month.submit(job("datos", "tp4", 4, 270), "datos", 0)

    async with accounts(tmp_path, play) as books:
        report = await books.report(by="cluster_queue", **asked)

    charged = {key: text for key, text in money(report, cost).items() if key in TEAMS}
    assert charged == expected
    teams = [line.cost_micros or 0 for line in report.lines if line.key in TEAMS]
    assert sum(teams) == total * 1_000_000
    assert report.total.cost_micros == 4_032_000_000


@pytest.mark.parametrize(
    ("hours", "expected"),
    [
        (672, "3,763.20"),
        (720, "4,032.00"),
        (743, "4,160.80"),
        (744, "4,166.40"),
        (745, "4,172.00"),
    ],
)
async def test_a_month_costs_its_own_hours(tmp_path: Path, hours: int, expected: str) -> None:
    """G8: the whole node, in months of every length that a calendar has."""
    async with accounts(tmp_path, lambda _month: None) as books:
        report = await books.report(by="team", until_h=hours)

    assert money(report, cost) == {"__idle__": expected}
