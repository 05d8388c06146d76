"""Whether a gang fits at all, by trying everything. Slow and plain on purpose."""

from functools import cache
from itertools import product

from muster_domain.nodes import Node
from muster_scheduling.placement.request import GangRequest


def fits(nodes: list[Node], request: GangRequest, counts: tuple[int, ...]) -> bool:
    """Whether `counts` pods of each set fit on empty ready nodes, by resources alone."""
    sets = request.pod_sets
    choices: list[list[tuple[int, ...]]] = [
        [
            seats
            for seats in product(*(range(count + 1) for count in counts))
            if all(
                sum(k * s.requests.get(r, 0) for k, s in zip(seats, sets, strict=True)) <= limit
                for r, limit in _limits(one, request).items()
            )
        ]
        for one in nodes
    ]

    @cache
    def from_node(number: int, left: tuple[int, ...]) -> bool:
        if not any(left):
            return True
        if number == len(nodes):
            return False
        return any(
            from_node(number + 1, tuple(a - b for a, b in zip(left, seats, strict=True)))
            for seats in choices[number]
            if all(b <= a for a, b in zip(left, seats, strict=True))
        )

    return from_node(0, counts)


def _limits(one: Node, request: GangRequest) -> dict[str, int]:
    asked = {resource for pod_set in request.pod_sets for resource in pod_set.requests}
    return {resource: one.allocatable.get(resource, 0) for resource in sorted(asked)}
