"""Lines of statements and policies to the wire and back."""

from fractions import Fraction

from muster_contracts.statements import PolicyInForce, StatementLine, TermsOfQueue
from muster_domain.money import ChargingBasis
from muster_rating.charges import Charge
from muster_rating.periods import utc_text
from muster_rating.policies import PERCENT, Attribution, PolicyVersion, QueueTerms
from muster_rating.prices import ALWAYS_MS
from muster_rating.report import RowKind
from muster_rating.statements import Line


def line_of(line: Line) -> StatementLine:
    """A line as it is sent and stored."""
    charge = line.charge
    hourly = charge.hourly
    return StatementLine(
        kind=charge.kind,
        flavor=charge.flavor,
        resource=charge.resource,
        quantity=charge.quantity,
        start_ms=charge.start_ms,
        end_ms=charge.end_ms,
        hourly="" if hourly is None else f"{hourly.numerator}/{hourly.denominator}",
        per_milli=charge.per_milli,
        per=charge.per,
        price_from_ms=_start(charge.price_from_ms),
        micros=charge.micros,
        workload_id=charge.workload_id,
        attempt=charge.attempt,
        charge_class=charge.klass,
        namespace=charge.namespace,
        workload=charge.workload,
        cluster_queue=charge.cluster_queue,
        team=charge.team,
        user=charge.user,
        labels=charge.labels,
        corrects=line.corrects,
        pool=charge.pool,
        observed=charge.observed,
        busy=charge.busy,
    )


def read_line(line: StatementLine) -> Line:
    """The line that was sent or stored."""
    charge = Charge(
        kind=RowKind(line.kind),
        flavor=line.flavor,
        resource=line.resource,
        quantity=line.quantity,
        start_ms=line.start_ms,
        end_ms=line.end_ms,
        hourly=Fraction(line.hourly) if line.hourly else None,
        per_milli=line.per_milli,
        per=line.per,
        price_from_ms=_read_start(line.price_from_ms),
        micros=line.micros,
        workload_id=line.workload_id,
        attempt=line.attempt,
        klass=line.charge_class,
        namespace=line.namespace,
        workload=line.workload,
        cluster_queue=line.cluster_queue,
        team=line.team,
        user=line.user,
        labels=line.labels,
        pool=line.pool,
        observed=line.observed,
        busy=line.busy,
    )
    return Line(charge=charge, corrects=line.corrects)


def policy_of(version: PolicyVersion) -> PolicyInForce:
    """A version of a policy as it is sent and stored, those that are not named first."""
    terms = {"": version.others, **version.queues}
    return PolicyInForce(
        policy=version.policy,
        effective_from_ms=_start(version.effective_from_ms),
        terms=tuple(
            TermsOfQueue(
                cluster_queue=queue,
                basis=terms[queue].basis,
                lender_credit_percent=terms[queue].lender_credit_percent,
                borrow_percent=terms[queue].borrow_percent,
                attribution=terms[queue].attribution,
            )
            for queue in sorted(terms)
        ),
    )


def read_policy(told: PolicyInForce) -> PolicyVersion:
    """The version that was sent or stored."""
    terms = {
        of.cluster_queue: QueueTerms(
            basis=of.basis,
            lender_credit_percent=of.lender_credit_percent,
            borrow_percent=of.borrow_percent,
            attribution=of.attribution,
        )
        for of in told.terms
    }
    return PolicyVersion(
        policy=told.policy,
        effective_from_ms=_read_start(told.effective_from_ms),
        others=terms.pop(""),
        queues=terms,
    )


def policy_text(told: PolicyInForce) -> str:
    """A version as people read it: `charged by finance from 2026-07-01T00:00:00Z: ia by both`."""
    since = "" if told.effective_from_ms is None else f" from {utc_text(told.effective_from_ms)}"
    named = sorted(told.terms, key=lambda terms: (not terms.cluster_queue, terms.cluster_queue))
    return f"charged by {told.policy}{since}: {', '.join(_terms_text(terms) for terms in named)}"


def _terms_text(terms: TermsOfQueue) -> str:
    notes: list[str] = []
    if terms.basis is ChargingBasis.BOTH:
        notes.append(f"lenders get {terms.lender_credit_percent} %")
    if terms.borrow_percent != PERCENT:
        notes.append(f"loans cost {terms.borrow_percent} %")
    if terms.attribution is not Attribution.LIFO:
        notes.append("loans are put down to all workloads in proportion")
    shown = f" ({', '.join(notes)})" if notes else ""
    return f"{terms.cluster_queue or 'others'} by {terms.basis}{shown}"


def _start(from_ms: int) -> int | None:
    return None if from_ms == ALWAYS_MS else from_ms


def _read_start(from_ms: int | None) -> int:
    return ALWAYS_MS if from_ms is None else from_ms
