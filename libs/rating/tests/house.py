"""A small house to meter: four GPUs, a price, and attempts in hours."""

from fractions import Fraction

from muster_rating.attempts import Attempt, Charge, Closing, Eviction, Opening, Owner, Seat, Seating
from muster_rating.capacity import CapacitySpan
from muster_rating.catalogs import Catalog, QueueQuota
from muster_rating.prices import ALWAYS_MS, HOUR_MS, Price, PriceBook

GPU = "nvidia.com/gpu"
FLAVOR = "h100"


class House:
    """Builds metered facts of one flavor; times are hours."""

    hour = HOUR_MS
    pair = (FLAVOR, GPU)

    def attempt(  # noqa: PLR0913 - a builder with defaults
        self,
        team: str,
        gpus: int,
        start_h: int,
        end_h: int | None,
        *,
        name: str = "",
        number: int = 1,
        reserved_h: int | None = None,
        seated: bool = True,
        preempted: bool = False,
        priority: int = 0,
        queue: str = "",
        node: str = "n1",
    ) -> Attempt:
        identity = name or f"{team}-{start_h}-{end_h}-{gpus}"
        charges = (Charge(flavor=FLAVOR, resource=GPU, quantity_milli=gpus * 1000),)
        owner = Owner(
            namespace=team,
            workload=identity,
            cluster_queue=queue or team,
            local_queue="main",
            team=team,
            user=f"{team}-user",
            priority=priority,
        )
        reserved_ms = (start_h if reserved_h is None else reserved_h) * HOUR_MS
        opening = Opening(at_ms=reserved_ms, version=1, owner=owner, charges=charges)
        seat = Seat(node=node, pods=1, devices=gpus, charges=charges)
        end_ms = None if end_h is None else end_h * HOUR_MS
        return Attempt(
            workload_id=identity,
            number=number,
            opening=opening,
            seating=Seating(at_ms=start_h * HOUR_MS, version=2, seats=(seat,)) if seated else None,
            eviction=Eviction(at_ms=end_ms or 0, version=3, reason="Preempted")
            if preempted
            else None,
            closing=None if end_ms is None else Closing(at_ms=end_ms, version=4),
        )

    def capacity(
        self,
        gpus: int,
        start_h: int = 0,
        end_h: int | None = None,
        *,
        node: str = "n1",
        usable: bool = True,
    ) -> CapacitySpan:
        return CapacitySpan(
            node=node,
            flavor=FLAVOR,
            resource=GPU,
            quantity_milli=gpus * 1000,
            start_ms=start_h * HOUR_MS,
            end_ms=None if end_h is None else end_h * HOUR_MS,
            usable=usable,
        )

    def prices(self, *hourly: str, from_h: tuple[int, ...] = ()) -> PriceBook:
        starts = [ALWAYS_MS, *(hour * HOUR_MS for hour in from_h)]
        return PriceBook(
            "EUR",
            tuple(
                Price(flavor=FLAVOR, resource=GPU, hourly=Fraction(amount), effective_from_ms=start)
                for amount, start in zip(hourly, starts, strict=True)
            ),
        )

    def catalog(self, nominal: dict[str, int], *, tree: str = "all", from_h: int = 0) -> Catalog:
        return Catalog(
            from_ms=from_h * HOUR_MS,
            quotas={
                self.pair: {
                    queue: QueueQuota(nominal_milli=gpus * 1000, tree=tree)
                    for queue, gpus in nominal.items()
                }
            },
        )

    def gpu_hours(self, quantity: int) -> Fraction:
        return Fraction(quantity, 1000 * HOUR_MS)
