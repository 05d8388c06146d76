"""What packing has learned: the mix of pods that came, and the prices that placement goes by.

Stored together whenever prices are looked at, so that a new owner decides as the old one would
have; arrivals since then are forgotten with the old one.
"""

from dataclasses import dataclass

from muster_contracts import codec
from muster_scheduling.placement.packing.mix import KindCount, PodMix, kind_of
from muster_scheduling.placement.packing.prices import PackingPrices, prices
from muster_scheduling.placement.request import GangRequest
from muster_scheduling.placement.table import NodeTable

PACKING_FIELD = "m/mix"


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedPacking:
    """The mix as it was when prices were looked at, and those prices."""

    mix: tuple[KindCount, ...]
    prices: PackingPrices


class Packing:
    """Learns from every gang that asks for the first time, and keeps the table's prices."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._mix = PodMix()

    def restore(self, stored: bytes) -> None:
        """Go on from what was stored."""
        learned = codec.decode(LearnedPacking, stored)
        self._mix = PodMix.of(learned.mix)
        self._table.prices = learned.prices

    def learn(self, request: GangRequest) -> LearnedPacking | None:
        """Count the pods of a gang; what to store if prices were due."""
        for pod_set in request.pod_sets:
            if pod_set.count:
                self._mix.arrived(kind_of(pod_set), pod_set.count)
        if not self._mix.due:
            return None
        self._table.prices = prices(self._table.columns, self._mix)
        self._mix.priced = self._mix.pods
        return LearnedPacking(mix=self._mix.written(), prices=self._table.prices)
