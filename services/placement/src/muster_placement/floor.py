"""The floor: nodes, gangs on them, and who is waiting for seats. Changed in one place each."""

from dataclasses import dataclass, replace

from muster_contracts import codec
from muster_domain.errors import Conflict
from muster_domain.nodes import Node, NodeCondition
from muster_domain.states import Admission
from muster_domain.workload import Workload
from muster_ledger.store import Image
from muster_placement.announce import PlacementAnnouncer
from muster_placement.packing import PACKING_FIELD, LearnedPacking, Packing
from muster_placement.record import GANG_FIELD, NODE_FIELD, NodeEntry, SeatedGang
from muster_placement.settings import PlacementSettings
from muster_scheduling.placement.request import GangRequest
from muster_scheduling.placement.table import NodeTable

REQUEST_FIELD = "q/"
GONE_FIELD = "e/"
CLAIM_FIELD = "c/"
CLAIM_MS = 60_000
"""So long nodes that victims leave are kept for the gang that they leave for."""
GONE_KEPT = 50_000
GONE_KEPT_MS = 6 * 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatRequest:
    """A workload that holds quota and needs seats."""

    workload: Workload
    partition: str
    attempt: int
    admission: Admission
    traceparent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """The last attempt that is gone: a late echo of its reservation seats nobody."""

    attempt: int
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatClaim:
    """Nodes on which nobody else is seated: others were made to leave them for this gang."""

    nodes: tuple[str, ...]
    until_ms: int


_Stored = SeatClaim | NodeEntry | SeatedGang | SeatRequest | Gone | LearnedPacking


class Floor:
    """Everything that placement knows."""

    def __init__(self, image: Image, settings: PlacementSettings, now_ms: int) -> None:
        self.settings = settings
        self.table = NodeTable()
        self.packing = Packing(self.table)
        self.nodes: dict[str, NodeEntry] = {}
        self.gangs: dict[str, SeatedGang] = {}
        self.requests: dict[str, SeatRequest] = {}
        self.gone: dict[str, Gone] = {}
        self.heard_ms: dict[str, int] = {}
        self.unheard: set[str] = set()
        """Nodes that an earlier owner found silent and that were not heard of since."""
        self.claims: dict[str, SeatClaim] = {}
        """Nodes kept for gangs that others leave for, by workload id."""
        self.dues: dict[str, int] = {}
        """When a delayed policy of a gang is due first, by workload id."""
        self.growing: dict[str, None] = {}
        """Gangs that need seats for more pods, in the order of being told so."""
        self.grew = False
        self.announcer = PlacementAnnouncer(image.epoch, image.version + 1)
        self._puts: dict[str, _Stored | None] = {}
        self._restore(image, now_ms)

    def put_node(self, entry: NodeEntry) -> None:
        """Take a node as it is now."""
        self.nodes[entry.node.name] = entry
        self.table.put_node(entry.node, entry.condition)
        self._puts[NODE_FIELD + entry.node.name] = entry

    def set_condition(self, name: str, condition: NodeCondition, now_ms: int) -> None:
        """Think something else of a node, and say so."""
        entry = self.nodes[name]
        if entry.condition is not condition:
            self.put_node(replace(entry, condition=condition))
            self.announcer.node_condition(name, condition, now_ms)

    def heard(self, name: str, now_ms: int) -> None:
        """A node gave a sign of life."""
        self.heard_ms[name] = now_ms
        self.unheard.discard(name)

    def ask(self, request: SeatRequest) -> None:
        """Remember who needs seats."""
        self.requests[request.workload.id] = request
        self._puts[REQUEST_FIELD + request.workload.id] = request

    def answered(self, workload_id: str) -> None:
        """Forget a request that was answered or withdrawn."""
        if self.requests.pop(workload_id, None) is not None:
            self._puts[REQUEST_FIELD + workload_id] = None

    def learn(self, request: GangRequest) -> None:
        """Count what a gang asks for; prices follow when they are due."""
        learned = self.packing.learn(request)
        if learned is not None:
            self._puts[PACKING_FIELD] = learned

    def seat(self, seated: SeatedGang) -> None:
        """Hold the seats of a gang. Raises `Conflict` where one is not free."""
        self.table.bind(seated.gang)
        self.update(seated)

    def update(self, seated: SeatedGang) -> None:
        """Remember something new about a seated gang."""
        self.gangs[seated.workload.id] = seated
        self._note_dues(seated)
        self._note_growth(seated)
        self._puts[GANG_FIELD + seated.workload.id] = seated

    def reseat(self, seated: SeatedGang) -> None:
        """Hold other seats than the gang held until now. Raises `Conflict` as `seat` does."""
        before = self.table.release(seated.workload.id)
        try:
            self.table.bind(seated.gang)
        except Conflict:
            self.table.restore(before)
            raise
        self.update(seated)

    def refit(self, seated: SeatedGang) -> None:
        """Hold more or fewer seats than the gang held until now."""
        self.table.release(seated.workload.id)
        self.table.restore(seated.gang)
        self.update(seated)

    def free(self, seated: SeatedGang, now_ms: int) -> None:
        """Give the seats of a gang back."""
        self.table.release(seated.workload.id)
        self.remember_gone(seated.workload.id, seated.attempt, now_ms)
        del self.gangs[seated.workload.id]
        self.dues.pop(seated.workload.id, None)
        self.growing.pop(seated.workload.id, None)
        self.capacity_grew()
        self._puts[GANG_FIELD + seated.workload.id] = None

    def claim(self, workload_id: str, nodes: frozenset[str], now_ms: int) -> None:
        """Keep nodes for a gang; said again, it is kept longer."""
        made = SeatClaim(nodes=tuple(sorted(nodes)), until_ms=now_ms + CLAIM_MS)
        self.claims[workload_id] = made
        self._puts[CLAIM_FIELD + workload_id] = made

    def drop_claim(self, workload_id: str) -> None:
        """Keep nothing for the gang any more: it sits, has ended, or did not come."""
        if self.claims.pop(workload_id, None) is not None:
            self._puts[CLAIM_FIELD + workload_id] = None
            self.capacity_grew()

    def drop_old_claims(self, now_ms: int) -> None:
        """Let go of claims whose time is over."""
        for workload_id, made in list(self.claims.items()):
            if made.until_ms <= now_ms:
                self.drop_claim(workload_id)

    def claimed_by_others(self, workload_id: str) -> frozenset[str]:
        """Nodes that are kept for somebody else."""
        return frozenset(
            name
            for claimant, made in self.claims.items()
            if claimant != workload_id
            for name in made.nodes
        )

    def remember_gone(self, workload_id: str, attempt: int, now_ms: int) -> None:
        """Seat no attempt up to this one again."""
        self.gone.pop(workload_id, None)
        self.gone[workload_id] = Gone(attempt=attempt, at_ms=now_ms)
        self._puts[GONE_FIELD + workload_id] = self.gone[workload_id]
        while self.gone:
            oldest, gone = next(iter(self.gone.items()))
            if gone.at_ms >= now_ms - GONE_KEPT_MS and len(self.gone) <= GONE_KEPT:
                break
            del self.gone[oldest]
            self._puts[GONE_FIELD + oldest] = None

    def last_gone(self, workload_id: str) -> int:
        """The last attempt that is gone; 0 if none was."""
        gone = self.gone.get(workload_id)
        return gone.attempt if gone is not None else 0

    def capacity_grew(self) -> None:
        """Whoever found no seats may try again."""
        self.grew = True

    def node_of(self, name: str) -> Node | None:
        """The node, if it ever registered."""
        entry = self.nodes.get(name)
        return entry.node if entry is not None else None

    def take_changes(self) -> tuple[dict[str, bytes], tuple[str, ...]]:
        """Fields to put and to delete since the last call, each written as it is now, once."""
        changes, self._puts = self._puts, {}
        puts = {name: codec.encode(value) for name, value in changes.items() if value is not None}
        return puts, tuple(name for name, value in changes.items() if value is None)

    def _note_dues(self, seated: SeatedGang) -> None:
        if seated.dues:
            self.dues[seated.workload.id] = min(seated.dues.values())
        else:
            self.dues.pop(seated.workload.id, None)

    def _note_growth(self, seated: SeatedGang) -> None:
        if seated.lacks:
            self.growing[seated.workload.id] = None
        else:
            self.growing.pop(seated.workload.id, None)

    def _restore(self, image: Image, now_ms: int) -> None:
        for name in sorted(image.fields):
            stored = image.fields[name]
            if name.startswith(NODE_FIELD):
                entry = codec.decode(NodeEntry, stored)
                self.nodes[entry.node.name] = entry
                self.table.put_node(entry.node, entry.condition)
                self.heard_ms[entry.node.name] = now_ms
                if entry.condition in (NodeCondition.SUSPECT, NodeCondition.FENCED):
                    self.unheard.add(entry.node.name)
            elif name == PACKING_FIELD:
                self.packing.restore(stored)
            elif name.startswith(GANG_FIELD):
                seated = codec.decode(SeatedGang, stored)
                self.gangs[seated.workload.id] = seated
                self._note_dues(seated)
                self._note_growth(seated)
                self.table.restore(seated.gang)
            elif name.startswith(REQUEST_FIELD):
                request = codec.decode(SeatRequest, stored)
                self.requests[request.workload.id] = request
            elif name.startswith(CLAIM_FIELD):
                self.claims[name.removeprefix(CLAIM_FIELD)] = codec.decode(SeatClaim, stored)
            elif name.startswith(GONE_FIELD):
                self.gone[name.removeprefix(GONE_FIELD)] = codec.decode(Gone, stored)
        self.gone = dict(sorted(self.gone.items(), key=lambda item: (item[1].at_ms, item[0])))
