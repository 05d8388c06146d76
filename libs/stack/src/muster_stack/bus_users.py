"""What each bus user may publish and receive.

An owner publishes its own facts and nothing else; an agent speaks for its node and reads what its
node is to do; a CI system submits to its namespaces and reads their decisions. Everybody receives
replies on an inbox of their own.

Agents and CI systems live in accounts of their own, into which a few subjects are let through. A
stream acknowledges to whatever reply subject a publisher names, unchecked by permissions: from
inside the account of the services, a submitter could have acknowledgements written over leases.
"""

from dataclasses import dataclass

from muster_contracts import streams, subjects
from muster_contracts.partitions import PLACEMENT_SHARD
from muster_contracts.queries import Query
from muster_contracts.subjects import Service, pod_commands_for, token
from muster_stack.access import ANY_NODE, EVERYWHERE, OPERATOR, Access, agent_login, ci_login

_API = "$JS.API"
AGENT_API = "muster.js"
"""What the stream API is called in the account of the agents, whose own has no streams."""

_LEASES = f"KV_{streams.LEASES.name}"
DECISIONS = "muster.v1.decisions.>"
DECISION_READS = f"{_API}.DIRECT.GET.{streams.DECISIONS.name}.{DECISIONS}"
JOBS = "muster.v1.jobs.>"


@dataclass(frozen=True, slots=True, kw_only=True)
class BusUser:
    """One login. `answers` lets it reply, once, to whoever asked."""

    name: str
    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    answers: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A subject that one account lets through for the users of another.

    A `stream` flows towards them. Anything else flows from them, and what answers it finds its way
    back to the sender and nowhere else; `answers_many` when one request has more than one answer.
    `local` is what the other account calls it, if not the same.
    """

    subject: str
    local: str = ""
    stream: bool = False
    answers_many: bool = False


def internal_users() -> tuple[BusUser, ...]:
    """The users of the account that holds the streams, sorted by name."""
    users = (operator(), gateway(), admission(), placement(), preemption(), accounting())
    return tuple(sorted(users, key=lambda user: user.name))


def agent_users(access: Access) -> tuple[BusUser, ...]:
    """The users of the account of the agents, sorted by name."""
    agents = [*access.nodes, *([ANY_NODE] if access.simulated else [])]
    return tuple(sorted((agent(node) for node in agents), key=lambda user: user.name))


def ci_users(access: Access) -> tuple[BusUser, ...]:
    """The users of the account of the CI systems, sorted by name."""
    return tuple(ci_system(name, access.ci[name]) for name in sorted(access.ci))


def operator() -> BusUser:
    """Declares streams, re-drives dead letters, looks at everything."""
    return BusUser(
        name=OPERATOR,
        publish=("muster.>", f"{_API}.>", "$JS.ACK.>", "$JS.FC.>", "$KV.>"),
        subscribe=("muster.>", "$JS.EVENT.>", "$KV.>", _inbox(OPERATOR)),
    )


def gateway() -> BusUser:
    """Owns intent: takes jobs from the front door and refuses some, asks the owners."""
    return _owner(
        Service.GATEWAY,
        publishes=(
            "muster.obj.>",
            JOBS,
            DECISIONS,
            "muster.rpc.*.v1.>",
            *_shares(streams.FRONT_DOOR),
        ),
        reads=(streams.OBJECTS, streams.EVENTS, streams.DECISIONS),
        hears=("muster.tel.agent.v1.>", DECISIONS),
    )


def admission() -> BusUser:
    """Owns workload state and quota, and says the decisions aloud."""
    return _owner(
        Service.ADMISSION,
        publishes=(DECISIONS,),
        reads=(streams.EVENTS, streams.OBJECTS),
    )


def placement() -> BusUser:
    """Owns nodes and seats; only it tells agents what to do."""
    return _owner(
        Service.PLACEMENT,
        publishes=("muster.cmd.agent.v1.pod.>",),
        reads=(streams.EVENTS, streams.OBJECTS, streams.PODS),
        hears=("muster.tel.agent.v1.>",),
    )


def preemption() -> BusUser:
    """Proposes victims, where placement says that there would be seats."""
    return _owner(
        Service.PREEMPTION,
        publishes=(subjects.query(Service.PLACEMENT, Query.SEATS, PLACEMENT_SHARD),),
        reads=(streams.EVENTS, streams.OBJECTS),
    )


def accounting() -> BusUser:
    """Reads the log and keeps its own books, which it holds against admission's."""
    asks = (Query.QUOTA, Query.WORKLOADS, Query.WORKLOAD)
    return _owner(
        Service.ACCOUNTING,
        publishes=tuple(subjects.query(Service.ADMISSION, query, "*") for query in asks),
        reads=(streams.EVENTS, streams.OBJECTS),
    )


def agent(node: str) -> BusUser:
    """Says what one node observes, reads what its pods should become, answers questions."""
    name = agent_login(node)
    place = ANY_NODE if node == ANY_NODE else token(node)
    creates = f"{AGENT_API}.CONSUMER.CREATE.{streams.PODS.name}"
    reads = f"{creates}.>" if node == ANY_NODE else f"{creates}.*.{pod_commands_for(node)}"
    return BusUser(
        name=name,
        publish=(
            f"muster.evt.agent.v1.*.{place}",
            f"muster.tel.agent.v1.heartbeat.{place}",
            f"muster.tel.agent.v1.output.{place}.*",
            f"muster.dlq.agent.{streams.PODS.name}",
            reads,
            f"{AGENT_API}.CONSUMER.MSG.NEXT.{streams.PODS.name}.*",
            f"{AGENT_API}.CONSUMER.DELETE.{streams.PODS.name}.*",
            f"{AGENT_API}.DIRECT.GET.{streams.EVENTS.name}.muster.evt.agent.v1.*.{place}",
            f"{AGENT_API}.STREAM.INFO.{streams.PODS.name}",
        ),
        subscribe=(
            f"muster.rpc.agent.v1.*.{place}",
            f"muster.tel.agent.v1.control.{place}",
            _inbox(name),
        ),
        answers=True,
    )


def ci_system(name: str, namespaces: tuple[str, ...]) -> BusUser:
    """Submits jobs to its namespaces and reads their decisions."""
    login = ci_login(name)
    places = [EVERYWHERE if each == EVERYWHERE else token(each) for each in namespaces]
    reads = DECISION_READS.removesuffix(">")
    return BusUser(
        name=login,
        publish=(
            *(f"muster.v1.jobs.{place}.*" for place in places),
            *(f"{reads}{place}.>" for place in places),
        ),
        subscribe=(*(f"muster.v1.decisions.{place}.>" for place in places), _inbox(login)),
    )


CI_PASSAGES: tuple[Passage, ...] = (
    Passage(subject=JOBS),
    Passage(subject=DECISION_READS),
    Passage(subject=DECISIONS, stream=True),
)


def _agent_api(tail: str, *, answers_many: bool = False) -> Passage:
    return Passage(subject=f"{_API}.{tail}", local=f"{AGENT_API}.{tail}", answers_many=answers_many)


AGENT_PASSAGES: tuple[Passage, ...] = (
    Passage(subject="muster.evt.agent.v1.>"),
    Passage(subject="muster.tel.agent.v1.heartbeat.*"),
    Passage(subject="muster.tel.agent.v1.output.*.*"),
    Passage(subject="muster.tel.agent.v1.control.*", stream=True),
    Passage(subject=f"muster.dlq.agent.{streams.PODS.name}"),
    _agent_api(f"STREAM.INFO.{streams.PODS.name}"),
    _agent_api(f"CONSUMER.CREATE.{streams.PODS.name}.>"),
    _agent_api(f"CONSUMER.MSG.NEXT.{streams.PODS.name}.*", answers_many=True),
    _agent_api(f"CONSUMER.DELETE.{streams.PODS.name}.*"),
    _agent_api(f"DIRECT.GET.{streams.EVENTS.name}.muster.evt.agent.v1.>"),
)

AGENT_ANSWERS = Passage(subject="muster.rpc.agent.v1.*.*")
"""Lets questions to agents out of the account of the services."""


def _owner(
    service: Service,
    *,
    publishes: tuple[str, ...] = (),
    reads: tuple[streams.Stream, ...] = (),
    hears: tuple[str, ...] = (),
) -> BusUser:
    own = (
        f"muster.evt.{service}.v1.>",
        f"muster.dlq.{service}.*",
        f"$KV.{streams.LEASES.name}.{service}.>",
    )
    reading = tuple(subject for stream in reads for subject in _reads(stream.name))
    return BusUser(
        name=str(service),
        publish=(*own, *publishes, *reading, *_reads(_LEASES), f"{_API}.STREAM.INFO.*"),
        subscribe=(f"muster.rpc.{service}.v1.>", *hears, _inbox(service)),
        answers=True,
    )


def _reads(stream: str) -> tuple[str, ...]:
    """Reading a stream in order, and the last message of a subject."""
    return (
        f"{_API}.CONSUMER.CREATE.{stream}",
        f"{_API}.CONSUMER.CREATE.{stream}.>",
        f"{_API}.CONSUMER.INFO.{stream}.*",
        f"{_API}.CONSUMER.MSG.NEXT.{stream}.*",
        f"{_API}.CONSUMER.DELETE.{stream}.*",
        f"{_API}.DIRECT.GET.{stream}",
        f"{_API}.DIRECT.GET.{stream}.>",
        f"{_API}.STREAM.MSG.GET.{stream}",
        f"$JS.FC.{stream}.>",
    )


def _shares(durable: streams.Durable) -> tuple[str, ...]:
    """Taking and acknowledging messages of a declared consumer."""
    return (
        f"{_API}.CONSUMER.INFO.{durable.stream}.{durable.name}",
        f"{_API}.CONSUMER.MSG.NEXT.{durable.stream}.{durable.name}",
        f"$JS.ACK.{durable.stream}.{durable.name}.>",
    )


def _inbox(login: str) -> str:
    return f"_INBOX.{login}.>"
