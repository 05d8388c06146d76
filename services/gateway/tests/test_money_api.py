"""Budgets and commitments at the door and on the command line."""

from typing import Any

from muster_contracts import codec, subjects
from muster_contracts.budgets import BudgetRow
from muster_contracts.partitions import PARTITIONS
from muster_contracts.queries import PriceList, PriceRow, QuotaRow
from muster_contracts.subjects import Service
from muster_rating.periods import month_of

from .house import House
from .test_cli import muster

GPU = "nvidia.com/gpu"


def budget(name: str) -> BudgetRow:
    month = month_of("2026-06", "UTC")
    return BudgetRow(
        budget=name,
        scope=f"namespace {name}",
        period=month.id,
        starts_at_ms=month.start_ms,
        ends_at_ms=month.end_ms,
        currency="EUR",
        limit_micros=5_000_000,
        spent_micros=1_000_000,
        held_micros=0,
        forecast_micros=2_000_000,
    )


def quota(queue: str, nominal: int, borrowed: int, flavor: str = "h100") -> QuotaRow:
    return QuotaRow(
        cluster_queue=queue,
        cohort="all",
        flavor=flavor,
        resource=GPU,
        nominal_milli=nominal * 1000,
        used_milli=(nominal + borrowed) * 1000,
        reserved_milli=0,
        borrowed_milli=borrowed * 1000,
        lent_milli=0,
        available_milli=0,
        max_milli=4000,
    )


async def with_prices(house: House) -> None:
    row = PriceRow(
        flavor="h100",
        resource=GPU,
        hourly="1.4",
        per="1",
        currency="EUR",
        written="1.40",
        effective_from_ms=None,
    )

    async def answer(_question: dict[str, Any]) -> bytes:
        return codec.encode(PriceList(currency="EUR", rows=(row,)))

    await house.bus.answer(subjects.query(Service.ACCOUNTING, "prices"), answer)


async def test_a_budget_that_does_not_exist_is_said_not_to(house: House) -> None:
    house.admission.budgets = (budget("vision"),)
    code, out, _ = await muster(house, "budget", "vision")
    assert (code, out.splitlines()[1].split()[0]) == (0, "vision")
    code, out, err = await muster(house, "budget", "visoin")
    assert (code, out) == (2, "")
    assert "there is no Budget 'visoin'" in err
    assert "next: muster budget" in err


async def test_a_budget_of_a_partition_that_is_silent_may_exist(house: House) -> None:
    house.admission.silent.add(PARTITIONS[0])
    async with house.client() as client:
        answer = await client.get("/v1/cost/budgets", params={"name": "vision"})
    assert (answer.status_code, answer.json()["silent"]) == (200, [PARTITIONS[0]])


async def test_quota_is_shown_as_what_it_comes_to(house: House) -> None:
    await with_prices(house)
    house.admission.quotas = (quota("ia", 1, 0), quota("datos", 2, 2), quota("ia", 1, 0, "b200"))
    async with house.client() as client:
        asked = {"month": "2026-03", "tz": "Europe/Madrid"}
        page = (await client.get("/v1/cost/commitments", params=asked)).json()
        for path, field in (
            ("commitments?month=march", "month"),
            ("statements/2026-13", "month"),
            ("statements/2026-06?tz=Mars", "tz"),
        ):
            answer = await client.get(f"/v1/cost/{path}")
            assert (answer.status_code, answer.json()["error"]["field"]) == (422, field)
    async with house.client("anna-token") as client:
        assert (await client.get("/v1/cost/commitments")).status_code == 403
    names = ("cluster_queue", "flavor", "committed_micros", "ceiling_micros", "loan_micros")
    assert [tuple(row[name] for name in names) for row in page["rows"]] == [
        ("datos", "h100", 2_080_400_000, 4_160_800_000, 2_080_400_000),
        ("ia", "b200", None, None, None),
        ("ia", "h100", 1_040_200_000, 4_160_800_000, 0),
    ]
    assert (page["committed_micros"], page["loan_micros"]) == (3_120_600_000, 2_080_400_000)
    assert (page["period"], page["unpriced"]) == ("2026-03@Europe/Madrid", [f"b200/{GPU}"])
    code, out, err = await muster(house, "commitments", "2026-06")
    assert (code, f"in no amount: b200/{GPU}" in err) == (0, True)
    assert [line.split() for line in out.splitlines()][1:] == [
        ["datos", "h100", GPU, "2016.00", "4032.00", "2.00", "2016.00"],
        ["ia", "b200", GPU, "no", "price", "no", "price", "0.00", "no", "price"],
        ["ia", "h100", GPU, "1008.00", "4032.00", "0.00", "0.00"],
        ["total", "3024.00", "2016.00", "EUR"],
    ]
    code, out, _ = await muster(house, "commitments", "-o", "json")
    assert (code, '"period"' in out) == (0, True)
