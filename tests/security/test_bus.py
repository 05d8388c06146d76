"""Who may do what on the bus, against a real server: what is forbidden and what still works."""

import asyncio
import json
from contextlib import suppress

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NatsTimeout
from nats.js.api import ConsumerConfig
from nats.js.errors import NoKeysError, NotFoundError
from nats.js.kv import KeyValue

from muster_contracts import streams
from muster_contracts.subjects import JobVerb, Service, decision, job, node_event, pod_command
from muster_runtime.reader import Reader
from muster_stack.access import OPERATOR
from muster_stack.bus_users import AGENT_API

from .conftest import Doors

pytestmark = pytest.mark.servers

EVICTED = "muster.evt.admission.v1.workload_evicted.p00.team-a.w1"
LEASE = "$KV.muster_leases.admission.shard.p00"

FORBIDDEN_TO_PUBLISH = [
    pytest.param("ci-builds", job("team-c", JobVerb.SUBMIT), id="ci, another namespace's jobs"),
    pytest.param("ci-builds", decision("team-a", "j"), id="ci, a decision"),
    pytest.param("ci-builds", EVICTED, id="ci, a fact"),
    pytest.param("ci-builds", LEASE, id="ci, a lease"),
    pytest.param("ci-builds", "$JS.API.STREAM.DELETE.MUSTER_JOBS", id="ci, deleting a stream"),
    pytest.param("ci-builds", "$JS.API.STREAM.MSG.GET.MUSTER_DECISIONS", id="ci, any message"),
    pytest.param("ci-builds", "$JS.API.DIRECT.GET.MUSTER_DECISIONS", id="ci, any decision"),
    pytest.param("ci-builds", "$JS.API.CONSUMER.CREATE.MUSTER_DECISIONS", id="ci, a consumer"),
    pytest.param("ci-builds", "muster.rpc.admission.v1.ledger.p00", id="ci, a question"),
    pytest.param("agent-gpu-1", node_event("pod_started", "gpu-2"), id="agent, another's fact"),
    pytest.param("agent-gpu-1", "muster.tel.agent.v1.heartbeat.gpu-2", id="agent, another's life"),
    pytest.param("agent-gpu-1", pod_command("gpu-1", "u"), id="agent, a command to itself"),
    pytest.param("agent-gpu-1", EVICTED, id="agent, an owner's fact"),
    pytest.param("agent-gpu-1", job("team-a", JobVerb.SUBMIT), id="agent, a job"),
    pytest.param("agent-gpu-1", LEASE, id="agent, a lease"),
    pytest.param("placement", EVICTED, id="placement, admission's fact"),
    pytest.param("placement", decision("team-a", "j"), id="placement, a decision"),
    pytest.param("placement", LEASE, id="placement, admission's lease"),
    pytest.param("admission", pod_command("gpu-1", "u"), id="admission, a command to an agent"),
    pytest.param("preemption", EVICTED, id="preemption, an eviction"),
    pytest.param("accounting", EVICTED, id="accounting, an eviction"),
    pytest.param("gateway", EVICTED, id="gateway, an eviction"),
    pytest.param("gateway", "$JS.API.STREAM.PURGE.MUSTER_EVENTS", id="gateway, purging the log"),
    pytest.param("admission", "$JS.API.STREAM.DELETE.MUSTER_EVENTS", id="admission, deleting it"),
]


@pytest.mark.parametrize(("login", "subject"), FORBIDDEN_TO_PUBLISH)
async def test_publishing_elsewhere_is_refused(doors: Doors, login: str, subject: str) -> None:
    client = await doors.enter(login)
    before = await counts(doors)
    await client.publish(subject, b"{}")
    await doors.refusal("publish")
    assert await counts(doors) == before


FORBIDDEN_TO_HEAR = [
    pytest.param("ci-builds", "muster.v1.decisions.team-c.>", id="ci, another namespace"),
    pytest.param("ci-builds", "muster.v1.decisions.>", id="ci, every namespace"),
    pytest.param("ci-builds", "muster.v1.jobs.>", id="ci, what others submit"),
    pytest.param("ci-builds", "_INBOX.>", id="ci, everybody's replies"),
    pytest.param("ci-builds", "_INBOX.ci-nightly.>", id="ci, another's replies"),
    pytest.param("ci-builds", ">", id="ci, everything"),
    pytest.param("agent-gpu-1", "muster.cmd.agent.v1.pod.gpu-2.*", id="agent, another's commands"),
    pytest.param("agent-gpu-1", "muster.evt.>", id="agent, the log"),
    pytest.param("placement", "_INBOX.admission.>", id="placement, admission's replies"),
    pytest.param("admission", "muster.v1.jobs.>", id="admission, the front door"),
]


@pytest.mark.parametrize(("login", "subject"), FORBIDDEN_TO_HEAR)
async def test_listening_elsewhere_is_refused(doors: Doors, login: str, subject: str) -> None:
    client = await doors.enter(login)
    await client.subscribe(subject)
    await doors.refusal("subscription")


@pytest.mark.parametrize(
    ("login", "secret"),
    [
        pytest.param("admission", "", id="no password"),
        pytest.param("admission", "guess", id="a wrong password"),
        pytest.param("nobody", "secret-of-nobody", id="an unknown user"),
        pytest.param("placement", "secret-of-admission", id="somebody else's password"),
    ],
)
async def test_nobody_enters_without_the_password(doors: Doors, login: str, secret: str) -> None:
    with pytest.raises(NatsError):
        await doors.enter(login, secret=secret)


async def test_nobody_enters_without_a_login(doors: Doors) -> None:
    with pytest.raises(NatsError):
        await doors.enter("")


async def test_a_ci_system_submits_and_reads_its_decision(doors: Doors) -> None:
    ci = await doors.enter("ci-builds")
    mine = job("team-a", JobVerb.SUBMIT)
    stored = await ci.jetstream().publish(mine, b"{}", headers={"Nats-Msg-Id": "once"})
    again = await ci.jetstream().publish(mine, b"{}", headers={"Nats-Msg-Id": "once"})
    assert (again.seq, again.duplicate) == (stored.seq, True)
    heard = await ci.subscribe("muster.v1.decisions.team-a.>")
    await ci.flush()
    admission = await doors.enter("admission")
    await admission.jetstream().publish(decision("team-a", "j"), b"admitted")
    assert (await heard.next_msg(5)).data == b"admitted"
    last = await ci.jetstream().get_last_msg(
        streams.DECISIONS.name, decision("team-a", "j"), direct=True
    )
    assert last.data == b"admitted"
    with pytest.raises(NotFoundError):
        await ci.jetstream().get_last_msg(
            streams.DECISIONS.name, decision("team-b", "none"), direct=True
        )
    assert await doors.refusals(ci) == []


@pytest.mark.parametrize(
    "wish",
    [
        {"seq": 1},
        {"last_by_subj": decision("team-c", "j")},
        {"multi_last": ["muster.v1.decisions.>"]},
        {"batch": 100, "seq": 1},
    ],
    ids=lambda wish: next(iter(wish)),
)
async def test_a_read_of_ones_own_cannot_be_turned_into_another(
    doors: Doors, wish: dict[str, object]
) -> None:
    admission = await doors.enter("admission")
    await admission.jetstream().publish(decision("team-c", "j"), b"not yours")
    ci = await doors.enter("ci-builds")
    subject = f"$JS.API.DIRECT.GET.{streams.DECISIONS.name}.{decision('team-a', 'k')}"
    answer = await ci.request(subject, json.dumps(wish).encode(), timeout=30)
    assert answer.data == b""
    assert answer.headers is not None
    assert answer.headers["Status"] == "408"


async def test_a_read_of_anothers_decision_is_refused(doors: Doors) -> None:
    ci = await doors.enter("ci-builds")
    await ci.publish(f"$JS.API.DIRECT.GET.{streams.DECISIONS.name}.{decision('team-c', 'j')}", b"")
    await doors.refusal("publish")


@pytest.mark.parametrize(
    ("login", "subject"),
    [
        ("ci-builds", job("team-a", JobVerb.CANCEL)),
        ("agent-gpu-1", node_event("pod_started", "gpu-1")),
    ],
)
@pytest.mark.parametrize("target", [LEASE, EVICTED, pod_command("gpu-2", "u")])
async def test_acknowledgements_cannot_be_aimed_at_others(
    doors: Doors, login: str, subject: str, target: str
) -> None:
    """A stream answers to the reply subject that a publisher names, whatever it is."""
    client = await doors.enter(login)
    own = await taking(doors, subject)
    before = await counts(doors)
    await client.publish(subject, b"{}", reply=target)
    await client.jetstream().publish(subject, b"{}")
    assert await counts(doors) == {**before, own: before[own] + 2}


async def test_an_agent_reads_its_commands_and_no_others(doors: Doors) -> None:
    placement = await doors.enter("placement")
    for node in ("gpu-1", "gpu-2"):
        await placement.jetstream().publish(pod_command(node, "pod"), node.encode())
    agent = await doors.enter("agent-gpu-1")
    own = Reader(
        agent,
        streams.PODS.name,
        ("muster.cmd.agent.v1.pod.gpu-1.*",),
        after=0,
        api_prefix=AGENT_API,
    )
    assert [received.body for received in await own.next_batch(10, 30)] == [b"gpu-1"]
    await own.close()
    await agent.jetstream().publish(node_event("pod_started", "gpu-1"), b"{}")
    assert await doors.refusals(agent) == []


@pytest.mark.parametrize("wish", ["muster.cmd.agent.v1.pod.gpu-2.*", "muster.cmd.agent.v1.pod.>"])
async def test_an_agent_cannot_make_a_consumer_of_anothers_commands(
    doors: Doors, wish: str
) -> None:
    agent = await doors.enter("agent-gpu-1")
    jetstream = agent.jetstream(prefix=AGENT_API, timeout=0.5)
    with pytest.raises(NatsTimeout):
        await jetstream.add_consumer(
            streams.PODS.name, ConsumerConfig(name="mine", filter_subject=wish)
        )
    await doors.refusal("publish")


async def test_the_filter_of_a_consumer_must_be_the_one_in_the_subject(doors: Doors) -> None:
    agent = await doors.enter("agent-gpu-1")
    own = "muster.cmd.agent.v1.pod.gpu-1.*"
    config = {"name": "sly", "filter_subject": "muster.cmd.agent.v1.pod.gpu-2.*"}
    request = json.dumps({"stream_name": streams.PODS.name, "config": config}).encode()
    subject = f"{AGENT_API}.CONSUMER.CREATE.{streams.PODS.name}.sly.{own}"
    answer = json.loads((await agent.request(subject, request, timeout=30)).data)
    assert answer["error"]["code"] == 400


async def test_an_owner_answers_who_asks_and_once(doors: Doors) -> None:
    owner = await doors.enter("admission")
    gateway = await doors.enter("gateway")
    question = "muster.rpc.admission.v1.quota.p00"

    async def answer(message: Msg) -> None:
        await owner.publish(message.reply, b"answer")
        await owner.publish(message.reply, b"afterthought")

    await owner.subscribe(question, cb=answer)
    await owner.flush()
    assert (await gateway.request(question, b"{}", timeout=60)).data == b"answer"
    await doors.refusal("publish")
    with pytest.raises(NoRespondersError):
        await gateway.request("muster.rpc.placement.v1.nodes.placement", b"{}", timeout=5)


async def _answered(client: Client, subject: str) -> Msg:
    """The answer, once the server has told the other account who answers there."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await client.request(subject, b"{}", timeout=5)
            except NoRespondersError:
                await client.flush()


async def _listed(bucket: KeyValue, key: str) -> None:
    """Return once the key is listed; the client may end a list before its first entry has come."""
    async with asyncio.timeout(60):
        while True:
            with suppress(NoKeysError):
                if key in await bucket.keys():
                    return


async def test_an_agent_answers_the_gateway_and_hears_the_operator(doors: Doors) -> None:
    agent = await doors.enter("agent-gpu-1")
    gateway = await doors.enter("gateway")
    operator = await operator_of(doors)

    async def answer(message: Msg) -> None:
        await agent.publish(message.reply, b"lines")

    await agent.subscribe("muster.rpc.agent.v1.output.gpu-1", cb=answer)
    control = await agent.subscribe("muster.tel.agent.v1.control.gpu-1")
    await agent.flush()
    reply = await _answered(gateway, "muster.rpc.agent.v1.output.gpu-1")
    assert reply.data == b"lines"
    await operator.publish("muster.tel.agent.v1.control.gpu-1", b"fail")
    assert (await control.next_msg(5)).data == b"fail"
    assert await doors.refusals(agent) == []


async def test_a_sign_of_life_reaches_every_owner(doors: Doors) -> None:
    agent = await doors.enter("agent-gpu-1")
    heard = [
        await (await doors.enter(owner)).subscribe("muster.tel.agent.v1.heartbeat.*")
        for owner in ("placement", "gateway")
    ]
    for subscription in heard:
        await subscription._conn.flush()
    await agent.publish("muster.tel.agent.v1.heartbeat.gpu-1", b"alive")
    assert [(await each.next_msg(5)).data for each in heard] == [b"alive", b"alive"]


@pytest.mark.parametrize("service", list(Service)[:5])
async def test_an_owner_publishes_its_facts_and_holds_its_leases(
    doors: Doors, service: Service
) -> None:
    client = await doors.enter(service)
    jetstream = client.jetstream()
    await jetstream.publish(f"muster.evt.{service}.v1.something.p00.team-a.w1", b"{}")
    bucket = await jetstream.key_value(streams.LEASES.name)
    revision = await bucket.create(f"{service}.shard.test", b"me")
    await bucket.update(f"{service}.shard.test", b"me", last=revision)
    await _listed(bucket, f"{service}.shard.test")
    await bucket.delete(f"{service}.shard.test")
    assert await doors.refusals(client) == []


async def counts(doors: Doors) -> dict[str, int]:
    """The last sequence of every stream, as the operator sees it."""
    operator = await operator_of(doors)
    found = await operator.jetstream().streams_info()
    return {info.config.name or "": info.state.last_seq for info in found}


async def taking(doors: Doors, subject: str) -> str:
    operator = await operator_of(doors)
    return await operator.jetstream().find_stream_name_by_subject(subject)


async def operator_of(doors: Doors) -> Client:
    return await doors.enter(OPERATOR)
