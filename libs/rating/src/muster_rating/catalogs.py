"""What was declared at a time: flavors, quotas and the trees that queues belong to."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from muster_domain.queues import UNLIMITED, ClusterQueue, Cohort, ResourceFlavor, ResourceQuota
from muster_rating.attempts import Pair
from muster_rating.capacity import FlavorMap
from muster_rating.windows import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueQuota:
    """One queue's own quota of one (flavor, resource), in milli-units.

    `lending_limit_milli` None lends everything. `tree` is the root cohort, empty for a lone queue.
    """

    nominal_milli: int
    lending_limit_milli: int | None = None
    tree: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """From `from_ms` on this is declared."""

    from_ms: int
    flavors: tuple[ResourceFlavor, ...] = ()
    quotas: Mapping[Pair, Mapping[str, QueueQuota]] = field(
        default_factory=dict[Pair, Mapping[str, QueueQuota]]
    )
    """By (flavor, resource), then by queue; a queue is here for every pair of its tree."""

    def flavor_map(self, priced: Iterable[Pair] = (), fallback: str = "") -> FlavorMap:
        """Where the resources of nodes count; `priced` pairs count without quota too."""
        covered = frozenset(self.quotas) | frozenset(priced)
        return FlavorMap(
            from_ms=self.from_ms, flavors=self.flavors, covered=covered, fallback=fallback
        )


def build_catalog(
    from_ms: int,
    flavors: Iterable[ResourceFlavor],
    queues: Iterable[ClusterQueue],
    cohorts: Iterable[Cohort],
) -> Catalog:
    """The catalog of declared objects.

    A queue has an entry for every pair that its tree has quota of, with a nominal quota of zero
    where it has none itself: all that it holds of that is borrowed.
    """
    by_name = {cohort.name: cohort for cohort in cohorts}
    members = sorted(queues, key=lambda queue: queue.name)
    trees = {queue.name: root_of(queue.cohort, by_name) for queue in members}
    pairs_of_tree: dict[str, set[Pair]] = {}
    own: dict[str, dict[Pair, ResourceQuota]] = {}
    for queue in members:
        own[queue.name] = _quotas(queue)
        pairs_of_tree.setdefault(trees[queue.name], set()).update(own[queue.name])
    for name in sorted(by_name):
        pairs_of_tree.setdefault(root_of(name, by_name), set()).update(_quotas(by_name[name]))
    quotas: dict[Pair, dict[str, QueueQuota]] = {}
    for queue in members:
        tree = trees[queue.name]
        mine = own[queue.name]
        for pair in sorted(pairs_of_tree[tree] if tree else mine):
            quotas.setdefault(pair, {})[queue.name] = _queue_quota(mine.get(pair), tree)
    return Catalog(
        from_ms=from_ms,
        flavors=tuple(sorted(flavors, key=lambda flavor: flavor.name)),
        quotas={pair: quotas[pair] for pair in sorted(quotas)},
    )


def root_of(cohort: str, by_name: Mapping[str, Cohort]) -> str:
    """The root of a cohort's tree; in a cycle, the smallest name of it."""
    seen: list[str] = []
    while cohort and cohort not in seen:
        seen.append(cohort)
        declared = by_name.get(cohort)
        parent = declared.parent if declared is not None else ""
        if not parent:
            return cohort
        cohort = parent
    return min(seen[seen.index(cohort) :]) if cohort else ""


def quota_windows(
    catalogs: Iterable[Catalog], pair: Pair, window: Window
) -> list[tuple[Window, Mapping[str, QueueQuota]]]:
    """The window cut where the pair's quotas change, without gaps, in order.

    Before the first catalog there is no quota.
    """
    cuts: list[tuple[Window, Mapping[str, QueueQuota]]] = []
    start_ms = window.start_ms
    current: Mapping[str, QueueQuota] = {}
    for catalog in catalogs:
        quotas = catalog.quotas.get(pair, {})
        if catalog.from_ms <= start_ms:
            current = quotas
            continue
        if catalog.from_ms >= window.end_ms:
            break
        if quotas != current:
            cuts.append((Window(start_ms, catalog.from_ms), current))
            start_ms, current = catalog.from_ms, quotas
    cuts.append((Window(start_ms, window.end_ms), current))
    return cuts


def _quotas(holder: ClusterQueue | Cohort) -> dict[Pair, ResourceQuota]:
    return {
        (of_flavor.flavor, resource): quota
        for group in holder.resource_groups
        for of_flavor in group.flavors
        for resource, quota in of_flavor.resources.items()
    }


def _queue_quota(quota: ResourceQuota | None, tree: str) -> QueueQuota:
    if quota is None:
        return QueueQuota(nominal_milli=0, tree=tree)
    lending = quota.lending_limit_milli
    return QueueQuota(
        nominal_milli=quota.nominal_milli,
        lending_limit_milli=None if lending is None or lending >= UNLIMITED else lending,
        tree=tree,
    )
