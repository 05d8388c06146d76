"""Paths about declared objects and nodes."""

from typing import Annotated

from fastapi import APIRouter, Query

from muster_contracts.api import AppliedObject, FlowView, ObjectList, ObjectView
from muster_contracts.floor import PODS_ASKED_MAX, DomainPage
from muster_contracts.queries import NodePage, NodesQuestion
from muster_domain.errors import NotFound
from muster_gateway import events
from muster_gateway.access import Caller, Right
from muster_gateway.bodies import checked_name, pod_of
from muster_gateway.changes import Effect
from muster_gateway.composition import Gateway
from muster_gateway.http.dependencies import Gate, InNamespace, Who, Why
from muster_gateway.http.parameters import NodeParameters
from muster_gateway.kinds import is_namespaced, kind_of
from muster_gateway.local_queue_status import with_status
from muster_gateway.submitting import OF_SUBMITTERS
from muster_gateway.visibility import nodes_for
from muster_gateway.volcano_queue_status import with_state
from muster_manifests.catalogue import ObjectKey, StoredObject

router = APIRouter(tags=["objects"])
_READ_TIMEOUT_S = 5.0
_POD_LENGTH_MAX = 500
Pods = Annotated[
    tuple[Annotated[str, Query(max_length=_POD_LENGTH_MAX)], ...], Query(max_length=PODS_ASKED_MAX)
]


@router.get("/v1/objects/{kind}")
async def list_objects(
    kind: str,
    gateway: Gate,
    caller: Who,
    namespace: Annotated[str, Query(max_length=253)] = "",
) -> ObjectList:
    """Declared objects of a kind, as they were written. Kinds may be short: `cq`, `lq`, `rf`."""
    await gateway.feed.wait_complete(_READ_TIMEOUT_S)
    caller.need(Right.READ)
    full = kind_of(kind)
    found = gateway.feed.catalogue.stored(full, namespace)
    views = tuple(_view(stored) for stored in found if _sees(caller, stored))
    return ObjectList(objects=await _with_status(gateway, full, views))


@router.get("/v1/objects/{kind}/{name}")
async def get_object(
    kind: str, name: str, gateway: Gate, caller: Who, namespace: InNamespace
) -> ObjectView:
    """One declared object, as it was written."""
    await gateway.feed.wait_complete(_READ_TIMEOUT_S)
    caller.need(Right.READ)
    key = _key(kind, namespace, name)
    stored = gateway.feed.catalogue.get(key)
    if stored is None or not _sees(caller, stored):
        raise NotFound(f"there is no {key}")
    (view,) = await _with_status(gateway, key.kind, (_view(stored),))
    return view


@router.delete("/v1/objects/{kind}/{name}")
async def delete_object(
    kind: str, name: str, gateway: Gate, caller: Who, cause: Why, namespace: InNamespace
) -> AppliedObject:
    """Delete a declared object that nothing uses any more."""
    await gateway.feed.wait_complete(_READ_TIMEOUT_S)
    key = _key(kind, namespace, name)
    if key.kind in {kind.__name__ for kind in OF_SUBMITTERS}:
        caller.need(Right.SUBMIT, key.namespace)
    else:
        caller.need(Right.CONFIGURE)
    await gateway.applying.delete(key, by=caller.name, cause=cause)
    return AppliedObject(
        kind=key.kind, namespace=key.namespace, name=key.name, effect=Effect.DELETED
    )


@router.get("/v1/jobflows/{name}")
async def flow(name: str, gateway: Gate, caller: Who, namespace: InNamespace) -> FlowView:
    """How far a JobFlow is, step by step."""
    await gateway.feed.wait_complete(_READ_TIMEOUT_S)
    caller.need(Right.READ)
    found = await gateway.flows.look(namespace, name) if caller.sees(namespace) else None
    if found is None:
        raise NotFound(f"there is no JobFlow {namespace}/{name}")
    return found


@router.get("/v1/nodes")
async def nodes(
    gateway: Gate, caller: Who, parameters: Annotated[NodeParameters, Query()]
) -> NodePage:
    """All nodes, or those that are meant, and who sits where."""
    caller.need(Right.READ)
    found = await gateway.owners.nodes(parameters.question, parameters.limit)
    return nodes_for(caller, found)


@router.get("/v1/nodes/domains")
async def domains(gateway: Gate, caller: Who, pod: Pods = ()) -> DomainPage:
    """The domains of the topologies, what is free in each, and the largest gang that fits now.

    The gang is of pods like each `pod`, as in `gpu=8,cpu=32,memory=200Gi`; without any, of pods of
    1, 2, 4 and 8 cards with the cpu and memory that come with a card.
    """
    caller.need(Right.READ)
    return await gateway.owners.domains(tuple(pod_of(text) for text in pod))


@router.post("/v1/nodes/{node}/drain", status_code=202)
async def drain(node: str, gateway: Gate, caller: Who, cause: Why) -> AppliedObject:
    """Keep a node empty: its workloads are moved, nothing new is placed there."""
    return await _say(node, gateway, caller, cause, drained=True)


@router.post("/v1/nodes/{node}/uncordon", status_code=202)
async def uncordon(node: str, gateway: Gate, caller: Who, cause: Why) -> AppliedObject:
    """Use a node again."""
    return await _say(node, gateway, caller, cause, drained=False)


async def _say(
    node: str, gateway: Gate, caller: Caller, cause: Why, *, drained: bool
) -> AppliedObject:
    caller.need(Right.OPERATE)
    checked_name(node, "node")
    known = await gateway.owners.nodes(NodesQuestion(names=(node,)))
    if node not in {row.name for row in known.nodes}:
        raise NotFound(f"there is no node {node!r}; see muster nodes")
    message = events.drain(node, drained=drained, by=caller.name, cause=cause)
    await gateway.bus.publish([message])
    return AppliedObject(
        kind="Node", namespace="", name=node, effect="drained" if drained else "uncordoned"
    )


def _key(kind: str, namespace: str, name: str) -> ObjectKey:
    full = kind_of(kind)
    return ObjectKey(full, namespace if is_namespaced(full) else "", name)


async def _with_status(
    gateway: Gateway, kind: str, views: tuple[ObjectView, ...]
) -> tuple[ObjectView, ...]:
    """LocalQueues and Volcano Queues have a status, as far as their owners answer."""
    if kind not in ("LocalQueue", "Queue") or not views:
        return views
    page = (await gateway.owners.quota()).value
    if kind == "Queue":
        return with_state(views, gateway.feed.catalogue.volcano_queues, page)
    return with_status(views, page)


def _sees(caller: Caller, stored: StoredObject) -> bool:
    return not stored.key.namespace or caller.sees(stored.key.namespace)


def _view(stored: StoredObject) -> ObjectView:
    return ObjectView(
        kind=stored.key.kind,
        namespace=stored.key.namespace,
        name=stored.key.name,
        document=dict(stored.document.manifest),
        text=stored.text,
        by=stored.by,
        sequence=stored.sequence,
    )
