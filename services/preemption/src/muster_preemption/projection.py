"""What admission has said about one partition, as the view that victims are searched in."""

from muster_contracts.stored import AdmissionFact, Record, after_fact, records_of, workload_of
from muster_domain.states import Admitted, Finished
from muster_domain.workload import Workload
from muster_ledger.store import Image
from muster_scheduling.snapshot.catalog import Configuration
from muster_scheduling.snapshot.follow import follow
from muster_scheduling.snapshot.view import AdmissionView


class Projection:
    """Records and view of a partition, as of the last of admission's facts that was applied.

    Begins with what admission has stored and goes on with its facts; those of a commit that the
    store had already say nothing new.
    """

    def __init__(self, image: Image) -> None:
        self.partition = image.shard
        self.configured_at = -1
        self.view = AdmissionView(Configuration())
        self._stored_version = image.version
        self._records: dict[str, Record] = {}
        for record in records_of(image.fields).values():
            self._put(record, 0)

    def workload(self, workload_id: str) -> Workload:
        """What was submitted. Raises `KeyError` for one that has ended or is not known."""
        return self._records[workload_id].workload

    def nodes(self, workload_id: str) -> tuple[str, ...]:
        """Where a workload sits, as far as admission has said."""
        record = self._records.get(workload_id)
        state = record.state if record is not None else None
        return state.placement.nodes if isinstance(state, Admitted) else ()

    def configure(self, configuration: Configuration, sequence: int) -> None:
        """Take the declared objects of the partition's trees."""
        self.configured_at = sequence
        self.view.configure(configuration)

    def apply(self, fact: AdmissionFact, now_ms: int) -> None:
        """Take in one of admission's facts."""
        if fact.version <= self._stored_version:
            return
        after = after_fact(self._records.get(workload_of(fact)), fact)
        if after is not None:
            self._put(after, now_ms)

    def _put(self, record: Record, now_ms: int) -> None:
        workload = record.workload
        before = self._records.pop(workload.id, None)
        state = before.state if before is not None else None
        if not isinstance(record.state, Finished):
            self._records[workload.id] = record
        follow(self.view, workload, state, record.state, now_ms)
