"""Attempts and node facts to rows and back."""

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, cast

from muster_domain.nodes import NodeCondition
from muster_rating.attempts import Attempt, Charge, Closing, Eviction, Opening, Owner, Seat, Seating
from muster_rating.capacity import NodeFact, NodeReport, NodeTurn

TEXTS_MAX = 4096
"""Texts that are read once and remembered: most attempts are like others."""
Row = Mapping[Any, Any]
"""Values by column name."""


def attempt_row(attempt: Attempt) -> dict[str, object]:
    """All columns of an attempt."""
    return {
        "workload_id": attempt.workload_id,
        "number": attempt.number,
        **_opening_columns(attempt.opening),
        **_seating_columns(attempt),
        **_eviction_columns(attempt.eviction),
        **_closing_columns(attempt.closing),
        "checkpointed_ms": attempt.checkpointed_ms,
    }


def _opening_columns(opening: Opening | None) -> dict[str, object]:
    owner = opening.owner if opening is not None else None
    return {
        "opened_ms": opening.at_ms if opening else None,
        "opened_version": opening.version if opening else None,
        "namespace": owner.namespace if owner else None,
        "workload": owner.workload if owner else None,
        "cluster_queue": owner.cluster_queue if owner else None,
        "local_queue": owner.local_queue if owner else None,
        "team": owner.team if owner else None,
        "user_name": owner.user if owner else None,
        "kind": owner.kind if owner else None,
        "priority": owner.priority if owner else None,
        "priority_class": owner.priority_class if owner else None,
        "labels": json.dumps(dict(owner.labels), sort_keys=True) if owner else None,
        "annotations": json.dumps(dict(owner.annotations), sort_keys=True) if owner else None,
        "charges": _charges_text(opening.charges) if opening else None,
    }


def _seating_columns(attempt: Attempt) -> dict[str, object]:
    """The first seats and, in one text with them, those after each resize; counts are the last."""
    seating = attempt.seating
    last = attempt.last_seating
    seats = last.seats if last else ()
    return {
        "seated_ms": seating.at_ms if seating else None,
        "seated_version": seating.version if seating else None,
        "seats": _seatings_text(attempt) if last else None,
        "nodes": len(seats) if last else None,
        "devices": sum(seat.devices for seat in seats) if last else None,
    }


def _eviction_columns(eviction: Eviction | None) -> dict[str, object]:
    return {
        "evicted_ms": eviction.at_ms if eviction else None,
        "evicted_version": eviction.version if eviction else None,
        "evicted_reason": eviction.reason if eviction else None,
        "preemption_reason": eviction.preemption_reason if eviction else None,
        "preemptor": eviction.preemptor if eviction else None,
    }


def _closing_columns(closing: Closing | None) -> dict[str, object]:
    return {
        "closed_ms": closing.at_ms if closing else None,
        "closed_version": closing.version if closing else None,
        "outcome": closing.outcome if closing else None,
    }


def attempt_of(row: Row) -> Attempt:
    """The attempt of a row."""
    return Attempt(
        workload_id=row["workload_id"],
        number=row["number"],
        opening=_opening_of(row) if row["opened_ms"] is not None else None,
        seating=Seating(
            at_ms=row["seated_ms"],
            version=row["seated_version"],
            seats=_seatings_of(row["seats"])[0],
        )
        if row["seated_ms"] is not None
        else None,
        resizes=_seatings_of(row["seats"])[1] if row["seats"] is not None else (),
        eviction=Eviction(
            at_ms=row["evicted_ms"],
            version=row["evicted_version"],
            reason=row["evicted_reason"],
            preemption_reason=row["preemption_reason"],
            preemptor=row["preemptor"],
        )
        if row["evicted_ms"] is not None
        else None,
        closing=Closing(
            at_ms=row["closed_ms"], version=row["closed_version"], outcome=row["outcome"]
        )
        if row["closed_ms"] is not None
        else None,
        checkpointed_ms=row["checkpointed_ms"],
    )


def _opening_of(row: Row) -> Opening:
    owner = Owner(
        namespace=row["namespace"],
        workload=row["workload"],
        cluster_queue=row["cluster_queue"],
        local_queue=row["local_queue"],
        team=row["team"],
        user=row["user_name"],
        kind=row["kind"],
        priority=row["priority"],
        priority_class=row["priority_class"],
        labels=_labels_of(row["labels"]),
        annotations=_labels_of(row["annotations"]),
    )
    return Opening(
        at_ms=row["opened_ms"],
        version=row["opened_version"],
        owner=owner,
        charges=_reserved_of(row["charges"]),
    )


def node_fact_row(fact: NodeFact) -> dict[str, object]:
    """All columns of a node fact."""
    row: dict[str, object] = {
        "id": fact.id,
        "node": fact.node,
        "at_ms": fact.at_ms,
        "condition": None,
        "report": None,
    }
    match fact:
        case NodeTurn(condition=condition):
            row["condition"] = str(condition)
        case NodeReport():
            row["report"] = json.dumps(
                {
                    "allocatable": dict(fact.allocatable),
                    "labels": dict(fact.labels),
                    "devices": sorted(fact.devices),
                },
                sort_keys=True,
            )
    return row


def node_fact_of(row: Row) -> NodeFact:
    """The node fact of a row."""
    if row["condition"] is not None:
        return NodeTurn(
            node=row["node"],
            at_ms=row["at_ms"],
            id=row["id"],
            condition=NodeCondition(row["condition"]),
        )
    report = cast("dict[str, Any]", json.loads(row["report"]))
    return NodeReport(
        node=row["node"],
        at_ms=row["at_ms"],
        id=row["id"],
        allocatable=report["allocatable"],
        labels=report["labels"],
        devices=frozenset(report["devices"]),
    )


def _charges_text(charges: Iterable[Charge]) -> str:
    return json.dumps(_charge_lists(charges))


def _charge_lists(charges: Iterable[Charge]) -> list[tuple[str, str, int]]:
    return [(charge.flavor, charge.resource, charge.quantity_milli) for charge in charges]


@lru_cache(maxsize=TEXTS_MAX)
def _labels_of(text: str) -> dict[str, str]:
    return json.loads(text)


@lru_cache(maxsize=TEXTS_MAX)
def _reserved_of(text: str) -> tuple[Charge, ...]:
    return _charges_of(json.loads(text))


def _charges_of(lists: list[tuple[str, str, int]]) -> tuple[Charge, ...]:
    return tuple(
        Charge(flavor=flavor, resource=resource, quantity_milli=quantity)
        for flavor, resource, quantity in lists
    )


def _seatings_text(attempt: Attempt) -> str:
    first = _seat_lists(attempt.seating.seats if attempt.seating is not None else ())
    if not attempt.resizes:
        return json.dumps(first)
    later = [(each.at_ms, each.version, _seat_lists(each.seats)) for each in attempt.resizes]
    return json.dumps({"first": first, "resizes": later})


def _seat_lists(seats: Iterable[Seat]) -> list[tuple[str, int, int, object]]:
    return [(seat.node, seat.pods, seat.devices, _charge_lists(seat.charges)) for seat in seats]


@lru_cache(maxsize=TEXTS_MAX)
def _seatings_of(text: str) -> tuple[tuple[Seat, ...], tuple[Seating, ...]]:
    written: Any = json.loads(text)
    if isinstance(written, list):
        return _seats_of(cast("list[Any]", written)), ()
    return _seats_of(written["first"]), tuple(
        Seating(at_ms=at_ms, version=version, seats=_seats_of(seats))
        for at_ms, version, seats in written["resizes"]
    )


def _seats_of(lists: list[Any]) -> tuple[Seat, ...]:
    return tuple(
        Seat(node=node, pods=pods, devices=devices, charges=_charges_of(charges))
        for node, pods, devices, charges in lists
    )
