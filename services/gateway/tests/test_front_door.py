"""Jobs that come over the bus: once each, whatever happens, whoever sends what."""

import asyncio
import json
from typing import Any

import pytest
from nats.aio.msg import Msg

from muster_contracts import codec, subjects
from muster_contracts.events import (
    CancelRequested,
    CheckpointReported,
    FinishReported,
    LeaseRenewed,
)
from muster_contracts.jobs import Decision, SubmitJob, Verdict
from muster_contracts.partitions import EVERY_PARTITION
from muster_contracts.streams import DEAD_LETTERS, FRONT_DOOR
from muster_contracts.subjects import JobVerb
from muster_domain.conditions import Outcome
from muster_runtime.publisher import Outgoing
from muster_runtime.reader import Received
from muster_runtime.worker import Disposition
from muster_testing.connection import until
from muster_testing.servers import KillableServer

from .house import House, job_manifest, open_house

pytestmark = pytest.mark.servers


async def send(
    house: House,
    body: bytes,
    *,
    verb: JobVerb = JobVerb.SUBMIT,
    team: str = "team-a",
    **headers: str,
) -> None:
    written = {name.replace("_", "-"): value for name, value in headers.items()}
    await house.bus.publish(
        [Outgoing(subject=subjects.job(team, verb), body=body, headers=written)]
    )


async def settled(house: House) -> None:
    jetstream = house.bus.client.jetstream()
    async with asyncio.timeout(60):
        while True:
            info = await jetstream.consumer_info(FRONT_DOOR.stream, FRONT_DOOR.name)
            if (info.num_pending, info.num_ack_pending) == (0, 0):
                return


async def dead_letters(house: House, count: int = 0) -> list[Received]:
    """What was put aside, once that many letters are there."""
    async with asyncio.timeout(60):
        while True:
            found = await house.bus.read_to_end(DEAD_LETTERS.name, "muster.dlq.>")
            if len(found) >= count:
                return found


async def decision_about(house: House, name: str, team: str = "team-a") -> Decision | None:
    return await house.gateway.decisions.last(team, name)


def encoded(manifest: dict[str, Any]) -> bytes:
    return json.dumps(manifest).encode()


YAML = b"""\
apiVersion: batch/v1
kind: Job
metadata:
  name: train
  labels: {kueue.x-k8s.io/queue-name: main}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: main, resources: {limits: {nvidia.com/gpu: 1}, requests: {cpu: 1}}}
"""


@pytest.mark.parametrize(
    "body",
    [
        YAML,
        encoded(job_manifest(namespace="")),
        codec.encode(SubmitJob(yaml=YAML.decode(), user="anna")),
        codec.encode(SubmitJob(manifest=job_manifest())),
        encoded(
            {
                "specversion": "1.0",
                "id": "e1",
                "source": "/ci",
                "type": "dev.cdevents.pipelinerun.queued.0.3.0",
                "data": job_manifest(),
            }
        ),
    ],
    ids=["yaml", "json", "submit-yaml", "submit-json", "cloudevent"],
)
async def test_every_form_of_a_job_is_taken(house: House, body: bytes) -> None:
    await house.apply()
    await send(house, body)
    await house.seen(1)
    await settled(house)
    [fact] = house.admission.submitted.values()
    assert fact.workload.key == "team-a/train"
    assert fact.workload.total_requests == {"cpu": 1000, "nvidia.com/gpu": 1000}
    assert await dead_letters(house) == []


async def test_a_job_sent_twice_is_one_workload(house: House) -> None:
    await house.apply()
    for _ in range(3):
        await send(house, YAML, ce_id="run-7")
    await settled(house)
    await send(house, YAML, ce_id="run-7")
    await settled(house)
    await house.seen(1)
    assert len(house.admission.events) == 1
    assert await dead_letters(house) == []


async def test_a_redelivered_message_is_one_event(house: House) -> None:
    """The gateway dies between publishing and acknowledging: the message comes again."""
    await house.apply()
    worker = house.gateway.worker
    settle = worker._settle
    lost: list[str] = []

    async def die_once(message: Msg, disposition: Disposition) -> None:
        if not lost:
            lost.append(message.reply)
            await house.bus.client.publish(message.reply, b"-NAK")
            return
        await settle(message, disposition)

    worker._settle = die_once
    await send(house, YAML)
    await until(lambda: worker.done_total == 1)
    await settled(house)
    assert lost
    assert len(house.admission.events) == 1
    assert await dead_letters(house) == []


async def test_a_gateway_that_was_killed_leaves_its_messages_to_the_next(
    nats: KillableServer,
) -> None:
    async with open_house(nats.url, front_door=False) as house:
        await house.apply()
        for number in range(20):
            await send(house, encoded(job_manifest(f"job-{number}")), Nats_Msg_Id=f"m{number}")
        first = asyncio.create_task(house.gateway.worker.run())
        await house.seen(1)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        second = asyncio.create_task(house.gateway.worker.run())
        try:
            await house.seen(20)
            await settled(house)
        finally:
            second.cancel()
            await asyncio.gather(second, return_exceptions=True)
        assert len(house.admission.events) == 20


BAD = [
    (b"", "holds no job"),
    (b"{", ""),
    (b"\xff\xfe", "UTF-8"),
    (b"[" * 200_000, ""),
    (b"{" + b'"a":{' * 100_000, ""),
    (b"kind: Job\n\tname: x\n", ""),
    (b'{"yaml": "a: 1", "manifest": {}}', "manifest"),
    (b'{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "../x"}}', ""),
    (encoded(job_manifest(queue="nope")), "nope"),
    (encoded({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}), "object"),
    (encoded({"specversion": "1.0", "source": "/x", "data": {}}), "id"),
    (b"a: &a [x, x]\nb: &b [*a, *a]\n" * 1000, ""),
]


@pytest.mark.parametrize(("body", "reason"), BAD)
async def test_hostile_messages_are_put_aside_and_the_next_is_taken(
    house: House, body: bytes, reason: str
) -> None:
    await house.apply()
    await send(house, body)
    await send(house, YAML)
    await house.seen(1)
    await settled(house)
    [letter] = await dead_letters(house, 1)
    assert letter.body == body
    assert letter.headers["Muster-Subject"] == "muster.v1.jobs.team-a.submit"
    assert reason in letter.headers["Muster-Reason"]
    assert not letter.headers["Muster-Reason"].startswith("given up")


async def test_a_huge_message_does_not_stop_the_door(house: House) -> None:
    await house.apply()
    huge = b"# " + b"x" * (codec.BODY_BYTES_MAX + 1)
    await send(house, huge)
    await send(house, YAML)
    await house.seen(1)
    await settled(house)
    [letter] = await dead_letters(house, 1)
    assert "bytes" in letter.headers["Muster-Reason"]


async def test_a_refused_job_is_told_so_where_it_looks_for_its_decision(house: House) -> None:
    await house.apply()
    await send(house, encoded(job_manifest(queue="nope")))
    await settled(house)
    decision = await decision_about(house, "train")
    assert decision is not None
    assert (decision.decision, decision.reason) == (Verdict.REFUSED, "NoQueue")
    assert decision.outcome is Outcome.REFUSED
    assert "nope" in decision.message


async def test_a_body_of_another_namespace_is_refused(house: House) -> None:
    await house.apply()
    await send(house, encoded(job_manifest(namespace="team-b", queue="default")))
    await settled(house)
    [letter] = await dead_letters(house, 1)
    assert "team-b" in letter.headers["Muster-Reason"]
    assert house.admission.events == []
    decision = await decision_about(house, "train", "team-a")
    assert decision is not None
    assert decision.reason == "WrongNamespace"
    assert await decision_about(house, "train", "team-b") is None


async def test_a_refusal_never_hides_the_decision_about_a_live_job(house: House) -> None:
    await house.apply()
    await send(house, YAML, ce_id="1")
    await until(lambda: house.gateway.decisions.begin_with(""))
    await send(house, YAML, ce_id="2")
    await settled(house)
    decision = await decision_about(house, "train")
    assert decision is not None
    assert decision.decision is Verdict.QUEUED
    assert len(await dead_letters(house, 1)) == 1


async def _live_job(house: House) -> str:
    await house.apply()
    await send(house, YAML, ce_id="1")
    await until(lambda: house.gateway.decisions.begin_with(""))
    [identity] = house.admission.submitted
    return identity


@pytest.mark.parametrize("by", ["id", "name"])
async def test_wishes_reach_the_partition_of_the_job(house: House, by: str) -> None:
    identity = await _live_job(house)
    wish = {"id": identity} if by == "id" else {"name": "train"}
    await send(house, json.dumps(wish).encode(), verb=JobVerb.HEARTBEAT)
    await send(
        house,
        json.dumps({**wish, "outcome": "Failed", "message": "exit 1"}).encode(),
        verb=JobVerb.FINISH,
    )
    await send(house, json.dumps(wish).encode(), verb=JobVerb.CANCEL)
    await until(lambda: len(house.admission.events) == 4)
    partition = house.admission.events[0][0].split(".")[5]
    facts = {
        subject: codec.decode_event(subjects.event_name(subject), body)
        for subject, body in house.admission.events[1:]
    }
    tail = f"{partition}.team-a.{identity}"
    assert facts == {
        f"muster.evt.gateway.v1.lease_renewed.{tail}": LeaseRenewed(workload_id=identity),
        f"muster.evt.gateway.v1.finish_reported.{tail}": FinishReported(
            workload_id=identity, outcome=Outcome.FAILED, message="exit 1"
        ),
        f"muster.evt.gateway.v1.cancel_requested.{tail}": CancelRequested(workload_id=identity),
    }


async def test_saved_work_is_reported_as_of_when_the_message_came(house: House) -> None:
    identity = await _live_job(house)
    body = json.dumps({"name": "train", "attempt": 2}).encode()
    await send(house, body, verb=JobVerb.CHECKPOINT)
    await until(lambda: len(house.admission.events) == 2)
    subject, written = house.admission.events[1]
    assert subjects.event_name(subject) == "checkpoint_reported"
    fact = codec.decode(CheckpointReported, written)
    submitted_ms = house.admission.submitted[identity].workload.created_at_ms
    assert (fact.workload_id, fact.attempt) == (identity, 2)
    assert fact.at_ms >= submitted_ms > 0


async def test_the_end_of_a_job_nobody_knows_goes_to_every_partition(house: House) -> None:
    identity = "0123456789abcdef0123456789abcdef"
    await send(house, json.dumps({"id": identity}).encode(), verb=JobVerb.CANCEL)
    await until(lambda: house.admission.events)
    subject, _ = house.admission.events[0]
    assert subject.endswith(f".cancel_requested.{EVERY_PARTITION}.team-a.{identity}")


async def test_one_team_cannot_end_the_job_of_another(house: House) -> None:
    identity = await _live_job(house)
    await send(house, json.dumps({"id": identity}).encode(), verb=JobVerb.CANCEL, team="team-b")
    await settled(house)
    assert len(house.admission.events) == 1
    [letter] = await dead_letters(house, 1)
    assert "team-b" in letter.headers["Muster-Reason"]


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"id": "*.>"}', b'{"name": "A b"}', b'{"id": 7}', b'{"name": ""}']
)
async def test_a_wish_that_names_no_job_is_put_aside(house: House, body: bytes) -> None:
    await send(house, body, verb=JobVerb.CANCEL)
    await settled(house)
    assert len(await dead_letters(house, 1)) == 1
    assert house.admission.events == []


async def test_signs_of_life_of_an_ended_job_are_let_go(house: House) -> None:
    identity = await _live_job(house)
    await house.admission.decide(house.admission.submitted[identity], Verdict.FINISHED)
    await send(house, b'{"name": "train"}', verb=JobVerb.HEARTBEAT)
    await send(house, b'{"name": "train"}', verb=JobVerb.CHECKPOINT)
    await settled(house)
    assert len(house.admission.events) == 1
    assert await dead_letters(house) == []


async def test_a_subject_that_is_no_job_is_put_aside(house: House) -> None:
    await house.bus.publish([Outgoing(subject="muster.v1.jobs.team-a.dance", body=b"")])
    await house.bus.publish([Outgoing(subject="muster.v1.jobs.a.b.c.d", body=b"")])
    await send(house, YAML, team="Bad Name")
    await settled(house)
    assert len(await dead_letters(house, 3)) == 3
