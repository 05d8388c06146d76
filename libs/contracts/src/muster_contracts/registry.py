"""Every message there is, who sends it and where: what schemas and the protocol document say."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import get_args

from muster_contracts import (
    allocations,
    books,
    budgets,
    codec,
    commands,
    declarations,
    events,
    fit,
    floor,
    intervals,
    jobs,
    observations,
    queries,
    statements,
    stored,
    streams,
    subjects,
    tokens,
)
from muster_contracts.partitions import PLACEMENT_SHARD
from muster_contracts.subjects import JobVerb, Service

_WORD = re.compile(r"(?<!^)(?=[A-Z])")
_BRACES = re.compile(r"=7B([a-z_]+)=7D")


class Group(StrEnum):
    """Kinds of channel."""

    PUBLIC = "public"
    FACT = "fact"
    OBJECT = "object"
    COMMAND = "command"
    TELEMETRY = "telemetry"
    QUERY = "query"


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A subject with `{parameters}` and what is said on it.

    `owner` sends the messages, or receives those that others send to it and answers with `reply`.
    """

    name: str
    group: Group
    owner: Service
    address: str
    messages: tuple[type, ...]
    stream: streams.Stream | None = None
    owner_receives: bool = False
    reply: type | None = None
    summary: str = ""


OWNERS: dict[Service, tuple[type[events.Event], ...]] = {
    Service.GATEWAY: (
        events.WorkloadSubmitted,
        events.CancelRequested,
        events.FinishReported,
        events.LeaseRenewed,
        events.CheckpointReported,
        events.ActivationRequested,
        events.ScaleRequested,
        events.CheckAnswered,
        events.ObjectApplied,
        events.ObjectDeleted,
        events.DrainRequested,
        tokens.TokensReported,
    ),
    Service.ADMISSION: (
        events.WorkloadQueued,
        events.QuotaReserved,
        events.ChecksPassed,
        events.WorkloadAdmitted,
        events.PodsBecameReady,
        events.PodsBecameUnready,
        events.QuotaReclaimed,
        events.WorkloadResized,
        events.WorkloadCheckpointed,
        events.WorkloadEvicted,
        events.WorkloadRequeued,
        events.WorkloadFinished,
        events.PreemptionRequested,
        budgets.BudgetDrawn,
        budgets.BudgetAllotted,
        budgets.BudgetThresholdReached,
        books.BooksKept,
    ),
    Service.PREEMPTION: (events.VictimsProposed, events.VictimsNotFound),
    Service.PLACEMENT: (
        *get_args(events.GangFact),
        events.CapacityChanged,
        events.NodeConditionChanged,
    ),
    Service.ACCOUNTING: (
        declarations.DeclarationNoted,
        intervals.IntervalClosed,
        tokens.TokenPriceDrifted,
    ),
    Service.AGENT: (
        events.NodeRegistered,
        events.PodStarted,
        events.PodRestarting,
        events.PodFinished,
        observations.DevicesObserved,
    ),
}
"""Who publishes which facts. Each fact has one owner."""

JOBS: dict[JobVerb, type] = {
    JobVerb.SUBMIT: jobs.SubmitJob,
    JobVerb.FINISH: jobs.FinishJob,
    JobVerb.CANCEL: jobs.CancelJob,
    JobVerb.HEARTBEAT: jobs.HeartbeatJob,
    JobVerb.CHECKPOINT: jobs.CheckpointJob,
    JobVerb.TOKENS: jobs.ReportTokens,
}

TELEMETRY: dict[str, type] = {
    "heartbeat": commands.NodeHeartbeat,
    "control": commands.AgentControl,
}

QUESTIONS: dict[queries.Query, tuple[Service, str, type | None, type]] = {
    queries.Query.WORKLOADS: (
        Service.ADMISSION,
        "{partition}",
        queries.WorkloadsQuestion,
        queries.WorkloadPage,
    ),
    queries.Query.WORKLOAD: (
        Service.ADMISSION,
        "{partition}",
        queries.WorkloadQuestion,
        queries.WorkloadDetail,
    ),
    queries.Query.ASKED: (Service.ADMISSION, "{partition}", fit.AskedQuestion, fit.Asked),
    queries.Query.QUOTA: (
        Service.ADMISSION,
        "{partition}",
        queries.QuotaQuestion,
        queries.QuotaPage,
    ),
    queries.Query.PLAN: (Service.ADMISSION, "{partition}", queries.PlanQuestion, queries.Plan),
    queries.Query.VERIFY: (Service.ADMISSION, "{partition}", None, queries.LedgerReport),
    queries.Query.BUDGETS: (Service.ADMISSION, "{partition}", None, budgets.BudgetPage),
    queries.Query.STATEMENT: (
        Service.ACCOUNTING,
        "any",
        statements.StatementQuestion,
        statements.StatementPage,
    ),
    queries.Query.CLOSE: (
        Service.ACCOUNTING,
        "any",
        statements.CloseQuestion,
        statements.StatementPage,
    ),
    queries.Query.NODES: (
        Service.PLACEMENT,
        PLACEMENT_SHARD,
        queries.NodesQuestion,
        queries.NodePage,
    ),
    queries.Query.DOMAINS: (
        Service.PLACEMENT,
        PLACEMENT_SHARD,
        floor.DomainsQuestion,
        floor.DomainPage,
    ),
    queries.Query.SEATS: (
        Service.PLACEMENT,
        PLACEMENT_SHARD,
        queries.SeatsQuestion,
        queries.Seats,
    ),
    queries.Query.FIT: (Service.PLACEMENT, PLACEMENT_SHARD, fit.FitQuestion, fit.FitPage),
    queries.Query.COST: (Service.ACCOUNTING, "any", queries.CostQuestion, queries.CostReport),
    queries.Query.PRICES: (Service.ACCOUNTING, "any", None, queries.PriceList),
    queries.Query.ALLOCATION: (
        Service.ACCOUNTING,
        "any",
        allocations.AllocationQuestion,
        allocations.AllocationSets,
    ),
    queries.Query.ASSETS: (
        Service.ACCOUNTING,
        "any",
        allocations.AssetsQuestion,
        allocations.Assets,
    ),
    queries.Query.NODE_PRICES: (Service.ACCOUNTING, "any", None, allocations.NodePrices),
    queries.Query.TOKENS: (
        Service.ACCOUNTING,
        "any",
        tokens.TokensQuestion,
        tokens.TokenReport,
    ),
    queries.Query.OUTPUT: (
        Service.AGENT,
        "{node}",
        queries.OutputQuestion,
        queries.OutputText,
    ),
}
"""Owner, shard, question and answer of every query; no question is an empty object."""

STORED: tuple[type, ...] = (
    stored.Record,
    stored.Tombstone,
    stored.LocalQueueUse,
    stored.Claim,
    budgets.BudgetHold,
    budgets.BudgetAccount,
    budgets.BudgetHome,
    statements.StoredLines,
)
"""What an owner keeps: read back after an upgrade, so as bound to its past as a message."""


def message_name(kind: type) -> str:
    """The name of a message's schema and sample, for example `quota_reserved`."""
    return _WORD.sub("_", kind.__name__).lower()


def channels() -> tuple[Channel, ...]:
    """Every subject on which somebody says something."""
    return (*_public(), *_facts(), *_pods(), *_telemetry(), *_queries())


def messages() -> dict[str, type]:
    """Every message and stored value by name, sorted."""
    found: dict[str, type] = {message_name(kind): kind for kind in STORED}
    for channel in channels():
        kinds = (*channel.messages, *((channel.reply,) if channel.reply else ()))
        found |= {message_name(kind): kind for kind in kinds}
    return dict(sorted(found.items()))


def _address(subject: str) -> str:
    """A subject that was built from `{parameters}`, with those written as themselves."""
    return _BRACES.sub(r"{\1}", subject)


def _public() -> Iterator[Channel]:
    for verb, kind in JOBS.items():
        yield Channel(
            name=message_name(kind),
            group=Group.PUBLIC,
            owner=Service.GATEWAY,
            address=_address(subjects.job("{namespace}", verb)),
            messages=(kind,),
            stream=streams.JOBS,
            owner_receives=True,
        )
    yield Channel(
        name="decision",
        group=Group.PUBLIC,
        owner=Service.ADMISSION,
        address=_address(subjects.decision("{namespace}", "{workload}")),
        messages=(jobs.Decision,),
        stream=streams.DECISIONS,
        summary="The last decision about a workload, from the gateway if refused at the door.",
    )


def _facts() -> Iterator[Channel]:
    yield Channel(
        name="declared_object",
        group=Group.OBJECT,
        owner=Service.GATEWAY,
        address=_address(subjects.declared_object("{kind}", "{namespace}", "{name}")),
        messages=(events.ObjectApplied, events.ObjectDeleted),
        stream=streams.OBJECTS,
        summary="The last version of one object; the namespace of a cluster-wide kind is `_`.",
    )
    for owner, facts in OWNERS.items():
        for fact in facts:
            if fact not in get_args(events.ObjectFact):
                yield Channel(
                    name=message_name(fact),
                    group=Group.FACT,
                    owner=owner,
                    address=_address(_fact_subject(owner, fact)),
                    messages=(fact,),
                    stream=streams.EVENTS,
                )


_IN_NO_PARTITION: dict[type, Callable[[str], str]] = {
    events.NodeConditionChanged: lambda name: subjects.placement_node_event(name, "{node}"),
    events.DrainRequested: lambda name: subjects.node_request(name, "{node}"),
    books.BooksKept: lambda _: subjects.books_kept("{partition}"),
    declarations.DeclarationNoted: lambda name: subjects.declaration_event(name, "{kind}"),
    tokens.TokensReported: lambda name: subjects.tokens_event(name, "{namespace}"),
    tokens.TokenPriceDrifted: lambda name: subjects.drift_event(name, "{namespace}"),
    intervals.IntervalClosed: lambda name: subjects.interval_event(
        name, "{namespace}", "{workload_id}"
    ),
    **dict.fromkeys(
        get_args(budgets.BudgetFact),
        lambda name: subjects.budget_event(name, "{partition}", "{budget}"),
    ),
}


def _fact_subject(owner: Service, fact: type[events.Event]) -> str:
    name = codec.EVENT_NAMES[fact]
    if owner == Service.AGENT:
        return subjects.node_event(name, "{node}")
    if fact in _IN_NO_PARTITION:
        return _IN_NO_PARTITION[fact](name)
    return subjects.workload_event(owner, name, "{partition}", "{namespace}", "{workload_id}")


def _pods() -> Iterator[Channel]:
    yield Channel(
        name="pod_command",
        group=Group.COMMAND,
        owner=Service.PLACEMENT,
        address=_address(subjects.pod_command("{node}", "{pod_uid}")),
        messages=get_args(commands.PodCommand),
        stream=streams.PODS,
        summary="What should become of one pod; the last message holds.",
    )


def _telemetry() -> Iterator[Channel]:
    for name, kind in TELEMETRY.items():
        yield Channel(
            name=name,
            group=Group.TELEMETRY,
            owner=Service.AGENT,
            owner_receives=kind is commands.AgentControl,
            address=_address(subjects.telemetry(name, "{node}")),
            messages=(kind,),
        )
    yield Channel(
        name="output",
        group=Group.TELEMETRY,
        owner=Service.AGENT,
        address=_address(subjects.pod_output("{node}", "{workload_id}")),
        messages=(commands.PodOutput,),
    )


def _queries() -> Iterator[Channel]:
    for query, (owner, shard, question, answer) in QUESTIONS.items():
        yield Channel(
            name=f"{owner}_{query}",
            group=Group.QUERY,
            owner=owner,
            address=subjects.query(owner, query, shard),
            messages=(question,) if question else (),
            owner_receives=True,
            reply=answer,
        )
