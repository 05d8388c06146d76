"""Claims of preemptors on what their victims give back, where the installation has them.

A claim counts as used for everybody else until its claimant is admitted, for at most `CLAIM_MS`,
and only while the claimant is next in its queue: it must not stand in the way of somebody who goes
before it. Stored in the commit that evicts the victims, so a restart keeps it. Keyed by claimant.
"""

from collections.abc import Mapping

from muster_contracts import codec
from muster_contracts.stored import CLAIM_FIELD, Claim, claims_of
from muster_scheduling.preemption import Wanted
from muster_scheduling.snapshot.view import AdmissionView

CLAIM_MS = 60_000
"""So long a preemptor's claim on what its victims give back counts against others."""


class Claims:
    """The claims of one partition, in step with what its view counts."""

    def __init__(self, view: AdmissionView, fields: Mapping[str, bytes]) -> None:
        self.made = claims_of(fields)
        self._view = view
        self._changes: dict[str, bytes | None] = {}
        for workload_id, claim in self.made.items():
            view.claim(workload_id, claim.cluster_queue, claim.usage)

    def make(self, workload_id: str, wanted: Wanted, now_ms: int) -> None:
        """The workload's victims must go: what it asks is its own from now on."""
        if not self._view.policy.improvements.preemptor_claims:
            return
        claim = Claim(
            cluster_queue=wanted.cluster_queue,
            amounts=tuple((*fr, wanted.usage[fr]) for fr in sorted(wanted.usage)),
            since_ms=now_ms,
        )
        self.made[workload_id] = claim
        self._view.claim(workload_id, claim.cluster_queue, claim.usage)
        self._changes[CLAIM_FIELD + workload_id] = codec.encode(claim)

    def review(self, now_ms: int) -> None:
        """Let go of claims that are old, met, or whose claimant is not next in its queue."""
        kept = self._view.policy.improvements.preemptor_claims
        for workload_id, claim in list(self.made.items()):
            queue = self._view.queues.get(self._view.queue_of.get(workload_id, ""))
            head = queue.head() if queue is not None else None
            next_in_line = head is not None and head.id == workload_id
            if not (kept and next_in_line and now_ms - claim.since_ms < CLAIM_MS):
                del self.made[workload_id]
                self._view.drop_claim(workload_id)
                self._changes[CLAIM_FIELD + workload_id] = None

    def ends_ms(self) -> list[int]:
        """When each claim ends by itself."""
        return [claim.since_ms + CLAIM_MS for claim in self.made.values()]

    def take_changes(self) -> dict[str, bytes | None]:
        """Fields to store since the last call, `None` for those to delete."""
        changes, self._changes = self._changes, {}
        return changes
