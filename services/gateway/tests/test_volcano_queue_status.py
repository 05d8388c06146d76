import pytest

from muster_contracts.api import ObjectView
from muster_contracts.queries import QueueRow, QuotaPage
from muster_domain.queues import QueueState, VolcanoQueue
from muster_gateway.volcano_queue_status import with_state

VIEW = ObjectView(kind="Queue", namespace="", name="q", document={"kind": "Queue"}, text="as it is")


@pytest.mark.parametrize(
    ("state", "admitted", "shown"),
    [
        (QueueState.OPEN, 1, "Open"),
        (QueueState.CLOSED, 1, "Closing"),
        (QueueState.CLOSED, 0, "Closed"),
        (QueueState.CLOSING, 0, "Closed"),
        (QueueState.CLOSED, None, "Closing"),
    ],
)
def test_a_queue_is_closed_once_nothing_is_left_in_it(
    state: QueueState, admitted: int | None, shown: str
) -> None:
    row = QueueRow(
        name="volcano/q",
        cohort="",
        strategy="BestEffortFIFO",
        active=state is QueueState.OPEN,
        reason="Stopped",
        pending=0,
        inadmissible=0,
        reserving=0,
        admitted=admitted or 0,
        local_queues=(),
    )
    page = QuotaPage(queues=() if admitted is None else (row,), rows=())
    (view,) = with_state((VIEW,), {"q": VolcanoQueue(name="q", state=state)}, page)
    assert view.document["status"] == {"state": shown}
    assert view.text == "as it is"
