"""Keeping the books: messages in, rows and reports out; the bus is somebody else's.

One bookkeeper is one tenure of the lease: it writes under its epoch, and keeps beside the rows a
view of what stands now.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import structlog

from muster_accounting.allocation_answers import allocations, assets, window_of
from muster_accounting.answers import cost_report, rules_of
from muster_accounting.declarations import Declarations
from muster_accounting.facts import Fact, read_fact, told
from muster_accounting.notes import note
from muster_accounting.statement_answers import check_closing, draft, month_asked, page
from muster_accounting.statement_answers import window_of as books_window
from muster_accounting.store import ObjectVersion, Progress, UsageStore
from muster_accounting.token_answers import TokenAnswer, TokenTerms
from muster_accounting.view import View
from muster_contracts import envelope
from muster_contracts.allocations import AllocationQuestion, AssetsQuestion
from muster_contracts.queries import CostQuestion, CostReport
from muster_contracts.statements import CloseQuestion, StatementPage, StatementQuestion
from muster_contracts.streams import EVENTS
from muster_contracts.tokens import TokenReport, TokensQuestion
from muster_domain.errors import InvalidValue
from muster_rating.attempts import Attempt
from muster_rating.capacity import with_node_flavors
from muster_rating.observations import by_attempt
from muster_rating.periods import Period
from muster_rating.policies import versions_in
from muster_rating.prices import PriceBook
from muster_rating.report import Books
from muster_rating.rollups import UNROLLED, Roll, between, choose
from muster_rating.scopes import pool_edges
from muster_rating.statements import Statement
from muster_rating.windows import Window, asked_window
from muster_runtime.bus import DeadLetter
from muster_runtime.publisher import Outgoing

if TYPE_CHECKING:
    from muster_accounting.metrics import AccountingMetrics
    from muster_runtime.reader import Received

T = TypeVar("T")

_log = structlog.get_logger()


@dataclass(slots=True, kw_only=True)
class Bookkeeper:
    """Writes the books under one epoch."""

    store: UsageStore
    own_prices: PriceBook
    prices: PriceBook
    terms: TokenTerms
    metrics: "AccountingMetrics"
    epoch: int
    progress: Progress
    view: View
    facts_until_ms: int
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while what is stored and the view of it are not abreast."""

    @classmethod
    async def claim(
        cls,
        store: UsageStore,
        prices: PriceBook,
        terms: TokenTerms,
        metrics: "AccountingMetrics",
        epoch: int,
        objects_there: int,
    ) -> "Bookkeeper":
        """Take over the books. `objects_there` is the last declared object at this moment.

        Raises `Fenced`, `Transient`.
        """
        progress = await store.claim(epoch, objects_there)
        priced = [(price.flavor, price.resource) for price in prices.prices]
        declarations = Declarations(progress.objects_at_birth, priced)
        declarations.add(await store.object_versions())
        view = View(declarations, await store.open_attempts(), await store.node_facts())
        return cls(
            store=store,
            own_prices=prices,
            prices=declarations.prices(prices),
            terms=terms,
            metrics=metrics,
            epoch=epoch,
            progress=progress,
            view=view,
            facts_until_ms=progress.facts_until_ms,
        )

    async def take_facts(self, facts: Sequence[Fact], sequence: int) -> None:
        """Apply the facts of the log up to a sequence; again, they change nothing.

        Raises `Fenced`, `Transient`.
        """
        known = told(facts)
        until_ms = max([self.facts_until_ms, *(newest_ms(fact) for fact in facts)])
        async with self.turn:
            now = await self.store.apply_facts(self.epoch, sequence, until_ms, known)
            self.view.take_attempts(now)
            self.view.take_node_facts(known.nodes)
        self.facts_until_ms = until_ms
        self.metrics.facts.labels("attempt").inc(len(known.attempts))
        self.metrics.facts.labels("node").inc(len(known.nodes))
        self.metrics.facts.labels("token").inc(len(known.uses))
        self.metrics.facts.labels("observation").inc(len(known.observations))
        backwards = [attempt for attempt in now if attempt.closing and attempt.runs_backwards]
        self.metrics.clamped.inc(len(backwards))

    def notes(self, batch: "list[Received]") -> list[Outgoing]:
        """What the log is to be told of declared objects before they are booked."""
        born = self.progress.objects_at_birth
        return [
            note(object_version(received), from_beginning=received.sequence <= born)
            for received in batch
        ]

    async def take_objects(self, batch: "list[Received]") -> None:
        """Keep versions of declared objects. Raises `Fenced`, `Transient`."""
        versions = [object_version(received) for received in batch]
        async with self.turn:
            await self.store.apply_objects(self.epoch, batch[-1].sequence, versions)
            self.view.take_objects(versions)
            self.prices = self.view.declarations.prices(self.own_prices)
        self.metrics.facts.labels("object").inc(len(versions))

    async def report(self, question: CostQuestion, through_ms: int) -> CostReport:
        """The cost report, counted up to `through_ms`. Raises `InvalidValue`, `Transient`."""
        asked = asked_window(question.start_ms, question.end_ms)
        window = Window(asked.start_ms, max(asked.start_ms, min(asked.end_ms, through_ms)))
        rules = rules_of(question, self.view.declarations.policy)
        by_lifo = all(version.by_lifo for version in versions_in(rules.policy, window))
        return await self._counted(
            window,
            lambda books: cost_report(question, rules, books, self.prices, through_ms),
            rolled=by_lifo and UNROLLED.isdisjoint(question.by.split(",")),
            edges=[version.effective_from_ms for version in rules.policy],
        )

    async def allocations(
        self, question: AllocationQuestion, through_ms: int, now_ms: int
    ) -> bytes:
        """Allocations, encoded. Raises `InvalidValue`, `Transient`."""
        return await self._counted(
            window_of(question, now_ms),
            lambda books: allocations(question, books, self.prices, through_ms, now_ms),
        )

    async def assets(self, question: AssetsQuestion, through_ms: int, now_ms: int) -> bytes:
        """Nodes and what they cost, encoded. Raises `InvalidValue`."""
        spans = tuple(self.view.spans)
        return await asyncio.to_thread(assets, question, spans, self.prices, through_ms, now_ms)

    async def statement(self, question: StatementQuestion, now_ms: int) -> StatementPage:
        """What was issued for a month, or would be now. Raises `InvalidValue`, `Transient`."""
        period = month_asked(question)
        now_ms = min(now_ms, question.at_ms or now_ms)
        issued = await self.store.statements(question.zone)
        for statement in issued:
            if statement.period == period:
                return page(question, statement, now_ms, closed=True)
        found = await self._draft(period, issued, now_ms)
        return page(question, found, now_ms, closed=False)

    async def close(self, question: CloseQuestion, now_ms: int) -> StatementPage:
        """Close a month and issue its statement, once.

        Raises `Conflict` for a month that is not due, `InvalidValue`, `Fenced`, `Transient`.
        """
        asked = StatementQuestion(month=question.month, zone=question.zone)
        period = month_asked(asked)
        issued = await self.store.statements(question.zone)
        if all(statement.period != period for statement in issued):
            check_closing(period, issued, now_ms)
            statement = await self._draft(period, issued, now_ms)
            await self.store.add_statement(self.epoch, question.zone, statement)
        return await self.statement(asked, now_ms)

    async def _draft(self, period: Period, issued: list[Statement], now_ms: int) -> Statement:
        return await self._counted(
            books_window(period, issued),
            lambda books: draft(
                period, issued, books, self.prices, self.view.declarations.policy, now_ms
            ),
        )

    async def tokens(self, question: TokensQuestion, through_ms: int) -> TokenReport:
        """Token use and drift, counted up to `through_ms`. Raises `InvalidValue`, `Transient`."""
        asked = TokenAnswer(question, self.terms, through_ms)
        sums = [used for part in asked.parts for used in await self.store.token_sums(part)]
        return await self._counted(
            asked.window, lambda books: asked.report(sums, books, self.prices), rolled=True
        )

    async def _counted(
        self,
        window: Window,
        compute: Callable[[Books], T],
        *,
        rolled: bool = False,
        edges: Sequence[int] = (),
    ) -> T:
        """Compute from books; rolls have none of the edges inside."""
        with self.metrics.report_seconds.time():
            rolls, live = await self._rolls(window, edges) if rolled else ([], [window])
            found = {
                attempt.key: attempt
                for attempt in self.view.open.values()
                if attempt.opening is not None and attempt.opening.at_ms < window.end_ms
            }
            for part in live:
                for attempt in await self.store.attempts_in(part):
                    found[attempt.key] = attempt
            observed = [one for part in live for one in await self.store.observations_in(part)]
            attempts = [found[key] for key in sorted(found)]
            spans = tuple(self.view.spans)
            catalogs = tuple(self.view.declarations.catalogs)

            def work() -> T:
                return compute(
                    Books(
                        attempts=tuple(with_node_flavors(attempts, spans)),
                        capacity=spans,
                        catalogs=catalogs,
                        rolls=tuple(rolls),
                        observations=by_attempt(observed),
                    )
                )

            return await asyncio.to_thread(work)

    async def _rolls(self, window: Window, edges: Sequence[int]) -> tuple[list[Roll], list[Window]]:
        """The rolls in a window, and what is left of it."""
        available = await self.store.rolled_windows(window)
        turns = pool_edges(self.prices, self.view.spans, window)
        chosen, _ = choose(available, window, (*self.prices.changes(window), *turns, *edges))
        rolls = await self.store.rolls(chosen)
        return rolls, between([roll.window for roll in rolls], window)


def read_facts(batch: "list[Received]") -> tuple[list[Fact], list[DeadLetter]]:
    """The facts of messages of the log, and the messages that cannot be digested."""
    facts: list[Fact] = []
    letters: list[DeadLetter] = []
    for received in batch:
        try:
            fact = read_fact(received)
        except Exception as error:  # noqa: BLE001 - reading is pure: again would end the same
            reason = str(error) if isinstance(error, InvalidValue) else f"defect: {error!r}"
            _log.error("dead letter", sequence=received.sequence, reason=reason)
            letters.append(DeadLetter(received=received, stream=EVENTS.name, reason=reason))
            continue
        if fact is not None:
            facts.append(fact)
    return facts, letters


def newest_ms(fact: Fact) -> int:
    """The latest time that a fact names."""
    if not isinstance(fact, Attempt):
        return fact.at_ms
    parts = (fact.opening, fact.seating, *fact.resizes, fact.eviction, fact.closing)
    times = [part.at_ms for part in parts if part is not None]
    return max([*times, fact.checkpointed_ms or 0])


def object_version(received: "Received") -> ObjectVersion:
    """A version of a declared object, at the owner's time if it says one."""
    try:
        at_ms = envelope.from_headers(received.headers).time_ms
    except InvalidValue:
        at_ms = 0
    return ObjectVersion(
        sequence=received.sequence,
        at_ms=at_ms or received.published_ms,
        subject=received.subject,
        type=received.headers.get("ce-type", ""),
        body=received.body,
    )
