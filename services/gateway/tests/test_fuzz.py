"""Every path of the API under generated requests: never a crash, always the declared shape."""

import asyncio
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from .house import ADMIN, House, job_manifest

pytestmark = pytest.mark.servers

EXAMPLES = 20
ENDLESS = ("/v1/watch", "/v1/workloads/{reference}/output")
UNAVAILABLE = 503


def fuzz(house: House) -> list[str]:
    schema = schemathesis.openapi.from_url(f"{house.url}/openapi.json")
    tried: list[str] = []
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path in ENDLESS:
            continue
        _fuzz_operation(house, operation)
        tried.append(operation.label)
    return tried


def _fuzz_operation(house: House, operation: Any) -> None:  # noqa: ANN401 - schemathesis builds its types
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def send(case: Any) -> None:  # noqa: ANN401 - schemathesis builds its types
        response = case.call(
            base_url=house.url, headers={"Authorization": f"Bearer {ADMIN}"}, timeout=20
        )
        assert response.status_code < 500 or response.status_code == UNAVAILABLE, response.text
        case.validate_response(
            response, checks=[response_schema_conformance, status_code_conformance]
        )

    send()


async def test_no_request_breaks_the_api(house: House) -> None:
    await house.apply()
    async with house.client() as client:
        await client.post("/v1/jobs", json=job_manifest())
    tried = await asyncio.to_thread(fuzz, house)
    assert len(tried) >= 18
    async with house.client() as client:
        assert (await client.get("/v1/whoami")).status_code == 200
