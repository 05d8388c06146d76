"""Claims of preemptors on what their victims give back, where the installation has them.

A claim counts as used for everybody else until its claimant is admitted, for at most `CLAIM_MS`,
and only while the claimant is next in its queue: it must not stand in the way of somebody who goes
before it. Stored in the commit that evicts the victims, so a restart keeps it. Keyed by claimant.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from muster_contracts import codec
from muster_contracts.stored import CLAIM_FIELD, Claim, claims_of
from muster_scheduling.preemption import Wanted

if TYPE_CHECKING:
    from muster_admission.book import Book

CLAIM_MS = 60_000
"""So long a preemptor's claim on what its victims give back counts against others."""


def resume_claims(book: "Book", fields: Mapping[str, bytes]) -> None:
    """Go on with the claims that were committed."""
    for workload_id, claim in claims_of(fields).items():
        book.claims[workload_id] = claim
        book.view.claim(workload_id, claim.cluster_queue, claim.usage)


def claim(book: "Book", workload_id: str, wanted: Wanted, now_ms: int) -> None:
    """The workload's victims must go: what it asks is its own from now on."""
    if not book.view.policy.improvements.preemptor_claims:
        return
    made = Claim(
        cluster_queue=wanted.cluster_queue,
        amounts=tuple((*fr, wanted.usage[fr]) for fr in sorted(wanted.usage)),
        since_ms=now_ms,
    )
    book.claims[workload_id] = made
    book.view.claim(workload_id, made.cluster_queue, made.usage)
    book.put(CLAIM_FIELD + workload_id, codec.encode(made))


def review_claims(book: "Book", now_ms: int) -> None:
    """Let go of claims that are old, met, or whose claimant is not next in its queue any more."""
    kept = book.view.policy.improvements.preemptor_claims
    for workload_id, made in list(book.claims.items()):
        queue = book.view.queues.get(book.view.queue_of.get(workload_id, ""))
        head = queue.head() if queue is not None else None
        next_in_line = head is not None and head.id == workload_id
        if not (kept and next_in_line and now_ms - made.since_ms < CLAIM_MS):
            del book.claims[workload_id]
            book.view.drop_claim(workload_id)
            book.put(CLAIM_FIELD + workload_id, None)
