"""The first look."""

from dataclasses import replace

import pytest

from muster.rendering.head import Head, head
from muster.rendering.status import Status, status_lines
from muster_contracts.api import QuotaList, WhoAmI, WorkloadList
from muster_contracts.queries import QuotaPage, WorkloadPage

from .examples import GPU, domains, nodes, quotas, row


def status(**changes: object) -> Status:
    waiting = WorkloadPage(rows=(row(), row(reason="OnHold"), row(name="b")), total=3)
    known: dict[str, object] = {
        "url": "http://muster:8080",
        "who": WhoAmI(name="anna", role="submitter", namespaces=("team-a",)),
        "floor": Head(nodes=3, away={"cordoned": 1}, free="1/10"),
        "quota": QuotaList(page=quotas()),
        "waiting": WorkloadList(page=waiting),
    }
    return Status(**{**known, **changes})  # type: ignore[arg-type]


def test_the_whole_house_in_a_few_lines() -> None:
    assert status_lines(status()) == [
        "muster   http://muster:8080 answers; you are anna (submitter, team-a)",
        "nodes    3, 1 cordoned; 1/10 GPUs free",
        "queues   2; 4 admitted, 6 pending",
        "inactive team-b (FlavorNotFound)",
        "waiting  2 WaitingForQuota, 1 OnHold",
        "next     muster explain team-a/train, muster queue, muster nodes --map",
    ]
    assert status().silent == ()


def test_who_does_not_answer_is_named_and_the_rest_is_shown() -> None:
    found = status(
        floor="no answer from placement",
        quota=QuotaList(page=quotas(), silent=("p03",)),
        waiting="no answer from admission",
    )
    assert found.silent == ("placement", "p03", "admission")
    lines = status_lines(found)
    assert lines[1] == "nodes    no answer from placement"
    assert lines[-2] == "silent   no answer from placement, p03, admission: this is not complete"


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            {"floor": Head(nodes=0, away={}, free="")},
            "nodes    none has reported yet: an agent on a machine makes it one",
        ),
        (
            {"quota": QuotaList(page=QuotaPage(queues=(), rows=()))},
            "queues   none is declared yet: muster apply -f queues.yaml",
        ),
        (
            {"waiting": WorkloadList(page=WorkloadPage(rows=(), total=0))},
            "next     muster queue, muster quota, muster nodes --map",
        ),
    ],
)
def test_an_empty_house_says_what_to_do(change: dict[str, object], line: str) -> None:
    assert line in status_lines(status(**change))


def test_of_many_namespaces_and_closed_queues_some_are_named() -> None:
    many = WhoAmI(name="ci", role="ci", namespaces=tuple(f"n{number}" for number in range(20)))
    page = quotas()
    closed = tuple(replace(page.queues[1], name=f"q{number}") for number in range(9))
    found = status(who=many, quota=QuotaList(page=replace(page, queues=closed)))
    lines = status_lines(found)
    assert lines[0].endswith("n7 and 12 more)")
    assert lines[3].endswith("q4 (FlavorNotFound) and 4 more")


def test_a_floor_is_told_by_its_nodes_if_all_are_known_and_by_its_sums_otherwise() -> None:
    known = head(nodes(), domains())
    assert (known.nodes, known.away, known.free) == (3, {"cordoned": 1}, "1/10")
    (whole, *_) = domains().domains
    parts = {GPU: 8000, "nvidia.com/mig-1g.10gb": 7000}
    large = replace(whole, nodes=500, ready=499, allocatable_milli=parts, free_milli=parts)
    found = head(nodes(), replace(domains(), domains=(large,)))
    assert (found.nodes, found.away, found.free) == (500, {"not ready": 1}, "8/8")
    assert head(nodes(), replace(domains(), domains=())).nodes == 0
