"""Budgets of one partition: what its workloads hold and have spent, and what it was allotted.

A hold is made in the commit that reserves the quota and settled in the one that gives it back, so
what is held and what is admitted never part. `muster_rating.budgets` says how a limit is shared.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from muster_admission.budget_terms import BudgetTerms, step_up
from muster_admission.standing import waits
from muster_contracts import codec
from muster_contracts.budgets import (
    ACCOUNT_FIELD,
    HOLD_FIELD,
    BudgetAccount,
    BudgetAllotted,
    BudgetDrawn,
    BudgetHold,
)
from muster_contracts.stored import Record
from muster_domain.budgets import Budget, BudgetVerdict, Exhaustion, Unanswered
from muster_domain.conditions import Explanation
from muster_domain.states import Admitted, Evicting, Finished, Pending, Reserved
from muster_rating.budgets import Span
from muster_rating.prices import PriceBook
from muster_scheduling.quota import Vector
from muster_scheduling.snapshot.purse import Asked, Purse

ANSWER_MS = 10_000
"""An account whose home has not answered for so long counts as unanswered."""
REPORT_EVERY_MS = 60_000
"""How often what runs is counted as spent."""
KEPT_MS = 35 * 86_400_000
"""So long after its period an account is forgotten."""

Key = tuple[str, int]
"""(workload id, attempt)."""


@dataclass(slots=True)
class _Passing:
    """What may be lost: losing it makes somebody ask again. Money is by account."""

    waiting: dict[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    """What those ask whom a budget keeps waiting."""
    asked: dict[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    """What was asked in the decision that is being made."""
    asked_at_ms: dict[str, int] = field(default_factory=dict[str, int])
    accrued: dict[str, dict[Key, int]] = field(default_factory=dict[str, dict[Key, int]])
    touched: dict[str, None] = field(default_factory=dict[str, None])
    retries: dict[str, None] = field(default_factory=dict[str, None])
    report_at_ms: int = 0


class BudgetBook:
    """Holds and accounts of one partition; `records` are the workloads that it admits."""

    def __init__(
        self, partition: str, fields: Mapping[str, bytes], records: Mapping[str, Record]
    ) -> None:
        self.partition = partition
        self.terms = BudgetTerms()
        self.holds: dict[Key, BudgetHold] = {}
        self.accounts: dict[str, BudgetAccount] = {}
        self.guest: Record | None = None
        """A workload that nobody submitted, to see what would become of it."""
        self._records = records
        self._held: dict[str, int] = {}
        self._now_ms = 0
        self._objects_sequence = 0
        self._puts: dict[str, bytes | None] = {}
        self._passing = _Passing()
        for name, body in sorted(fields.items()):
            if name.startswith(HOLD_FIELD):
                hold = codec.decode(BudgetHold, body)
                self.holds[hold.workload_id, hold.attempt] = hold
                self._count(hold.amounts_micros, 1)
            elif name.startswith(ACCOUNT_FIELD):
                account = codec.decode(BudgetAccount, body)
                self.accounts[account.account] = account

    def configure(
        self, budgets: Mapping[str, Budget], prices: Mapping[str, PriceBook], sequence: int
    ) -> None:
        """Take what is declared up to `sequence`; who waits for a budget is looked at again."""
        self._objects_sequence = sequence
        self.terms = BudgetTerms({name: budgets[name] for name in sorted(budgets)}, prices)
        self._passing.retries |= dict.fromkeys(self._passing.waiting)
        self._passing.waiting.clear()

    def purse(self, now_ms: int) -> Purse | None:
        """What may be spent in a decision made now; None where no budget is declared."""
        self._now_ms = now_ms
        self._passing.asked.clear()
        if not self.terms.budgets:
            return None
        left = {name: self.left_micros(name) for name in self.accounts}
        return Purse(left=left, asks=self._asks, verdict=self._verdict)

    def left_micros(self, name: str) -> int:
        """What this partition may still hold of an account; below zero where it holds too much."""
        account = self.accounts.get(name)
        if account is None:
            return 0
        used = account.settled_micros + self._held.get(name, 0)
        return account.allotted_micros - account.returned_micros - used

    def follow(self, before: Record, after: Record, now_ms: int) -> None:
        """Hold, charge and settle as a workload goes from state to state. Idempotent by attempt."""
        identity = after.workload.id
        match before.state, after.state:
            case Pending(), Reserved(admission=admission, attempt=attempt):
                self._hold(before, attempt, admission.usage, now_ms)
            case Reserved(attempt=attempt), Admitted(admitted_at_ms=at_ms):
                hold = self.holds.get((identity, attempt))
                if hold is not None:
                    self._keep(self._seated(before, hold, at_ms))
            case Admitted() as held, Admitted() as left if _is_resized(held, left):
                self._settle((identity, held.attempt), now_ms)
                self._hold(after, left.attempt, left.admission.usage, now_ms)
                hold = self.holds.get((identity, left.attempt))
                if hold is not None:
                    self._keep(self._seated(after, hold, now_ms))
            case (Reserved() | Admitted() | Evicting()) as held, (Pending() | Finished()):
                self._settle((identity, held.attempt), now_ms)
            case _:
                pass

    def hear(self, answer: BudgetAllotted) -> None:
        """Take the home's answer; an older one allots no more than is known already."""
        account = self.accounts.get(answer.account)
        if account is None or answer.partition != self.partition:
            return
        is_newest = account.told is None or answer.answers >= account.told.answers
        self._put(
            replace(
                account,
                allotted_micros=max(account.allotted_micros, answer.allotted_micros),
                told=answer if is_newest else account.told,
            )
        )
        if account.said is not None and answer.answers >= account.said.number:
            self._passing.asked_at_ms.pop(answer.account, None)
        self._retry_those_who_ask(answer.account)

    def take_retries(self, now_ms: int) -> tuple[str, ...]:
        """Workloads about whose budgets something has changed since the last call."""
        for name in sorted({name for asks in self._passing.waiting.values() for name in asks}):
            if self.terms.known[name].period.end_ms <= now_ms or self._is_given_up(name, now_ms):
                self._retry_those_who_ask(name)
        taken, self._passing.retries = tuple(self._passing.retries), {}
        for workload_id in taken:
            self._passing.waiting.pop(workload_id, None)
        return taken

    def note(self, explanations: Mapping[str, Explanation]) -> None:
        """Remember from a decision whom a budget keeps waiting."""
        waiting = self._passing.waiting
        for workload_id, asks in self._passing.asked.items():
            waiting.pop(workload_id, None)
            explanation = explanations.get(workload_id)
            if explanation is not None and explanation.budgets:
                waiting[workload_id] = asks
        for workload_id in list(waiting):
            record = self._records.get(workload_id)
            if record is None or not waits(record.state):
                del waiting[workload_id]

    def renew(self, now_ms: int) -> list[tuple[str, str]]:
        """Hold the next quantum of what runs without a limit of time.

        Returns who must go since a budget does not hold it, each with the name of the budget.
        """
        over: list[tuple[str, str]] = []
        for hold in self._due(now_ms):
            grown = self._grown(hold, now_ms)
            growth = self._growth(hold, grown)
            short = [name for name in sorted(growth) if growth[name] > self.left_micros(name)]
            evicting = [name for name in short if self._evicts(name)]
            if evicting and now_ms >= hold.until_ms:
                over.append((hold.workload_id, self.terms.known[evicting[0]].budget.name))
            elif not short or now_ms >= hold.until_ms:
                self._keep(grown)
        return over

    def words(self, number: int, now_ms: int) -> list[BudgetDrawn]:
        """What to tell the homes in this commit, one word for each account that changed."""
        if self.holds and now_ms >= self._passing.report_at_ms:
            self._accrue(now_ms)
        wants, keeps, waits = self._acquire(now_ms)
        told: list[BudgetDrawn] = []
        for name in sorted({*self._passing.touched, *wants, *keeps, *waits}):
            self._give_back(name, keeps.get(name, 0))
            word = self._word(name, wants.get(name, 0), waits=name in waits)
            said = self.accounts[name].said
            if said is not None and word == replace(said, number=0, objects_sequence=0):
                continue
            word = replace(word, number=number, objects_sequence=self._objects_sequence)
            self._put(replace(self.accounts[name], said=word))
            told.append(word)
            if name in wants:
                self._passing.asked_at_ms.setdefault(name, now_ms)
        self._passing.touched.clear()
        self._forget_old(now_ms)
        return told

    def wake_at_ms(self) -> int | None:
        """When something is due though nothing arrived."""
        if self._passing.retries:
            return 0
        due = [moment for hold in self._renewing() for moment in (_renewal_ms(hold), hold.until_ms)]
        due += [asked_ms + ANSWER_MS for asked_ms in self._passing.asked_at_ms.values()]
        due += [
            self.terms.known[name].period.end_ms
            for asks in self._passing.waiting.values()
            for name in asks
        ]
        if self.holds:
            due.append(self._passing.report_at_ms)
        return min((at_ms for at_ms in due if at_ms > self._now_ms), default=None)

    def take_changes(self) -> dict[str, bytes | None]:
        """Fields to put, or to delete where None, since the last call."""
        taken, self._puts = self._puts, {}
        return taken

    def _asks(self, workload_id: str, usage: Vector) -> Asked:
        record = self._records.get(workload_id) or self.guest
        if record is None or not waits(record.state):
            return Asked()
        cost = self.terms.most(record, usage, self.terms.span(record, self._now_ms))
        limited = {
            name: micros
            for name, micros in cost.amounts.items()
            if micros and self._is_limited(name) and not self._is_given_up(name, self._now_ms)
        }
        self._passing.asked[workload_id] = limited
        pairs = ", ".join("/".join(pair) for pair in sorted(usage))
        unknown = tuple(
            replace(self._verdict(name, 0), known=False, unpriced=pairs)
            for name in cost.unpriced
            if self.terms.known[name].budget.unanswered is Unanswered.BLOCK
        )
        return Asked(amounts=limited, unknown=unknown)

    def _verdict(self, name: str, asked_micros: int) -> BudgetVerdict:
        of, account = self.terms.known[name], self.accounts.get(name)
        told = account.told if account is not None else None
        settled = account.settled_micros if account is not None else 0
        limit = of.window.limit_micros or 0
        free = None if told is None else told.free_micros
        return BudgetVerdict(
            budget=of.budget.name,
            period=of.period.id,
            ends_at_ms=of.period.end_ms,
            currency=of.budget.currency,
            limit_micros=limit,
            spent_micros=settled + (told.others_spent_micros if told is not None else 0),
            held_micros=self._held.get(name, 0)
            + (told.others_held_micros if told is not None else 0),
            asked_micros=asked_micros,
            known=asked_micros > limit
            or (free is not None and free + max(0, self.left_micros(name)) < asked_micros),
        )

    def _hold(self, record: Record, attempt: int, usage: Vector, now_ms: int) -> None:
        span = self.terms.span(record, now_ms)
        amounts = self.terms.most(record, usage, span).amounts
        if not amounts:
            return
        by_flavor: dict[str, dict[str, int]] = {}
        for (flavor, resource), quantity in sorted(usage.items()):
            by_flavor.setdefault(flavor, {})[resource] = quantity
        self._keep(
            BudgetHold(
                workload_id=record.workload.id,
                attempt=attempt,
                from_ms=now_ms,
                until_ms=span.until_ms,
                usage_milli=by_flavor,
                amounts_micros=amounts,
                quantum_ms=self.terms.quantum_ms(record),
            )
        )

    def _keep(self, hold: BudgetHold) -> None:
        key = hold.workload_id, hold.attempt
        before = self.holds.get(key)
        if before is not None:
            self._count(before.amounts_micros, -1)
        self._count(hold.amounts_micros, 1)
        self.holds[key] = hold
        self._puts[_field_of(key)] = codec.encode(hold)
        for name in hold.amounts_micros:
            self._open(name)

    def _settle(self, key: Key, now_ms: int) -> None:
        hold = self.holds.pop(key, None)
        if hold is None:
            return
        self._puts[_field_of(key)] = None
        self._count(hold.amounts_micros, -1)
        for name, micros in self.terms.spent(hold, now_ms).items():
            account = self._open(name)
            self._put(replace(account, settled_micros=account.settled_micros + micros))
        for name in hold.amounts_micros:
            self._passing.touched[name] = None
            self._retry_those_who_ask(name)
        for accrued in self._passing.accrued.values():
            accrued.pop(key, None)

    def _seated(self, record: Record, hold: BudgetHold, at_ms: int) -> BudgetHold:
        """Charged from now on, so what was held for getting seats is free again."""
        left_ms = self.terms.span(record, at_ms).longest_ms
        span = Span(from_ms=at_ms, until_ms=at_ms + left_ms, longest_ms=left_ms)
        amounts = self.terms.most_of(hold, span).amounts
        return replace(hold, seated_ms=at_ms, until_ms=span.until_ms, amounts_micros=amounts)

    def _grown(self, hold: BudgetHold, now_ms: int) -> BudgetHold:
        from_ms = hold.from_ms if hold.seated_ms is None else hold.seated_ms
        until_ms = step_up(now_ms + hold.quantum_ms, hold.quantum_ms)
        span = Span(from_ms=from_ms, until_ms=until_ms, longest_ms=until_ms - from_ms)
        amounts = self.terms.most_of(hold, span).amounts
        return replace(hold, until_ms=until_ms, amounts_micros={**hold.amounts_micros, **amounts})

    def _growth(self, hold: BudgetHold, grown: BudgetHold) -> dict[str, int]:
        more = {
            name: micros - hold.amounts_micros.get(name, 0)
            for name, micros in grown.amounts_micros.items()
        }
        return {name: more[name] for name in more if more[name] > 0 and self._is_limited(name)}

    def _renewing(self) -> Iterator[BudgetHold]:
        """The holds of what runs without a limit of time, in order."""
        for key, hold in sorted(self.holds.items()):
            record = self._records.get(key[0])
            if hold.quantum_ms and record and isinstance(record.state, Reserved | Admitted):
                yield hold

    def _due(self, now_ms: int) -> list[BudgetHold]:
        return [hold for hold in self._renewing() if now_ms >= _renewal_ms(hold)]

    def _accrue(self, now_ms: int) -> None:
        self._passing.report_at_ms = now_ms + REPORT_EVERY_MS
        self._passing.accrued.clear()
        for key, hold in self.holds.items():
            for name, micros in self.terms.spent(hold, now_ms).items():
                self._open(name)
                self._passing.accrued.setdefault(name, {})[key] = micros

    def _acquire(self, now_ms: int) -> tuple[dict[str, int], dict[str, int], dict[str, None]]:
        """What to ask for, what to keep for who is about to get in, and where somebody waits.

        Accounts are asked for one after the other in the order of their names, so that two
        partitions never keep what the other needs.
        """
        wants: dict[str, int] = {}
        keeps: dict[str, int] = {}
        waits: dict[str, None] = {}
        for amounts in (*self._renewals(now_ms), *self._waiting_in_order()):
            short = {
                name: micros - max(0, self.left_micros(name) - keeps.get(name, 0))
                for name, micros in amounts.items()
            }
            over = [name for name in sorted(short) if self._is_beyond(name, short[name], wants)]
            if over:
                waits |= dict.fromkeys(over)
                continue
            for name in sorted(amounts):
                keeps[name] = keeps.get(name, 0) + amounts[name] - max(0, short[name])
                if short[name] > 0:
                    wants[name] = wants.get(name, 0) + short[name]
                    break
        for name in (*wants, *keeps, *waits):
            self._open(name)
        return wants, keeps, waits

    def _is_beyond(self, name: str, short_micros: int, wants: Mapping[str, int]) -> bool:
        account = self.accounts.get(name)
        if short_micros <= 0:
            return False
        if short_micros > (self.terms.known[name].window.limit_micros or 0):
            return True
        free = account.told.free_micros if account is not None and account.told else None
        return free is not None and short_micros > free - wants.get(name, 0)

    def _renewals(self, now_ms: int) -> list[Mapping[str, int]]:
        return [self._growth(hold, self._grown(hold, now_ms)) for hold in self._due(now_ms)]

    def _waiting_in_order(self) -> list[Mapping[str, int]]:
        def place(workload_id: str) -> tuple[int, int, str]:
            workload = self._records[workload_id].workload
            return (-workload.priority, workload.created_at_ms, workload_id)

        return [self._passing.waiting[name] for name in sorted(self._passing.waiting, key=place)]

    def _give_back(self, name: str, kept_micros: int) -> None:
        account = self.accounts[name]
        spare = self.left_micros(name) - kept_micros
        if spare > 0:
            self._put(replace(account, returned_micros=account.returned_micros + spare))

    def _word(self, name: str, wanted_micros: int, *, waits: bool) -> BudgetDrawn:
        account = self.accounts[name]
        accrued = self._passing.accrued.get(name, {})
        running = sum(accrued.values())
        return BudgetDrawn(
            account=name,
            budget=account.budget,
            partition=self.partition,
            period=account.period,
            starts_at_ms=account.starts_at_ms,
            ends_at_ms=account.ends_at_ms,
            number=0,
            objects_sequence=0,
            wanted_micros=account.allotted_micros + wanted_micros if wanted_micros else 0,
            returned_micros=account.returned_micros,
            spent_micros=account.settled_micros + running,
            held_micros=max(0, self._held.get(name, 0) - running),
            waits=waits,
        )

    def _open(self, name: str) -> BudgetAccount:
        self._passing.touched[name] = None
        account = self.accounts.get(name)
        if account is not None:
            return account
        of = self.terms.known[name]
        opened = BudgetAccount(
            account=name,
            budget=of.budget.name,
            period=of.period.id,
            starts_at_ms=of.period.start_ms,
            ends_at_ms=of.period.end_ms,
        )
        self._put(opened)
        return opened

    def _put(self, account: BudgetAccount) -> None:
        self.accounts[account.account] = account
        self._puts[ACCOUNT_FIELD + account.account] = codec.encode(account)
        self._passing.touched[account.account] = None

    def _count(self, amounts: Mapping[str, int], sign: int) -> None:
        for name, micros in amounts.items():
            self._held[name] = self._held.get(name, 0) + sign * micros

    def _retry_those_who_ask(self, account: str) -> None:
        for workload_id, asks in self._passing.waiting.items():
            if account in asks:
                self._passing.retries[workload_id] = None

    def _is_limited(self, name: str) -> bool:
        return self.terms.known[name].window.limit_micros is not None

    def _is_given_up(self, name: str, now_ms: int) -> bool:
        asked_ms = self._passing.asked_at_ms.get(name)
        admits = self.terms.known[name].budget.unanswered is Unanswered.ADMIT
        return admits and asked_ms is not None and now_ms - asked_ms >= ANSWER_MS

    def _evicts(self, name: str) -> bool:
        return self.terms.known[name].budget.exhaustion is Exhaustion.EVICT

    def _forget_old(self, now_ms: int) -> None:
        for name, account in list(self.accounts.items()):
            if account.ends_at_ms + KEPT_MS < now_ms and not self._held.get(name):
                del self.accounts[name]
                self._puts[ACCOUNT_FIELD + name] = None


def _is_resized(held: Admitted, left: Admitted) -> bool:
    """Whether it has, or may get, other pods than before."""
    if held.placement is left.placement and held.resize == left.resize:
        return False
    return held.pods != left.pods


def _field_of(key: Key) -> str:
    return f"{HOLD_FIELD}{key[0]}/{key[1]}"


def _renewal_ms(hold: BudgetHold) -> int:
    return hold.until_ms - hold.quantum_ms // 2
