"""The console over a running Muster: a viewer enters with a token and sees what it may see."""

from collections.abc import Iterator

import httpx
import pytest

from muster.client import Client
from muster.errors import Refused
from muster_contracts.queries import Phase
from muster_contracts.subjects import Service
from muster_stack.plan import StackOptions
from muster_stack.stack import Stack
from muster_testing.waiting import wait_until

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]

DEADLINE_S = 90.0
HOSTILE = "<script>alert(1)</script>"
OBJECTS = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: vision}
spec:
  cohortName: lab
  namespaceSelector: {}
  resourceGroups:
    - coveredResources: [nvidia.com/gpu]
      flavors:
        - name: any
          resources: [{name: nvidia.com/gpu, nominalQuota: 8}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: jobs, namespace: vision}
spec: {clusterQueue: vision}
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata:
  name: NAME
  namespace: vision
  labels: {kueue.x-k8s.io/queue-name: jobs}
spec:
  parallelism: 6
  completions: 6
  template:
    metadata: {annotations: {muster.dev/simulated-duration-ms: "3600000"}}
    spec:
      containers: [{name: main, image: none, resources: {requests: {nvidia.com/gpu: 1}}}]
"""


def phase_of(admin: Client, name: str) -> Phase | None:
    """How far a job is; None until its name is known."""
    try:
        return admin.workload(f"vision:{name}").row.phase
    except Refused:
        return None


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    options = StackOptions(
        simulate="2x4gpu", console_port=0, ci={"theirs": ("other",)}, log_level="WARNING"
    )
    with Stack(tmp_path_factory.mktemp("console"), options) as running:
        with Client(running.gateway_url, token=running.tokens["admin"]) as admin:
            admin.submit(OBJECTS, key="objects")
            for name, phase in (("runs", Phase.RUNNING), ("waits", Phase.PENDING)):
                admin.submit(JOB.replace("NAME", name), key=name)
                wait_until(
                    lambda name=name, phase=phase: phase_of(admin, name) is phase,
                    DEADLINE_S,
                    lambda name=name: f"the job {name} is not where it should be",
                )
        yield running


@pytest.fixture
def stranger(stack: Stack) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=stack.console_url, follow_redirects=True, timeout=30) as client:
        yield client


@pytest.fixture
def viewer(stack: Stack, stranger: httpx.Client) -> httpx.Client:
    entered = stranger.post("/login", data={"token": stack.tokens["viewer"]})
    assert entered.status_code == 200
    return stranger


@pytest.mark.parametrize("path", ["/", "/workloads", "/workloads/vision:runs", "/nodes", "/cost"])
def test_whoever_is_not_known_is_sent_to_the_door(stranger: httpx.Client, path: str) -> None:
    answer = stranger.get(path)
    assert answer.url.path == "/login"
    assert "Who are you?" in answer.text


@pytest.mark.parametrize("token", ["", "wrong", "a\r\nb", "é", "x" * 100_000])
def test_a_token_that_is_not_known_opens_nothing(stranger: httpx.Client, token: str) -> None:
    answer = stranger.post("/login", data={"token": token})
    assert answer.status_code == 401
    assert not stranger.cookies


def test_the_token_lies_where_no_script_reads_it(stack: Stack) -> None:
    answer = httpx.post(f"{stack.console_url}/login", data={"token": stack.tokens["viewer"]})
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


def test_queues_show_who_uses_what(viewer: httpx.Client) -> None:
    page = viewer.get("/").text
    assert "cohort lab" in page
    assert 'aria-label="used 6 of 8"' in page
    assert 'class="own" style="width:75.0%"' in page


def test_workloads_are_listed_and_filtered(viewer: httpx.Client) -> None:
    everything = viewer.get("/workloads").text
    assert "vision/runs" in everything
    assert "vision/waits" in everything
    pending = viewer.get("/workloads", params={"phase": "Pending"}).text
    assert "vision/waits" in pending
    assert "vision/runs" not in pending


def test_a_workload_says_why_it_waits_and_what_would_help(viewer: httpx.Client) -> None:
    page = viewer.get("/workloads/vision:waits").text
    assert "WaitingForQuota" in page
    assert "Would start if" in page
    assert 'class="lacking"' in page


def test_a_job_that_waits_is_told_where_it_would_fit_and_who_is_there(
    stack: Stack, viewer: httpx.Client
) -> None:
    page = viewer.get("/workloads/vision:waits").text
    assert "Where it would fit now" in page
    assert "finds seats now: 2 of 6 pods" in page
    with Client(stack.gateway_url, token=stack.tokens["viewer"]) as client:
        found = client.fit("vision:waits")
    assert [(way.asked, way.largest) for way in found.ways] == [(6, 2)]
    assert found.domains[0].sitting == ("vision/runs",)
    with (
        Client(stack.gateway_url, token=stack.tokens["ci-theirs"]) as stranger,
        pytest.raises(Refused),
    ):
        stranger.fit("vision:waits")


def test_nodes_show_who_sits_where(viewer: httpx.Client) -> None:
    page = viewer.get("/nodes").text
    assert page.count('class="cell held team0"') == 7  # six cards and the legend
    assert "vision/runs" in page
    assert "Largest gang now of" in page


def test_a_job_with_seats_says_what_they_leave_and_where_they_are(
    stack: Stack, viewer: httpx.Client
) -> None:
    page = viewer.get("/workloads/vision:runs").text
    assert "binpack: " in page
    assert "leaves 0 whole nvidia.com/gpu" in page
    with Client(stack.gateway_url, token=stack.tokens["viewer"]) as client:
        whole = client.domains(["gpu=1"]).domains[0]
        assert (whole.path, whole.largest) == ((), (2,))
        detail = client.workload("vision:runs")
        assert {node.name for node in client.nodes(detail.row.nodes).nodes} == set(detail.row.nodes)


@pytest.mark.parametrize("by", ["namespace", "cluster_queue", "user"])
def test_cost_is_shown_by_what_is_chosen(viewer: httpx.Client, by: str) -> None:
    answer = viewer.get("/cost", params={"by": by})
    assert answer.status_code == 200
    assert f'<th scope="col">{by}<th' in answer.text


def test_a_viewer_sees_here_what_its_token_sees(stack: Stack, stranger: httpx.Client) -> None:
    stranger.post("/login", data={"token": stack.tokens["ci-theirs"]})
    assert "vision/runs" not in stranger.get("/workloads").text
    assert stranger.get("/workloads/vision:runs").status_code in {403, 404}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/workloads/vision:nothing", 404),
        ("/workloads?phase=Dancing", 422),
        ("/workloads?name=" + HOSTILE, 200),
        ("/workloads/" + HOSTILE.replace("/", "%2F"), 404),
        ("/static/..%2Fapp.py", 404),
        ("/static/app.py", 404),
    ],
)
def test_what_is_not_there_is_said_and_nothing_is_executed(
    viewer: httpx.Client, path: str, status: int
) -> None:
    answer = viewer.get(path)
    assert answer.status_code == status
    assert HOSTILE not in answer.text


def test_leaving_forgets_the_token(viewer: httpx.Client) -> None:
    viewer.post("/logout")
    assert viewer.get("/").url.path == "/login"


def test_the_page_says_so_while_the_gateway_is_down(stack: Stack, viewer: httpx.Client) -> None:
    gateway = stack.names(Service.GATEWAY)[0]
    stack.kill(gateway, stay_down=True)
    try:
        answer = wait_until(
            lambda: (page := viewer.get("/nodes")).status_code == 503 and page,
            DEADLINE_S,
            lambda: "the console does not notice",
        )
        assert "does not answer" in answer.text
    finally:
        stack.restart(gateway)
        stack.wait_ready(gateway)
