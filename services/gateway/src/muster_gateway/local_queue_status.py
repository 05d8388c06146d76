"""What the owner of a ClusterQueue knows of its LocalQueues, as Kueue writes their status."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from muster_contracts.api import ObjectView
from muster_contracts.queries import QuotaPage
from muster_contracts.turns import TurnRow
from muster_domain.quantity import format_quantity


def with_status(views: tuple[ObjectView, ...], page: QuotaPage) -> tuple[ObjectView, ...]:
    """LocalQueues with their status, where they take turns; other objects as they are."""
    rows = {row.local_queue: row for queue in page.queues for row in queue.turns}
    return tuple(
        _with_status(view, rows[key]) if (key := f"{view.namespace}/{view.name}") in rows else view
        for view in views
    )


def _with_status(view: ObjectView, row: TurnRow) -> ObjectView:
    return replace(view, document={**view.document, "status": _status(row)}, text="")


def _status(row: TurnRow) -> Mapping[str, Any]:
    used = {name: format_quantity(row.consumed_milli[name]) for name in sorted(row.consumed_milli)}
    turns: dict[str, Any] = {"consumedResources": used}
    if row.updated_ms:
        updated = datetime.fromtimestamp(row.updated_ms // 1000, UTC)
        turns["lastUpdate"] = updated.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"fairSharing": {"admissionFairSharingStatus": turns}}
