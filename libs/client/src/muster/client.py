"""The HTTP API as Python calls. One client is one caller; it may be used from several threads.

What may be repeated is repeated when Muster does not answer: reads, and submissions under one key.
"""

import json
import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
import stamina

from muster.errors import Refused, Unreachable
from muster_contracts import codec
from muster_contracts.api import (
    Accepted,
    Activation,
    AppliedObject,
    Books,
    CheckAnswer,
    Checkpoint,
    EndJob,
    FlowView,
    Noted,
    ObjectList,
    ObjectView,
    Plans,
    QuotaList,
    Refusal,
    RefusalAnswer,
    WhoAmI,
    WorkloadList,
)
from muster_contracts.budgets import BudgetPage
from muster_contracts.commitments import CommitmentPage
from muster_contracts.envelope import IDEMPOTENCY_KEY
from muster_contracts.fit import FitPage
from muster_contracts.floor import DomainPage
from muster_contracts.jobs import Decision
from muster_contracts.queries import (
    NAMED_NODES_MAX,
    CostReport,
    NodePage,
    NodeRow,
    WorkloadDetail,
)
from muster_contracts.statements import StatementPage
from muster_contracts.tokens import TokenReport, TokensTaken
from muster_domain.errors import InvalidValue

T = TypeVar("T")

_FOREIGN_SHOWN = 200
"""Letters that are shown of an answer that is not Muster's."""
ANSWER_BYTES_MAX = 256 * 1024 * 1024
TIMEOUT_S = 35.0
TRYING_MAX_S = 20.0
"""How long a submission is tried again under its key."""
LOOKING_MAX_S = 3.0
"""How long a look is tried again: somebody waits for it."""
STREAM_SILENCE_MAX_S = 45.0
"""The server says something every 15 s; a stream that is silent for longer is dead."""
_ID = re.compile(r"[0-9a-f]{4,32}")

Parameters = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event of a stream. `data` is JSON text, or empty."""

    event: str
    data: str
    id: str = ""


def seated_on(client: "Client", detail: WorkloadDetail) -> tuple[NodeRow, ...]:
    """The nodes that a workload sits on, as far as it can be known now; of many the first."""
    names = sorted({seat.node for seat in detail.seats})[:NAMED_NODES_MAX]
    try:
        return client.nodes(names).nodes if names else ()
    except (Refused, Unreachable):
        return ()


def reference(text: str, namespace: str) -> str:
    """How the API spells what people call a workload.

    People give an id, its beginning, `namespace/name`, or a name in `namespace`.
    """
    if "/" in text:
        return text.replace("/", ":", 1)
    return text if _ID.fullmatch(text) else f"{namespace}:{text}"


class Client:
    """Calls one Muster. Every call raises `Refused` or `Unreachable`.

    Looking is tried again for `looking_s` while nobody answers; with 0 it is tried once.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        timeout_s: float = TIMEOUT_S,
        looking_s: float = LOOKING_MAX_S,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._looking_s = looking_s
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(
            base_url=url, headers=headers, timeout=timeout_s, transport=transport
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; open streams end."""
        self._http.close()

    def submit(
        self, manifest: str | bytes, *, key: str, parameters: Parameters | None = None
    ) -> Accepted:
        """Send a file of jobs and objects; the same `key` is the same submission.

        `parameters`: namespace, user, external_lease_ms, dry_run, source, wait, wait_s.
        """
        return self._post(
            Accepted,
            "/v1/jobs",
            content=manifest,
            parameters=parameters,
            headers={IDEMPOTENCY_KEY: key},
        )

    def plan(self, manifest: str | bytes, parameters: Parameters | None = None) -> Plans:
        """See what would become of a file's jobs. `parameters`: namespace, source."""
        return self._post(Plans, "/v1/plan", content=manifest, parameters=parameters)

    def workloads(self, parameters: Parameters | None = None) -> WorkloadList:
        """List workloads. `parameters`: namespace, name, queue, cluster_queue, user, phase, ..."""
        return self._get(WorkloadList, "/v1/workloads", parameters)

    def workload(self, workload: str) -> WorkloadDetail:
        """All about one workload."""
        return self._get(WorkloadDetail, f"/v1/workloads/{workload}")

    def fit(self, workload: str) -> FitPage:
        """Where a workload would find seats now, and the largest gang of its shape that would."""
        return self._get(FitPage, f"/v1/workloads/{workload}/fit")

    def decision(self, workload: str) -> Decision:
        """The last decision about one workload."""
        return self._get(Decision, f"/v1/workloads/{workload}/decision")

    def cancel(self, workload: str, message: str = "") -> Noted:
        """Ask for a workload to be ended."""
        return self._end(workload, "cancel", EndJob(message=message))

    def finish(self, workload: str, *, succeeded: bool, message: str = "") -> Noted:
        """Say that a job that runs elsewhere has ended."""
        outcome = "Succeeded" if succeeded else "Failed"
        return self._end(workload, "finish", EndJob(outcome=outcome, message=message))

    def set_active(self, workload: str, *, active: bool) -> Noted:
        """Take a workload out of the line, or put it back."""
        body = codec.encode(Activation(active=active))
        return self._post(Noted, f"/v1/workloads/{workload}/activation", content=body)

    def answer_check(self, workload: str, check: str, answer: CheckAnswer) -> Noted:
        """Answer for an admission check of one attempt of a workload."""
        path = f"/v1/workloads/{workload}/checks/{check}"
        return self._post(Noted, path, content=codec.encode(answer))

    def heartbeat(self, workload: str) -> Noted:
        """Say that the holder of a job that runs elsewhere is alive."""
        return self._end(workload, "heartbeat", EndJob())

    def checkpoint(self, workload: str, attempt: int = 0) -> Noted:
        """Say that a job has saved its work; `attempt` 0 means whichever runs."""
        body = codec.encode(Checkpoint(attempt=attempt))
        return self._post(Noted, f"/v1/workloads/{workload}/checkpoint", content=body)

    def quota(self, cluster_queue: str = "") -> QuotaList:
        """Quota of one ClusterQueue, or of all."""
        return self._get(QuotaList, "/v1/quota", {"cluster_queue": cluster_queue})

    def nodes(self, names: Iterable[str] = ()) -> NodePage:
        """All nodes, or those of these names that are known."""
        return self._get(NodePage, "/v1/nodes", {"name": tuple(names)})

    def some_nodes(self, parameters: Parameters) -> NodePage:
        """Some nodes. `parameters`: contains, topology, in, outside, limit, offset."""
        return self._get(NodePage, "/v1/nodes", parameters)

    def domains(self, pods: Sequence[str] = ()) -> DomainPage:
        """The domains of the topologies, and the largest gangs of these pods that fit now.

        A pod is what it asks for, as in `gpu=8,cpu=32,memory=200Gi`; none are the usual ones.
        """
        return self._get(DomainPage, "/v1/nodes/domains", {"pod": tuple(pods)})

    def drain(self, node: str, *, drained: bool = True) -> AppliedObject:
        """Keep a node empty, or use it again."""
        action = "drain" if drained else "uncordon"
        return self._post(AppliedObject, f"/v1/nodes/{node}/{action}")

    def cost(self, parameters: Parameters) -> CostReport:
        """What a window cost. `parameters`: by, from, to, idle, basis, lender_credit."""
        return self._get(CostReport, "/v1/cost", parameters)

    def report_tokens(self, rows: Sequence[Mapping[str, Any]], namespace: str = "") -> TokensTaken:
        """Hand over rows of a proxy's spend log; those that are known change nothing."""
        parameters: Parameters = {"namespace": namespace}
        return self._post(
            TokensTaken, "/v1/usage/tokens", content=json.dumps(list(rows)), parameters=parameters
        )

    def token_cost(self, parameters: Parameters) -> TokenReport:
        """Tokens and their money. `parameters`: by, from, to, start_date, end_date."""
        return self._get(TokenReport, "/v1/cost/tokens", parameters)

    def budgets(self, name: str = "") -> BudgetPage:
        """Budgets in their present periods: one, or all."""
        return self._get(BudgetPage, "/v1/cost/budgets", {"name": name})

    def commitments(self, month: str = "", zone: str = "UTC") -> CommitmentPage:
        """What quota comes to in a month; in the next one if none is named."""
        return self._get(CommitmentPage, "/v1/cost/commitments", {"month": month, "tz": zone})

    def statement(self, month: str, parameters: Parameters) -> bytes:
        """What a month came to, as a file. `parameters`: tz, by, format."""
        path = f"/v1/cost/statements/{month}"
        return self._request("GET", path, {"params": _given(parameters)}).content

    def close_month(self, month: str, zone: str = "UTC") -> StatementPage:
        """Close a month, once; the statement that was issued for it, with its first lines."""
        path = f"/v1/cost/periods/{month}/close"
        return self._post(StatementPage, path, parameters={"tz": zone})

    def verify(self) -> Books:
        """Prove that the books agree."""
        return self._get(Books, "/v1/ledger/verify")

    def whoami(self) -> WhoAmI:
        """Who the token says we are."""
        return self._get(WhoAmI, "/v1/whoami")

    def objects(self, kind: str, namespace: str = "") -> ObjectList:
        """Declared objects of a kind."""
        return self._get(ObjectList, f"/v1/objects/{kind}", {"namespace": namespace})

    def object(self, kind: str, name: str, namespace: str) -> ObjectView:
        """One declared object."""
        return self._get(ObjectView, f"/v1/objects/{kind}/{name}", {"namespace": namespace})

    def flow(self, name: str, namespace: str) -> FlowView:
        """A JobFlow and how far it is."""
        return self._get(FlowView, f"/v1/jobflows/{name}", {"namespace": namespace})

    def delete(self, kind: str, name: str, namespace: str) -> AppliedObject:
        """Delete a declared object."""
        response = self._request(
            "DELETE", f"/v1/objects/{kind}/{name}", {"params": {"namespace": namespace}}
        )
        return _read(AppliedObject, response)

    def watch(self, parameters: Parameters) -> Generator[StreamEvent, None, None]:
        """Decisions as they fall, until the stream ends. `parameters`: workload, namespace, queue.

        Raises `Unreachable` when it breaks; take it up again from the last event's id.
        """
        return self._stream("/v1/watch", parameters)

    def output(self, workload: str) -> Generator[StreamEvent, None, None]:
        """What the workload's pods write from now on, until it ends."""
        return self._stream(f"/v1/workloads/{workload}/output", {})

    def _end(self, workload: str, verb: str, body: EndJob) -> Noted:
        return self._post(Noted, f"/v1/workloads/{workload}/{verb}", content=codec.encode(body))

    def _get(self, kind: type[T], path: str, parameters: Parameters | None = None) -> T:
        return _read(kind, self._request("GET", path, {"params": _given(parameters)}))

    def _post(
        self,
        kind: type[T],
        path: str,
        *,
        content: str | bytes = b"",
        parameters: Parameters | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> T:
        request: dict[str, Any] = {
            "params": _given(parameters),
            "content": content,
            "headers": {"Content-Type": "application/json", **(headers or {})},
        }
        return _read(kind, self._request("POST", path, request))

    def _request(self, method: str, path: str, request: dict[str, Any]) -> httpx.Response:
        trying_s = self._looking_s if method == "GET" else TRYING_MAX_S
        if not trying_s:
            return self._once(method, path, request)
        for attempt in stamina.retry_context(
            on=Unreachable, attempts=None, timeout=trying_s, wait_initial=0.2, wait_max=4
        ):
            with attempt:
                return self._once(method, path, request)
        raise Unreachable(f"{self._http.base_url} did not answer")

    def _once(self, method: str, path: str, request: dict[str, Any]) -> httpx.Response:
        try:
            response = self._http.request(method, path, **request)
        except httpx.HTTPError as error:
            problem = f"{str(self._http.base_url).rstrip('/')} does not answer: {error}"
            if "WRONG_VERSION_NUMBER" in str(error):
                problem = f"{problem}; it may speak no TLS: try http://"
            raise Unreachable(problem) from error
        _check(response)
        return response

    def _stream(self, path: str, parameters: Parameters) -> Generator[StreamEvent, None, None]:
        timeout = httpx.Timeout(TIMEOUT_S, read=STREAM_SILENCE_MAX_S)
        asked = dict(parameters)
        after = str(asked.pop("after", ""))
        headers = {"Last-Event-ID": after} if after else {}
        try:
            with self._http.stream(
                "GET", path, params=_given(asked), headers=headers, timeout=timeout
            ) as response:
                if not response.is_success:
                    response.read()
                    _check(response)
                yield from _events(response)
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise Unreachable(f"the stream broke: {error}") from error


def _given(parameters: Parameters | None) -> dict[str, Any]:
    return {
        name: value for name, value in (parameters or {}).items() if value not in ("", None, ())
    }


def _events(response: httpx.Response) -> Generator[StreamEvent, None, None]:
    fields: dict[str, str] = {}
    data: list[str] = []
    for line in response.iter_lines():
        if not line:
            if "event" in fields:
                yield StreamEvent(fields["event"], "\n".join(data), fields.get("id", ""))
            fields, data = {}, []
            continue
        name, _, value = line.partition(":")
        if name == "data":
            data.append(value.removeprefix(" "))
        elif name:
            fields[name] = value.removeprefix(" ")


def _check(response: httpx.Response) -> None:
    if response.is_success:
        return
    refusal = _refusal(response)
    unavailable = response.status_code in {502, 503, 504}
    if unavailable:
        raise Unreachable(refusal.problem)
    raise Refused(response.status_code, refusal)


def _refusal(response: httpx.Response) -> Refusal:
    try:
        return codec.decode(RefusalAnswer, response.content).error
    except InvalidValue:
        kind = "internal" if response.is_server_error else "foreign"
        text = " ".join(response.text.split())[:_FOREIGN_SHOWN]
        where = response.url.copy_with(query=None)
        problem = f"{where} answers {response.status_code}, and not as Muster does: {text}"
        return Refusal(kind=kind, problem=problem)


def _read(kind: type[T], response: httpx.Response) -> T:
    try:
        return codec.decode(kind, response.content, bytes_max=ANSWER_BYTES_MAX)
    except InvalidValue as error:
        raise Unreachable(f"the answer is not Muster's: {error}") from error


def pretty_json(value: object) -> str:
    """Any answer as indented JSON."""
    return json.dumps(json.loads(codec.encode(value)), indent=2, ensure_ascii=False)
