"""What callers may want of workloads that wait or run: activity, answers for checks, positions."""

from typing import Any

import pytest

from muster_contracts import codec
from muster_contracts.events import ActivationRequested, CheckAnswered
from muster_domain.checks import CheckState, PodSetUpdate
from muster_testing.connection import until

from .house import House, job_manifest

pytestmark = pytest.mark.servers

POSITIONS = "/apis/visibility.kueue.x-k8s.io/v1beta2"


async def submit(house: House, manifest: dict[str, Any]) -> str:
    """Send a job and wait for the first word about it; returns its id."""
    parameters = {"wait": "decision", "wait_s": 10}
    async with house.client() as client:
        answer = (await client.post("/v1/jobs", json=manifest, params=parameters)).json()
    identity: str = answer["jobs"][0]["id"]
    return identity


async def test_a_workload_is_taken_out_of_the_line_and_put_back(house: House) -> None:
    await house.apply()
    await submit(house, job_manifest())
    async with house.client("anna-token") as client:
        path = "/v1/workloads/team-a:train/activation"
        response = await client.post(path, json={"active": False})
        assert response.status_code == 202
    async with house.client("viewer-token") as client:
        assert (await client.post(path, json={"active": True})).status_code == 403
    await until(lambda: len(house.admission.events) == 2)
    fact = codec.decode(ActivationRequested, house.admission.events[1][1])
    assert (fact.active, fact.by) == (False, "anna")
    assert fact.at_ms > 0


async def test_only_who_may_answers_for_a_check(house: House) -> None:
    await house.apply()
    identity = await submit(house, job_manifest())
    path = f"/v1/workloads/{identity}/checks/licences"
    body = {
        "state": "Ready",
        "attempt": 1,
        "requeue_after_seconds": 5,
        "pod_set_updates": [{"name": "main", "node_selector": {"pool": "x"}}],
    }
    async with house.client("anna-token") as client:
        assert (await client.post(path, json=body)).status_code == 403
    async with house.client("checker-token") as client:
        assert (await client.post(path, json=body)).status_code == 202
        assert (await client.post(path, json=body)).status_code == 202
        wrong = {**body, "requeue_after_seconds": -1}
        assert (await client.post(path, json=wrong)).status_code == 422
        assert (await client.post(f"{path[:-8]}A B", json=body)).status_code == 422
    await until(lambda: len(house.admission.events) == 2)
    fact = codec.decode(CheckAnswered, house.admission.events[1][1])
    assert fact == CheckAnswered(
        workload_id=identity,
        attempt=1,
        check="licences",
        state=CheckState.READY,
        by="licences",
        requeue_after_ms=5_000,
        updates=(PodSetUpdate(name="main", node_selector={"pool": "x"}),),
    )


@pytest.fixture
async def waiting(house: House) -> House:
    """Three who wait in one ClusterQueue, through doors of one name in two namespaces."""
    await house.apply()
    for namespace, queue, name in (
        ("team-a", "main", "first"),
        ("team-b", "default", "second"),
        ("team-a", "main", "third"),
    ):
        manifest = job_manifest(name, namespace=namespace, queue=queue)
        await submit(house, manifest)
    house.admission.places = {"first": (0, 0), "second": (1, 0), "third": (2, 1)}
    return house


async def names(house: House, path: str, token: str = "admin-token") -> list[str]:  # noqa: S107 - a test's
    async with house.client(token) as client:
        response = await client.get(POSITIONS + path)
        assert response.status_code == 200, response.text
        answer = response.json()
    assert answer["kind"] == "PendingWorkloadsSummary"
    return [
        f"{item['metadata']['name']} {item['positionInClusterQueue']} "
        f"{item['positionInLocalQueue']}"
        for item in answer["items"]
    ]


async def test_positions_in_queues(waiting: House) -> None:
    path = "/clusterqueues/gpus/pendingworkloads"
    assert await names(waiting, path) == ["first 0 0", "second 1 0", "third 2 1"]
    door = "/namespaces/team-a/localqueues/main/pendingworkloads"
    assert await names(waiting, door) == ["first 0 0", "third 2 1"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("offset=1&limit=1", ["second 1 0"]),
        ("offset=-5", ["first 0 0", "second 1 0", "third 2 1"]),
        ("limit=-1", []),
        ("limit=99999999999999999999999", ["first 0 0", "second 1 0", "third 2 1"]),
        ("offset=7", []),
    ],
)
async def test_a_part_that_is_out_of_reach_is_the_nearest_that_is_not(
    waiting: House, query: str, found: list[str]
) -> None:
    assert await names(waiting, f"/clusterqueues/gpus/pendingworkloads?{query}") == found


async def test_strangers_keep_their_places_and_are_not_shown(waiting: House) -> None:
    path = "/clusterqueues/gpus/pendingworkloads"
    assert await names(waiting, path, "anna-token") == ["first 0 0", "third 2 1"]
    async with waiting.client("anna-token") as client:
        door = f"{POSITIONS}/namespaces/team-b/localqueues/default/pendingworkloads"
        assert (await client.get(door)).status_code == 403
        response = await client.get(f"{POSITIONS}{path}?limit=many")
        assert (response.status_code, "limit=10" in response.text) == (422, True)
