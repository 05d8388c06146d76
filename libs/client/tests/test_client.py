"""The client against an HTTP transport that answers as the gateway does."""

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from muster.cli.app import with_plain_wait
from muster.cli.jobs import own_attempt
from muster.cli.objects import with_value
from muster.cli.output import as_yaml
from muster.cli.running import Ask, environment_of, manifest_text
from muster.client import Client, StreamEvent, reference
from muster.config import read_config
from muster.durations import parse_seconds, short
from muster.errors import BadArgument, ExitCode, Refused, Unreachable
from muster.following import exit_of
from muster_contracts import codec
from muster_contracts.api import Noted, Refusal, RefusalAnswer
from muster_contracts.jobs import Decision, Seat, Verdict
from muster_domain.conditions import Outcome
from muster_manifests import JobSubmission, load

TOKEN = "not-a-real-one"  # noqa: S105 - so it says
Handler = Callable[[httpx.Request], httpx.Response]


def client(handler: Handler) -> Client:
    return Client("http://muster", token=TOKEN, transport=httpx.MockTransport(handler))


def refusing(status: int, kind: str) -> Handler:
    body = codec.encode(RefusalAnswer(error=Refusal(kind=kind, problem="no", field="f", fix="x")))
    return lambda _request: httpx.Response(status, content=body)


def decision(verdict: Verdict = Verdict.FINISHED, **changes: object) -> Decision:
    known: dict[str, object] = {
        "id": "a" * 32,
        "namespace": "team-a",
        "name": "train",
        "decision": verdict,
        "reason": "",
        "message": "",
        "queue": "main",
        "cluster_queue": "gpus",
        "partition": "p00",
        "attempt": 1,
        "at_ms": 0,
    }
    return Decision(**{**known, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (422, "invalid_manifest", ExitCode.BAD_REQUEST),
        (404, "not_found", ExitCode.BAD_REQUEST),
        (413, "too_large", ExitCode.BAD_REQUEST),
        (409, "conflict", ExitCode.REFUSED),
        (403, "forbidden", ExitCode.REFUSED),
        (401, "unauthenticated", ExitCode.REFUSED),
        (500, "internal", ExitCode.FAILURE),
    ],
)
def test_refusals_have_their_exit_codes(status: int, kind: str, code: ExitCode) -> None:
    with pytest.raises(Refused) as caught:
        client(refusing(status, kind)).whoami()
    assert caught.value.exit_code is code
    assert caught.value.refusal.fix == "x"


def test_what_is_unavailable_is_asked_again_under_the_same_key() -> None:
    keys: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["idempotency-key"])
        if len(keys) < 3:
            return httpx.Response(503, json={})
        return httpx.Response(202, json={"jobs": [], "objects": [], "warnings": ["w"]})

    assert client(handler).submit("x", key="k7").warnings == ("w",)
    assert keys == ["k7", "k7", "k7"]


def test_an_answer_of_somebody_else_is_no_success() -> None:
    with pytest.raises(Unreachable):
        client(lambda _request: httpx.Response(200, text="<html>")).whoami()
    with pytest.raises(Refused):
        client(lambda _request: httpx.Response(418, text="teapot")).whoami()


def test_the_token_and_only_given_parameters_are_sent() -> None:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={"page": {"rows": [], "total": 0}})

    client(handler).workloads({"namespace": "", "queue": "main", "phase": ["Pending", "Running"]})
    assert seen[0].headers["authorization"] == f"Bearer {TOKEN}"
    assert str(seen[0].url) == "http://muster/v1/workloads?queue=main&phase=Pending&phase=Running"


def test_streams_are_read_event_by_event() -> None:
    text = (
        ": ping\r\n\r\nid: 7\r\nevent: decision\r\ndata: {}\r\n\r\n"
        "event: end\r\ndata: a\r\ndata: b\r\n\r\n"
    )
    events = list(client(lambda _request: httpx.Response(200, text=text)).watch({}))
    assert events == [StreamEvent("decision", "{}", "7"), StreamEvent("end", "a\nb")]
    with pytest.raises(Refused):
        list(client(refusing(404, "not_found")).watch({"workload": "x"}))


def test_finishing_says_how() -> None:
    bodies: list[dict[str, str]] = []

    def handler(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        return httpx.Response(202, content=codec.encode(Noted(id="a", namespace="n", name="x")))

    client(handler).finish("team-a:x", succeeded=False, message="exit 3")
    assert bodies == [{"outcome": "Failed", "message": "exit 3"}]


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("team-a/train", "team-a:train"),
        ("abcd1234", "abcd1234"),
        ("train", "mine:train"),
        ("abc", "mine:abc"),
    ],
)
def test_what_people_call_a_job(text: str, spelled: str) -> None:
    assert reference(text, "mine") == spelled


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"outcome": Outcome.SUCCEEDED}, ExitCode.OK),
        ({"outcome": Outcome.FAILED}, ExitCode.JOB_FAILED),
        ({"outcome": Outcome.CANCELLED}, ExitCode.CANCELLED),
        ({"outcome": Outcome.DEACTIVATED}, ExitCode.JOB_FAILED),
        ({"outcome": Outcome.LEASE_EXPIRED}, ExitCode.JOB_FAILED),
        ({"outcome": Outcome.FAILED, "reason": "Preempted"}, ExitCode.PREEMPTED),
        ({"verdict": Verdict.REFUSED}, ExitCode.REFUSED),
        ({"verdict": Verdict.REFUSED, "outcome": Outcome.REFUSED}, ExitCode.REFUSED),
    ],
)
def test_every_end_has_its_exit_code(changes: dict[str, object], code: ExitCode) -> None:
    assert exit_of(decision(**changes)) is code  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("30m", 1800), ("2h", 7200), ("1h30m", 5400), ("1d", 86_400)],
)
def test_durations(text: str, seconds: int) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "30ms", "-5", "1w", "5m30x"])
def test_no_durations(text: str) -> None:
    with pytest.raises(BadArgument):
        parse_seconds(text)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(-5, "0s"), (59_999, "59s"), (60_000, "1m"), (3_660_000, "1h01m"), (90_000_000, "1d1h")],
)
def test_ages(milliseconds: int, text: str) -> None:
    assert short(milliseconds) == text


def test_the_environment_says_where_and_who(tmp_path: Path) -> None:
    token = tmp_path / "muster" / "token"
    token.parent.mkdir()
    token.write_text(f" {TOKEN} \n")
    assert read_config({"XDG_CONFIG_HOME": str(tmp_path)}).token == TOKEN
    assert read_config({"MUSTER_TOKEN": TOKEN, "XDG_CONFIG_HOME": "/"}).token == TOKEN
    assert read_config({"MUSTER_TOKEN_FILE": str(token)}).token == TOKEN
    assert read_config({"HOME": str(tmp_path / "nobody")}).token == ""
    with pytest.raises(BadArgument):
        read_config({"MUSTER_TOKEN_FILE": str(tmp_path / "none")})


def test_a_bare_wait_means_finished() -> None:
    assert with_plain_wait(["submit", "--wait", "f"]) == ["submit", "--wait=finished", "f"]
    assert with_plain_wait(["submit", "--wait=admitted"]) == ["submit", "--wait=admitted"]
    assert with_plain_wait(["run", "--", "x", "--wait"]) == ["run", "--", "x", "--wait"]


@pytest.mark.parametrize(
    ("named", "attempt"),
    [
        ("0123456789abcdef", 3),
        ("0123456", 3),
        ("team-a:train", 3),
        ("team-b:train", 0),
        ("team-a:other", 0),
        ("fedcba98", 0),
    ],
)
def test_a_pod_knows_the_attempt_of_its_own_workload_alone(named: str, attempt: int) -> None:
    pod = {
        "MUSTER_WORKLOAD": "team-a/train",
        "MUSTER_WORKLOAD_ID": "0123456789abcdef",
        "MUSTER_ATTEMPT": "3",
    }
    assert own_attempt(named, pod) == attempt
    assert own_attempt(named, {}) == 0


def test_stopping_a_queue_keeps_the_comments() -> None:
    text = "kind: ClusterQueue\nspec:\n  cohort: site  # ours\n"
    assert with_value(text, "spec", "stopPolicy", "Hold") == (
        "kind: ClusterQueue\nspec:\n  cohort: site  # ours\n  stopPolicy: Hold\n"
    )


def test_the_command_sees_its_cards_and_no_others() -> None:
    admitted = decision(
        Verdict.ADMITTED,
        attempt=2,
        assignments=(
            Seat(rank=1, pod_set="m", node="n1", devices={"nvidia.com/gpu": (5,)}),
            Seat(rank=0, pod_set="m", node="n1", devices={"nvidia.com/gpu": (3, 4)}),
        ),
    )
    environment = environment_of(admitted)
    assert environment["CUDA_VISIBLE_DEVICES"] == "3,4,5"
    assert environment["MUSTER_WORKLOAD"] == "team-a/train"
    assert environment["MUSTER_NODE"] == "n1"
    assert environment_of(decision(Verdict.ADMITTED))["CUDA_VISIBLE_DEVICES"] == ""


def test_run_asks_with_a_manifest_that_muster_reads() -> None:
    ask = Ask(
        name="train-1",
        namespace="team-a",
        queue="main",
        priority_class="high",
        resources={"nvidia.com/gpu": "2", "cpu": "500m"},
        node="box7",
    )
    [document] = load(manifest_text(ask), source="run").documents
    submission = document.content
    assert isinstance(submission, JobSubmission)
    assert (submission.queue, submission.workload_priority_class) == ("main", "high")
    [pod_set] = submission.pod_sets
    assert pod_set.requests == {"nvidia.com/gpu": 2000, "cpu": 500}
    assert pod_set.demand.node_selector == {"kubernetes.io/hostname": "box7"}


def test_any_answer_has_a_yaml_form() -> None:
    assert as_yaml(Noted(id="a", namespace="n", name="x")) == 'id: a\nnamespace: "n"\nname: x\n'


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "muster", "ftp://muster", "http://"])
def test_an_address_that_is_none_is_said_with_what_to_write(url: str) -> None:
    with pytest.raises(BadArgument) as caught:
        read_config({"MUSTER_URL": url, "MUSTER_TOKEN": "t"})
    assert caught.value.fix.startswith("write http://")


def test_another_server_at_the_address_is_told_from_a_refusal() -> None:
    page = httpx.Response(404, text="<html>\n nothing </html>")
    with pytest.raises(Refused) as caught:
        client(lambda _request: page).whoami()
    assert caught.value.refusal.kind == "foreign"
    assert caught.value.exit_code is ExitCode.FAILURE
    assert "http://muster/v1/whoami answers 404, and not as Muster does: <html>" in str(
        caught.value
    )


def test_who_looks_once_does_not_ask_again() -> None:
    asked: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(503, json={})

    impatient = Client("http://muster", looking_s=0, transport=httpx.MockTransport(handler))
    with pytest.raises(Unreachable):
        impatient.whoami()
    assert len(asked) == 1
