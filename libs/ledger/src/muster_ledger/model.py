"""The two-phase quota ledger: who holds how much of which queue's quota.

             reserve            post              release
    (nothing) ─────▶ PENDING ─────────▶ POSTED ─────────▶ RELEASED
                        │ void ─▶ VOIDED
                        │ expire ─▶ EXPIRED          shrink keeps PENDING and POSTED as they are,
                                                     grow keeps POSTED

Pure: time comes in as a number, storage as fields. Every move is idempotent by hold id, so a
message that is delivered twice changes nothing the second time.

Whether a reservation *fits* is the scheduler's to decide; the ledger keeps what was decided exact.
"""

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType

from muster_domain.errors import InvalidValue
from muster_ledger.holds import (
    BALANCE_PREFIX,
    HOLD_PREFIX,
    Amounts,
    Balance,
    BalanceKey,
    Hold,
    HoldState,
    Tombstone,
    balance_field,
    decode_balance,
    decode_entry,
    encode_balance,
    encode_entry,
    hold_field,
    normalised,
    parse_hold_id,
)


class Move(StrEnum):
    """What can be done to a hold that exists."""

    POST = "post"
    VOID = "void"
    EXPIRE = "expire"
    RELEASE = "release"
    SHRINK = "shrink"
    GROW = "grow"


TRANSITIONS: Mapping[tuple[HoldState, Move], HoldState] = MappingProxyType(
    {
        (HoldState.PENDING, Move.POST): HoldState.POSTED,
        (HoldState.PENDING, Move.VOID): HoldState.VOIDED,
        (HoldState.PENDING, Move.EXPIRE): HoldState.EXPIRED,
        (HoldState.PENDING, Move.SHRINK): HoldState.PENDING,
        (HoldState.POSTED, Move.RELEASE): HoldState.RELEASED,
        (HoldState.POSTED, Move.SHRINK): HoldState.POSTED,
        (HoldState.POSTED, Move.GROW): HoldState.POSTED,
    }
)
"""Everything that is allowed; all else is refused and changes nothing."""


class Result(StrEnum):
    """What a move came to, in order of precedence: the first that holds is the answer.

    Members from CREATED on changed the ledger, those before did not.
    """

    ID_MALFORMED = "id_malformed"
    """reserve: not `<workload id>#<attempt>`."""
    AMOUNT_NEGATIVE = "amount_negative"
    """reserve, shrink, grow: an amount is below zero."""
    NOT_FOUND = "not_found"
    """All but reserve: no such hold, or its tombstone was pruned."""
    ALREADY_VOIDED = "already_voided"
    ALREADY_RELEASED = "already_released"
    ALREADY_EXPIRED = "already_expired"
    """Every move: it is over and stays over, whatever else differs. A repeat ends here too."""
    ALREADY_POSTED = "already_posted"
    """post (again), void: quota is in use; only release gives it back."""
    NOT_POSTED = "not_posted"
    """release: quota is only reserved; void gives it back. grow: it is not in use yet."""
    EXISTS_WITH_DIFFERENT_QUEUE = "exists_with_different_queue"
    EXISTS_WITH_DIFFERENT_AMOUNT = "exists_with_different_amount"
    """reserve: the id is live with another body, compared with what was reserved at first."""
    AMOUNT_NOT_SMALLER = "amount_not_smaller"
    """shrink: an amount is above what is held."""
    AMOUNT_NOT_LARGER = "amount_not_larger"
    """grow: an amount is below what is held."""
    EXISTS = "exists"
    """reserve, shrink, grow: exactly this was done before."""
    CREATED = "created"
    SHRUNK = "shrunk"
    GROWN = "grown"
    POSTED = "posted"
    VOIDED = "voided"
    RELEASED = "released"
    EXPIRED = "expired"

    @property
    def changed(self) -> bool:
        """Whether the ledger is not what it was before."""
        return self in _CHANGES


_CHANGES = (
    Result.CREATED,
    Result.SHRUNK,
    Result.GROWN,
    Result.POSTED,
    Result.VOIDED,
    Result.RELEASED,
    Result.EXPIRED,
)
_REFUSAL: Mapping[HoldState, Result] = MappingProxyType(
    {
        HoldState.PENDING: Result.NOT_POSTED,
        HoldState.POSTED: Result.ALREADY_POSTED,
        HoldState.VOIDED: Result.ALREADY_VOIDED,
        HoldState.RELEASED: Result.ALREADY_RELEASED,
        HoldState.EXPIRED: Result.ALREADY_EXPIRED,
    }
)


class Ledger:
    """Live holds, tombstones and balances of one shard.

    Remembers which fields changed since `take_changes`, so that its owner can put them into the
    same commit as everything else the cycle did.
    """

    def __init__(self) -> None:
        self._entries: dict[str, Hold | Tombstone] = {}
        self._balances: dict[BalanceKey, Balance] = {}
        self._expiries: list[tuple[int, str]] = []
        self._changed_entries: dict[str, None] = {}
        self._changed_balances: dict[BalanceKey, None] = {}

    @classmethod
    def from_fields(cls, fields: Mapping[str, bytes]) -> "Ledger":
        """Rebuild from stored fields; names without the ledger's prefixes are someone else's.

        Raises `InvalidValue` when a field cannot be read, or a stored balance is not the sum of the
        stored holds: deciding on wrong sums is worse than not starting.
        """
        ledger = cls()
        stored: dict[BalanceKey, Balance] = {}
        for name, value in fields.items():
            if name.startswith(HOLD_PREFIX):
                ledger._put(decode_entry(name, value))
            elif name.startswith(BALANCE_PREFIX):
                key, balance = decode_balance(name, value)
                stored[key] = balance
        if stored != ledger._balances:
            raise InvalidValue(
                "stored balances are not the sums of the stored holds",
                fix="see docs/operations/MusterLedgerMismatch.md",
            )
        ledger._changed_entries.clear()
        ledger._changed_balances.clear()
        return ledger

    def reserve(
        self, hold_id: str, cluster_queue: str, amounts: Amounts, expires_at_ms: int | None
    ) -> Result:
        """Hold quota for a workload until it is posted, voided or expired.

        The expiry is not part of the body: a repeat may name another one and changes nothing.
        """
        if not _is_hold_id(hold_id):
            return Result.ID_MALFORMED
        if any(milli < 0 for milli in amounts.values()):
            return Result.AMOUNT_NEGATIVE
        asked = normalised(amounts)
        entry = self._entries.get(hold_id)
        if entry is not None:
            return _compare(entry, cluster_queue, asked)
        self._put(
            Hold(
                id=hold_id,
                cluster_queue=cluster_queue,
                amounts=asked,
                reserved_amounts=asked,
                expires_at_ms=expires_at_ms,
            )
        )
        return Result.CREATED

    def post(self, hold_id: str) -> Result:
        """Turn a reservation into use. One that is due but was not expired yet is still posted."""
        hold = self._allowed(hold_id, Move.POST)
        if isinstance(hold, Result):
            return hold
        self._put(replace(hold, state=TRANSITIONS[hold.state, Move.POST], expires_at_ms=None))
        return Result.POSTED

    def void(self, hold_id: str, now_ms: int) -> Result:
        """Give a reservation back."""
        return self._end(hold_id, Move.VOID, now_ms)

    def release(self, hold_id: str, now_ms: int) -> Result:
        """Give back what is in use."""
        return self._end(hold_id, Move.RELEASE, now_ms)

    def shrink(self, hold_id: str, amounts: Amounts) -> Result:
        """Hold only `amounts` from now on; what is missing or zero in them is given back."""
        if any(milli < 0 for milli in amounts.values()):
            return Result.AMOUNT_NEGATIVE
        hold = self._allowed(hold_id, Move.SHRINK)
        if isinstance(hold, Result):
            return hold
        asked = normalised(amounts)
        if any(milli > hold.amounts.get(key, 0) for key, milli in asked.items()):
            return Result.AMOUNT_NOT_SMALLER
        if asked == hold.amounts:
            return Result.EXISTS
        self._put(replace(hold, amounts=asked))
        return Result.SHRUNK

    def grow(self, hold_id: str, amounts: Amounts) -> Result:
        """Hold all of `amounts` from now on, in use like what is held already."""
        if any(milli < 0 for milli in amounts.values()):
            return Result.AMOUNT_NEGATIVE
        hold = self._allowed(hold_id, Move.GROW)
        if isinstance(hold, Result):
            return hold
        asked = normalised(amounts)
        if any(asked.get(key, 0) < milli for key, milli in hold.amounts.items()):
            return Result.AMOUNT_NOT_LARGER
        if asked == hold.amounts:
            return Result.EXISTS
        self._put(replace(hold, amounts=asked))
        return Result.GROWN

    def due(self, now_ms: int) -> tuple[Hold, ...]:
        """Reservations whose time is over, in order of (expiry, id). Changes nothing."""
        found: list[Hold] = []
        while self._expiries and self._expiries[0][0] <= now_ms:
            at_ms, hold_id = heapq.heappop(self._expiries)
            entry = self._entries.get(hold_id)
            if isinstance(entry, Hold) and entry.expires_at_ms == at_ms:
                found.append(entry)
        for hold in found:
            self._await_expiry(hold)
        return tuple(found)

    def expire(self, now_ms: int) -> tuple[Hold, ...]:
        """End every reservation that is due; returns them as they were."""
        expired = self.due(now_ms)
        for hold in expired:
            self._end(hold.id, Move.EXPIRE, now_ms)
        return expired

    def prune(self, *, before_ms: int, keep_max: int) -> int:
        """Forget tombstones that ended before `before_ms`, and the oldest beyond `keep_max`.

        Returns how many. An id that is forgotten could be reserved again: keep tombstones for
        longer than a message about them can be late.
        """
        tombstones = sorted(
            (entry for entry in self._entries.values() if isinstance(entry, Tombstone)),
            key=lambda tombstone: (tombstone.ended_at_ms, tombstone.id),
        )
        beyond = max(0, len(tombstones) - keep_max)
        forgotten = [
            tombstone
            for rank, tombstone in enumerate(tombstones)
            if rank < beyond or tombstone.ended_at_ms < before_ms
        ]
        for tombstone in forgotten:
            del self._entries[tombstone.id]
            self._changed_entries[tombstone.id] = None
        return len(forgotten)

    def get(self, hold_id: str) -> Hold | Tombstone | None:
        """The hold, or what is left of it."""
        return self._entries.get(hold_id)

    def holds(self) -> Iterator[Hold]:
        """Live holds, in order of their reservation."""
        return (entry for entry in self._entries.values() if isinstance(entry, Hold))

    def balance(self, cluster_queue: str, flavor: str, resource: str) -> Balance:
        """What is held of one quota."""
        return self._balances.get(BalanceKey(cluster_queue, flavor, resource), Balance())

    def balances(self) -> Mapping[BalanceKey, Balance]:
        """All balances that are not zero; a live view."""
        return MappingProxyType(self._balances)

    def take_changes(self) -> dict[str, bytes | None]:
        """Fields that changed since the last call, with their new value; `None` deletes."""
        changes: dict[str, bytes | None] = {}
        for hold_id in self._changed_entries:
            entry = self._entries.get(hold_id)
            changes[hold_field(hold_id)] = None if entry is None else encode_entry(entry)
        for key in self._changed_balances:
            balance = self._balances.get(key)
            changes[balance_field(key)] = None if balance is None else encode_balance(balance)
        self._changed_entries.clear()
        self._changed_balances.clear()
        return changes

    def _allowed(self, hold_id: str, move: Move) -> Hold | Result:
        entry = self._entries.get(hold_id)
        if entry is None:
            return Result.NOT_FOUND
        if isinstance(entry, Tombstone) or (entry.state, move) not in TRANSITIONS:
            return _REFUSAL[entry.state]
        return entry

    def _end(self, hold_id: str, move: Move, now_ms: int) -> Result:
        hold = self._allowed(hold_id, move)
        if isinstance(hold, Result):
            return hold
        state = TRANSITIONS[hold.state, move]
        self._put(Tombstone(id=hold_id, state=state, ended_at_ms=now_ms))
        return Result(state.value)

    def _put(self, entry: Hold | Tombstone) -> None:
        before = self._entries.get(entry.id)
        if isinstance(before, Hold):
            self._charge(before, -1)
        if isinstance(entry, Hold):
            self._charge(entry, 1)
            if before is None:
                self._await_expiry(entry)
        self._entries[entry.id] = entry
        self._changed_entries[entry.id] = None

    def _charge(self, hold: Hold, sign: int) -> None:
        for (flavor, resource), milli in hold.amounts.items():
            key = BalanceKey(hold.cluster_queue, flavor, resource)
            reserved, used = self._balances.get(key, Balance())
            if hold.state is HoldState.PENDING:
                reserved += sign * milli
            else:
                used += sign * milli
            if reserved < 0 or used < 0:
                raise AssertionError(f"balance of {key} would be {reserved}, {used}")
            if reserved or used:
                self._balances[key] = Balance(reserved, used)
            else:
                del self._balances[key]
            self._changed_balances[key] = None

    def _await_expiry(self, hold: Hold) -> None:
        if hold.expires_at_ms is not None:
            heapq.heappush(self._expiries, (hold.expires_at_ms, hold.id))


def _is_hold_id(text: str) -> bool:
    try:
        parse_hold_id(text)
    except InvalidValue:
        return False
    return True


def _compare(entry: Hold | Tombstone, cluster_queue: str, asked: Amounts) -> Result:
    if isinstance(entry, Tombstone):
        return _REFUSAL[entry.state]
    if entry.cluster_queue != cluster_queue:
        return Result.EXISTS_WITH_DIFFERENT_QUEUE
    if entry.reserved_amounts != asked:
        return Result.EXISTS_WITH_DIFFERENT_AMOUNT
    return Result.EXISTS
