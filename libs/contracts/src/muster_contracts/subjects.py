"""Every subject, built and parsed in one place.

Public:    muster.v1.jobs.<namespace>.<submit|finish|cancel|heartbeat|checkpoint|tokens>
           muster.v1.decisions.<namespace>.<workload>
Objects:   muster.obj.<kind>.<namespace or _>.<name>
Events:    muster.evt.<owner>.v1.<name>.<partition>.<namespace>.<workload id>
           muster.evt.admission.v1.<name>.budget.<partition>.<budget>
           muster.evt.admission.v1.books_kept.books.<partition>.all
           muster.evt.agent.v1.<name>.<node>
           muster.evt.gateway.v1.<name>.node.<node>
           muster.evt.gateway.v1.<name>.tokens.<namespace>
           muster.evt.accounting.v1.<name>.objects.<kind>
           muster.evt.accounting.v1.<name>.tokens.<namespace>
           muster.evt.accounting.v1.<name>.intervals.<namespace>.<workload id>
           muster.evt.placement.v1.<name>.node.<node>
Pods:      muster.cmd.agent.v1.pod.<node>.<pod uid>
Telemetry: muster.tel.agent.v1.<name>.<node>
           muster.tel.agent.v1.output.<node>.<workload id>
Queries:   muster.rpc.<owner>.v1.<query>.<shard>
Dead:      muster.dlq.<service>.<stream>

User text is escaped into single tokens, so no name can add a level or a wildcard.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from muster_domain.errors import InvalidValue

_SAFE = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPED = re.compile(r"=([0-9A-F]{2})")
NO_NAMESPACE = "_"


class JobVerb(StrEnum):
    """What a submitter may say about a job."""

    SUBMIT = "submit"
    FINISH = "finish"
    CANCEL = "cancel"
    HEARTBEAT = "heartbeat"
    CHECKPOINT = "checkpoint"
    TOKENS = "tokens"


class Service(StrEnum):
    """Who owns facts."""

    GATEWAY = "gateway"
    ADMISSION = "admission"
    PLACEMENT = "placement"
    PREEMPTION = "preemption"
    ACCOUNTING = "accounting"
    AGENT = "agent"


def token(text: str) -> str:
    """One subject token for any text; letters, digits, `_` and `-` stay as they are."""
    if _SAFE.fullmatch(text):
        return text
    if not text:
        return "="
    return "".join(
        character if _SAFE.fullmatch(character) else _escape(character) for character in text
    )


def untoken(text: str) -> str:
    """The text that `token` escaped. Raises `InvalidValue` for what it would not have made."""
    if _SAFE.fullmatch(text):
        return text
    if text == "=":
        return ""
    raw = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)
    try:
        return raw.encode("latin-1").decode("utf-8")
    except UnicodeError as error:
        raise InvalidValue(f"{text!r} is not an escaped text", field="subject") from error


def _escape(character: str) -> str:
    return "".join(f"={byte:02X}" for byte in character.encode())


def job(namespace: str, verb: JobVerb) -> str:
    """Where a submitter publishes."""
    return f"muster.v1.jobs.{token(namespace)}.{verb}"


def decision(namespace: str, workload: str) -> str:
    """Where the last decision about a workload of that name stands."""
    return f"muster.v1.decisions.{token(namespace)}.{token(workload)}"


def declared_object(kind: str, namespace: str, name: str) -> str:
    """Where the last applied version of an object stands."""
    return (
        f"muster.obj.{token(kind)}.{token(namespace) if namespace else NO_NAMESPACE}.{token(name)}"
    )


def declared_objects_of(kind: str) -> str:
    """Filter: the last applied version of every object of one kind."""
    return f"muster.obj.{token(kind)}.>"


def workload_event(
    owner: Service, name: str, partition: str, namespace: str, workload_id: str
) -> str:
    """A fact about one workload, published by its owner only."""
    return f"muster.evt.{owner}.v1.{name}.{partition}.{token(namespace)}.{token(workload_id)}"


def workload_events_of(owner: Service, partition: str) -> str:
    """Filter: everything that one owner says about the workloads of one partition."""
    return f"muster.evt.{owner}.v1.*.{partition}.>"


def budget_event(name: str, partition: str, budget: str) -> str:
    """A fact about a budget, for the partition that it matters to."""
    return f"muster.evt.{Service.ADMISSION}.v1.{name}.budget.{partition}.{token(budget)}"


def budget_events_of(partition: str) -> str:
    """Filter: everything about budgets that matters to one partition."""
    return f"muster.evt.{Service.ADMISSION}.v1.*.budget.{partition}.>"


def books_kept(partition: str) -> str:
    """What admission keeps of a partition beside the states of its workloads."""
    return f"muster.evt.{Service.ADMISSION}.v1.books_kept.books.{partition}.all"


def events_of(owner: Service) -> str:
    """Filter: everything that one owner says."""
    return f"muster.evt.{owner}.v1.>"


def node_event(name: str, node: str) -> str:
    """A fact that a node's agent observed."""
    return f"muster.evt.agent.v1.{name}.{token(node)}"


def node_request(name: str, node: str) -> str:
    """What somebody at the gateway wants of a node; it belongs to no partition."""
    return f"muster.evt.{Service.GATEWAY}.v1.{name}.node.{token(node)}"


def placement_node_event(name: str, node: str) -> str:
    """What placement thinks of a node; it belongs to no partition."""
    return f"muster.evt.{Service.PLACEMENT}.v1.{name}.node.{token(node)}"


def tokens_event(name: str, namespace: str) -> str:
    """What models that are served in a namespace used; it belongs to no partition."""
    return f"muster.evt.{Service.GATEWAY}.v1.{name}.tokens.{token(namespace)}"


def declaration_event(name: str, kind: str) -> str:
    """What accounting notes of a declared object; it belongs to no partition."""
    return f"muster.evt.{Service.ACCOUNTING}.v1.{name}.objects.{token(kind)}"


def drift_event(name: str, namespace: str) -> str:
    """What accounting says of models that are served in a namespace; it belongs to no partition."""
    return f"muster.evt.{Service.ACCOUNTING}.v1.{name}.tokens.{token(namespace)}"


def interval_event(name: str, namespace: str, workload_id: str) -> str:
    """What accounting says of an attempt in its books; it belongs to no partition."""
    level = f"muster.evt.{Service.ACCOUNTING}.v1.{name}.intervals"
    return f"{level}.{token(namespace)}.{token(workload_id)}"


def node_requests() -> str:
    """Filter: everything that the gateway says about nodes."""
    return f"muster.evt.{Service.GATEWAY}.v1.*.node.>"


def pod_command(node: str, pod_uid: str) -> str:
    """What should become of one pod; the last message on the subject holds."""
    return f"muster.cmd.agent.v1.pod.{token(node)}.{token(pod_uid)}"


def pod_commands_for(node: str) -> str:
    """Filter: what should become of all pods of one node."""
    return f"muster.cmd.agent.v1.pod.{token(node)}.*"


def facts_of(owner: Service, name: str) -> str:
    """Filter: everything that one owner says under one name."""
    return f"muster.evt.{owner}.v1.{name}.>"


def telemetry(name: str, node: str) -> str:
    """A sample that may be lost."""
    return f"muster.tel.agent.v1.{name}.{token(node)}"


def pod_output(node: str, workload_id: str) -> str:
    """What the pods of one workload write on one node."""
    return f"{telemetry('output', node)}.{token(workload_id)}"


def pod_output_of(workload_id: str) -> str:
    """Filter: what the pods of one workload write, on every node."""
    return f"muster.tel.agent.v1.output.*.{token(workload_id)}"


def telemetry_of_all(name: str) -> str:
    """Filter: samples of one name from every node."""
    return f"muster.tel.agent.v1.{name}.*"


def query(owner: Service, name: str, shard: str = "any") -> str:
    """Where the owner of a shard answers a question about it."""
    return f"muster.rpc.{owner}.v1.{name}.{shard}"


def dead_letter(service: Service, stream: str) -> str:
    """Where a message goes that no code of that service can digest."""
    return f"muster.dlq.{service}.{token(stream)}"


@dataclass(frozen=True, slots=True)
class JobAddress:
    """What a job subject says."""

    namespace: str
    verb: JobVerb


@dataclass(frozen=True, slots=True)
class ObjectAddress:
    """What an object subject says; the namespace of a cluster-wide kind is empty."""

    kind: str
    namespace: str
    name: str


def parse_object(subject: str) -> ObjectAddress:
    """Read an object subject. Raises `InvalidValue` when it is not one."""
    parts = subject.split(".")
    if len(parts) != 5 or parts[:2] != ["muster", "obj"]:  # noqa: PLR2004 - five tokens
        raise InvalidValue(f"{subject!r} is not an object subject", field="subject")
    namespace = "" if parts[3] == NO_NAMESPACE else untoken(parts[3])
    return ObjectAddress(untoken(parts[2]), namespace, untoken(parts[4]))


def parse_job(subject: str) -> JobAddress:
    """Read a job subject. Raises `InvalidValue` when it is not one."""
    parts = subject.split(".")
    if len(parts) != 5 or parts[:3] != ["muster", "v1", "jobs"]:  # noqa: PLR2004 - five tokens
        raise InvalidValue(f"{subject!r} is not a job subject", field="subject")
    try:
        return JobAddress(untoken(parts[3]), JobVerb(parts[4]))
    except ValueError as error:
        raise InvalidValue(f"{subject!r} is not a job subject", field="subject") from error


def event_partition(subject: str) -> str:
    """The partition token of a workload event's subject. Raises `InvalidValue`."""
    return _level(subject, 5)


def event_namespace(subject: str) -> str:
    """The namespace in a workload event's subject. Raises `InvalidValue`."""
    return untoken(_level(subject, 6))


def event_workload(subject: str) -> str:
    """The workload id in a workload event's subject. Raises `InvalidValue`."""
    return untoken(_level(subject, 7))


def event_name(subject: str) -> str:
    """The event's name in any `muster.evt` subject. Raises `InvalidValue`."""
    return _level(subject, 4)


def _level(subject: str, level: int) -> str:
    parts = subject.split(".", level + 1)
    if len(parts) <= level:
        raise InvalidValue(f"{subject!r} is too short for an event", field="subject")
    return parts[level]
