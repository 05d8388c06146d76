"""Asking the owners, all at once and with a budget, and putting their answers together."""

import asyncio
import json
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, cast

from muster_contracts import codec, subjects
from muster_contracts.allocations import (
    AllocationQuestion,
    AllocationSets,
    Assets,
    AssetsQuestion,
    NodePrices,
)
from muster_contracts.budgets import BudgetPage
from muster_contracts.fit import Asked, AskedQuestion, DomainFit, FitPage, FitQuestion
from muster_contracts.floor import DomainPage, DomainRow, DomainsQuestion
from muster_contracts.partitions import PARTITIONS, PLACEMENT_SHARD
from muster_contracts.queries import (
    NODES_PAGE_MAX,
    CostQuestion,
    CostReport,
    LedgerReport,
    NodePage,
    NodeRow,
    NodesQuestion,
    Plan,
    PlanQuestion,
    PlanVerdict,
    PriceList,
    Query,
    QuotaPage,
    QuotaQuestion,
    Seats,
    SeatsQuestion,
    WorkloadDetail,
    WorkloadPage,
    WorkloadQuestion,
    WorkloadRow,
    WorkloadsQuestion,
    row_order,
)
from muster_contracts.statement_lines import read_line, read_policy
from muster_contracts.statements import (
    CloseQuestion,
    StatementLine,
    StatementPage,
    StatementQuestion,
)
from muster_contracts.subjects import Service
from muster_contracts.tokens import TokenReport, TokensQuestion
from muster_domain.errors import InvalidValue, NotFound, Transient
from muster_domain.quantity import Resources
from muster_rating.periods import month_of
from muster_rating.statements import Statement
from muster_runtime.bus import Bus

T = TypeVar("T")

ROWS_PER_ANSWER = 400
"""Rows that fit into one message of the bus, long messages included."""
ROWS_MAX = 10_000
"""How far into a list one may page."""
COST_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered(Generic[T]):
    """What all partitions said together; `silent` are those that did not answer in time."""

    value: T
    silent: tuple[str, ...] = ()


class Owners:
    """Who knows what, asked over the bus."""

    def __init__(self, bus: Bus, *, timeout_s: float) -> None:
        self._bus = bus
        self._timeout_s = timeout_s

    async def workloads(self, question: WorkloadsQuestion) -> Gathered[WorkloadPage]:
        """A page of all partitions' workloads, in `row_order`.

        Raises `InvalidValue` for a page out of reach, `Transient` when nobody answers.
        """
        wanted = question.offset + question.limit
        if question.limit < 1 or question.offset < 0 or wanted > ROWS_MAX:
            raise InvalidValue(
                f"rows {question.offset} to {wanted} are out of reach",
                field="offset",
                fix=f"stay within the first {ROWS_MAX} rows and narrow the list with filters",
            )
        answers = await self._scatter(
            [self._rows(partition, question, wanted) for partition in PARTITIONS]
        )
        rows = sorted((row for page in answers.value for row in page.rows), key=row_order)
        page = WorkloadPage(
            rows=tuple(rows[question.offset : wanted]),
            total=sum(page.total for page in answers.value),
        )
        return Gathered(value=page, silent=answers.silent)

    async def pending(
        self, question: WorkloadsQuestion, offset: int, limit: int
    ) -> tuple[WorkloadRow, ...]:
        """Those who stand in line, in the order of their queues.

        Raises `Transient` while not everybody has answered: places in half a list are none.
        """
        answers = await self._scatter(
            [self._rows(partition, question, offset + limit) for partition in PARTITIONS]
        )
        if answers.silent:
            raise Transient(f"no answer from {', '.join(answers.silent)}")
        rows = [
            row
            for page in answers.value
            for row in page.rows
            if row.position_in_cluster_queue is not None
        ]
        return tuple(sorted(rows, key=row_order)[offset : offset + limit])

    async def _rows(self, partition: str, question: WorkloadsQuestion, wanted: int) -> WorkloadPage:
        rows: list[WorkloadRow] = []
        while True:
            part = replace(
                question, offset=len(rows), limit=min(ROWS_PER_ANSWER, wanted - len(rows))
            )
            page = await self._ask(
                WorkloadPage, Service.ADMISSION, Query.WORKLOADS, partition, part
            )
            rows += page.rows
            if not page.rows or len(rows) >= min(wanted, page.total):
                return WorkloadPage(rows=tuple(rows), total=page.total)

    async def workload(self, identity: str, partition: str = "") -> WorkloadDetail:
        """All about one workload. Raises `NotFound`, `Transient`."""
        question = WorkloadQuestion(id=identity)
        if partition in PARTITIONS:
            return await self._ask(
                WorkloadDetail, Service.ADMISSION, Query.WORKLOAD, partition, question
            )
        answers = await self._scatter([self._detail(other, question) for other in PARTITIONS])
        found = [detail for detail in answers.value if detail is not None]
        if found:
            return found[0]
        if answers.silent:
            raise Transient(f"{', '.join(answers.silent)} did not say whether they have it")
        raise NotFound(f"nobody knows a workload {identity!r}")

    async def _detail(self, partition: str, question: WorkloadQuestion) -> WorkloadDetail | None:
        try:
            return await self._ask(
                WorkloadDetail, Service.ADMISSION, Query.WORKLOAD, partition, question
            )
        except NotFound:
            return None

    async def quota(self, cluster_queue: str = "", partition: str = "") -> Gathered[QuotaPage]:
        """Quota of one ClusterQueue or of all, sorted. Raises `Transient`."""
        question = QuotaQuestion(cluster_queue=cluster_queue)
        partitions = (partition,) if partition else PARTITIONS
        answers = await self._scatter(
            [
                self._ask(QuotaPage, Service.ADMISSION, Query.QUOTA, shard, question)
                for shard in partitions
            ],
            partitions,
        )
        pages = answers.value
        page = QuotaPage(
            queues=tuple(
                sorted((row for page in pages for row in page.queues), key=lambda row: row.name)
            ),
            rows=tuple(
                sorted(
                    (row for page in pages for row in page.rows),
                    key=lambda row: (row.cluster_queue, row.flavor, row.resource),
                )
            ),
        )
        return Gathered(value=page, silent=answers.silent)

    async def plan(self, question: PlanQuestion, partition: str) -> Plan:
        """What would become of a workload: by its quota, then by the seats there are.

        Raises what the owners raise.
        """
        plan = await self._ask(Plan, Service.ADMISSION, Query.PLAN, partition, question)
        if plan.verdict is not PlanVerdict.ADMIT or plan.admission is None:
            return plan
        asked = SeatsQuestion(workload=question.workload, admission=plan.admission)
        seats = await self._ask(Seats, Service.PLACEMENT, Query.SEATS, PLACEMENT_SHARD, asked)
        found = replace(plan, nodes=seats.nodes, victims=seats.victims)
        if seats.explanation is None:
            return found
        verdict = PlanVerdict.PREEMPT if seats.victims else PlanVerdict.WAIT
        return replace(found, verdict=verdict, explanation=seats.explanation)

    async def verify(self) -> Gathered[tuple[LedgerReport, ...]]:
        """Whether every partition's books agree. Raises `Transient`."""
        answers = await self._scatter(
            [
                self._ask(LedgerReport, Service.ADMISSION, Query.VERIFY, shard, None)
                for shard in PARTITIONS
            ]
        )
        return Gathered(value=tuple(answers.value), silent=answers.silent)

    async def budgets(self) -> BudgetPage:
        """All budgets in their present periods, by name. Raises `Transient`."""
        answers = await self._scatter(
            [
                self._ask(BudgetPage, Service.ADMISSION, Query.BUDGETS, shard, None)
                for shard in PARTITIONS
            ]
        )
        rows = [row for page in answers.value for row in page.rows]
        return BudgetPage(
            rows=tuple(sorted(rows, key=lambda row: (row.budget, row.period))),
            silent=answers.silent,
        )

    async def nodes(self, question: NodesQuestion, limit: int | None = None) -> NodePage:
        """The nodes that are meant, by name, from the question's offset on; at most `limit`.

        Raises `Transient`.
        """
        nodes: list[NodeRow] = []
        while True:
            left = NODES_PAGE_MAX if limit is None else min(NODES_PAGE_MAX, limit - len(nodes))
            part = replace(question, offset=question.offset + len(nodes), limit=left)
            page = await self._ask(NodePage, Service.PLACEMENT, Query.NODES, PLACEMENT_SHARD, part)
            nodes += page.nodes
            done = part.offset + len(page.nodes) >= page.total or len(nodes) == limit
            if not page.nodes or done:
                return replace(page, nodes=tuple(nodes))

    async def domains(self, pods: tuple[Resources, ...]) -> DomainPage:
        """All domains, with the largest gangs of these pods. Raises what placement raises."""
        rows: list[DomainRow] = []
        while True:
            page = await self._ask(
                DomainPage,
                Service.PLACEMENT,
                Query.DOMAINS,
                PLACEMENT_SHARD,
                DomainsQuestion(pods=pods, offset=len(rows)),
            )
            rows += page.domains
            if not page.domains or len(rows) >= page.total:
                return replace(page, domains=tuple(rows), total=len(rows))

    async def fit(self, identity: str, partition: str) -> FitPage:
        """Where a workload would find seats now, in all domains. Raises what the owners raise."""
        question = AskedQuestion(id=identity)
        asked = await self._ask(Asked, Service.ADMISSION, Query.ASKED, partition, question)
        rows: list[DomainFit] = []
        while True:
            page = await self._ask(
                FitPage,
                Service.PLACEMENT,
                Query.FIT,
                PLACEMENT_SHARD,
                FitQuestion(workload=asked.workload, admissions=asked.admissions, offset=len(rows)),
            )
            rows += page.domains
            if not page.domains or len(rows) >= page.total:
                return replace(page, domains=tuple(rows), total=len(rows))

    async def cost(self, question: CostQuestion) -> CostReport:
        """What a window cost. Raises what accounting raises."""
        return await self._ask_accounting(CostReport, Query.COST, question)

    async def allocation(self, question: AllocationQuestion) -> AllocationSets:
        """Cost in OpenCost's words. Raises what accounting raises."""
        return await self._ask_accounting(AllocationSets, Query.ALLOCATION, question)

    async def assets(self, question: AssetsQuestion) -> Assets:
        """Nodes and what they cost. Raises what accounting raises."""
        return await self._ask_accounting(Assets, Query.ASSETS, question)

    async def node_prices(self) -> NodePrices:
        """The prices that are applied. Raises `Transient`."""
        return await self._ask_accounting(NodePrices, Query.NODE_PRICES, None)

    async def prices(self) -> PriceList:
        """The prices that are charged. Raises `Transient`."""
        return await self._ask_accounting(PriceList, Query.PRICES, None)

    async def tokens(self, question: TokensQuestion) -> TokenReport:
        """What models used and what it comes to. Raises what accounting raises."""
        return await self._ask_accounting(TokenReport, Query.TOKENS, question)

    async def statement(self, month: str, zone: str) -> tuple[Statement, str]:
        """A statement with all its lines, and its state. Raises what accounting raises."""
        lines: list[StatementLine] = []
        at_ms = 0
        while True:
            asked = StatementQuestion(month=month, zone=zone, offset=len(lines), at_ms=at_ms)
            page = await self._ask_accounting(StatementPage, Query.STATEMENT, asked)
            lines += page.lines
            at_ms = page.at_ms
            if not page.lines or len(lines) >= page.total_lines:
                return _statement_of(page, lines), page.state

    async def close(self, question: CloseQuestion) -> StatementPage:
        """Close a month. Raises what accounting raises."""
        return await self._ask_accounting(StatementPage, Query.CLOSE, question)

    async def _ask_accounting(self, kind: type[T], query: Query, question: object | None) -> T:
        return await self._ask(
            kind, Service.ACCOUNTING, query, "any", question, timeout_s=COST_TIMEOUT_S
        )

    async def _scatter(
        self, questions: list[Awaitable[T]], partitions: tuple[str, ...] = PARTITIONS
    ) -> Gathered[list[T]]:
        answers = await asyncio.gather(*questions, return_exceptions=True)
        silent: list[str] = []
        heard: list[T] = []
        for partition, answer in zip(partitions, answers, strict=True):
            if isinstance(answer, Transient):
                silent.append(partition)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                heard.append(answer)
        if not heard:
            raise Transient("admission does not answer; is it running?")
        return Gathered(value=heard, silent=tuple(silent))

    async def _ask(
        self,
        kind: type[T],
        owner: Service,
        query: Query,
        shard: str,
        question: object | None,
        *,
        timeout_s: float | None = None,
    ) -> T:
        fields: object = {} if question is None else json.loads(codec.encode(question))
        body = await self._bus.ask(
            subjects.query(owner, query, shard),
            cast("dict[str, Any]", fields),
            timeout_s=self._timeout_s if timeout_s is None else timeout_s,
        )
        return codec.decode(kind, body, bytes_max=codec.ANSWER_BYTES_MAX)


def _statement_of(page: StatementPage, lines: list[StatementLine]) -> Statement:
    """A statement from its last page and all lines. Raises `Transient` where they do not agree."""
    if sum(line.micros for line in lines) != page.total_micros:
        raise Transient("more became known while the statement was read")
    return Statement(
        period=month_of(page.period.partition("@")[0], page.zone),
        number=page.number,
        currency=page.currency,
        issued_at_ms=page.issued_at_ms,
        lines=tuple(read_line(line) for line in lines),
        previous=page.previous,
        policy=tuple(read_policy(version) for version in page.policy),
    )
