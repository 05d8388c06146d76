"""The pages over a gateway that answers what it is told to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import httpx
import pytest

from muster.client import Client
from muster_console.app import build
from muster_console.reading import Reading
from muster_console.session import COOKIE
from muster_console.settings import ConsoleSettings
from muster_contracts import codec
from muster_contracts.api import QuotaList, Refusal, RefusalAnswer
from muster_contracts.fit import DomainFit, FitPage, PodSetAsked, PodSetFit, Way
from muster_contracts.floor import DomainPage
from muster_contracts.jobs import Seat
from muster_contracts.queries import (
    CostLine,
    CostLineKind,
    CostReport,
    NodePage,
    Phase,
    QuotaPage,
    WorkloadDetail,
    WorkloadRow,
)
from muster_domain.conditions import Explanation
from muster_domain.money import IdlePolicy

GPU = "nvidia.com/gpu"
HOUR = 3_600_000 * 1000


@dataclass
class Gateway:
    """Answers by path; what it has no answer for is unavailable. Remembers what it was asked."""

    answers: Mapping[str, object]
    asked: list[httpx.URL] = field(default_factory=list[httpx.URL])

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url)
        found = self.answers.get(request.url.path)
        if isinstance(found, bytes):
            return httpx.Response(200, content=found)
        if isinstance(found, Refusal):
            return httpx.Response(422, content=codec.encode(RefusalAnswer(error=found)))
        if found is None:
            refusal = RefusalAnswer(error=Refusal(kind="unavailable", problem="no answer"))
            return httpx.Response(503, content=codec.encode(refusal))
        return httpx.Response(200, content=codec.encode(found))


Viewer = Callable[[Mapping[str, object]], tuple[httpx.AsyncClient, Gateway]]


@pytest.fixture
def viewer() -> Viewer:
    def entered(answers: Mapping[str, object]) -> tuple[httpx.AsyncClient, Gateway]:
        gateway = Gateway(answers)
        app = build(ConsoleSettings())

        def connect(token: str) -> Client:
            transport = httpx.MockTransport(gateway.answer)
            return Client("http://gw", token=token, looking_s=0, transport=transport)

        app.state.reading = Reading(connect, fresh_s=60)
        client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://console", cookies={COOKIE: "t"}
        )
        return client, gateway

    return entered


def detail(phase: Phase = Phase.PENDING, seats: tuple[Seat, ...] = ()) -> WorkloadDetail:
    row = WorkloadRow(
        id="a" * 32,
        namespace="vision",
        name="train",
        kind="Job",
        queue="jobs",
        cluster_queue="vision",
        phase=phase,
        reason="TopologyPlacementFailed",
        message="2 of 4 members can be seated",
        priority=0,
        requests_milli={GPU: 16_000},
        pods=4,
        created_at_ms=0,
        attempt=1,
    )
    why = Explanation(reason="TopologyPlacementFailed", message="2 of 4 members can be seated")
    return WorkloadDetail(row=row, explanation=why, seats=seats)


def domain(*path: str, pods: int | None, seated: int = 0) -> DomainFit:
    fits = () if pods is None else ((PodSetFit(pods=pods, usable=2, largest_free_milli=3000),),)
    return DomainFit(
        topology="hall" if path else "",
        level="example.com/rack" if path else "",
        path=path,
        nodes=2,
        ready=2,
        allocatable_milli={GPU: 16_000},
        free_milli={GPU: 6000},
        fits=fits,
        seated=seated,
        sitting=("nlp/eval",) if path else (),
        sitting_total=1 if path else 0,
    )


ASKED = PodSetAsked(
    name="main", pods=4, requests_milli={GPU: 4000}, main=GPU, flavors=("h100",),
    level="example.com/rack", required=True,
)  # fmt: skip
WAITS = FitPage(
    ways=(Way(pod_sets=(ASKED,), asked=4, enough=4, largest=2, path=("r1",)),),
    domains=(domain(pods=2), domain("r1", pods=2), domain("r2", pods=0)),
    total=3,
)
PATH = f"/v1/workloads/{'a' * 32}"


async def test_the_page_of_one_that_waits_draws_where_it_would_fit(viewer: Viewer) -> None:
    client, _ = viewer({f"{PATH}": detail(), f"{PATH}/fit": WAITS})
    page = (await client.get(f"/workloads/{'a' * 32}")).text
    assert "Where it would fit now" in page
    assert "2 of 4 pods, all in one rack: r1" in page
    assert page.count('<li class="place some">') == 2
    assert page.count('<li class="place none">') == 1
    assert "6 of 16 GPUs free; at most 3 GPUs on one node, 4 asked" in page
    assert "here: nlp/eval" in page


async def test_the_page_says_what_the_command_says(viewer: Viewer) -> None:
    client, _ = viewer({f"{PATH}": detail(), f"{PATH}/fit": WAITS})
    page = (await client.get(f"/workloads/{'a' * 32}")).text
    assert "place      rack r2: 0 of 4 fit; 6 of 16 GPUs free" in page


async def test_without_placement_the_page_says_so_and_shows_the_rest(viewer: Viewer) -> None:
    client, _ = viewer({f"{PATH}": detail()})
    answer = await client.get(f"/workloads/{'a' * 32}")
    assert answer.status_code == 200
    assert "Not known: placement does not answer." in answer.text
    assert "2 of 4 members can be seated" in answer.text


async def test_the_page_of_one_that_runs_draws_where_it_sits(viewer: Viewer) -> None:
    seat = Seat(rank=0, pod_set="main", node="n1", devices={GPU: (0,)})
    fit = FitPage(ways=(), domains=(domain(pods=None), domain("r1", pods=None, seated=4)), total=2)
    client, _ = viewer({f"{PATH}": detail(Phase.RUNNING, (seat,)), f"{PATH}/fit": fit})
    page = (await client.get(f"/workloads/{'a' * 32}")).text
    assert "Where it sits" in page
    assert "4 of its pods here; here: nlp/eval" in page
    assert 'href="/nodes?name=n1"' in page


def report(**changes: object) -> CostReport:
    def line(key: str, hours: int, kind: CostLineKind = CostLineKind.USAGE) -> CostLine:
        time = {GPU: hours * HOUR}
        return CostLine(
            key=key,
            resource_time=time,
            cost_micros=hours * 1_400_000,
            charged_time=time,
            kind=kind,
        )

    known: dict[str, object] = {
        "by": "team",
        "start_ms": 0,
        "end_ms": 86_400_000,
        "currency": "EUR",
        "lines": (line("vision", 3), line("nlp", 1)),
        "idle": line("__idle__", 4, CostLineKind.IDLE),
        "total": line("total", 8, CostLineKind.TOTAL),
    }
    return CostReport(**{**known, **changes})  # type: ignore[arg-type]


async def test_cost_is_asked_for_on_the_terms_that_are_chosen(viewer: Viewer) -> None:
    client, gateway = viewer({"/v1/cost": report()})
    chosen = {"by": "label:app", "idle": "owner", "basis": "policy", "lender_credit": "50"}
    page = (await client.get("/cost", params=chosen)).text
    assert gateway.asked[0].params == httpx.QueryParams(chosen)
    assert '<option value="policy" selected>' in page
    assert '<option value="owner" selected>' in page


async def test_cost_on_the_page_and_in_the_file_is_that_of_the_command(viewer: Viewer) -> None:
    client, _ = viewer({"/v1/cost": report()})
    page = (await client.get("/cost")).text
    assert "4.20 EUR" in page
    assert "11.20 EUR" in page
    file = await client.get("/cost.csv")
    assert file.text.splitlines()[1].startswith("vision,3.00,0.00,0.00,4.20,EUR")
    assert "attachment" in file.headers["content-disposition"]


async def test_an_empty_window_says_so(viewer: Viewer) -> None:
    nothing = CostLine(key="__idle__", resource_time={}, cost_micros=0, kind=CostLineKind.IDLE)
    client, _ = viewer({"/v1/cost": report(lines=(), idle=nothing, idle_policy=IdlePolicy.NONE)})
    assert "Nothing was held in this window." in (await client.get("/cost")).text


async def test_a_refusal_says_what_to_write_and_leads_back(viewer: Viewer) -> None:
    refusal = Refusal(
        kind="invalid", problem="not kept by 'x'", field="by", fix="write cluster_queue"
    )
    client, _ = viewer({"/v1/cost": refusal})
    answer = await client.get("/cost", params={"by": "x"})
    assert answer.status_code == 422
    assert "not kept by" in answer.text
    assert "write cluster_queue" in answer.text
    assert '<a href="/cost">' in answer.text


async def test_a_parameter_of_no_meaning_is_refused_on_a_page(viewer: Viewer) -> None:
    client, _ = viewer({"/v1/cost": report()})
    answer = await client.get("/cost", params={"idle": "dancing"})
    assert answer.status_code == 422
    assert "<h1>" in answer.text
    assert "dancing" not in answer.text or "&#39;" in answer.text


async def test_a_statement_opens_as_a_page_and_as_a_file(viewer: Viewer) -> None:
    client, gateway = viewer({"/v1/cost/statements/2026-10": b"<!doctype html>statement"})
    page = await client.get("/statement", params={"month": "2026-10", "tz": "Europe/Madrid"})
    assert "statement" in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert gateway.asked[0].params["tz"] == "Europe/Madrid"
    file = await client.get("/statement", params={"month": "2026-10", "format": "focus"})
    assert 'filename="muster-statement.focus.csv"' in file.headers["content-disposition"]


@pytest.mark.parametrize(
    ("path", "answers", "says"),
    [
        ("/", {"/v1/quota": QuotaList(page=QuotaPage(queues=(), rows=()))}, "no queues yet"),
        (
            "/nodes",
            {
                "/v1/nodes": NodePage(nodes=(), largest_gang_of_one_gpu=0),
                "/v1/nodes/domains": DomainPage(pods=(), domains=(), total=0),
            },
            "No node has reported yet",
        ),
    ],
)
async def test_an_empty_house_says_what_to_do(
    viewer: Viewer, path: str, answers: Mapping[str, object], says: str
) -> None:
    client, _ = viewer(answers)
    assert says in (await client.get(path)).text


async def test_the_door_leads_nowhere_else(viewer: Viewer) -> None:
    client, _ = viewer({})
    page = (await client.get("/login")).text
    assert "<nav" not in page
    assert "Leave" not in page


async def test_a_page_that_is_not_there_leads_back(viewer: Viewer) -> None:
    client, _ = viewer({})
    answer = await client.get("/nowhere")
    assert answer.status_code == 404
    assert "There is no page /nowhere." in answer.text
    assert '<a href="/">' in answer.text
