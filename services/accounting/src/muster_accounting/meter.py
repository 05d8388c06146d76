"""Metering: follow the log and the declared objects, and answer questions about cost.

Whoever holds the lease reads on from the watermark that is stored with the rows. Whatever goes
wrong, the books are claimed again and their view is built anew from the rows.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import structlog

from muster_accounting.allocation_answers import node_prices
from muster_accounting.answers import price_list
from muster_accounting.bookkeeper import Bookkeeper, read_facts
from muster_accounting.declarations import KINDS
from muster_accounting.drift_words import messages, news
from muster_accounting.facts import INPUTS
from muster_accounting.metrics import AccountingMetrics
from muster_accounting.recount import Recount
from muster_accounting.roller import Roller
from muster_accounting.store import SHARD, UsageStore
from muster_accounting.token_answers import TokenTerms
from muster_contracts import codec, subjects
from muster_contracts.allocations import AllocationQuestion, AssetsQuestion
from muster_contracts.queries import CostQuestion, Query
from muster_contracts.statements import CloseQuestion, StatementQuestion
from muster_contracts.streams import EVENTS, OBJECTS
from muster_contracts.subjects import Service
from muster_contracts.tokens import TokenPriceDrifted, TokenReport, TokensQuestion
from muster_domain.errors import Transient
from muster_rating.opencost.windows import read_window
from muster_rating.prices import PriceBook
from muster_rating.windows import Window
from muster_runtime.bus import Bus
from muster_runtime.telemetry import Metrics

if TYPE_CHECKING:
    from muster_runtime.reader import Reader

BATCH_MAX = 512
IDLE_WAIT_S = 1.0
GATHER_S = 0.1
"""After each transaction facts gather for so long: a few facts cost it nearly what many do."""
RESTART_WAIT_S = 0.2
DRIFT_EVERY_S = 600.0
RECOUNT_EVERY_S = 300.0
ROLL_EVERY_S = 30.0
REPORTS_AT_ONCE = 2
BEAT_MAX_AGE_MS = 20_000

_log = structlog.get_logger()


@dataclass(slots=True, kw_only=True)
class Meter:
    """Owns the one shard of accounting while its lease lasts."""

    bus: Bus
    store: UsageStore
    prices: PriceBook
    terms: TokenTerms
    metrics: AccountingMetrics
    chassis_metrics: Metrics
    clock: Callable[[], int]
    lag_max: int
    drift_every_s: float = DRIFT_EVERY_S
    recount_every_s: float = RECOUNT_EVERY_S
    zones: tuple[str, ...] = ("UTC",)
    _keeper: Bookkeeper | None = None
    _pending: int = 0
    _behind: set[str] = field(default_factory=set[str])
    _beat_ms: int = 0
    _reporting: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(REPORTS_AT_ONCE)
    )

    def trouble(self) -> str:
        """Why this replica is not ready; one that stands by is."""
        if self._keeper is None:
            return ""
        if self.clock() - self._beat_ms > BEAT_MAX_AGE_MS:
            return f"nothing was read for {BEAT_MAX_AGE_MS // 1000} s"
        if self._pending > self.lag_max:
            return f"{self._pending} facts are not read yet"
        return ""

    def measure(self) -> None:
        """Put the present state into the metrics."""
        keeper = self._keeper
        prices = keeper.prices if keeper else self.prices
        self.metrics.refresh(keeper.view if keeper else None, prices, self.clock())
        if keeper is not None:
            self.metrics.facts_until.set(keeper.facts_until_ms // 1000)
            self.chassis_metrics.log_pending.labels(SHARD).set(self._pending)

    async def own(self, _shard: str, epoch: int) -> None:
        """Meter until cancelled or fenced. Raises `Fenced`."""
        try:
            while True:
                try:
                    await self._serve(epoch)
                except* Transient as group:
                    _log.warning("metering restarts", error=str(group.exceptions[0]))
                await asyncio.sleep(RESTART_WAIT_S)
        finally:
            self._keeper = None

    async def _serve(self, epoch: int) -> None:
        objects_there = await self.bus.last_sequence(OBJECTS.name)
        keeper = await Bookkeeper.claim(
            self.store, self.prices, self.terms, self.metrics, epoch, objects_there
        )
        kinds = tuple(subjects.declared_objects_of(kind) for kind in KINDS)
        facts = self.bus.read(EVENTS.name, INPUTS, after=keeper.progress.events_sequence)
        objects = self.bus.read(OBJECTS.name, kinds, after=keeper.progress.objects_sequence)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(facts.close)
            stack.push_async_callback(objects.close)
            self._keeper, self._beat_ms = keeper, self.clock()
            self._behind = {EVENTS.name, OBJECTS.name}
            await self._answer(stack)
            group = await stack.enter_async_context(asyncio.TaskGroup())
            group.create_task(self._follow_objects(keeper, objects))
            group.create_task(self._follow_facts(keeper, facts))
            group.create_task(self._watch_drift(keeper))
            group.create_task(self._recount(keeper))
            group.create_task(self._roll_up(Roller(keeper=keeper, zones=self.zones)))

    async def _follow_facts(self, keeper: Bookkeeper, reader: "Reader") -> None:
        while True:
            batch = await reader.next_batch(BATCH_MAX, IDLE_WAIT_S)
            if batch:
                facts, letters = read_facts(batch)
                if letters:
                    self.chassis_metrics.dead_letters.inc(len(letters))
                    await self.bus.bury(letters)
                with self.chassis_metrics.commit_seconds.time():
                    await keeper.take_facts(facts, batch[-1].sequence)
            self._pending = reader.pending
            self._beat_ms = self.clock()
            self._note(EVENTS.name, reader, len(batch))
            if batch and EVENTS.name not in self._behind:
                await asyncio.sleep(GATHER_S)

    async def _follow_objects(self, keeper: Bookkeeper, reader: "Reader") -> None:
        while True:
            batch = await reader.next_batch(BATCH_MAX, IDLE_WAIT_S)
            if batch:
                await self.bus.publish(keeper.notes(batch))
                await keeper.take_objects(batch)
            self._note(OBJECTS.name, reader, len(batch))

    async def _roll_up(self, roller: Roller) -> None:
        """Make the rolls that are missing, whenever the log is read."""
        while True:
            await asyncio.sleep(ROLL_EVERY_S)
            made = 1
            while made and not self._behind:
                made = await roller.roll_up(self._through_ms(roller.keeper))

    async def _watch_drift(self, keeper: Bookkeeper) -> None:
        """Compare this month's tokens with their hardware, again and again."""
        while True:
            if self._behind:
                await asyncio.sleep(IDLE_WAIT_S)
                continue
            now_ms = self.clock()
            month = read_window("month", now_ms + 1)
            question = TokensQuestion(by="model", start_ms=month.start_ms, end_ms=month.end_ms)
            async with self._reporting:
                report = await keeper.tokens(question, now_ms)
            await self._tell_drift(keeper, report, month, now_ms)
            await asyncio.sleep(self.drift_every_s)

    async def _recount(self, keeper: Bookkeeper) -> None:
        """Hold the open intervals against admission, again and again."""
        recount = Recount(self.bus)
        while True:
            await asyncio.sleep(self.recount_every_s)
            if self._behind:
                continue
            attempts, facts = tuple(keeper.view.open.values()), tuple(keeper.view.node_facts)
            found_before = recount.found
            try:
                difference, closing = await recount.look(attempts, facts, self.clock())
            except Transient as error:
                _log.info("no recount", reason=str(error))
                continue
            await self.bus.publish(closing)
            self.metrics.recount_difference.set(difference)
            self.metrics.zombies.inc(recount.found - found_before)

    async def _tell_drift(
        self, keeper: Bookkeeper, report: TokenReport, month: Window, now_ms: int
    ) -> None:
        """Say what a crash kept from being said, then what has changed since the last word."""
        known = await self.store.drift_words()
        await self._say(keeper, [word for word, said in known.items() if not said])
        last = {(word.namespace, word.model): word for word in known}
        new = news(report, last, month, now_ms)
        await self.store.keep_drift_words(keeper.epoch, new, said=False)
        await self._say(keeper, new)
        told = {**last, **{(word.namespace, word.model): word for word in new}}
        self.metrics.show_drift(report, told.values())

    async def _say(self, keeper: Bookkeeper, words: list[TokenPriceDrifted]) -> None:
        if words:
            await self.bus.publish(messages(words))
            await self.store.keep_drift_words(keeper.epoch, words, said=True)

    def _note(self, stream: str, reader: "Reader", count: int) -> None:
        if reader.pending == 0 and count < BATCH_MAX:
            self._behind.discard(stream)
        else:
            self._behind.add(stream)

    async def _answer(self, stack: AsyncExitStack) -> None:
        answers: dict[Query, Callable[[dict[str, Any]], Awaitable[bytes]]] = {
            Query.COST: self._answer_cost,
            Query.PRICES: self._answer_prices,
            Query.ALLOCATION: self._answer_allocation,
            Query.ASSETS: self._answer_assets,
            Query.NODE_PRICES: self._answer_node_prices,
            Query.TOKENS: self._answer_tokens,
            Query.STATEMENT: self._answer_statement,
            Query.CLOSE: self._answer_close,
        }
        for name, answer in answers.items():
            subject = subjects.query(Service.ACCOUNTING, name)
            stack.push_async_callback(await self.bus.answer(subject, answer))

    async def _answer_cost(self, question: dict[str, Any]) -> bytes:
        asked = codec.decode(CostQuestion, json.dumps(question).encode())
        keeper = self._owned()
        async with self._reporting:
            return codec.encode(await keeper.report(asked, self._through_ms(keeper)))

    async def _answer_allocation(self, question: dict[str, Any]) -> bytes:
        asked = codec.decode(AllocationQuestion, json.dumps(question).encode())
        keeper = self._owned()
        async with self._reporting:
            return await keeper.allocations(asked, self._through_ms(keeper), self.clock())

    async def _answer_assets(self, question: dict[str, Any]) -> bytes:
        asked = codec.decode(AssetsQuestion, json.dumps(question).encode())
        keeper = self._owned()
        async with self._reporting:
            return await keeper.assets(asked, self._through_ms(keeper), self.clock())

    async def _answer_tokens(self, question: dict[str, Any]) -> bytes:
        asked = codec.decode(TokensQuestion, json.dumps(question).encode())
        keeper = self._owned()
        async with self._reporting:
            return codec.encode(await keeper.tokens(asked, self._through_ms(keeper)))

    async def _answer_statement(self, question: dict[str, Any]) -> bytes:
        asked = codec.decode(StatementQuestion, json.dumps(question).encode())
        keeper = self._owned()
        async with self._reporting:
            return codec.encode(await keeper.statement(asked, self._through_ms(keeper)))

    async def _answer_close(self, question: dict[str, Any]) -> bytes:
        asked = codec.decode(CloseQuestion, json.dumps(question).encode())
        keeper = self._owned()
        if self._behind:
            raise Transient("the log is not read to its end")
        async with self._reporting:
            return codec.encode(await keeper.close(asked, self.clock()))

    async def _answer_node_prices(self, _question: dict[str, Any]) -> bytes:
        keeper = self._owned()
        return codec.encode(node_prices(keeper.view.spans, keeper.prices, self.clock()))

    async def _answer_prices(self, _question: dict[str, Any]) -> bytes:
        keeper = self._keeper
        return codec.encode(price_list(self.prices if keeper is None else keeper.prices))

    def _owned(self) -> Bookkeeper:
        if self._keeper is None:
            raise Transient("this replica stands by")
        return self._keeper

    def _through_ms(self, keeper: Bookkeeper) -> int:
        now_ms = self.clock()
        return min(now_ms, keeper.facts_until_ms) if self._behind else now_ms
