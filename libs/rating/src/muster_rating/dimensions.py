"""By what a cost report can be grouped."""

from collections.abc import Callable, Mapping

from muster_domain.errors import InvalidValue
from muster_rating.attempts import Attempt, Owner

UNALLOCATED = "__unallocated__"
"""The key of what has no value in a dimension."""

LABEL = "label:"
QUEUE = "cluster_queue"

KeyOf = Callable[[Attempt, Owner, str], str]
"""The key of an attempt, of its owner, and of the flavor in which it is charged."""

_DIMENSIONS: Mapping[str, KeyOf] = {
    "team": lambda _attempt, owner, _flavor: owner.team,
    "namespace": lambda _attempt, owner, _flavor: owner.namespace,
    "user": lambda _attempt, owner, _flavor: owner.user,
    QUEUE: lambda _attempt, owner, _flavor: owner.cluster_queue,
    "local_queue": lambda _attempt, owner, _flavor: (
        f"{owner.namespace}/{owner.local_queue}" if owner.local_queue else ""
    ),
    "flavor": lambda _attempt, _owner, flavor: flavor,
    "workload": lambda _attempt, owner, _flavor: f"{owner.namespace}/{owner.workload}",
    "attempt": lambda attempt, _owner, _flavor: f"{attempt.workload_id}/{attempt.number}",
    "kind": lambda _attempt, owner, _flavor: owner.kind,
    "priority_class": lambda _attempt, owner, _flavor: owner.priority_class,
}


def key_of(by: str) -> KeyOf:
    """How to group by a dimension, by `label:<key>`, or by several of them with commas between.

    The parts of the key of several stand with slashes between. Raises `InvalidValue`.
    """
    parts = [_part(name) for name in by.split(",")]
    if len(parts) == 1:
        return parts[0]
    return lambda attempt, owner, flavor: "/".join(part(attempt, owner, flavor) for part in parts)


def _part(by: str) -> KeyOf:
    if by.startswith(LABEL) and len(by) > len(LABEL):
        name = by.removeprefix(LABEL)
        return lambda _attempt, owner, _flavor: owner.labels.get(name, "") or UNALLOCATED
    dimension = _DIMENSIONS.get(by)
    if dimension is None:
        raise InvalidValue(
            f"costs are not kept by {by!r}",
            field="by",
            fix=f"use {', '.join(sorted(_DIMENSIONS))} or label:<key>",
        )
    return lambda attempt, owner, flavor: dimension(attempt, owner, flavor) or UNALLOCATED
