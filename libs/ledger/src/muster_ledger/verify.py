"""Proves that the stored ledger agrees with itself and with what is admitted.

Written apart from the model: it sums the stored holds its own way, so a fault in the model's
bookkeeping shows here.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from muster_domain.errors import InvalidValue
from muster_ledger.holds import (
    BALANCE_PREFIX,
    HOLD_PREFIX,
    Amounts,
    BalanceKey,
    Hold,
    HoldState,
    balance_field,
    decode_balance,
    decode_entry,
    hold_field,
    normalised,
)


class DiscrepancyKind(StrEnum):
    """What is wrong."""

    UNREADABLE = "unreadable"
    NEGATIVE = "negative"
    RESERVED_DIFFERS = "reserved_differs"
    USED_DIFFERS = "used_differs"
    HOLD_MISSING = "hold_missing"
    HOLD_UNCLAIMED = "hold_unclaimed"
    QUEUE_DIFFERS = "queue_differs"
    AMOUNT_DIFFERS = "amount_differs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Discrepancy:
    """One disagreement about one field. Numbers are milli-units."""

    kind: DiscrepancyKind
    field: str
    detail: str = ""
    expected_milli: int = 0
    found_milli: int = 0


@dataclass(frozen=True, slots=True)
class Charge:
    """What a workload that holds quota is charged, as its own state says."""

    cluster_queue: str
    amounts: Amounts


@dataclass(slots=True)
class _Stored:
    holds: dict[str, Hold]
    balances: dict[BalanceKey, tuple[int, int]]
    unreadable: list[Discrepancy]


def verify(
    fields: Mapping[str, bytes], charges: Mapping[str, Charge] | None = None
) -> tuple[Discrepancy, ...]:
    """Compare stored balances with the sums of live holds, and live holds with `charges`.

    `charges` gives, by hold id, what every workload with quota (reserved, admitted or evicting) is
    charged; without it only the ledger itself is checked. Nothing found means that all three
    agree to the last milli-unit. Sorted by field.
    """
    stored = _read(fields)
    found = [*stored.unreadable, *_check_balances(stored)]
    if charges is not None:
        found += _check_charges(stored.holds, charges)
    return tuple(sorted(found, key=lambda item: (item.field, item.kind, item.detail)))


def _read(fields: Mapping[str, bytes]) -> _Stored:
    stored = _Stored(holds={}, balances={}, unreadable=[])
    for name, value in fields.items():
        try:
            if name.startswith(HOLD_PREFIX):
                entry = decode_entry(name, value)
                if isinstance(entry, Hold):
                    stored.holds[entry.id] = entry
            elif name.startswith(BALANCE_PREFIX):
                key, balance = decode_balance(name, value)
                stored.balances[key] = (balance.reserved_milli, balance.used_milli)
        except InvalidValue as error:
            stored.unreadable.append(
                Discrepancy(kind=DiscrepancyKind.UNREADABLE, field=name, detail=error.problem)
            )
    return stored


def _check_balances(stored: _Stored) -> list[Discrepancy]:
    reserved: Counter[BalanceKey] = Counter()
    used: Counter[BalanceKey] = Counter()
    found: list[Discrepancy] = []
    for hold in stored.holds.values():
        sums = reserved if hold.state is HoldState.PENDING else used
        for (flavor, resource), milli in hold.amounts.items():
            sums[BalanceKey(hold.cluster_queue, flavor, resource)] += milli
            if milli < 0:
                found.append(_negative(hold_field(hold.id), milli))
    for key in sorted({*reserved, *used, *stored.balances}):
        name = balance_field(key)
        pairs = zip(
            (DiscrepancyKind.RESERVED_DIFFERS, DiscrepancyKind.USED_DIFFERS),
            (reserved[key], used[key]),
            stored.balances.get(key, (0, 0)),
            strict=True,
        )
        for kind, expected, present in pairs:
            if present < 0:
                found.append(_negative(name, present))
            if present != expected:
                found.append(_differs(kind, name, expected, present))
    return found


def _check_charges(holds: Mapping[str, Hold], charges: Mapping[str, Charge]) -> list[Discrepancy]:
    found: list[Discrepancy] = []
    for identity in sorted({*holds, *charges}):
        name = hold_field(identity)
        hold, charge = holds.get(identity), charges.get(identity)
        if hold is None:
            found.append(Discrepancy(kind=DiscrepancyKind.HOLD_MISSING, field=name))
        elif charge is None:
            found.append(Discrepancy(kind=DiscrepancyKind.HOLD_UNCLAIMED, field=name))
        else:
            found += _check_charge(name, hold, charge)
    return found


def _check_charge(name: str, hold: Hold, charge: Charge) -> list[Discrepancy]:
    found: list[Discrepancy] = []
    if hold.cluster_queue != charge.cluster_queue:
        found.append(
            Discrepancy(
                kind=DiscrepancyKind.QUEUE_DIFFERS,
                field=name,
                detail=f"charged to {charge.cluster_queue}, held of {hold.cluster_queue}",
            )
        )
    expected = normalised(charge.amounts)
    for key in sorted({*expected, *hold.amounts}):
        wanted, present = expected.get(key, 0), hold.amounts.get(key, 0)
        if wanted != present:
            detail = "/".join(key)
            found.append(
                _differs(DiscrepancyKind.AMOUNT_DIFFERS, name, wanted, present, detail=detail)
            )
    return found


def _negative(name: str, present: int) -> Discrepancy:
    return Discrepancy(kind=DiscrepancyKind.NEGATIVE, field=name, found_milli=present)


def _differs(
    kind: DiscrepancyKind, name: str, expected: int, present: int, *, detail: str = ""
) -> Discrepancy:
    return Discrepancy(
        kind=kind, field=name, detail=detail, expected_milli=expected, found_milli=present
    )
