"""The whole of Muster against callers without rights and messages made to do harm."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress

import httpx
import nats
import pytest
from nats.js.errors import APIError

from muster_contracts import streams
from muster_contracts.subjects import JobVerb, job
from muster_stack.access import ANY_NODE
from muster_stack.plan import StackOptions
from muster_stack.stack import Stack
from muster_testing.waiting import wait_until

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]

OPTIONS = StackOptions(
    simulate="2x4gpu", ci={"builds": ("team-a",), "nightly": ("team-c",), "any": (ANY_NODE,)}
)
YAML = {"Content-Type": "application/yaml"}
SUBMIT = job("team-a", JobVerb.SUBMIT)

QUEUES = """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: shared}
spec:
  namespaceSelector: {}
  resourceGroups:
    - coveredResources: [nvidia.com/gpu]
      flavors: [{name: any, resources: [{name: nvidia.com/gpu, nominalQuota: 8}]}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: main, namespace: team-a}
spec: {clusterQueue: shared}
"""


def manifest(name: str, namespace: str = "team-a") -> str:
    return f"""\
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  namespace: {namespace}
  labels: {{kueue.x-k8s.io/queue-name: main}}
spec:
  template:
    metadata:
      annotations: {{muster.dev/simulated-duration-ms: "50"}}
    spec:
      restartPolicy: Never
      containers: [{{name: main, image: none, resources: {{limits: {{nvidia.com/gpu: 1}}}}}}]
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(tmp_path_factory.mktemp("stack"), OPTIONS) as running:
        taken = httpx.post(
            f"{running.gateway_url}/v1/jobs",
            content=QUEUES,
            headers={**running.headers("admin"), **YAML},
            timeout=20,
        )
        assert taken.status_code == 202, taken.text
        yield running


def send(stack: Stack, who: str, text: str | bytes) -> httpx.Response:
    return httpx.post(
        f"{stack.gateway_url}/v1/jobs",
        content=text,
        headers={**stack.headers(who), **YAML},
        timeout=20,
    )


def decided(stack: Stack, name: str) -> dict[str, object]:
    address = f"{stack.gateway_url}/v1/workloads/team-a:{name}/decision"

    def look() -> dict[str, object] | None:
        answer = httpx.get(address, headers=stack.headers("ci-builds"), timeout=20)
        done = answer.status_code == 200 and answer.json()["decision"] in {"finished", "refused"}
        return answer.json() if done else None

    return wait_until(look, 60, lambda: f"{name} is not decided")


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="no token"),
        pytest.param({"Authorization": "Bearer guess"}, id="a guess"),
        pytest.param({"Authorization": "Bearer"}, id="an empty token"),
        pytest.param({"Authorization": "Basic YWRtaW46YWRtaW4="}, id="a password"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/workloads", "/v1/quota", "/v1/nodes", "/v1/cost"])
def test_without_a_known_token_nothing_is_told(
    stack: Stack, headers: dict[str, str], path: str
) -> None:
    assert httpx.get(stack.gateway_url + path, headers=headers, timeout=20).status_code == 401


def test_the_digest_of_a_token_is_no_token(stack: Stack) -> None:
    digests = json.loads((stack.folder / "tokens.json").read_text())
    for digest in digests:
        headers = {"Authorization": f"Bearer {digest}"}
        answer = httpx.get(f"{stack.gateway_url}/v1/whoami", headers=headers, timeout=20)
        assert answer.status_code == 401


@pytest.mark.parametrize(
    ("who", "text"),
    [
        pytest.param("viewer", manifest("v"), id="a viewer submits"),
        pytest.param("ci-builds", manifest("x", "team-c"), id="another namespace"),
        pytest.param("ci-builds", QUEUES, id="a CI system declares quota"),
    ],
)
def test_a_token_does_not_reach_beyond_its_role(stack: Stack, who: str, text: str) -> None:
    assert send(stack, who, text).status_code == 403


def test_another_namespace_is_not_even_seen(stack: Stack) -> None:
    assert send(stack, "ci-builds", manifest("mine")).status_code == 202
    decided(stack, "mine")
    for path in ("/v1/workloads/team-a:mine", "/v1/workloads/team-a:mine/decision"):
        answer = httpx.get(
            stack.gateway_url + path, headers=stack.headers("ci-nightly"), timeout=20
        )
        assert answer.status_code in {403, 404}
    listed = httpx.get(
        f"{stack.gateway_url}/v1/workloads", headers=stack.headers("ci-nightly"), timeout=20
    )
    assert listed.json()["page"]["rows"] == []


DEEP = b"[" * 100_000 + b"]" * 100_000
BOMB = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n" % (name + 1, name + 1, *[name] * 9)
    for name in range(ord("a"), ord("j"))
)
HARMFUL = {
    "nothing": b"",
    "noise": bytes(range(256)) * 64,
    "not an object": b"[1, 2, 3]",
    "null": b"null",
    "deep": DEEP,
    "a bomb of aliases": json.dumps({"yaml": BOMB.decode()}).encode(),
    "bare bomb": BOMB,
    "half a message": b'{"manifest": {"kind": "Job", ',
    "wrong types": b'{"manifest": 7, "yaml": [], "user": {}, "labels": 3}',
    "an object tag": b'{"yaml": "!!python/object/apply:os.system [\\"true\\"]"}',
    "a huge number": b'{"manifest": {"metadata": {"name": ' + b"9" * 5000 + b"}}}",
    "nan": b'{"manifest": {"kind": "Job", "spec": {"parallelism": NaN}}}',
    "surrogates": b'{"manifest": {"metadata": {"name": "\\ud800", "namespace": "\\udfff"}}}',
    "a subject in a name": b'{"manifest": {"metadata": {"name": "a.>", "namespace": "*"}}}',
    "large": json.dumps({"yaml": "x" * 700_000}).encode(),
}


@pytest.mark.parametrize("name", HARMFUL)
def test_a_harmful_request_is_refused(stack: Stack, name: str) -> None:
    for kind in ("application/yaml", "application/json", "application/cloudevents+json"):
        answer = httpx.post(
            f"{stack.gateway_url}/v1/jobs",
            content=HARMFUL[name],
            headers={**stack.headers("ci-builds"), "Content-Type": kind},
            timeout=60,
        )
        assert 400 <= answer.status_code < 500, f"{kind}: {answer.status_code} {answer.text[:300]}"


def test_a_request_without_end_is_cut_off(stack: Stack) -> None:
    with suppress(httpx.TransportError):
        assert send(stack, "ci-builds", b"x" * 20_000_000).status_code in {400, 413}
    assert httpx.get(f"{stack.gateway_url}/readyz", timeout=20).status_code == 200


def test_harmful_messages_stop_nobody(stack: Stack) -> None:
    before = {name: process.starts for name, process in stack.processes.items()}
    asyncio.run(flood(stack))
    assert send(stack, "ci-builds", manifest("after-the-flood")).status_code == 202
    assert decided(stack, "after-the-flood")["outcome"] == "Succeeded"
    wait_until(lambda: waiting(stack) == 0, 60, lambda: f"{waiting(stack)} jobs wait")
    stack.wait_all_ready()
    assert {name: process.starts for name, process in stack.processes.items()} == before


async def flood(stack: Stack) -> None:
    """Every harmful body under every verb, and again with headers made to confuse."""
    login = stack.bus_login("ci-any")
    client = await nats.connect(
        login.url,
        user=login.user,
        password=login.password,
        inbox_prefix=login.inbox_prefix.encode(),
    )
    headers = [
        None,
        {"ce-id": "x" * 10_000, "ce-time": "not a time", "traceparent": "00-zz"},
        {"ce-type": "dev.muster.admission.v1.workload_evicted", "Nats-Msg-Id": "\N{SNOWMAN}"},
    ]
    for verb in JobVerb:
        for body in HARMFUL.values():
            for each in headers:
                with suppress(APIError):
                    await client.jetstream().publish(job("team-a", verb), body, headers=each)
    for odd in ("muster.v1.jobs.team-a.explode", "muster.v1.jobs.=.submit"):
        await client.jetstream().publish(odd, b"{}")
    await client.close()


def waiting(stack: Stack) -> int:
    return asyncio.run(jobs_waiting(stack))


async def jobs_waiting(stack: Stack) -> int:
    login = stack.bus_login()
    client = await nats.connect(
        login.url,
        user=login.user,
        password=login.password,
        inbox_prefix=login.inbox_prefix.encode(),
    )
    info = await client.jetstream().stream_info(streams.JOBS.name)
    await client.close()
    return info.state.messages
