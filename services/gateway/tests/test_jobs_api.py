import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from muster_contracts import codec
from muster_contracts.events import CancelRequested, CheckpointReported, WorkloadSubmitted
from muster_contracts.jobs import Verdict
from muster_contracts.partitions import partition_of
from muster_domain.queue_tree import VOLCANO_PREFIX
from muster_domain.workload import External
from muster_manifests.catalogue import ObjectCatalogue
from muster_runtime.clock import now_ms
from muster_runtime.objects import ObjectFeed
from muster_testing.connection import connected_bus, until
from muster_testing.servers import KillableServer

from .house import ADMIN, BASE, House, job_manifest

pytestmark = pytest.mark.servers


async def submit(
    house: House, manifest: dict[str, Any], token: str = ADMIN, key: str = "", **params: object
) -> tuple[int, dict[str, Any]]:
    headers = {"Idempotency-Key": key} if key else {}
    async with house.client(token) as client:
        response = await client.post("/v1/jobs", json=manifest, params=params, headers=headers)
    return response.status_code, response.json()


async def test_a_job_is_accepted_and_reaches_the_log(house: House) -> None:
    await house.apply()
    status, answer = await submit(house, job_manifest(), key="k1")
    assert status == 202
    [job] = answer["jobs"]
    assert (job["namespace"], job["name"], job["kind"]) == ("team-a", "train", "Job")
    assert (job["queue"], job["cluster_queue"]) == ("main", "gpus")
    assert job["partition"] == partition_of("site")
    await house.seen(1)
    fact = house.admission.submitted[job["id"]]
    assert fact.cluster_queue == "gpus"
    assert fact.objects_sequence == 4
    assert fact.manifest["metadata"]["name"] == "train"
    assert fact.workload.user == "root"
    assert fact.workload.total_requests == {"cpu": 1000, "nvidia.com/gpu": 1000}
    subject, _ = house.admission.events[0]
    assert subject == (
        f"muster.evt.gateway.v1.workload_submitted.{job['partition']}.team-a.{job['id']}"
    )


async def test_a_repeated_key_is_the_same_job(house: House) -> None:
    await house.apply()
    first = await submit(house, job_manifest(), key="k1")
    again = await submit(house, job_manifest(), key="k1")
    assert first[1]["jobs"][0]["id"] == again[1]["jobs"][0]["id"]
    status, answer = await submit(house, job_manifest("other"), key="k1")
    assert status == 202
    await house.seen(2)
    assert set(house.admission.submitted) == {
        first[1]["jobs"][0]["id"],
        answer["jobs"][0]["id"],
    }
    assert len(house.admission.events) == 2


async def test_a_key_with_another_body_reaches_admission_as_another_message(house: House) -> None:
    await house.apply()
    _, first = await submit(house, job_manifest(gpus=1), key="k1")
    _, second = await submit(house, job_manifest(gpus=2), key="k1")
    assert first["jobs"][0]["id"] == second["jobs"][0]["id"]
    await until(lambda: len(house.admission.events) == 2)


async def test_a_live_name_is_a_conflict_that_names_the_other(house: House) -> None:
    await house.apply()
    _, first = await submit(house, job_manifest(), key="k1", wait="decision")
    assert first["jobs"][0]["decision"]["decision"] == "queued"
    status, answer = await submit(house, job_manifest(), key="k2")
    assert status == 409
    assert answer["error"]["kind"] == "conflict"
    assert first["jobs"][0]["id"] in answer["error"]["problem"]
    fact = house.admission.submitted[first["jobs"][0]["id"]]
    await house.admission.decide(fact, Verdict.FINISHED)
    status, answer = await submit(house, job_manifest(), key="k2")
    assert status == 202


async def test_waiting_for_the_decision_brings_back_a_refusal(house: House) -> None:
    await house.apply()
    status, answer = await submit(house, job_manifest(gpus=9), wait="decision", wait_s=10)
    assert status == 202
    decision = answer["jobs"][0]["decision"]
    assert (decision["decision"], decision["reason"]) == ("refused", "ExceedsMaxQuota")


async def test_waiting_ends_when_nobody_decides(house: House) -> None:
    house.admission.deciding = False
    await house.apply()
    status, answer = await submit(house, job_manifest(), wait="decision", wait_s=0.2)
    assert status == 202
    assert answer["jobs"][0]["decision"] is None


@pytest.mark.parametrize(
    ("manifest", "field", "fix"),
    [
        (job_manifest(queue="", namespace="team-a"), "queue-name", "main"),
        (job_manifest(queue="nope"), "queue-name", "main"),
        (job_manifest(namespace="team-c", queue="main"), "queue-name", "LocalQueue"),
    ],
)
async def test_a_job_without_a_way_to_quota_is_refused(
    house: House, manifest: dict[str, Any], field: str, fix: str
) -> None:
    await house.apply()
    status, answer = await submit(house, manifest)
    assert status == 422
    assert field in answer["error"]["field"]
    assert fix in answer["error"]["fix"]


async def test_the_default_local_queue_takes_a_job_that_names_none(house: House) -> None:
    await house.apply()
    status, answer = await submit(house, job_manifest(queue="", namespace=""), namespace="team-b")
    assert status == 202
    assert answer["jobs"][0]["queue"] == "default"


async def test_a_local_queue_to_nowhere_is_refused(house: House) -> None:
    answer = await house.apply(
        "apiVersion: kueue.x-k8s.io/v1beta1\nkind: LocalQueue\n"
        "metadata: {name: main, namespace: team-a}\nspec: {clusterQueue: gone}\n"
    )
    assert any("'gone' does not exist" in warning for warning in answer["warnings"])
    status, answer = await submit(house, job_manifest())
    assert status == 422
    assert "gone" in answer["error"]["problem"]


async def test_a_volcano_job_goes_to_the_default_volcano_queue(house: House) -> None:
    manifest = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "vj", "namespace": "team-a"},
        "spec": {
            "minAvailable": 1,
            "tasks": [
                {
                    "name": "worker",
                    "replicas": 2,
                    "template": {
                        "spec": {
                            "restartPolicy": "Never",
                            "containers": [{"name": "c", "resources": {"limits": {"cpu": 1}}}],
                        }
                    },
                }
            ],
        },
    }
    status, answer = await submit(house, manifest)
    assert status == 202, answer
    job = answer["jobs"][0]
    assert job["queue"] == "default"
    assert job["partition"] == partition_of(VOLCANO_PREFIX)
    manifest["spec"]["queue"] = "nope"
    status, answer = await submit(house, manifest)
    assert status == 422
    assert "nope" in answer["error"]["problem"]


async def test_one_bad_document_keeps_everything_out(house: House) -> None:
    bad = BASE + "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: NotAName}\nspec: 7\n"
    async with house.client() as client:
        response = await client.post("/v1/jobs", content=bad)
    assert response.status_code == 422
    error = response.json()["error"]
    assert error["kind"] == "invalid_manifest"
    assert error["problems"][0]["line"] > 0
    assert house.gateway.feed.catalogue.stored() == ()


async def test_dry_run_changes_nothing(house: House) -> None:
    async with house.client() as client:
        response = await client.post("/v1/jobs", content=BASE, params={"dry_run": True})
    assert response.status_code == 202
    assert [found["effect"] for found in response.json()["objects"]] == ["created"] * 4
    assert house.gateway.feed.catalogue.stored() == ()


async def test_a_file_may_bring_its_own_queues(house: House) -> None:
    text = BASE + "---\n" + codec.encode(job_manifest()).decode() + "\n"
    answer = await house.apply(text)
    assert len(answer["objects"]) == 4
    assert answer["jobs"][0]["cluster_queue"] == "gpus"
    await house.seen(1)
    [fact] = house.admission.submitted.values()
    assert fact.objects_sequence == 4


async def test_namespaces_and_roles_are_held_to(house: House) -> None:
    await house.apply()
    assert (await submit(house, job_manifest(), "anna-token"))[0] == 202
    refused = [
        (job_manifest(namespace="team-b", queue="default"), "anna-token", 403),
        (job_manifest("v"), "viewer-token", 403),
        (job_manifest("w"), "", 401),
        (job_manifest("x"), "wrong-token", 401),
    ]
    for manifest, token, expected in refused:
        status, answer = await submit(house, manifest, token)
        assert (status, answer["error"]["kind"]) == (
            expected,
            "forbidden" if expected == 403 else "unauthenticated",
        )
    async with house.client("anna-token") as client:
        response = await client.post("/v1/jobs", content=BASE)
    assert response.status_code == 403


async def test_only_some_may_speak_for_others(house: House) -> None:
    await house.apply()
    status, _ = await submit(house, job_manifest("a"), "anna-token", user="bob")
    assert status == 403
    status, answer = await submit(house, job_manifest("b"), "ci-token", user="bob")
    assert status == 202
    await house.seen(1)
    assert house.admission.submitted[answer["jobs"][0]["id"]].workload.user == "bob"


async def test_an_external_lease_is_kept_in_the_workload(house: House) -> None:
    await house.apply()
    status, answer = await submit(house, job_manifest(), external_lease_ms=30_000)
    assert status == 202
    await house.seen(1)
    workload = house.admission.submitted[answer["jobs"][0]["id"]].workload
    assert workload.execution == External(lease_ms=30_000)
    status, answer = await submit(house, job_manifest("short"), external_lease_ms=1)
    assert (status, answer["error"]["field"]) == (422, "external_lease_ms")


async def test_jobs_are_found_by_id_prefix_and_name(house: House) -> None:
    await house.apply()
    _, answer = await submit(house, job_manifest(), wait="decision", wait_s=10)
    identity = answer["jobs"][0]["id"]
    async with house.client("anna-token") as client:
        for reference in (identity, identity[:6], "team-a:train"):
            response = await client.get(f"/v1/workloads/{reference}")
            assert response.status_code == 200, response.text
            assert response.json()["row"]["id"] == identity
        assert response.json()["ahead"][0]["name"] == "(another namespace)"
        for reference in ("team-a:nope", "team-b:train", "ffffffff", "zz", "f" * 32):
            assert (await client.get(f"/v1/workloads/{reference}")).status_code == 404
    async with house.client("viewer-token") as client:
        response = await client.get(f"/v1/workloads/{identity}")
        assert response.json()["ahead"][0]["name"] == "secret"


async def test_the_jobs_of_strangers_do_not_exist(house: House) -> None:
    await house.apply()
    manifest = job_manifest("secret", namespace="team-b", queue="default")
    _, answer = await submit(house, manifest, wait="decision", wait_s=10)
    identity = answer["jobs"][0]["id"]
    async with house.client("anna-token") as client:
        for reference in (identity, identity[:8], "team-b:secret"):
            path = f"/v1/workloads/{reference}"
            assert (await client.get(path)).status_code == 404
            assert (await client.get(f"{path}/decision")).status_code == 404
            assert (await client.get(f"{path}/output")).status_code == 404
            for verb in ("cancel", "heartbeat"):
                assert (await client.post(f"{path}/{verb}")).status_code == 404
        rows = (await client.get("/v1/workloads")).json()["page"]["rows"]
        assert rows == []
    assert len(house.admission.events) == 1


async def test_cancel_goes_to_the_owner_of_the_workload(house: House) -> None:
    await house.apply()
    _, answer = await submit(house, job_manifest(), wait="decision", wait_s=10)
    job = answer["jobs"][0]
    async with house.client("anna-token") as client:
        response = await client.post(
            "/v1/workloads/team-a:train/cancel", json={"message": "wrong data"}
        )
        assert response.status_code == 202
        assert response.json() == {"id": job["id"], "namespace": "team-a", "name": "train"}
    async with house.client("viewer-token") as client:
        response = await client.post(f"/v1/workloads/{job['id']}/cancel")
        assert response.status_code == 403
    await until(lambda: len(house.admission.events) == 2)
    subject, body = house.admission.events[1]
    assert subject == (
        f"muster.evt.gateway.v1.cancel_requested.{job['partition']}.team-a.{job['id']}"
    )
    assert codec.decode(CancelRequested, body) == CancelRequested(
        workload_id=job["id"], by="anna", message="wrong data"
    )


async def test_each_heartbeat_is_its_own_message_and_one_cancel_is_enough(house: House) -> None:
    await house.apply()
    _, answer = await submit(house, job_manifest(), wait="decision", wait_s=10)
    path = f"/v1/workloads/{answer['jobs'][0]['id']}"
    async with house.client() as client:
        for _ in range(3):
            sent_ms = now_ms()
            assert (await client.post(f"{path}/heartbeat")).status_code == 202
            await until(lambda sent_ms=sent_ms: now_ms() > sent_ms)
        for _ in range(3):
            assert (await client.post(f"{path}/cancel")).status_code == 202
        response = await client.post(f"{path}/finish", json={"outcome": "Lost"})
        assert response.status_code == 422
    await until(lambda: len(house.admission.events) >= 5)
    names = [subject.split(".")[4] for subject, _ in house.admission.events]
    assert names == ["workload_submitted", *["lease_renewed"] * 3, "cancel_requested"]


async def test_saved_work_goes_to_the_owner_with_its_attempt_and_time(house: House) -> None:
    await house.apply()
    _, answer = await submit(house, job_manifest(), wait="decision", wait_s=10)
    path = f"/v1/workloads/{answer['jobs'][0]['id']}/checkpoint"
    async with house.client() as client:
        sent_ms = now_ms()
        assert (await client.post(path, json={"attempt": 3})).status_code == 202
        await until(lambda: now_ms() > sent_ms)
        assert (await client.post(path)).status_code == 202
    await until(lambda: len(house.admission.events) == 3)
    facts = [codec.decode(CheckpointReported, body) for _, body in house.admission.events[1:]]
    assert [fact.attempt for fact in facts] == [3, 0]
    assert sent_ms <= facts[0].at_ms < facts[1].at_ms


async def test_a_plan_changes_nothing(house: House) -> None:
    await house.apply()
    async with house.client("viewer-token") as client:
        response = await client.post("/v1/plan", json=job_manifest())
    assert response.status_code == 200
    [job] = response.json()["jobs"]
    assert job["plan"]["verdict"] == "would wait"
    assert job["requests_milli"] == {"cpu": 1000, "nvidia.com/gpu": 1000}
    assert house.admission.events == []


async def test_a_body_over_the_limit_is_refused(house: House) -> None:
    async with house.client() as client:
        response = await client.post("/v1/jobs", content=b"#" * (codec.BODY_BYTES_MAX + 1))
    assert response.status_code == 413
    assert response.json()["error"]["kind"] == "too_large"


async def test_no_path_takes_an_endless_body(house: House) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b" " * 100_000

    async with house.client() as client:
        response = await client.post("/v1/workloads/team-a:x/finish", content=endless())
    assert response.status_code in (400, 413)


async def test_two_gateways_agree_on_what_was_just_applied(
    house: House, nats: KillableServer
) -> None:
    async with connected_bus(nats.url) as bus:
        other = ObjectFeed(bus, ObjectCatalogue())
        reading = asyncio.create_task(other.run())
        await other.wait_complete(10)
        await house.apply()
        await other.abreast(10)
        assert other.catalogue.sequence == house.gateway.feed.catalogue.sequence
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def test_the_message_on_the_log_can_be_decoded_and_continues_the_trace(house: House) -> None:
    await house.apply()
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with house.client() as client:
        response = await client.post(
            "/v1/jobs", json=job_manifest(), headers={"traceparent": parent}
        )
    assert response.status_code == 202
    reader = house.bus.read("MUSTER_EVENTS", ("muster.evt.gateway.>",), after=0)
    [received] = await reader.next_batch(1, 5)
    await reader.close()
    assert codec.decode(WorkloadSubmitted, received.body).workload.name == "train"
    assert received.headers["traceparent"].split("-")[1] == parent.split("-")[1]
    assert received.headers["traceparent"] != parent
