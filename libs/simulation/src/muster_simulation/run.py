"""One run: safety while there are faults, then liveness once there are none."""

import hashlib
import json
from dataclasses import dataclass, replace

from prometheus_client import CollectorRegistry

from muster_admission.machine import AdmissionMachine
from muster_admission.metrics import AdmissionMetrics
from muster_admission.settings import AdmissionSettings
from muster_contracts import codec, events, subjects
from muster_contracts.partitions import EVERY_PARTITION, PLACEMENT_SHARD, home_of, partition_of
from muster_contracts.queries import Seats, SeatsQuestion
from muster_contracts.stored import records_of
from muster_contracts.subjects import Service
from muster_domain.conditions import Outcome
from muster_domain.queue_tree import VOLCANO_PREFIX, tree_root
from muster_domain.states import Finished
from muster_ledger.store import Image
from muster_placement.machine import PlacementMachine
from muster_placement.queries import seats
from muster_placement.settings import PlacementSettings
from muster_scheduling.placement.topology.terms import topology_options
from muster_scheduling.snapshot.catalog import Configuration
from muster_scheduling.snapshot.volcano import VOLCANO_FLAVOR, derived_queue_name, volcano_flavor
from muster_scheduling.volcano.floor import rules_of
from muster_simulation.audit import Audit
from muster_simulation.checks import Watch
from muster_simulation.invariants import InvariantBroken
from muster_simulation.log import VirtualLog
from muster_simulation.nodes import SimulatedNode, send_event
from muster_simulation.owners import OwnerProcess
from muster_simulation.people import People, with_checks
from muster_simulation.searcher import SearcherProcess
from muster_simulation.swarm import Job, Scenario, draw
from muster_simulation.terms import with_terms
from muster_simulation.world import NO_FAULTS, World

FAULTS_MS = 120_000
CALM_MS = 3_600_000
HEARTBEAT_EVERY_MS = 3_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """What a run came to. `digest` is equal for equal runs."""

    seed: int
    submitted: int
    ended: dict[str, str]
    evicted: int
    faults: dict[str, int]
    messages: int
    virtual_ms: int
    digest: str


def simulate(seed: int) -> Outcomes:
    """Run a seed to its end. Raises `InvariantBroken`."""
    scenario = with_terms(draw(seed), seed)
    configuration = with_checks(scenario.configuration, seed)
    return Run(seed, replace(scenario, configuration=configuration)).run()


class Run:
    """All processes of one run. Only `flat` cohorts of fixed quotas can be watched for INV-1."""

    def __init__(self, seed: int, scenario: Scenario, *, flat: bool = True) -> None:
        self.scenario = scenario
        self._configuration = scenario.configuration
        self.world = World(seed, scenario.faults, VirtualLog(scenario.dedupe_window_ms))
        self.watch = Watch(scenario.configuration.cluster_queues if flat else {})
        self._metrics = AdmissionMetrics(CollectorRegistry())
        cohorts = scenario.configuration.cohorts
        parents = {name: cohort.parent for name, cohort in cohorts.items()}
        self._partition_of = {
            name: partition_of(tree_root(name, queue.cohort, parents))
            for name, queue in scenario.configuration.cluster_queues.items()
        }
        self._partition_of |= {
            derived_queue_name(name): partition_of(VOLCANO_PREFIX)
            for name in scenario.configuration.volcano_queues
        }
        self.nodes = [
            SimulatedNode(self.world, node, PlacementSettings().node_lease_ms)
            for node in scenario.nodes
        ]
        homes = [home_of(budget) for budget in scenario.configuration.budgets]
        partitions = sorted({*self._partition_of.values(), *homes})
        self.partitions = partitions
        self.admission = [
            OwnerProcess(self.world, name, self._admission, self._admission_committed)
            for name in partitions
        ]
        self.placement = OwnerProcess(
            self.world, PLACEMENT_SHARD, self._placement, self._placement_committed
        )
        self._searchers = [
            SearcherProcess(self.world, name, scenario.configuration, self._seats)
            for name in partitions
        ]
        self.world.heartbeat_listeners.append(self._on_heartbeat)
        checks = scenario.configuration.admission_checks or {}
        self._people = People(self.world, checks, self.say)

    def run(self) -> Outcomes:
        """Faults first, then calm until everything has ended. Raises `InvariantBroken`."""
        world = self.world
        for node in self.nodes:
            node.start()
        for job in self.scenario.jobs:
            self.plan(job)
            self._people.plan(job)
        world.run(world.now_ms + FAULTS_MS)
        world.faults = NO_FAULTS
        if not world.run(world.now_ms + CALM_MS, self._all_done):
            raise InvariantBroken("INV-5", f"not ended: {self._unfinished()}")
        world.run(world.now_ms + 60_000)
        if not world.run(world.now_ms + 60_000, self._is_quiet):
            raise InvariantBroken("INV-5", "a process has work left")
        return self._conclude()

    def configure(self, configuration: Configuration) -> None:
        """Let every process take other declared objects; cohort trees stay as they are."""
        self._configuration = configuration
        for process in self.admission:
            if process.machine is not None:
                process.machine.configure(configuration, 0, self.world.now_ms)
        if self.placement.machine is not None:
            _configure(self.placement.machine, configuration)
        for searcher in self._searchers:
            searcher.configure(configuration)

    def say(
        self, job: Job, name: str, fact: events.Request, key: str, *, known: bool = True
    ) -> None:
        """Publish what the gateway would about a job."""
        partition = self._partition_of[job.cluster_queue] if known else EVERY_PARTITION
        subject = subjects.workload_event(
            Service.GATEWAY, name, partition, job.workload.namespace, job.workload.id
        )
        send_event(self.world, Service.GATEWAY, subject, fact, key)

    def _admission(self, image: Image) -> AdmissionMachine:
        settings = AdmissionSettings(pods_ready_timeout_ms=60_000, reservation_timeout_ms=30_000)
        machine = AdmissionMachine(image, settings, self._metrics)
        machine.configure(self._configuration, 0, self.world.now_ms)
        return machine

    def _placement(self, image: Image) -> PlacementMachine:
        machine = PlacementMachine(image, PlacementSettings(), self.world.now_ms)
        _configure(machine, self._configuration)
        return machine

    def _seats(self, asked: SeatsQuestion) -> Seats | None:
        """Placement's answer, if it is there to answer."""
        machine = self.placement.machine
        if machine is None:
            return None
        body = seats(machine, json.loads(codec.encode(asked)))
        return codec.decode(Seats, body)

    def _admission_committed(self, machine: AdmissionMachine) -> None:
        self.watch.admission(machine.book)
        self.watch.nodes(self.nodes)

    def _placement_committed(self, machine: PlacementMachine) -> None:
        self.watch.placement(machine.floor)

    def _on_heartbeat(self, node: str, now_ms: int) -> None:
        if self.placement.machine is not None:
            self.placement.machine.heard(node, now_ms)

    def plan(self, job: Job) -> None:
        """Plan what the job's submitter does."""
        world = self.world
        workload = job.workload

        def submit() -> None:
            fact = events.WorkloadSubmitted(
                workload=workload, cluster_queue=job.cluster_queue, objects_sequence=0
            )
            self.say(job, "workload_submitted", fact, f"{workload.id}/submit")

        for copy in range(job.copies):
            world.after(job.at_ms + copy * 7_000, submit)
        if job.finish_first:
            done = events.FinishReported(workload_id=workload.id, outcome=Outcome.SUCCEEDED)
            world.after(
                max(0, job.at_ms - 5_000),
                lambda: self.say(job, "finish_reported", done, f"{workload.id}/early", known=False),
            )
        if job.cancel_after_ms is not None:
            cancel = events.CancelRequested(workload_id=workload.id, by="a person")
            world.after(
                job.at_ms + job.cancel_after_ms,
                lambda: self.say(job, "cancel_requested", cancel, f"{workload.id}/cancel"),
            )
        if job.external_run_ms is not None:
            world.after(job.at_ms, lambda: self._hold(job, None))

    def _hold(self, job: Job, since_ms: int | None) -> None:
        """An external holder: renews its lease while admitted, then finishes, or falls silent."""
        world = self.world
        decision = world.decisions.get(
            subjects.decision(job.workload.namespace, job.workload.name), b""
        )
        if b'"decision":"finished"' in decision or b'"decision":"refused"' in decision:
            return
        if b'"decision":"admitted"' in decision:
            since_ms = world.now_ms if since_ms is None else since_ms
            if world.now_ms - since_ms >= 4 * (job.external_run_ms or 0):
                return
            if world.now_ms - since_ms >= (job.external_run_ms or 0):
                done = events.FinishReported(workload_id=job.workload.id, outcome=Outcome.SUCCEEDED)
                self.say(job, "finish_reported", done, f"{job.workload.id}/{world.now_ms}")
            elif (job.external_run_ms or 0) < 10**9:
                renewed = events.LeaseRenewed(workload_id=job.workload.id)
                self.say(job, "lease_renewed", renewed, f"{job.workload.id}/{world.now_ms}")
        world.after(HEARTBEAT_EVERY_MS, lambda: self._hold(job, since_ms))

    def _all_done(self) -> bool:
        return len(self.watch.ended) >= len(self.scenario.jobs) and not self._unfinished()

    def _is_quiet(self) -> bool:
        return all(process.idle for process in (*self.admission, self.placement))

    def _unfinished(self) -> list[str]:
        ended = self.watch.ended
        return [job.workload.id for job in self.scenario.jobs if job.workload.id not in ended]

    def _conclude(self) -> Outcomes:
        log = self.world.log.messages
        audit = Audit(self.scenario.configuration.cluster_queues).read(log)
        for invariant, what in sorted(audit.conclude().items()):
            raise InvariantBroken(invariant, what)
        self._compare(audit)
        floor = self.placement.machine.floor if self.placement.machine is not None else None
        if floor is not None and floor.gangs:
            raise InvariantBroken("INV-3", f"seats leak: {sorted(floor.gangs)}")
        digest = hashlib.blake2b(digest_size=16)
        for message in log:
            digest.update(message.subject.encode() + b"\0" + message.body + b"\n")
        return Outcomes(
            seed=self.world.seed,
            submitted=len(self.scenario.jobs),
            ended=dict(self.watch.ended),
            evicted=audit.counts.get("workload_evicted", 0),
            faults=dict(self.world.occurred),
            messages=len(log),
            virtual_ms=self.world.now_ms,
            digest=digest.hexdigest(),
        )

    def _compare(self, audit: Audit) -> None:
        for partition in self.partitions:
            fields = self.world.shards.load(partition).fields
            for identity, record in records_of(fields).items():
                again = audit.records.get(identity)
                if again is None or again.state != record.state:
                    raise InvariantBroken("INV-9", f"{identity}: {again} in the log")
                if not isinstance(record.state, Finished):
                    raise InvariantBroken("INV-5", f"{identity} has not ended")
            otherwise = audit.kept_otherwise(partition, fields)
            if otherwise:
                raise InvariantBroken("INV-9", f"{partition}: {otherwise} in the log")


def _configure(machine: PlacementMachine, configuration: Configuration) -> None:
    machine.configure(
        {**configuration.flavors, VOLCANO_FLAVOR: volcano_flavor()},
        dict(configuration.topologies or {}),
        topology_options(configuration.policy),
        rules_of(configuration),
    )
