"""Paths that ask owners: workloads, quota, cost, the books."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Query

from muster_contracts.api import Books, QuotaList, WhoAmI, WorkloadList
from muster_contracts.fit import FitPage
from muster_contracts.jobs import Decision
from muster_contracts.partitions import PARTITIONS
from muster_contracts.queries import (
    CostQuestion,
    CostReport,
    WorkloadDetail,
    WorkloadsQuestion,
)
from muster_domain.errors import Forbidden, InvalidValue, NotFound
from muster_domain.money import ChargingBasis, IdlePolicy
from muster_gateway.access import Right
from muster_gateway.http.dependencies import Gate, Who
from muster_gateway.http.parameters import TEXT_MAX, ChargingParameters, ListParameters
from muster_gateway.visibility import detail_for, fit_for
from muster_rating.dimensions import QUEUE
from muster_runtime.clock import now_ms

router = APIRouter(tags=["reads"])


@router.get("/v1/workloads")
async def list_workloads(
    gateway: Gate, caller: Who, parameters: Annotated[ListParameters, Query()]
) -> WorkloadList:
    """Workloads: who runs, then who waits in the order of the queues, then who ended."""
    caller.need(Right.READ)
    question = WorkloadsQuestion(
        namespaces=caller.visible(parameters.namespace),
        name=parameters.name,
        queue=parameters.queue,
        cluster_queue=parameters.cluster_queue,
        user=parameters.user,
        phases=tuple(parameters.phase),
        limit=parameters.limit,
        offset=parameters.offset,
    )
    found = await gateway.owners.workloads(question)
    return WorkloadList(page=found.value, silent=found.silent)


@router.get("/v1/workloads/{reference}")
async def explain(reference: str, gateway: Gate, caller: Who) -> WorkloadDetail:
    """All about one workload: why it waits, who is ahead, where it runs."""
    caller.need(Right.READ)
    located = await gateway.locating.find(reference, caller)
    detail = await gateway.owners.workload(located.id, located.partition)
    return detail_for(caller, detail)


@router.get("/v1/workloads/{reference}/fit")
async def fit(reference: str, gateway: Gate, caller: Who) -> FitPage:
    """Where a workload would find seats now, domain by domain, and the largest gang that would."""
    caller.need(Right.READ)
    located = await gateway.locating.find(reference, caller)
    partition = located.partition
    if partition not in PARTITIONS:
        partition = (await gateway.owners.workload(located.id)).row.partition
    return fit_for(caller, await gateway.owners.fit(located.id, partition))


@router.get("/v1/workloads/{reference}/decision")
async def last_decision(reference: str, gateway: Gate, caller: Who) -> Decision:
    """The last decision about one workload; it answers while owners are down."""
    caller.need(Right.READ)
    namespace, separator, name = reference.partition(":")
    if not separator:
        located = await gateway.locating.find(reference, caller)
        namespace, name = located.namespace, located.name
    decision = await gateway.decisions.last(namespace, name) if caller.sees(namespace) else None
    if decision is None or not (separator or decision.id.startswith(reference)):
        raise NotFound(f"nothing has been decided about {reference!r}")
    return decision


@router.get("/v1/quota")
async def quota(
    gateway: Gate,
    caller: Who,
    cluster_queue: Annotated[str, Query(max_length=TEXT_MAX)] = "",
) -> QuotaList:
    """Quota and its use, by ClusterQueue, flavor and resource."""
    caller.need(Right.READ)
    found = await gateway.owners.quota(cluster_queue)
    if cluster_queue and not found.value.queues and not found.silent:
        raise NotFound(f"there is no ClusterQueue {cluster_queue!r}")
    return QuotaList(page=found.value, silent=found.silent)


@router.get("/v1/cost")
async def cost(
    gateway: Gate,
    caller: Who,
    charging: Annotated[ChargingParameters, Depends()],
    by: Annotated[str, Query(max_length=TEXT_MAX)] = "namespace",
    start: Annotated[str, Query(alias="from", max_length=40)] = "",
    end: Annotated[str, Query(alias="to", max_length=40)] = "",
) -> CostReport:
    """What a window cost, by one dimension. Times are RFC 3339 or dates, in UTC.

    Without `from` the window begins with the month, without `to` it ends now.
    """
    caller.need(Right.READ)
    start_ms, end_ms = window_ms(start, end, now_ms())
    chargeable = by == QUEUE and caller.namespaces is None and charging.idle is IdlePolicy.ROW
    basis = charging.basis or ("policy" if chargeable else "usage")
    question = CostQuestion(
        by=by,
        start_ms=start_ms,
        end_ms=end_ms,
        namespaces=caller.visible(),
        idle=charging.idle,
        basis=ChargingBasis.USAGE if basis == "policy" else ChargingBasis(basis),
        lender_credit_percent=charging.lender_credit,
        by_policy=basis == "policy",
    )
    return await gateway.owners.cost(question)


@router.get("/v1/ledger/verify")
async def verify(gateway: Gate, caller: Who) -> Books:
    """Prove that the books agree, partition by partition."""
    caller.need(Right.READ)
    if caller.namespaces is not None:
        raise Forbidden(f"{caller.name} is held to namespaces and may not see the whole ledger")
    found = await gateway.owners.verify()
    return Books(reports=found.value, silent=found.silent)


@router.get("/v1/whoami")
async def whoami(caller: Who) -> WhoAmI:
    """Who the caller is taken for."""
    return WhoAmI(
        name=caller.name,
        role=caller.role,
        namespaces=tuple(sorted(caller.namespaces or ())),
        everywhere=caller.namespaces is None,
    )


def window_ms(start: str, end: str, now: int) -> tuple[int, int]:
    """The window that two texts mean, this month until now without them. Raises `InvalidValue`."""
    start_ms = _time_ms(start, "from") if start else _month_start_ms(now)
    end_ms = _time_ms(end, "to") if end else now
    if start_ms >= end_ms:
        raise InvalidValue("the window is empty", field="from", fix="let from be before to")
    return start_ms, end_ms


def _time_ms(text: str, field: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidValue(
            f"{text!r} is not a time", field=field, fix="write 2026-01-31 or 2026-01-31T12:00:00Z"
        ) from error
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000)


def _month_start_ms(at_ms: int) -> int:
    moment = datetime.fromtimestamp(at_ms // 1000, UTC)
    first = moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return int(first.timestamp() * 1000)
