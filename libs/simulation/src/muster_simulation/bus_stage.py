"""A scenario on the services' own machines, on the virtual bus."""

from muster_contracts import codec, events, subjects
from muster_contracts.stored import Record
from muster_domain.conditions import EvictionReason, Outcome
from muster_domain.states import Admitted, Evicting, Finished, Pending, Reserved
from muster_domain.workload import LocalQueueRef, VolcanoQueueRef, Workload
from muster_manifests.catalogue import ObjectCatalogue
from muster_scheduling.admission import explain
from muster_scheduling.snapshot.volcano import derived_queue_name
from muster_simulation import swarm
from muster_simulation.manifests import (
    Naming,
    configuration_of,
    load_documents,
    nodes_of,
    workload_of,
)
from muster_simulation.play import Seen, differences
from muster_simulation.run import Run
from muster_simulation.scenario import Expectation, Manifest, Preempted, Scenario
from muster_simulation.world import NO_FAULTS

DEDUPE_MS = 120_000
STEP_MS = 500
TRAVEL_MS = 1_500
"""So long a submission may take until it was decided on."""
PATIENCE_MS = 30_000
QUIET_MS = 60_000


class BusStage:
    """All processes of one run without faults; `seed` still draws every delay."""

    def __init__(self, scenario: Scenario, naming: Naming, seed: int = 0) -> None:
        self._scenario = scenario
        self._naming = naming
        self._seed = seed
        self._catalogue = ObjectCatalogue()
        self._run: Run | None = None
        self._jobs: dict[str, swarm.Job] = {}
        self._names: dict[str, str] = {}
        self._began_ms = 0

    @property
    def run(self) -> Run:
        """The processes, once something was declared."""
        if self._run is None:
            raise AssertionError("nothing was declared yet")
        return self._run

    def declare(self, manifests: list[Manifest]) -> None:
        """As `Stage`."""
        for document in load_documents(manifests, "scenario"):
            self._catalogue.put_document(self._catalogue.sequence + 1, document)
        configuration = configuration_of(self._catalogue)
        if self._run is not None:
            self._run.configure(configuration)
            return
        parts = swarm.Scenario(
            configuration=configuration,
            nodes=nodes_of(self._scenario, self._naming),
            jobs=(),
            faults=NO_FAULTS,
            dedupe_window_ms=DEDUPE_MS,
        )
        self._run = Run(self._seed, parts, flat=False)
        for node in self._run.nodes:
            node.start()
        self._run.world.run(self._run.world.now_ms + TRAVEL_MS)
        self._began_ms = self._run.world.now_ms

    def submit(self, manifest: Manifest, *, ends_by_order: bool) -> None:
        """As `Stage`."""
        del ends_by_order
        run = self.run
        for document in load_documents([manifest], "scenario"):
            identity = f"{len(self._names):04d}-{document.name}"
            workload = workload_of(document, self._catalogue, identity, run.world.now_ms)
            if self._scaled(workload):
                continue
            queue = self._cluster_queue(workload)
            job = swarm.Job(workload=workload, cluster_queue=queue, at_ms=0)
            self._names[identity] = workload.name
            self._jobs.setdefault(workload.name, job)
            fact = events.WorkloadSubmitted(
                workload=workload, cluster_queue=queue, objects_sequence=0
            )
            run.say(job, "workload_submitted", fact, f"{identity}/submit")
            run.world.run(run.world.now_ms + TRAVEL_MS)

    def _scaled(self, workload: Workload) -> bool:
        """An elastic job that is applied again under its name is scaled, as the gateway has it."""
        job, world = self._jobs.get(workload.name), self.run.world
        if job is None or not (workload.is_scalable and job.workload.is_scalable):
            return False
        counts = {pod_set.name: pod_set.count for pod_set in workload.pod_sets}
        identity, at_ms = job.workload.id, world.now_ms
        wish = events.ScaleRequested(workload_id=identity, counts=counts, at_ms=at_ms)
        self.run.say(job, "scale_requested", wish, f"{identity}/scale/{at_ms}")
        world.run(world.now_ms + TRAVEL_MS)
        return True

    def finish(self, name: str) -> None:
        """As `Stage`."""
        for node in self.run.nodes:
            node.succeed(self._jobs[name].workload.id)

    def cancel(self, name: str) -> None:
        """As `Stage`."""
        job = self._jobs[name]
        wish = events.CancelRequested(workload_id=job.workload.id, by="the scenario")
        self.run.say(job, "cancel_requested", wish, f"{job.workload.id}/cancel")

    def checkpoint(self, name: str) -> None:
        """As `Stage`."""
        job, at_ms = self._jobs[name], self.run.world.now_ms
        saved = events.CheckpointReported(workload_id=job.workload.id, at_ms=at_ms)
        self.run.say(job, "checkpoint_reported", saved, f"{job.workload.id}/saved/{at_ms}")

    def fail_node(self, name: str) -> None:
        """As `Stage`."""
        next(node for node in self.run.nodes if node.node.name == name).cut()

    def recover_node(self, name: str) -> None:
        """As `Stage`."""
        next(node for node in self.run.nodes if node.node.name == name).reconnect()

    def pass_time(self, at_ms: int) -> None:
        """As `Stage`."""
        world = self.run.world
        world.run(max(world.now_ms, self._began_ms + at_ms))

    def rest(self) -> None:
        """As `Stage`."""
        self.run.world.run(self.run.world.now_ms + QUIET_MS)

    def expect(self, expectation: Expectation, seen_before: int) -> list[str]:
        """As `Stage`."""
        world = self.run.world
        until_ms = world.now_ms + PATIENCE_MS
        while True:
            found = differences(expectation, self.look(), seen_before)
            if not found or world.now_ms >= until_ms:
                return found
            world.run(world.now_ms + STEP_MS)

    def look(self) -> Seen:
        """As `Stage`."""
        seen = Seen()
        for process in self.run.admission:
            book = process.machine.book if process.machine is not None else None
            for record in book.records.values() if book is not None else ():
                if record.workload.id == self._jobs[record.workload.name].workload.id:
                    self._add(seen, record)
        for received in self.run.world.log.messages:
            if subjects.event_name(received.subject) == "workload_evicted":
                fact = codec.decode_event("workload_evicted", received.body)
                if isinstance(fact, events.WorkloadEvicted):
                    self._count(seen, fact)
        return seen

    def _add(self, seen: Seen, record: Record) -> None:
        name, state = record.workload.name, record.state
        match state:
            case Pending(unseated=True, explanation=stored):
                seen.pending[name] = stored.reason
            case Pending():
                seen.pending[name] = self._why(record)
            case Admitted(placement=placement):
                seen.admitted.add(name)
                seen.nodes[name] = tuple(self._naming.plain(node) for node in placement.nodes)
                seen.pods[name] = len(placement.pods)
            case Finished(outcome=outcome):
                seen.finished[name] = str(outcome)
            case Reserved() | Evicting():
                seen.leaving.add(name)

    def _why(self, record: Record) -> str:
        for process in self.run.admission:
            book = process.machine.book if process.machine is not None else None
            if book is not None and record.workload.id in book.records:
                view = book.view
                found = explain(view.snapshot(self.run.world.now_ms), record.workload.id)
                return "" if found is None else found.reason
        return ""

    def _count(self, seen: Seen, fact: events.WorkloadEvicted) -> None:
        state = fact.state
        if not isinstance(state.reason, EvictionReason) or state.reason in tuple(Outcome):
            return
        seen.evictions += 1
        if state.preemptor:
            by = self._names[state.preemptor]
            preempted = Preempted(by=by, reason=str(state.preemption_reason))
            seen.preempted.append((self._names[fact.workload_id], preempted))

    def _cluster_queue(self, workload: Workload) -> str:
        match workload.queue:
            case VolcanoQueueRef(name=name):
                return derived_queue_name(name)
            case LocalQueueRef(name=name):
                return self._catalogue.local_queues[f"{workload.namespace}/{name}"].cluster_queue
