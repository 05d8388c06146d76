"""Who is charged for what: the idle policies and the charging bases.

Sharing is done for each (flavor, resource) and for each stretch of time with one price, in whole
milli-unit-milliseconds by largest remainder, so nothing is lost and nothing is charged twice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from muster_domain.errors import InvalidValue
from muster_domain.money import ChargingBasis, IdlePolicy, split
from muster_rating.dimensions import QUEUE
from muster_rating.policies import (
    BORROW_PERCENT_MAX,
    PERCENT,
    PolicyVersion,
    QueueTerms,
    policy_windows,
)
from muster_rating.windows import Window

_BY_QUOTA = "quota belongs to ClusterQueues: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How a table charges: who pays for idle, and what queues pay for, by time."""

    idle: IdlePolicy = IdlePolicy.ROW
    policy: tuple[PolicyVersion, ...] = ()


@dataclass(slots=True, kw_only=True)
class Quotas:
    """What ClusterQueues had of one pair, in milli-unit-milliseconds; `lent` names the cohort too.

    `borrowed` is by queue.
    """

    nominal: dict[str, int] = field(default_factory=dict[str, int])
    unused: dict[str, int] = field(default_factory=dict[str, int])
    lent: dict[str, int] = field(default_factory=dict[str, int])
    borrowed: dict[str, int] = field(default_factory=dict[str, int])


def checked(rules: Rules, by: str, window: Window, *, filtered: bool) -> Rules:
    """Rules that make sense together for a table by a dimension. Raises `InvalidValue`."""
    versions = [version for _, version in policy_windows(rules.policy, window)]
    for version in versions:
        for terms in (version.others, *version.queues.values()):
            if not 0 <= terms.lender_credit_percent <= PERCENT:
                raise InvalidValue(
                    f"{terms.lender_credit_percent} is no percentage",
                    field="lender_credit",
                    fix=f"write 0 to {PERCENT}",
                )
            if not 0 <= terms.borrow_percent <= BORROW_PERCENT_MAX:
                raise InvalidValue(
                    f"{terms.borrow_percent} percent of its price is no price of a loan",
                    field="borrow_percent",
                    fix=f"write 0 to {BORROW_PERCENT_MAX}",
                )
    paid_by_quota = next((version for version in versions if version.by_quota), None)
    by_quota = rules.idle is IdlePolicy.OWNER or paid_by_quota is not None
    if by_quota and by != QUEUE:
        raise InvalidValue(
            f"{_BY_QUOTA}costs by {by!r} cannot be charged to it",
            field="by",
            fix=f"group by {QUEUE}",
        )
    if by_quota and filtered:
        raise InvalidValue(
            f"{_BY_QUOTA}a report on some namespaces cannot be charged to it",
            field="idle" if rules.idle is IdlePolicy.OWNER else "basis",
            fix="ask with a token that sees every namespace",
        )
    if paid_by_quota is not None and rules.idle is not IdlePolicy.ROW:
        raise InvalidValue(
            f"quota settles already who pays what, {_by_what(paid_by_quota)}",
            field="idle",
            fix="leave idle out",
        )
    return rules


def _by_what(version: PolicyVersion) -> str:
    return f"by {version.id}" if version.policy else f"on the basis {version.others.basis}"


def share(idle: int, held: Mapping[str, int], others: int = 0) -> tuple[dict[str, int], int]:
    """Idle time in proportion to what was held, and what is left for nobody.

    `others` held too and take their part with them; with no holder everything is left.
    """
    keys = sorted(held)
    parts = split(idle, [*(held[key] for key in keys), others])
    left = idle if not sum(held.values()) + others else 0
    return dict(zip(keys, parts[:-1], strict=True)), left


def share_by_node(
    idle: int,
    idle_on: Mapping[str, int],
    held_on: Mapping[str, Mapping[str, int]],
    others_on: Mapping[str, int],
) -> tuple[dict[str, int], int]:
    """The idle time of every node among those who held some of it; the rest is left."""
    nodes = sorted(idle_on)
    shared: dict[str, int] = {}
    left = 0 if sum(idle_on.values()) else idle
    for node, part in zip(nodes, split(idle, [idle_on[node] for node in nodes]), strict=True):
        of_node, alone = share(part, held_on.get(node, {}), others_on.get(node, 0))
        left += alone
        for key, quantity in of_node.items():
            shared[key] = shared.get(key, 0) + quantity
    return shared, left


def share_by_owner(idles: Sequence[int], quotas: Quotas) -> list[tuple[dict[str, int], int]]:
    """Parts of the idle time to the queues that reserved it; the rest is nobody's quota.

    A queue owns what it neither used nor lent. Where queues own more than was idle, since quota
    exceeds the capacity that took pods, each gets its proportion, of every part.
    """
    owned = {
        queue: max(0, unused - quotas.lent.get(queue, 0))
        for queue, unused in sorted(quotas.unused.items())
    }
    whole = min(sum(idles), sum(owned.values()))
    found: list[tuple[dict[str, int], int]] = []
    for idle, reserved in zip(idles, split(whole, idles), strict=True):
        parts = split(reserved, list(owned.values()))
        found.append((dict(zip(owned, parts, strict=True)), idle - reserved))
    return found


def charged(
    held: Mapping[str, int], quotas: Quotas, version: PolicyVersion
) -> dict[str, dict[str, int]]:
    """The parts of what each queue is charged for, by queue and by what it is for.

    On the basis of quota a queue pays for nominal quota whether it uses it or not. With COMMITMENT
    it does not pay for what it borrows, with BOTH it gets a credit for what it lends.
    """
    return {
        queue: _parts(
            version.terms_of(queue),
            held.get(queue, 0),
            quotas.borrowed.get(queue, 0),
            quotas.unused.get(queue, 0),
            quotas.lent.get(queue, 0),
        )
        for queue in sorted({*held, *quotas.unused, *quotas.borrowed})
    }


HELD, UNUSED, LENT, SURCHARGE = "held", "unused", "lent", "surcharge"


def _parts(terms: QueueTerms, held: int, borrowed: int, unused: int, lent: int) -> dict[str, int]:
    match terms.basis:
        case ChargingBasis.USAGE:
            return {HELD: held, SURCHARGE: _surcharge(terms, borrowed)}
        case ChargingBasis.COMMITMENT:
            return {HELD: held - borrowed, UNUSED: unused}
        case ChargingBasis.BOTH:
            credit = lent * terms.lender_credit_percent // PERCENT
            surcharge = _surcharge(terms, borrowed)
            return {HELD: held, UNUSED: unused, LENT: -credit, SURCHARGE: surcharge}


def _surcharge(terms: QueueTerms, borrowed: int) -> int:
    """What is paid for a loan above its time, towards zero; less than nothing below its price."""
    above = terms.borrow_percent - PERCENT
    whole = borrowed * abs(above) // PERCENT
    return whole if above >= 0 else -whole
