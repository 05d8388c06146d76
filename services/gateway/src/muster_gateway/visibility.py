"""What a caller who is held to namespaces is not shown: whose the other workloads are. Pure."""

from dataclasses import replace

from muster_contracts.fit import FitPage
from muster_contracts.queries import Ahead, DeviceRow, NodePage, NodeRow, Plan, WorkloadDetail
from muster_gateway.access import Caller

SOMEBODY_ELSE = "(another namespace)"


def nodes_for(caller: Caller, page: NodePage) -> NodePage:
    """The nodes, with strangers' workloads unnamed."""
    if caller.namespaces is None:
        return page
    return replace(page, nodes=tuple(_node_for(caller, node) for node in page.nodes))


def detail_for(caller: Caller, detail: WorkloadDetail) -> WorkloadDetail:
    """All about a workload, with strangers in front of it unnamed."""
    if caller.namespaces is None:
        return detail
    return replace(detail, ahead=tuple(_ahead_for(caller, ahead) for ahead in detail.ahead))


def fit_for(caller: Caller, page: FitPage) -> FitPage:
    """Where a workload would fit, with strangers who sit there unnamed."""
    if caller.namespaces is None:
        return page
    return replace(
        page,
        domains=tuple(
            replace(row, sitting=tuple(_key_for(caller, key) for key in row.sitting))
            for row in page.domains
        ),
    )


def plan_for(caller: Caller, plan: Plan) -> Plan:
    """What would happen, with strangers' victims unnamed."""
    if caller.namespaces is None:
        return plan
    return replace(plan, victims=tuple(_ahead_for(caller, victim) for victim in plan.victims))


def _node_for(caller: Caller, node: NodeRow) -> NodeRow:
    return replace(
        node,
        devices=tuple(_device_for(caller, device) for device in node.devices),
        workloads=tuple(_key_for(caller, key) for key in node.workloads),
    )


def _device_for(caller: Caller, device: DeviceRow) -> DeviceRow:
    return replace(
        device,
        holder=_key_for(caller, device.holder),
        shares=tuple(
            replace(share, holder=_key_for(caller, share.holder)) for share in device.shares
        ),
        instances=tuple(
            replace(one, holder=_key_for(caller, one.holder)) for one in device.instances
        ),
    )


def _key_for(caller: Caller, key: str) -> str:
    """`namespace/name` where the caller sees the namespace."""
    return key if not key or caller.sees(key.partition("/")[0]) else SOMEBODY_ELSE


def _ahead_for(caller: Caller, ahead: Ahead) -> Ahead:
    if caller.sees(ahead.namespace):
        return ahead
    return replace(ahead, id="", namespace="", name=SOMEBODY_ELSE, user="")
