from muster_contracts.api import ObjectView
from muster_contracts.queries import QueueRow, QuotaPage
from muster_contracts.turns import TurnRow
from muster_gateway.local_queue_status import with_status


def view(name: str) -> ObjectView:
    document = {"kind": "LocalQueue", "metadata": {"name": name}}
    return ObjectView(
        kind="LocalQueue", namespace="team-a", name=name, document=document, text="kind: ..."
    )


def test_a_local_queue_that_takes_turns_shows_what_it_used_lately() -> None:
    row = TurnRow(
        local_queue="team-a/jobs",
        place=0,
        weight_milli=1000,
        consumed_milli={"nvidia.com/gpu": 449},
        penalty_milli={},
        updated_ms=1_767_225_600_000,
    )
    queue = QueueRow(
        name="cq",
        cohort="",
        strategy="StrictFIFO",
        active=True,
        reason="Ready",
        pending=0,
        inadmissible=0,
        reserving=0,
        admitted=0,
        local_queues=("team-a/jobs",),
        turns=(row,),
    )
    jobs, other = with_status((view("jobs"), view("other")), QuotaPage(queues=(queue,), rows=()))
    turns = {"consumedResources": {"nvidia.com/gpu": "449m"}, "lastUpdate": "2026-01-01T00:00:00Z"}
    assert jobs.document["status"] == {"fairSharing": {"admissionFairSharingStatus": turns}}
    assert jobs.text == ""
    assert other == view("other")
