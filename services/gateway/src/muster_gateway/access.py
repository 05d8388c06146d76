"""Who a caller is and what the caller may do. Pure: tokens come in as text."""

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from muster_domain.errors import Forbidden, InvalidValue, MusterError

EVERYWHERE = "*"
_SHA256_HEX = 64


class Unauthenticated(MusterError):
    """The caller did not say who it is, or is not known."""


class Role(StrEnum):
    """What a token is for."""

    ADMIN = "admin"
    OPERATOR = "operator"
    USER = "user"
    CI = "ci"
    VIEWER = "viewer"
    CHECKER = "checker"


class Right(StrEnum):
    """What can be done here."""

    READ = "read"
    SUBMIT = "submit jobs"
    END = "cancel and finish jobs"
    SPEAK_FOR_OTHERS = "submit in another user's name"
    CONFIGURE = "change objects"
    OPERATE = "drain nodes"
    ANSWER_CHECKS = "answer for admission checks"


_RIGHTS: Mapping[Role, frozenset[Right]] = {
    Role.VIEWER: frozenset({Right.READ}),
    Role.USER: frozenset({Right.READ, Right.SUBMIT, Right.END}),
    Role.CI: frozenset({Right.READ, Right.SUBMIT, Right.END, Right.SPEAK_FOR_OTHERS}),
    Role.CHECKER: frozenset({Right.READ, Right.ANSWER_CHECKS}),
    Role.OPERATOR: frozenset(Right),
    Role.ADMIN: frozenset(Right),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Somebody who is known. `namespaces` of `None` means all of them."""

    name: str
    role: Role
    namespaces: frozenset[str] | None = None

    def sees(self, namespace: str) -> bool:
        """Whether the namespace's workloads are this caller's business."""
        return self.namespaces is None or namespace in self.namespaces

    def need(self, right: Right, namespace: str | None = None) -> None:
        """Raise `Forbidden` unless the caller may do this, in this namespace if one is given.

        Objects and nodes belong to no namespace: changing them needs all namespaces.
        """
        if right not in _RIGHTS[self.role]:
            raise Forbidden(f"{self.name} has the role {self.role} and may not {right}")
        if namespace is not None and not self.sees(namespace):
            raise Forbidden(f"{self.name} may not {right} in the namespace {namespace!r}")
        if right in {Right.CONFIGURE, Right.OPERATE} and self.namespaces is not None:
            raise Forbidden(f"{self.name} is held to namespaces and may not {right}")

    def visible(self, asked: str = "") -> tuple[str, ...]:
        """The namespaces to ask for: the one asked for, else all the caller sees; empty is all.

        Raises `Forbidden` for a namespace that the caller does not see, and for one who sees none.
        """
        if asked:
            self.need(Right.READ, asked)
            return (asked,)
        if self.namespaces is None:
            return ()
        if not self.namespaces:
            raise Forbidden(f"{self.name} is held to no namespace at all")
        return tuple(sorted(self.namespaces))


class Tokens:
    """The known tokens, by their SHA-256."""

    def __init__(self, callers: Mapping[str, Caller], *, anonymous: Caller | None = None) -> None:
        self._callers = {digest.encode(): caller for digest, caller in callers.items()}
        self._anonymous = anonymous

    def __len__(self) -> int:
        return len(self._callers)

    def caller(self, authorization: str) -> Caller:
        """Who sent this `Authorization` header. Raises `Unauthenticated`.

        Every known digest is compared in constant time, so the time taken tells nothing.
        """
        if not authorization:
            if self._anonymous is None:
                raise Unauthenticated("no token was sent")
            return self._anonymous
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Unauthenticated("the Authorization header is not a bearer token")
        digest = token_digest(token.strip()).encode()
        found: Caller | None = None
        for known, caller in self._callers.items():
            if hmac.compare_digest(known, digest):
                found = caller
        if found is None:
            raise Unauthenticated("this token is not known")
        return found


def token_digest(token: str) -> str:
    """What is kept of a token: its SHA-256 in hexadecimal."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def read_tokens(text: str, source: str) -> dict[str, Caller]:
    """Read `{sha256: {name, role, namespaces}}`. Raises `InvalidValue` naming what is wrong."""
    if not text.strip():
        return {}
    try:
        value: object = json.loads(text)
    except ValueError as error:
        raise InvalidValue(f"not JSON: {error}", field=source) from error
    if not isinstance(value, dict):
        raise InvalidValue("not an object", field=source, fix='write {"<sha256>": {...}}')
    entries = cast("dict[str, Any]", value)
    return {
        _checked_digest(digest, source): _read_caller(entry, f"{source}.{digest[:8]}")
        for digest, entry in entries.items()
    }


def _checked_digest(digest: str, source: str) -> str:
    lowered = digest.lower()
    if len(lowered) != _SHA256_HEX or not set(lowered) <= set("0123456789abcdef"):
        raise InvalidValue(
            f"{digest[:12]!r}... is not a SHA-256", field=source, fix="write 64 hexadecimal digits"
        )
    return lowered


def _read_caller(entry: object, where: str) -> Caller:
    if not isinstance(entry, dict):
        raise InvalidValue("not an object", field=where, fix="write {name, role, namespaces}")
    fields = cast("dict[str, object]", entry)
    name = fields.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidValue("missing", field=f"{where}.name", fix="write who the token is for")
    return Caller(
        name=name,
        role=read_role(fields.get("role"), f"{where}.role"),
        namespaces=_read_namespaces(fields.get("namespaces", EVERYWHERE), f"{where}.namespaces"),
    )


def read_role(value: object, where: str) -> Role:
    """Read a role's name. Raises `InvalidValue`."""
    if isinstance(value, str) and value in {role.value for role in Role}:
        return Role(value)
    raise InvalidValue(
        f"{value!r} is not a role", field=where, fix=f"write {' or '.join(sorted(Role))}"
    )


def _read_namespaces(value: object, where: str) -> frozenset[str] | None:
    if value == EVERYWHERE:
        return None
    if isinstance(value, list):
        names = cast("list[object]", value)
        if all(isinstance(name, str) and name for name in names):
            return frozenset(cast("list[str]", names))
    raise InvalidValue("not a list of names", field=where, fix='write ["team-a"] or "*"')
