"""A live workload that is applied again is switched or scaled, and nothing else."""

from typing import Any

import pytest

from muster_contracts import codec
from muster_contracts.events import ActivationRequested, ScaleRequested
from muster_domain.workload import ELASTIC_JOB
from muster_testing.connection import until

from .house import House, job_manifest

pytestmark = pytest.mark.servers


def workload_manifest(*, active: bool | None = True, **changes: object) -> dict[str, Any]:
    """A Workload of one pod; `active` of None is left out."""
    pods = {"name": "main", "count": 1, "template": job_manifest()["spec"]["template"]}
    spec = {"queueName": "main", "podSets": [pods], **changes}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "train", "namespace": "team-a"},
        "spec": spec if active is None else {**spec, "active": active},
    }


async def apply(
    house: House, manifest: dict[str, Any], **parameters: str | int
) -> tuple[int, dict[str, Any]]:
    async with house.client() as client:
        response = await client.post("/v1/jobs", json=manifest, params=parameters)
    return response.status_code, response.json()


@pytest.fixture
async def live(house: House) -> House:
    """A house in which the Workload waits."""
    await house.apply()
    status, _ = await apply(house, workload_manifest(), wait="decision", wait_s=10)
    assert status == 202
    return house


async def test_it_is_taken_out_of_the_line_and_put_back(live: House) -> None:
    (identity,) = live.admission.submitted
    for count, active in enumerate((False, True), 2):
        status, answer = await apply(live, workload_manifest(active=active))
        assert (status, answer["jobs"]) == (202, [])
        assert answer["objects"] == [
            {"kind": "Workload", "namespace": "team-a", "name": "train", "effect": "configured"}
        ]
        await until(lambda count=count: len(live.admission.events) == count)
        fact = codec.decode(ActivationRequested, live.admission.events[-1][1])
        assert (fact.workload_id, fact.active, fact.by) == (identity, active, "root")


async def test_a_dry_run_switches_nothing(live: House) -> None:
    _, answer = await apply(live, workload_manifest(active=False), dry_run="true")
    assert [item["effect"] for item in answer["objects"]] == ["configured"]
    await apply(live, workload_manifest(active=True))
    await until(lambda: len(live.admission.events) > 1)
    assert codec.decode(ActivationRequested, live.admission.events[1][1]).active


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(workload_manifest(active=False, priority=7), id="something else changes"),
        pytest.param(workload_manifest(active=None), id="it does not say whether it is active"),
    ],
)
async def test_whatever_else_is_a_conflict(live: House, changed: dict[str, Any]) -> None:
    status, answer = await apply(live, changed)
    assert (status, answer["error"]["kind"]) == (409, "conflict")


def elastic_manifest(parallelism: int, *, elastic: bool = True, image: str = "") -> dict[str, Any]:
    """A Job of so many pods."""
    manifest = job_manifest("train")
    manifest["spec"] = {**manifest["spec"], "parallelism": parallelism, "completions": parallelism}
    if elastic:
        manifest["metadata"]["annotations"] = {ELASTIC_JOB: "true"}
    if image:
        manifest["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return manifest


async def test_an_elastic_job_with_other_pods_is_scaled(house: House) -> None:
    await house.apply()
    await apply(house, elastic_manifest(2), wait="decision", wait_s=10)
    (identity,) = house.admission.submitted
    status, answer = await apply(house, elastic_manifest(5))
    assert (status, answer["jobs"]) == (202, [])
    await until(lambda: len(house.admission.events) == 2)
    fact = codec.decode(ScaleRequested, house.admission.events[-1][1])
    assert (fact.workload_id, fact.counts, fact.by) == (identity, {"main": 5}, "root")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(
            elastic_manifest(2), elastic_manifest(5, image="other"), id="something else changes"
        ),
        pytest.param(
            elastic_manifest(2, elastic=False), elastic_manifest(5), id="it was not elastic"
        ),
    ],
)
async def test_another_job_of_that_name_is_a_conflict(
    house: House, first: dict[str, Any], second: dict[str, Any]
) -> None:
    await house.apply()
    await apply(house, first, wait="decision", wait_s=10)
    status, answer = await apply(house, second)
    assert (status, answer["error"]["kind"]) == (409, "conflict")
