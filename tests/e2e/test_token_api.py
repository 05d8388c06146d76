"""Tokens from a proxy's spend log to OpenCost's paths and the command, over a real bus."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from muster_testing.servers import KillableServer

from .test_cost_api import JUNE, House, open_house
from .test_cost_tokens import spend_log

pytestmark = pytest.mark.servers

DAYS = {"start_date": "2026-06-01", "end_date": "2026-06-30"}
ENOUGH = 670


@pytest.fixture
async def house(nats: KillableServer, tmp_path: Path) -> AsyncIterator[House]:
    """The article's month, its spend log handed over in two pieces, one of them twice."""
    log = list(spend_log())
    async with open_house(nats.url, tmp_path) as house:
        for part in (log[:400], log[400:], log[:400]):
            await house.report_tokens(part)
        async with asyncio.timeout(60):
            while (await tokens(house))["sets"][0]["total"]["requests"] < ENOUGH:
                pass
        yield house


async def tokens(house: House, caller: str = "finance", **parameters: str) -> dict[str, Any]:
    status, body = await house.get("/v1/cost/tokens", caller, **(DAYS | parameters))
    assert status == 200, body
    return body


async def test_tokens_cost_what_the_article_says(house: House) -> None:
    found = await tokens(house)

    (one,) = found["sets"]
    assert [(line["key"], line["cost_micros"]) for line in one["lines"]] == [
        (["datos"], 296_400_000),
        (["ia"], 73_500_000),
        (["plataforma"], 28_000_000),
    ]
    assert one["total"]["requests"] == ENOUGH
    assert one["total"]["additive_micros"] == 0
    alone = await tokens(house, "tenant")
    assert [line["key"] for line in alone["sets"][0]["lines"]] == [["ia"]]


async def test_one_day_is_that_day_and_an_empty_window_is_refused(house: House) -> None:
    day = await tokens(house, start_date="2026-06-30", end_date="2026-06-30")
    assert day["sets"][0]["total"]["requests"] == 12 + 7 + 2

    status, body = await house.get("/v1/cost/tokens", start_date="2026-06-30", to="2026-06-30")
    assert (status, body["error"]["field"]) == (422, "start_date")
    status, body = await house.get("/v1/cost/tokens", **{"from": "2026-06-30", "to": "2026-06-30"})
    assert (status, body["error"]["field"]) == (422, "from")


async def test_inference_says_what_a_million_tokens_really_cost(house: House) -> None:
    _, body = await house.get("/inferenceCost/total", window=JUNE)

    found = {row["namespace"]: row for row in body["data"]}
    assert {name: row["costPerMillionTokens"] for name, row in found.items()} == {
        "ns-datos": 3.97895,
        "ns-ia": 2.88,
        "ns-plataforma": 4.41,
    }
    assert found["ns-datos"]["status"] == "under_recovered"
    assert found["ns-datos"]["driftPercent"] == -80.4
    assert found["ns-datos"]["totalCost"] == 1512


async def test_custom_costs_hold_what_may_be_added_and_list_the_rest(house: House) -> None:
    _, total = await house.get("/customCost/total", window=JUNE, aggregate="accountName")
    _, days = await house.get("/customCost/timeseries", window=JUNE)
    _, status = await house.get("/customCost/status")

    data = total["data"]
    assert (data["totalCost"], data["totalListCost"]) == (0, 397.9)
    assert [
        (row["account_name"], row["cost"], row["list_cost"]) for row in data["customCosts"]
    ] == [
        ("datos", 0, 296.4),
        ("ia", 0, 73.5),
        ("plataforma", 0, 28),
    ]
    series = days["data"]["timeseries"]
    assert len(series) == 30
    assert round(sum(day["totalListCost"] for day in series), 5) == 397.9
    assert status["data"][0]["domain"] == "tokens"


async def test_custom_costs_are_sorted_filtered_and_kept_by_what_opencost_keeps(
    house: House,
) -> None:
    async def asked(**parameters: str) -> list[tuple[str, float, int]]:
        _, body = await house.get("/customCost/total", window=JUNE, **parameters)
        rows = body["data"]["customCosts"]
        assert body["data"]["totalCost"] == sum(row["cost"] for row in rows)
        return [(row["aggregate"], row["cost"], row["usage_quantity"]) for row in rows]

    everything = {"costType": "list", "aggregate": "resourceName"}
    assert await asked(**everything) == [
        ("llama-3-70b", 296.4, 380_000_000),
        ("llama-3-8b", 101.5, 290_000_000),
    ]
    assert await asked(**everything, sortDirection="asc", filter='zone!:"ns-ia"') == [
        ("llama-3-8b", 28, 80_000_000),
        ("llama-3-70b", 296.4, 380_000_000),
    ]
    assert await asked(aggregate="domain,usageUnit") == [("tokens/tokens", 0, 670_000_000)]
    assert [row[0] for row in await asked(aggregate="zone", sortBy="aggregate")] == [
        "ns-plataforma",
        "ns-ia",
        "ns-datos",
    ]


@pytest.mark.parametrize(
    ("path", "parameters", "param"),
    [
        ("/customCost/total", {}, "window"),
        ("/customCost/total", {"window": "7d", "aggregate": "team"}, "aggregate"),
        ("/customCost/total", {"window": "7d", "filter": 'team:"x"'}, "filter"),
        ("/customCost/total", {"window": "7d", "costType": "net"}, "costType"),
        ("/customCost/total", {"window": "7d", "sortBy": "name"}, "sortBy"),
        ("/customCost/total", {"window": "7d", "sortDirection": "down"}, "sortDirection"),
        ("/customCost/total", {"window": "7d", "accumulate": "day"}, "accumulate"),
        ("/customCost/timeseries", {"window": "7d", "accumulate": "decade"}, "accumulate"),
        ("/customCost/status", {"window": "7d"}, "window"),
        ("/inferenceCost/total", {"window": "7d", "costBasis": "usage"}, "costBasis"),
        ("/inferenceCost/total", {"window": "7d", "aggregate": "team"}, "aggregate"),
    ],
)
async def test_what_is_not_understood_is_refused_by_name(
    nats: KillableServer, tmp_path: Path, path: str, parameters: dict[str, str], param: str
) -> None:
    async with open_house(nats.url, tmp_path) as house:
        status, body = await house.get(path, **parameters)

    assert (status, body["status"], body["param"]) == (400, "error", param)


async def muster(house: House, token: str, *words: str) -> str:
    environment = {**os.environ, "MUSTER_URL": house.url, "MUSTER_TOKEN": token}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "muster", *words),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    return said.decode()


async def test_the_command_takes_an_export_and_shows_tokens(house: House, tmp_path: Path) -> None:
    rows = tmp_path / "spend.jsonl"
    rows.write_text("\n".join(json.dumps(row) for row in spend_log()))
    table = tmp_path / "spend.csv"
    table.write_text(
        "request_id,model_group,team_id,metadata,prompt_tokens,completion_tokens,spend,endTime\n"
        'csv-1,llama-3-8b,ia,"{""namespace"": ""ns-ia""}",10,0,3.5e-06,2026-06-30 10:00:00\n'
    )
    june = ("--from", "2026-06-01", "--to", "2026-07-01")

    assert "670 rows taken" in await muster(house, "litellm", "tokens", "report", str(rows))
    assert "1 rows taken" in await muster(house, "litellm", "tokens", "report", str(table))
    async with asyncio.timeout(60):
        while (await tokens(house))["sets"][0]["total"]["requests"] == ENOUGH:
            pass
    shown = await muster(house, "finance", "cost", "--by", "team", "--tokens", *june)
    drift = await muster(house, "finance", "tokens", "drift", *june)

    lines = [line.split() for line in shown.splitlines()]
    assert ["__total__", "671", "469,000,010", "201,000,000"] in [line[:4] for line in lines]
    assert ["datos", "380"] in [line[:2] for line in lines]
    assert "under_recovered" in drift
    assert "-80.4 %" in drift
