"""What stands now, in memory: open attempts, nodes and declarations, beside the rows."""

from collections.abc import Iterable, Mapping

from muster_accounting.declarations import Declarations
from muster_accounting.store import ObjectVersion
from muster_domain.selectors import Labels
from muster_rating.attempts import Attempt
from muster_rating.capacity import CapacitySpan, NodeFact, NodeReport, capacity_spans


class View:
    """Everything but the attempts that have ended; those are in the store only."""

    def __init__(
        self,
        declarations: Declarations,
        open_attempts: Iterable[Attempt],
        node_facts: Iterable[NodeFact],
    ) -> None:
        self.declarations = declarations
        self._open = {attempt.key: attempt for attempt in open_attempts}
        self._node_facts = {fact.id: fact for fact in node_facts}
        self._spans: list[CapacitySpan] | None = None

    @property
    def open(self) -> Mapping[tuple[str, int], Attempt]:
        """Attempts whose end is not known, by id and number."""
        return self._open

    @property
    def spans(self) -> list[CapacitySpan]:
        """The capacity of all nodes over time; do not change the list."""
        if self._spans is None:
            self._spans = capacity_spans(self._node_facts.values(), self.declarations.maps)
        return self._spans

    @property
    def node_facts(self) -> Iterable[NodeFact]:
        """Everything known of nodes."""
        return self._node_facts.values()

    @property
    def first_ms(self) -> int | None:
        """The time of the first fact about a node; None without any."""
        return min((fact.at_ms for fact in self._node_facts.values()), default=None)

    def node_labels(self, node: str) -> Labels:
        """The labels that a node reported last; none for one that is not known."""
        reports = [
            fact
            for fact in self._node_facts.values()
            if isinstance(fact, NodeReport) and fact.node == node
        ]
        return max(reports, key=lambda fact: (fact.at_ms, fact.id)).labels if reports else {}

    def take_attempts(self, attempts: Iterable[Attempt]) -> None:
        """Take attempts as they are now."""
        for attempt in attempts:
            if attempt.closing is None:
                self._open[attempt.key] = attempt
            else:
                self._open.pop(attempt.key, None)

    def take_node_facts(self, facts: Iterable[NodeFact]) -> None:
        """Take facts about nodes; one that is known already changes nothing."""
        for fact in facts:
            if fact.id not in self._node_facts:
                self._node_facts[fact.id] = fact
                self._spans = None

    def take_objects(self, versions: Iterable[ObjectVersion]) -> None:
        """Take versions of declared objects, in order."""
        self.declarations.add(versions)
        self._spans = None
