"""Who waits and at which place, under the paths and in the shape of Kueue's visibility API."""

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query

from muster_contracts.queries import Phase, WorkloadRow, WorkloadsQuestion
from muster_domain.errors import InvalidValue
from muster_gateway.access import Right
from muster_gateway.composition import Gateway
from muster_gateway.http.dependencies import Gate, Who

router = APIRouter(prefix="/apis/visibility.kueue.x-k8s.io/v1beta2", tags=["visibility"])
LIMIT_DEFAULT = 1_000
LIMIT_MAX = 100_000
OFFSET_MAX = 1_000_000
Number = Annotated[str, Query(max_length=100, description="A whole number")]

Json = dict[str, Any]


@router.get("/clusterqueues/{cluster_queue}/pendingworkloads")
async def of_cluster_queue(
    cluster_queue: str, gateway: Gate, caller: Who, offset: Number = "", limit: Number = ""
) -> Json:
    """Those who wait in a ClusterQueue, in its order, by `offset` and `limit`.

    Positions count from 0 and are those of the whole queue, whatever part of it the caller sees.
    """
    caller.need(Right.READ)
    question = WorkloadsQuestion(
        cluster_queue=cluster_queue, namespaces=caller.visible(), phases=(Phase.PENDING,)
    )
    return await _summary(gateway, question, offset, limit)


@router.get("/namespaces/{namespace}/localqueues/{local_queue}/pendingworkloads")
async def of_local_queue(
    namespace: str,
    local_queue: str,
    gateway: Gate,
    caller: Who,
    offset: Number = "",
    limit: Number = "",
) -> Json:
    """Those who wait in a LocalQueue, in the order of its ClusterQueue."""
    caller.need(Right.READ)
    question = WorkloadsQuestion(
        queue=local_queue, namespaces=caller.visible(namespace), phases=(Phase.PENDING,)
    )
    return await _summary(gateway, question, offset, limit)


async def _summary(gateway: Gateway, question: WorkloadsQuestion, offset: str, limit: str) -> Json:
    rows = await gateway.owners.pending(
        question,
        _clamped(offset, "offset", 0, OFFSET_MAX),
        _clamped(limit, "limit", LIMIT_DEFAULT, LIMIT_MAX),
    )
    return {
        "kind": "PendingWorkloadsSummary",
        "apiVersion": "visibility.kueue.x-k8s.io/v1beta2",
        "metadata": {},
        "items": [_item(row) for row in rows],
    }


def _clamped(written: str, name: str, default: int, most: int) -> int:
    """A number that is too small or too large is the nearest that is not; a word is an error."""
    digits = written.removeprefix("-")
    if not written:
        return default
    if not (digits.isascii() and digits.isdecimal()):
        raise InvalidValue(f"{written[:40]!r} is not a number", field=name, fix=f"write {name}=10")
    if written.startswith("-"):
        return 0
    return min(int(digits[:18]), most)


def _item(row: WorkloadRow) -> Json:
    created = datetime.fromtimestamp(row.created_at_ms // 1000, UTC)
    return {
        "metadata": {
            "name": row.name,
            "namespace": row.namespace,
            "uid": row.id,
            "creationTimestamp": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        },
        "priority": row.priority,
        "localQueueName": row.queue,
        "positionInClusterQueue": row.position_in_cluster_queue,
        "positionInLocalQueue": row.position_in_local_queue,
    }
