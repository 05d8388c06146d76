"""Holds and balances as values, and how they are stored in fields.

    h/<hold id>    {"q": queue, "s": state, "a": [[flavor, resource, milli]..], "e": expiry,
                    "i": amounts as first reserved, where they were shrunk since}
                   {"s": state, "t": ended at} once it is over
    b/<cluster queue>/<flavor>/<resource>
                   [reserved milli, used milli]; absent when both are 0

Parts of a name are escaped (`%` as `%25`, `/` as `%2F`). Integers are exact at any size.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from muster_domain.errors import InvalidValue

Amounts = Mapping[tuple[str, str], int]
"""Milli-units by (flavor, resource), all above 0, in the order of their keys."""

HOLD_PREFIX = "h/"
BALANCE_PREFIX = "b/"
_write = json.JSONEncoder(separators=(",", ":")).encode


class HoldState(StrEnum):
    """PENDING and POSTED are live, the others are for ever."""

    PENDING = "pending"
    POSTED = "posted"
    VOIDED = "voided"
    RELEASED = "released"
    EXPIRED = "expired"


LIVE = (HoldState.PENDING, HoldState.POSTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Quota that a workload holds now: reserved while PENDING, used while POSTED.

    `reserved_amounts` is what was asked for at first; `amounts` is less after a shrink. A PENDING
    hold without `expires_at_ms` never expires.
    """

    id: str
    cluster_queue: str
    amounts: Amounts
    reserved_amounts: Amounts
    state: HoldState = HoldState.PENDING
    expires_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """A hold that is over: its id must never become live again."""

    id: str
    state: HoldState
    ended_at_ms: int


class BalanceKey(NamedTuple):
    """What a balance counts."""

    cluster_queue: str
    flavor: str
    resource: str


class Balance(NamedTuple):
    """Sums over live holds, in milli-units."""

    reserved_milli: int = 0
    used_milli: int = 0

    @property
    def held_milli(self) -> int:
        """Everything that counts against the quota."""
        return self.reserved_milli + self.used_milli


def hold_id(workload_id: str, attempt: int) -> str:
    """`<workload id>#<attempt>`. Attempts count reservations from 1."""
    return f"{workload_id}#{attempt}"


def parse_hold_id(identity: str) -> tuple[str, int]:
    """Split into workload id and attempt. Raises `InvalidValue` for anything else."""
    workload_id, hash_sign, attempt = identity.rpartition("#")
    if not (workload_id and hash_sign and attempt.isascii() and attempt.isdecimal()):
        raise InvalidValue(f"{identity!r} is not a hold id", fix="write <workload id>#<attempt>")
    return workload_id, int(attempt)


def normalised(amounts: Amounts) -> dict[tuple[str, str], int]:
    """Sorted, without zeros, so that equal amounts are written equally."""
    return {key: amounts[key] for key in sorted(amounts) if amounts[key]}


def hold_field(identity: str) -> str:
    """Name the field of a hold."""
    return HOLD_PREFIX + _escape(identity)


def balance_field(key: BalanceKey) -> str:
    """Name the field of a balance."""
    return BALANCE_PREFIX + "/".join(map(_escape, key))


def encode_entry(entry: Hold | Tombstone) -> bytes:
    """Write a hold, live or over."""
    if isinstance(entry, Tombstone):
        return _write({"s": entry.state, "t": entry.ended_at_ms}).encode()
    body: dict[str, object] = {
        "q": entry.cluster_queue,
        "s": entry.state,
        "a": _listed(entry.amounts),
    }
    if entry.reserved_amounts != entry.amounts:
        body["i"] = _listed(entry.reserved_amounts)
    if entry.expires_at_ms is not None:
        body["e"] = entry.expires_at_ms
    return _write(body).encode()


def decode_entry(name: str, value: bytes) -> Hold | Tombstone:
    """Read what `encode_entry` wrote into `hold_field`. Raises `InvalidValue`."""
    identity = _unescape(name.removeprefix(HOLD_PREFIX))
    try:
        body: dict[str, Any] = json.loads(value)
        state = HoldState(body["s"])
        if state not in LIVE:
            return Tombstone(id=identity, state=state, ended_at_ms=_integer(body["t"]))
        amounts = _amounts(body["a"])
        return Hold(
            id=identity,
            cluster_queue=str(body["q"]),
            amounts=amounts,
            reserved_amounts=_amounts(body["i"]) if "i" in body else amounts,
            state=state,
            expires_at_ms=_integer(body["e"]) if "e" in body else None,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidValue(f"not a hold: {value[:80]!r}", field=name) from error


def encode_balance(balance: Balance) -> bytes:
    """Write a balance."""
    return _write(list(balance)).encode()


def decode_balance(name: str, value: bytes) -> tuple[BalanceKey, Balance]:
    """Read what `encode_balance` wrote into `balance_field`. Raises `InvalidValue`."""
    try:
        key = BalanceKey(*map(_unescape, name.removeprefix(BALANCE_PREFIX).split("/")))
        reserved, used = json.loads(value)
        return key, Balance(_integer(reserved), _integer(used))
    except (ValueError, TypeError) as error:
        raise InvalidValue(f"not a balance: {value[:80]!r}", field=name) from error


def _listed(amounts: Amounts) -> list[tuple[str, str, int]]:
    return [(flavor, resource, milli) for (flavor, resource), milli in amounts.items()]


def _amounts(listed: list[tuple[str, str, int]]) -> dict[tuple[str, str], int]:
    return {(str(flavor), str(resource)): _integer(milli) for flavor, resource, milli in listed}


def _integer(value: object) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r} is not an integer")
    return value


def _escape(part: str) -> str:
    return part.replace("%", "%25").replace("/", "%2F")


def _unescape(part: str) -> str:
    return part.replace("%2F", "/").replace("%25", "%")
