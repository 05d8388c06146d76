"""A log as accounting reads it: facts of the owners, stamped with their clocks, in hours."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from prometheus_client import CollectorRegistry

from muster_accounting.bookkeeper import Bookkeeper, read_facts
from muster_accounting.metrics import AccountingMetrics
from muster_accounting.store import UsageStore
from muster_accounting.token_answers import TokenTerms
from muster_contracts import codec, envelope, events, subjects
from muster_contracts.observations import (
    BLOCK_MS,
    MINUTE_MS,
    MINUTES,
    DevicesObserved,
    ObservedUse,
)
from muster_contracts.queries import CostQuestion, CostReport
from muster_contracts.subjects import Service
from muster_domain.conditions import EvictionReason, Explanation, Outcome
from muster_domain.nodes import Device, Node, NodeCondition, Placement, PodAssignment
from muster_domain.states import (
    Admission,
    Admitted,
    End,
    Evicting,
    Finished,
    Pending,
    PodSetAdmission,
    Requeue,
    Reserved,
)
from muster_domain.workload import LocalQueueRef, Owner, PodSet, Workload
from muster_rating.model_prices import ModelPrices
from muster_rating.price_lists import read_price_list
from muster_rating.prices import HOUR_MS, PriceBook
from muster_runtime.reader import Received

from .homes import Home

GPU = "nvidia.com/gpu"
MUSTER = "muster.dev/v1alpha1"
OF_MUSTER = ("ChargingPolicy", "PriceList")
KUEUE = "kueue.x-k8s.io/v1beta1"
PRICES = read_price_list({"flavors": {"h100": {GPU: {"hourly": "1.40"}}}}, default_currency="EUR")

NO_MODELS = TokenTerms(prices=ModelPrices("EUR"))

START_MS = 480_000 * HOUR_MS


def clock(hour: int) -> int:
    """The time at an hour of the test, in milliseconds."""
    return START_MS + hour * HOUR_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One attempt of a job that runs whole on some nodes."""

    team: str
    gpus: int
    nodes: tuple[str, ...] = ("n1",)
    name: str = "train"
    attempt: int = 1
    flavor: str = "h100"
    queue: str = ""
    labels: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def workload(self) -> Workload:
        return Workload(
            id=f"id-{self.team}-{self.name}",
            namespace=f"ns-{self.team}",
            name=self.name,
            queue=LocalQueueRef(name="main"),
            pod_sets=(
                PodSet(
                    name="main",
                    count=len(self.nodes),
                    requests={GPU: self.gpus * 1000 // len(self.nodes), "cpu": 500},
                ),
            ),
            owner=Owner(api_version="batch/v1", kind="Job", name=self.name),
            created_at_ms=0,
            user=f"{self.team}-user",
            labels={"muster.dev/team": self.team, **self.labels},
        )

    @property
    def admission(self) -> Admission:
        granted = PodSetAdmission(
            name="main",
            count=len(self.nodes),
            flavors={GPU: self.flavor},
            usage={GPU: self.gpus * 1000},
        )
        return Admission(cluster_queue=self.queue or f"cq-{self.team}", pod_sets=(granted,))

    @property
    def placement(self) -> Placement:
        each = self.gpus // len(self.nodes)
        return Placement(
            pods=tuple(
                PodAssignment(
                    pod_set="main",
                    index=rank,
                    rank=rank,
                    node=node,
                    devices={GPU: tuple(range(each))},
                )
                for rank, node in enumerate(self.nodes)
            )
        )


class Log:
    """Writes messages as the owners would; `messages` are in the order they were said."""

    def __init__(self) -> None:
        self.messages: list[Received] = []
        self.objects: list[Received] = []

    def say(self, owner: Service, fact: events.Event, subject: str, at_ms: int) -> Received:
        name = codec.EVENT_NAMES[type(fact)]
        sequence = len(self.messages) + 1
        said = envelope.Envelope(
            id=envelope.derived_id(owner, sequence),
            source=f"/muster/{owner}",
            type=envelope.event_type(owner, name),
            time_ms=at_ms,
        )
        received = Received(
            sequence=sequence,
            subject=subject,
            headers=envelope.to_headers(said),
            body=codec.encode(fact),
            published_ms=at_ms,
        )
        self.messages.append(received)
        return received

    def node(self, name: str, gpus: int, at_h: int = 0) -> None:
        node = Node(
            name=name,
            allocatable={GPU: gpus * 1000, "cpu": 64_000},
            labels={"gpu": "h100"},
            devices=tuple(Device(index=index, resource=GPU) for index in range(gpus)),
        )
        fact = events.NodeRegistered(node=node, incarnation=1, heartbeat_interval_ms=1000)
        subject = subjects.node_event("node_registered", name)
        self.say(Service.AGENT, fact, subject, clock(at_h))

    def condition(self, name: str, condition: NodeCondition, at_h: int) -> None:
        at_ms = clock(at_h)
        fact = events.NodeConditionChanged(node=name, condition=condition, at_ms=at_ms)
        subject = subjects.placement_node_event("node_condition_changed", name)
        self.say(Service.PLACEMENT, fact, subject, at_ms)

    def observe(self, job: Job, block: int, observed: int, busy: int) -> Received:
        """On every node of a job, for a minute of each GPU, `observed` and `busy` percent of it.

        Blocks are counted from the first hour, six of them in each.
        """
        each = job.gpus // len(job.nodes) * 1000 * MINUTE_MS // 100
        for node in job.nodes:
            use = ObservedUse(
                workload_id=job.workload.id,
                attempt=job.attempt,
                resource=GPU,
                observed=(each * observed, *(0,) * (MINUTES - 1)),
                busy=(each * busy, *(0,) * (MINUTES - 1)),
            )
            from_ms = clock(0) + block * BLOCK_MS
            fact = DevicesObserved(node=node, from_ms=from_ms, uses=(use,))
            subject = subjects.node_event("devices_observed", node)
            self.say(Service.AGENT, fact, subject, from_ms + BLOCK_MS)
        return self.messages[-1]

    def reserve(self, job: Job, at_h: int) -> None:
        state = Reserved(
            admission=job.admission,
            reserved_at_ms=clock(at_h),
            attempt=job.attempt,
            queued_at_ms=0,
        )
        version = len(self.messages) + 1
        fact = events.QuotaReserved(workload=job.workload, version=version, state=state)
        self._admission(fact, job, at_h)

    def admit(self, job: Job, at_h: int, *, reserved_h: int | None = None) -> None:
        state = Admitted(
            admission=job.admission,
            placement=job.placement,
            reserved_at_ms=clock(at_h if reserved_h is None else reserved_h),
            admitted_at_ms=clock(at_h),
            attempt=job.attempt,
            queued_at_ms=0,
        )
        version = len(self.messages) + 1
        fact = events.WorkloadAdmitted(workload=job.workload, version=version, state=state)
        self._admission(fact, job, at_h)

    def preempt(self, job: Job, at_h: int) -> None:
        state = Evicting(
            admission=job.admission,
            reason=EvictionReason.PREEMPTED,
            then=Requeue(),
            since_ms=clock(at_h),
            attempt=job.attempt,
            queued_at_ms=0,
            preemptor="id-rival",
        )
        self._evict(state, job, at_h)

    def checkpoint(self, job: Job, at_h: int, *, evicted_h: int) -> None:
        """The job saves its work, having been told to leave."""
        state = Evicting(
            admission=job.admission,
            reason=EvictionReason.PREEMPTED,
            then=Requeue(),
            since_ms=clock(evicted_h),
            attempt=job.attempt,
            queued_at_ms=0,
            checkpointed_at_ms=clock(at_h),
            lost_work_ms=max(0, clock(evicted_h) - clock(at_h)),
            preemptor="id-rival",
        )
        version = len(self.messages) + 1
        fact = events.WorkloadCheckpointed(
            workload_id=job.workload.id, version=version, state=state
        )
        self._admission(fact, job, at_h)

    def cancel(self, job: Job, at_h: int) -> None:
        state = Evicting(
            admission=job.admission,
            reason=Outcome.CANCELLED,
            then=End(outcome=Outcome.CANCELLED),
            since_ms=clock(at_h),
            attempt=job.attempt,
            queued_at_ms=0,
        )
        self._evict(state, job, at_h)

    def _evict(self, state: Evicting, job: Job, at_h: int) -> None:
        version = len(self.messages) + 1
        fact = events.WorkloadEvicted(workload_id=job.workload.id, version=version, state=state)
        self._admission(fact, job, at_h)

    def requeue(self, job: Job, at_h: int) -> None:
        state = Pending(
            explanation=Explanation(reason="WaitingForQuota", message=""),
            queued_at_ms=0,
            attempt=job.attempt,
        )
        version = len(self.messages) + 1
        fact = events.WorkloadRequeued(workload_id=job.workload.id, version=version, state=state)
        self._admission(fact, job, at_h)

    def finish(self, job: Job, at_h: int, outcome: Outcome = Outcome.SUCCEEDED) -> None:
        state = Finished(outcome=outcome, finished_at_ms=clock(at_h), attempt=job.attempt)
        version = len(self.messages) + 1
        fact = events.WorkloadFinished(workload_id=job.workload.id, version=version, state=state)
        self._admission(fact, job, at_h)

    def _admission(self, fact: events.Event, job: Job, at_h: int) -> None:
        subject = subjects.workload_event(
            Service.ADMISSION,
            codec.EVENT_NAMES[type(fact)],
            "p00",
            job.workload.namespace,
            job.workload.id,
        )
        self.say(Service.ADMISSION, fact, subject, clock(at_h))

    def declare(self, kind: str, name: str, spec: dict[str, Any], at_h: int = 0) -> None:
        document = {
            "apiVersion": MUSTER if kind in OF_MUSTER else KUEUE,
            "kind": kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        fact = events.ObjectApplied(kind=kind, namespace="", name=name, document=document)
        headers = envelope.to_headers(
            envelope.Envelope(
                id=f"object-{len(self.objects)}",
                source="/muster/gateway",
                type=envelope.event_type(Service.GATEWAY, "object_applied"),
                time_ms=clock(at_h),
            )
        )
        self.objects.append(
            Received(
                sequence=len(self.objects) + 1,
                subject=subjects.declared_object(kind, "", name),
                headers=headers,
                body=codec.encode(fact),
                published_ms=clock(at_h),
            )
        )

    def declare_house(self, nominal: dict[str, int], at_h: int = 0) -> None:
        """One flavor, and a ClusterQueue `cq-<team>` of the cohort for every team."""
        self.declare("ResourceFlavor", "h100", {"nodeLabels": {"gpu": "h100"}}, at_h)
        for team, gpus in nominal.items():
            resources = [{"name": GPU, "nominalQuota": gpus}]
            spec = {
                "cohort": "all",
                "namespaceSelector": {},
                "resourceGroups": [
                    {
                        "coveredResources": [GPU],
                        "flavors": [{"name": "h100", "resources": resources}],
                    }
                ],
            }
            self.declare("ClusterQueue", f"cq-{team}", spec, at_h)


def three_teams() -> Log:
    """Four GPUs for 720 hours, of which three teams hold 1,080, 432 and 252 GPU-hours."""
    log = Log()
    log.declare_house({"datos": 2, "ia": 1, "plataforma": 1})
    log.node("n1", 4)
    datos, ia = Job(team="datos", gpus=2), Job(team="ia", gpus=1)
    plataforma = Job(team="plataforma", gpus=1)
    log.reserve(datos, 0)
    log.admit(datos, 0)
    log.reserve(ia, 100)
    log.admit(ia, 100)
    log.reserve(plataforma, 200)
    log.admit(plataforma, 200)
    log.finish(plataforma, 452)
    log.finish(ia, 532)
    log.cancel(datos, 539)
    log.finish(datos, 540, Outcome.CANCELLED)
    return log


@dataclass(slots=True)
class Books:
    """A bookkeeper over a store of its own."""

    store: UsageStore
    keeper: Bookkeeper

    async def take(self, messages: Sequence[Received]) -> None:
        facts, letters = read_facts(list(messages))
        assert letters == []
        await self.keeper.take_facts(facts, max(m.sequence for m in messages))

    async def report(self, by: str, hours: int = 720, **more: Any) -> CostReport:  # noqa: ANN401 - fields
        question = CostQuestion(by=by, start_ms=clock(0), end_ms=clock(hours))
        return await self.keeper.report(
            replace(question, **{k: v for k, v in more.items() if k != "through_h"}),
            clock(more.get("through_h", 10_000)),
        )

    async def close(self) -> None:
        await self.store.close()


async def open_books(
    home: Home,
    *,
    epoch: int = 1,
    prices: PriceBook = PRICES,
    terms: TokenTerms = NO_MODELS,
    objects_there: int = 0,
) -> Books:
    store = UsageStore(home.url)
    metrics = AccountingMetrics(CollectorRegistry())
    try:
        await store.prepare()
        keeper = await Bookkeeper.claim(store, prices, terms, metrics, epoch, objects_there)
    except BaseException:
        await store.close()
        raise
    return Books(store, keeper)
