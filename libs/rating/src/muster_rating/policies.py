"""By what each ClusterQueue is charged, and since when.

A charging policy has versions. One holds, whole, from its effective time until the next one; before
the first, and without a policy, every queue pays for what it used.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from muster_domain.money import ChargingBasis
from muster_rating.periods import utc_text
from muster_rating.prices import ALWAYS_MS
from muster_rating.windows import Window

PERCENT = 100
BORROW_PERCENT_MAX = 1000


class Attribution(StrEnum):
    """Which of a queue's workloads hold what it borrows.

    LIFO: those that would be asked first to give back, the latest admitted of the lowest priority.
    PRORATA: all, in proportion to what they hold.
    """

    LIFO = "lifo"
    PRORATA = "prorata"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTerms:
    """What one queue pays for. `lender_credit_percent` of what it lent is its own with `BOTH`.

    What it borrows costs `borrow_percent` of the price, where it pays for that at all.
    """

    basis: ChargingBasis = ChargingBasis.USAGE
    lender_credit_percent: int = PERCENT
    borrow_percent: int = PERCENT
    attribution: Attribution = Attribution.LIFO

    @property
    def by_quota(self) -> bool:
        """Whether it pays for quota that it does not use."""
        return self.basis is not ChargingBasis.USAGE


BY_USAGE = QueueTerms()


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyVersion:
    """The terms of all queues from a moment on; `others` are those that are not named."""

    policy: str = ""
    effective_from_ms: int = ALWAYS_MS
    others: QueueTerms = BY_USAGE
    queues: Mapping[str, QueueTerms] = field(default_factory=dict[str, QueueTerms])

    @property
    def id(self) -> str:
        """Which policy, and which version of it: `finance@2026-07-01T00:00:00Z`."""
        if self.effective_from_ms == ALWAYS_MS:
            return self.policy
        return f"{self.policy}@{utc_text(self.effective_from_ms)}"

    @property
    def by_quota(self) -> bool:
        """Whether what any queue pays depends on its quota."""
        return any(
            terms.by_quota or terms.borrow_percent != PERCENT
            for terms in (self.others, *self.queues.values())
        )

    @property
    def by_lifo(self) -> bool:
        """Whether the loans of all queues are put down to their workloads by LIFO."""
        return all(
            terms.attribution is Attribution.LIFO for terms in (self.others, *self.queues.values())
        )

    def terms_of(self, queue: str) -> QueueTerms:
        """The terms of a queue."""
        return self.queues.get(queue, self.others)


NO_POLICY = PolicyVersion()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargingPolicy:
    """A declared policy, by its name."""

    name: str
    versions: tuple[PolicyVersion, ...]


def policy_versions(policies: Iterable[ChargingPolicy]) -> tuple[PolicyVersion, ...]:
    """The versions of all policies together, by time.

    Where two begin at the same time, that of the policy whose name is later counts.
    """
    found: dict[int, PolicyVersion] = {}
    for policy in sorted(policies, key=lambda policy: policy.name):
        for version in policy.versions:
            found[version.effective_from_ms] = version
    return tuple(found[at_ms] for at_ms in sorted(found))


def versions_in(versions: Iterable[PolicyVersion], window: Window) -> tuple[PolicyVersion, ...]:
    """The versions that hold at some time in a window, in order."""
    return tuple(version for _, version in policy_windows(versions, window) if version != NO_POLICY)


def for_all(
    basis: ChargingBasis,
    lender_credit_percent: int = PERCENT,
    declared: Sequence[PolicyVersion] = (),
) -> tuple[PolicyVersion, ...]:
    """All queues on one basis, at all times; whose loans are whose stays as it is declared."""

    def on_basis(terms: QueueTerms) -> QueueTerms:
        return QueueTerms(
            basis=basis,
            lender_credit_percent=lender_credit_percent,
            attribution=terms.attribution,
        )

    always = () if declared and declared[0].effective_from_ms == ALWAYS_MS else (NO_POLICY,)
    return tuple(
        replace(
            version,
            policy="",
            others=on_basis(version.others),
            queues={queue: on_basis(terms) for queue, terms in version.queues.items()},
        )
        for version in (*always, *declared)
    )


def policy_windows(
    versions: Iterable[PolicyVersion], window: Window
) -> list[tuple[Window, PolicyVersion]]:
    """The window cut where another version begins, without gaps, in order."""
    cuts: list[tuple[Window, PolicyVersion]] = []
    start_ms, current = window.start_ms, NO_POLICY
    for version in versions:
        if version.effective_from_ms >= window.end_ms:
            break
        if version.effective_from_ms > start_ms:
            cuts.append((Window(start_ms, version.effective_from_ms), current))
            start_ms = version.effective_from_ms
        current = version
    cuts.append((Window(start_ms, window.end_ms), current))
    return cuts
