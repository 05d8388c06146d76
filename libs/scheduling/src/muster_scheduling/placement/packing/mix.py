"""The mix of pods that has asked for seats so far, and nothing about those to come."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from muster_scheduling.placement.columns import Shape
from muster_scheduling.placement.eligibility import NodeRules, node_rules
from muster_scheduling.placement.record import is_extended, pod_usage
from muster_scheduling.placement.request import PodSetRequest
from muster_scheduling.placement.shares import GPU, WHOLE, Share, share_of

KINDS_MAX = 192
"""Kinds remembered; the rarest gives way to a new one."""

PODS_MAX = 16_384
"""Past so many pods all counts are halved, so that the mix follows what comes now."""

_REPRICE_AFTER = 16
_REPRICE_PART = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PodKind:
    """Pods that need the same: so much of a node, `cards` whole or `share`, such nodes."""

    shape: Shape
    cards: int = 0
    share: Share | None = None
    rules: NodeRules = NodeRules()

    def demand_milli(self, card_memory: int) -> int:
        """How much of cards, or else of other extended resources, one pod takes; 0 for none."""
        if self.share is not None:
            return self.share.cards * self.share.milli_of(card_memory)
        others = sum(quantity for resource, quantity in self.shape if is_extended(resource))
        return self.cards * WHOLE or others


@dataclass(frozen=True, slots=True, kw_only=True)
class KindCount:
    """How many pods of a kind are remembered."""

    kind: PodKind
    pods: int


@dataclass(slots=True)
class PodMix:
    """Counts by kind in order of first arrival. `priced` is `pods` at the last look at prices."""

    counts: dict[PodKind, int] = field(default_factory=dict[PodKind, int])
    pods: int = 0
    priced: int = 0

    @classmethod
    def of(cls, counts: Iterable[KindCount]) -> "PodMix":
        """A mix as it was written down; its prices were looked at then."""
        known = {count.kind: count.pods for count in counts}
        pods = sum(known.values())
        return cls(known, pods, pods)

    def written(self) -> tuple[KindCount, ...]:
        """All counts as data."""
        return tuple(KindCount(kind=kind, pods=pods) for kind, pods in self.counts.items())

    def arrived(self, kind: PodKind, pods: int) -> None:
        """Count so many pods of a kind."""
        self.counts[kind] = self.counts.get(kind, 0) + pods
        self.pods += pods
        while self.pods > PODS_MAX:
            self.counts = {known: count // 2 for known, count in self.counts.items() if count > 1}
            self.pods, self.priced = sum(self.counts.values()), 0
        if len(self.counts) > KINDS_MAX:
            others = (known for known in self.counts if known != kind)
            least = min(others, key=lambda known: self.counts[known])
            self.pods -= self.counts.pop(least)

    @property
    def due(self) -> bool:
        """Whether so much has arrived that prices should be looked at again."""
        return self.pods >= self.priced + max(_REPRICE_AFTER, self.priced // _REPRICE_PART)


def kind_of(pod_set: PodSetRequest) -> PodKind:
    """What one pod of a set needs."""
    usage = pod_usage(pod_set.requests)
    cards = usage.pop(GPU, 0) // WHOLE
    return PodKind(
        shape=tuple(sorted(usage.items())),
        cards=cards,
        share=share_of(pod_set.requests),
        rules=node_rules(pod_set).required_only,
    )
