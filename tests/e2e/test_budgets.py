"""A budget over a month of real admissions: what it says is spent is what accounting charges."""

from pathlib import Path

from muster_contracts.partitions import home_of, partition_of
from muster_domain.conditions import PendingReason
from muster_domain.money import MICROS
from muster_domain.states import Pending
from muster_rating.prices import HOUR_MS

from .month import Accounts, Manifest, Month
from .test_cost_article import GPU, JUNE_MS, LABELS, declared, job, models, prices

PARTITION = partition_of("llm-platform")
NAME = next(f"datos-{n}" for n in range(200) if home_of(f"datos-{n}") == PARTITION)
MUSTER = "muster.dev/v1alpha1"


def with_budget(limit: str) -> list[Manifest]:
    window = {"period": "month", "limit": limit, "alertPercents": [50]}
    return [
        *declared(),
        {
            "apiVersion": MUSTER,
            "kind": "PriceList",
            "metadata": {"name": "house"},
            "spec": {"currency": "EUR", "flavors": {"h100-sxm": {GPU: {"hourly": "1.40"}}}},
        },
        {
            "apiVersion": MUSTER,
            "kind": "Budget",
            "metadata": {"name": NAME},
            "spec": {"team": "datos", "currency": "EUR", "windows": [window]},
        },
    ]


def limited(manifest: Manifest, hours: int) -> Manifest:
    metadata = manifest["metadata"]
    labels = {**metadata["labels"], "kueue.x-k8s.io/max-exec-time-seconds": str(hours * 3600)}
    return {**manifest, "metadata": {**metadata, "labels": labels}}


async def test_a_budget_lets_in_what_fits_and_has_spent_what_is_charged(tmp_path: Path) -> None:
    month = Month(JUNE_MS, with_budget("700.00"))
    month.node("n1", 4, LABELS)
    month.submit(limited(job("datos", "first", 2, 200), 200), "datos", 0)
    month.submit(limited(job("datos", "second", 2, 100), 100), "datos", 1)
    month.submit(limited(job("ia", "other", 1, 300), 300), "ia", 2)
    month.run(719)
    book = month.admission(PARTITION).book
    row = next(row for row in book.homes.rows(JUNE_MS + 700 * HOUR_MS) if row.budget == NAME)
    waiting = [
        (record.workload.name, book.explanations[record.workload.id].reason)
        for record in book.records.values()
        if isinstance(record.state, Pending)
    ]
    accounts = await Accounts.open(month, tmp_path, prices(), models())
    try:
        report = await accounts.report(by="team")
    finally:
        await accounts.store.close()
    charged = {line.key: line.cost_micros for line in report.lines}
    assert waiting == [("second", PendingReason.BUDGET_EXCEEDED)]
    assert (row.spent_micros, row.held_micros) == (charged["datos"], 0)
    assert charged["datos"] == 560 * MICROS
    assert row.alerted_percents == (50,)
