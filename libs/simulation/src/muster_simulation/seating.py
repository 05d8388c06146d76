"""Seats in a house: by Muster's own rules or by Volcano's session; some nodes are kept."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from muster_domain.workload import Workload
from muster_scheduling.placement.gang import place
from muster_scheduling.placement.outcome import Placed
from muster_scheduling.placement.request import GangRequest
from muster_scheduling.placement.table import NodeTable
from muster_scheduling.volcano.floor import Answer, Standing, VolcanoRules, seat

CLAIM_MS = 60_000


@dataclass(frozen=True, slots=True)
class _Claim:
    nodes: frozenset[str]
    until_ms: int


@dataclass(slots=True)
class Seating:
    """Where gangs sit. As in placement, nodes that others leave for a gang are kept for it."""

    table: NodeTable
    rules: VolcanoRules = VolcanoRules()
    _claims: dict[str, _Claim] = field(default_factory=dict[str, _Claim])

    def seat(
        self, workload: Workload, request: GangRequest, standing: Iterable[Standing], now_ms: int
    ) -> Answer:
        """Seats for a gang, held by it from now on; or who has to leave, with their nodes kept."""
        answer = self.look(workload, request, standing, now_ms)
        if isinstance(answer.outcome, Placed):
            self.table.bind(answer.outcome.gang)
            self.forget(workload.id)
        elif answer.room is not None:
            self._claims[workload.id] = _Claim(answer.room.nodes, now_ms + CLAIM_MS)
        return answer

    def look(
        self, workload: Workload, request: GangRequest, standing: Iterable[Standing], now_ms: int
    ) -> Answer:
        """Seats that a gang could have, none of those that are kept for others."""
        kept = self._kept_for_others(workload.id, now_ms)
        asked = replace(request, excluded=request.excluded | kept) if kept else request
        if self.rules.decide(workload):
            return seat(self.table, standing, workload, asked, self.rules, now_ms)
        return Answer(outcome=place(self.table, asked))

    def forget(self, workload_id: str) -> None:
        """Keep nothing for the gang any more."""
        self._claims.pop(workload_id, None)

    def _kept_for_others(self, workload_id: str, now_ms: int) -> frozenset[str]:
        return frozenset(
            node
            for claimant, claim in self._claims.items()
            if claimant != workload_id and now_ms < claim.until_ms
            for node in claim.nodes
        )
