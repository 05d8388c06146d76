from collections.abc import AsyncIterator

import httpx
import pytest

from muster_console.app import build
from muster_console.settings import ConsoleSettings


@pytest.fixture
async def viewer() -> AsyncIterator[httpx.AsyncClient]:
    console = httpx.ASGITransport(build(ConsoleSettings()))
    async with httpx.AsyncClient(transport=console, base_url="http://console") as client:
        yield client


async def counted(viewer: httpx.AsyncClient) -> set[str]:
    answer = await viewer.get("/metrics")
    return set(answer.text.splitlines())


async def test_requests_are_counted_by_page_and_status(viewer: httpx.AsyncClient) -> None:
    await viewer.get("/workloads/vision:a")
    await viewer.get("/workloads/vision:b")
    await viewer.get("/login")
    lines = await counted(viewer)
    labels = '{method="GET",page="/workloads/{reference}",status="303"}'
    assert f"muster_console_requests_total{labels} 2.0" in lines
    labels = '{method="GET",page="/login",status="200"}'
    assert f"muster_console_requests_total{labels} 1.0" in lines
    assert 'muster_console_request_seconds_count{page="/login"} 1.0' in lines


async def test_what_strangers_ask_for_makes_no_series_of_its_own(viewer: httpx.AsyncClient) -> None:
    await viewer.get("/etc/passwd")
    await viewer.request("BREW", "/coffee")
    lines = await counted(viewer)
    labels = '{method="GET",page="unmatched",status="404"}'
    assert f"muster_console_requests_total{labels} 1.0" in lines
    assert not [line for line in lines if "BREW" in line or "coffee" in line or "passwd" in line]
