"""What was declared when, from every version of every object in order.

Objects that were there before the books began hold from the beginning.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import structlog

from muster_accounting.store import ObjectVersion
from muster_domain.errors import MusterError
from muster_manifests.catalogue import ObjectCatalogue
from muster_rating.attempts import Pair
from muster_rating.catalogs import Catalog, build_catalog
from muster_rating.policies import PolicyVersion, policy_versions
from muster_rating.prices import ALWAYS_MS, PriceBook, PriceList, price_books
from muster_runtime.objects import apply_object
from muster_runtime.reader import Received
from muster_scheduling.snapshot.volcano import VOLCANO_FLAVOR

KINDS = ("ResourceFlavor", "ClusterQueue", "Cohort", "Queue", "PriceList", "ChargingPolicy")
"""Kinds that decide about quota, prices, who pays and where hardware counts.

`Queue` is Volcano's.
"""

if TYPE_CHECKING:
    from muster_rating.capacity import FlavorMap

_log = structlog.get_logger()


class Declarations:
    """Catalogs and flavor maps in order of time; grows as versions are added."""

    def __init__(self, objects_at_birth: int, priced: Iterable[Pair]) -> None:
        self.sequence = 0
        self.catalogs: list[Catalog] = []
        self.maps: list[FlavorMap] = []
        self._objects_at_birth = objects_at_birth
        self._priced = frozenset(priced)
        self._catalogue = ObjectCatalogue()
        self._remember(ALWAYS_MS)

    def prices(self, own: PriceBook) -> PriceBook:
        """The service's own prices, with the declared ones of the same currency over them."""
        lists = (PriceList(name="", book=own), *self._catalogue.price_lists.values())
        return price_books(lists).get(own.currency, own)

    @property
    def policy(self) -> tuple[PolicyVersion, ...]:
        """By what queues are charged, in order of time."""
        return policy_versions(self._catalogue.charging_policies.values())

    def add(self, versions: Iterable[ObjectVersion]) -> None:
        """Take in versions in order of their sequence; one that cannot be read is left out."""
        waiting_ms: int | None = None
        for version in versions:
            at_ms = self._time_of(version)
            if waiting_ms is not None and at_ms != waiting_ms:
                self._remember(waiting_ms)
            if self._apply(version):
                waiting_ms = at_ms
        if waiting_ms is not None:
            self._remember(waiting_ms)

    def _time_of(self, version: ObjectVersion) -> int:
        if version.sequence <= self._objects_at_birth:
            return ALWAYS_MS
        return max(version.at_ms, self.catalogs[-1].from_ms)

    def _apply(self, version: ObjectVersion) -> bool:
        self.sequence = version.sequence
        received = Received(
            sequence=version.sequence,
            subject=version.subject,
            headers={"ce-type": version.type},
            body=version.body,
            published_ms=version.at_ms,
        )
        try:
            apply_object(self._catalogue, received)
        except MusterError as error:
            _log.error("object not read", subject=version.subject, reason=str(error))
            return False
        return True

    def _remember(self, from_ms: int) -> None:
        declared = self._catalogue
        catalog = build_catalog(
            from_ms,
            declared.flavors.values(),
            declared.cluster_queues.values(),
            declared.cohorts.values(),
        )
        volcano = {
            (VOLCANO_FLAVOR, resource)
            for queue in declared.volcano_queues.values()
            for resource in queue.capability
        }
        flavors = catalog.flavor_map(self._priced | volcano, VOLCANO_FLAVOR)
        if self.catalogs and self.catalogs[-1].from_ms == from_ms:
            self.catalogs.pop()
            self.maps.pop()
        self.catalogs.append(catalog)
        self.maps.append(flavors)
