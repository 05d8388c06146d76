import asyncio
from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from muster_contracts.partitions import partition_of
from muster_gateway.applying import Applying
from muster_gateway.events import Cause
from muster_gateway.http.app import Observed
from muster_manifests import load
from muster_manifests.catalogue import ObjectCatalogue, ObjectKey
from muster_runtime.objects import ObjectFeed
from muster_testing.connection import until

from .house import BASE, House, job_manifest

pytestmark = pytest.mark.servers

MOVED = BASE.replace("cohort: site", "cohort: other")


async def apply(house: House, text: str, token: str = "operator-token") -> tuple[int, Any]:  # noqa: S107 - a token of the test house
    async with house.client(token) as client:
        response = await client.post("/v1/jobs", content=text)
    return response.status_code, response.json()


async def delete(house: House, path: str, token: str = "operator-token") -> tuple[int, Any]:  # noqa: S107 - a token of the test house
    async with house.client(token) as client:
        response = await client.delete(f"/v1/objects/{path}")
    return response.status_code, response.json()


async def with_a_live_job(house: House) -> None:
    await apply(house, BASE)
    async with house.client() as client:
        await client.post("/v1/jobs", json=job_manifest(), params={"wait": "decision"})
    await house.seen(1)


async def test_objects_come_back_as_they_were_written(house: House) -> None:
    _, answer = await apply(house, BASE)
    assert [found["effect"] for found in answer["objects"]] == ["created"] * 4
    async with house.client("anna-token") as client:
        response = await client.get("/v1/objects/lq/main", params={"namespace": "team-a"})
        assert response.status_code == 200
        assert "# the door of team a" in response.json()["text"]
        assert response.json()["by"] == "olga"
        response = await client.get("/v1/objects/localqueues")
        assert [found["name"] for found in response.json()["objects"]] == ["main"]
        response = await client.get("/v1/objects/ClusterQueue")
        assert [found["name"] for found in response.json()["objects"]] == ["gpus"]
        for path in ("lq/default?namespace=team-b", "cq/nope", "teapot", "teapot/x"):
            assert (await client.get(f"/v1/objects/{path}")).status_code == 404


async def test_applying_again_changes_only_what_differs(house: House) -> None:
    await apply(house, BASE)
    before = house.gateway.feed.catalogue.sequence
    _, answer = await apply(house, BASE.replace("nominalQuota: 64", "nominalQuota: 32"))
    assert [found["effect"] for found in answer["objects"]] == [
        "unchanged",
        "configured",
        "unchanged",
        "unchanged",
    ]
    assert house.gateway.feed.catalogue.sequence == before + 1
    _, answer = await apply(house, BASE.replace("nominalQuota: 64", "nominalQuota: 32"))
    assert {found["effect"] for found in answer["objects"]} == {"unchanged"}
    assert house.gateway.feed.catalogue.sequence == before + 1


async def test_two_writers_at_once_both_get_through(house: House) -> None:
    answers = await asyncio.gather(
        *(
            apply(house, f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: ns-{number}}}\n")
            for number in range(5)
        )
    )
    assert [status for status, _ in answers] == [202] * 5
    assert len(house.gateway.feed.catalogue.namespaces) == 5


async def test_a_change_is_never_made_from_an_old_view(house: House) -> None:
    """What another gateway applied in the meantime is seen before anything is written."""
    await apply(house, BASE)
    behind = ObjectFeed(house.gateway.bus, ObjectCatalogue())
    applying = Applying(house.gateway.bus, behind, house.gateway.owners)
    documents = load(BASE, source="test").documents
    cause = Cause(at_ms=1)
    changing = asyncio.create_task(applying.apply(documents, by="olga", cause=cause))
    reading = asyncio.create_task(behind.run())
    try:
        applied = await changing
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    assert {found.effect for found in applied.objects} == {"unchanged"}
    assert house.gateway.feed.catalogue.sequence == 4


async def test_kueues_doubts_come_as_warnings(house: House) -> None:
    _, answer = await apply(
        house,
        "apiVersion: kueue.x-k8s.io/v1beta1\nkind: ClusterQueue\nmetadata: {name: q}\n"
        "spec:\n  cohort: a\n  admissionChecks: [prov]\n  resourceGroups:\n"
        "  - coveredResources: [cpu]\n    flavors:\n    - name: ghost\n      resources:\n"
        "      - {name: cpu, nominalQuota: 1}\n---\n"
        "apiVersion: kueue.x-k8s.io/v1beta1\nkind: Cohort\nmetadata: {name: a}\n"
        "spec: {parentName: b}\n---\n"
        "apiVersion: kueue.x-k8s.io/v1beta1\nkind: Cohort\nmetadata: {name: b}\n"
        "spec: {parentName: a}\n",
    )
    text = "\n".join(answer["warnings"])
    for part in ("'ghost'", "'prov'", "own ancestor", "namespaceSelector"):
        assert part in text


@pytest.mark.parametrize("token", ["anna-token", "ci-token", "viewer-token"])
async def test_only_operators_change_objects(house: House, token: str) -> None:
    assert (await apply(house, BASE, token))[0] == 403
    await apply(house, BASE)
    assert (await delete(house, "rf/a100", token))[0] == 403
    async with house.client(token) as client:
        assert (await client.post("/v1/nodes/n000/drain")).status_code == 403


async def test_a_queue_with_live_workloads_stays_in_its_tree(house: House) -> None:
    await with_a_live_job(house)
    status, answer = await apply(house, MOVED)
    assert status == 409
    assert "site" in answer["error"]["problem"]
    assert "1 live workloads" in answer["error"]["problem"]
    assert house.gateway.feed.catalogue.cluster_queues["gpus"].cohort == "site"


async def test_an_empty_queue_may_move(house: House) -> None:
    await apply(house, BASE)
    assert (await apply(house, MOVED))[0] == 202
    assert house.gateway.feed.catalogue.root_of("gpus") == "other"


async def test_moving_waits_for_a_word_from_the_owner(house: House) -> None:
    await with_a_live_job(house)
    house.admission.silent.add(partition_of("site"))
    status, answer = await apply(house, MOVED)
    assert (status, answer["error"]["kind"]) == (503, "unavailable")


async def test_what_is_in_use_is_not_deleted(house: House) -> None:
    await with_a_live_job(house)
    for path, reason in (
        ("rf/a100", "ClusterQueue gpus"),
        ("cq/gpus", "LocalQueue team-a/main"),
        ("lq/main?namespace=team-a", "team-a/train"),
    ):
        status, answer = await delete(house, path)
        assert status == 409, path
        assert reason in answer["error"]["problem"]
    assert (await delete(house, "lq/default?namespace=team-b"))[0] == 200
    assert (await delete(house, "lq/default?namespace=team-b"))[0] == 404


async def test_a_deleted_object_is_gone_from_the_stream_too(house: House) -> None:
    await apply(house, BASE)
    for path in ("lq/main?namespace=team-a", "lq/default?namespace=team-b", "cq/gpus", "rf/a100"):
        assert (await delete(house, path))[0] == 200
    assert house.gateway.feed.catalogue.stored() == ()
    kept = await house.bus.last("MUSTER_OBJECTS", "muster.obj.ResourceFlavor._.a100")
    assert kept is not None
    assert kept.headers["ce-type"].endswith("object_deleted")


async def test_a_pod_group_comes_with_the_job_of_whoever_may_submit(house: House) -> None:
    text = (
        "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\n"
        "metadata: {name: pg, namespace: team-a}\nspec: {minMember: 1}\n"
    )
    status, _ = await apply(house, text, "anna-token")
    assert status == 202
    assert house.gateway.feed.catalogue.get(ObjectKey("PodGroup", "team-a", "pg")) is not None
    assert (await apply(house, text.replace("team-a", "team-b"), "anna-token"))[0] == 403


async def test_nodes_are_listed_whole_and_strangers_unnamed(house: House) -> None:
    async with house.client("viewer-token") as client:
        page = (await client.get("/v1/nodes")).json()
        assert len(page["nodes"]) == 250
        assert page["nodes"][0]["workloads"] == ["team-b/secret"]
        page = (await client.get("/v1/nodes", params={"name": ["n007", "n003"]})).json()
        assert [node["name"] for node in page["nodes"]] == ["n003", "n007"]
    async with house.client("anna-token") as client:
        page = (await client.get("/v1/nodes")).json()
        assert page["nodes"][0]["workloads"] == ["(another namespace)"]
        card = page["nodes"][0]["devices"][0]
        assert card["holder"] == "(another namespace)"
        assert card["shares"] == [{"holder": "(another namespace)", "milli": 500}]


async def test_domains_are_listed_whole_with_gangs_of_the_pods_asked_for(house: House) -> None:
    async with house.client("anna-token") as client:
        pods = ["gpu=8,cpu=32,memory=200Gi", "amd.com/gpu=1"]
        page = (await client.get("/v1/nodes/domains", params={"pod": pods})).json()
        assert [row["path"] for row in page["domains"]] == [[], ["r1"], ["r2"], ["r3"]]
        assert page["pods"] == [
            {"nvidia.com/gpu": 8000, "cpu": 32_000, "memory": 200 * 2**30 * 1000},
            {"amd.com/gpu": 1000},
        ]
        assert page["domains"][0]["largest"] == [3, 1]
        for pod in ("gpu", "gpu=x", "=1", "gpu=1,gpu=2", ""):
            answer = await client.get("/v1/nodes/domains", params={"pod": pod})
            assert (answer.status_code, "pod" in answer.json()["error"]["field"]) == (422, True), (
                pod
            )
        many = ["gpu=1"] * 17
        assert (await client.get("/v1/nodes/domains", params={"pod": many})).status_code == 422


async def test_draining_a_node_is_said_on_the_log(house: House) -> None:
    async with house.client("operator-token") as client:
        assert (await client.post("/v1/nodes/n007/drain")).status_code == 202
        assert (await client.post("/v1/nodes/n999/drain")).status_code == 404
    await until(lambda: house.admission.events)
    subject, body = house.admission.events[0]
    assert subject == "muster.evt.gateway.v1.drain_requested.node.n007"
    assert body == b'{"node":"n007","drained":true,"by":"olga"}'


async def test_lists_name_the_partitions_that_did_not_answer(house: House) -> None:
    await with_a_live_job(house)
    silent = next(name for name in ("p00", "p01") if name != partition_of("site"))
    house.admission.silent.add(silent)
    async with house.client("anna-token") as client:
        answer = (await client.get("/v1/workloads")).json()
        assert [row["name"] for row in answer["page"]["rows"]] == ["train"]
        assert answer["silent"] == [silent]
        answer = (await client.get("/v1/quota", params={"cluster_queue": "gpus"})).json()
        assert [row["pending"] for row in answer["page"]["queues"]] == [1]
        assert (await client.get("/v1/workloads?namespace=team-b")).status_code == 403
        assert (await client.get("/v1/workloads?offset=20000")).status_code == 422
        assert (await client.get("/v1/ledger/verify")).status_code == 403
    async with house.client("viewer-token") as client:
        answer = (await client.get("/v1/ledger/verify")).json()
        assert len(answer["reports"]) == 7
        assert (await client.get("/v1/cost")).status_code == 503
        assert (await client.get("/v1/cost?from=yesterday")).status_code == 422
        assert (await client.get("/v1/cost?from=2026-02-01&to=2026-01-01")).status_code == 422
        assert (await client.get("/v1/cost?idle=owner&basis=usage")).status_code == 503
        assert (await client.get("/v1/cost?idle=somebody")).status_code == 422
        assert (await client.get("/v1/cost?basis=quota")).status_code == 422
        assert (await client.get("/v1/cost?lender_credit=101")).status_code == 422


async def test_metrics_count_requests_by_route(house: House) -> None:
    async with house.client() as client:
        await client.get("/v1/objects/cq/nope")
        await client.get("/no/such/path")
    value = house.chassis.metrics.registry.get_sample_value
    labels = {"route": "/v1/objects/{kind}/{name}", "method": "GET", "status": "404"}
    assert value("muster_gateway_requests_total", labels) == 1
    unmatched = {"route": "unmatched", "method": "GET", "status": "404"}
    assert value("muster_gateway_requests_total", unmatched) == 1


async def test_strangers_methods_make_no_series_of_their_own(house: House) -> None:
    async with house.client() as client:
        await client.request("BREW", "/no/such/path")
    value = house.chassis.metrics.registry.get_sample_value
    brewed = {"route": "unmatched", "method": "BREW", "status": "404"}
    assert value("muster_gateway_requests_total", brewed) is None
    assert value("muster_gateway_requests_total", {**brewed, "method": "other"}) == 1


async def test_a_request_that_fails_in_here_is_counted_too(house: House) -> None:
    async def broken(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise ZeroDivisionError

    observed = httpx.ASGITransport(Observed(broken, house.gateway), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=observed, base_url="http://gateway") as client:
        assert (await client.get("/v1/quota")).status_code == 500
    labels = {"route": "unmatched", "method": "GET", "status": "500"}
    value = house.chassis.metrics.registry.get_sample_value
    assert value("muster_gateway_requests_total", labels) == 1
