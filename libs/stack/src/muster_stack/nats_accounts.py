"""The accounts of nats-server as configuration text; passwords stay in its environment."""

import json

from muster_domain.errors import InvalidValue
from muster_stack.access import SYSTEM, Access, secret_variable
from muster_stack.bus_users import (
    DECISION_READS,
    DECISIONS,
    JOBS,
    BusUser,
    ci_users,
    internal_users,
)

ANSWERS_WITHIN = "1m"


def render(access: Access) -> str:
    """`accounts {...}` with a user per role. Raises `InvalidValue` when two share a variable."""
    check_distinct(bus_logins(access))
    system = f"{{user: {SYSTEM}, password: ${secret_variable('NATS', SYSTEM)}}}"
    lines = [
        "accounts {",
        "  MUSTER: {",
        "    jetstream: enabled",
        "    users: [",
        *(line for user in internal_users(access) for line in _user(user)),
        "    ]",
        "    exports: [",
        f"      {{service: {json.dumps(JOBS)}, accounts: [CI]}}",
        f"      {{service: {json.dumps(DECISION_READS)}, accounts: [CI]}}",
        f"      {{stream: {json.dumps(DECISIONS)}, accounts: [CI]}}",
        "    ]",
        "  }",
        "  CI: {",
        "    users: [",
        *(line for user in ci_users(access) for line in _user(user)),
        "    ]",
        "    imports: [",
        f"      {{service: {{account: MUSTER, subject: {json.dumps(JOBS)}}}}}",
        f"      {{service: {{account: MUSTER, subject: {json.dumps(DECISION_READS)}}}}}",
        f"      {{stream: {{account: MUSTER, subject: {json.dumps(DECISIONS)}}}}}",
        "    ]",
        "  }",
        f"  SYS: {{users: [{system}]}}",
        "}",
        "system_account: SYS",
    ]
    return "\n".join(lines) + "\n"


def bus_logins(access: Access) -> tuple[str, ...]:
    """Everybody who needs a password on the bus, sorted."""
    users = (*internal_users(access), *ci_users(access))
    return tuple(sorted([SYSTEM, *(user.name for user in users)]))


def check_distinct(logins: tuple[str, ...]) -> None:
    """Raise `InvalidValue` when two logins would share a password variable."""
    seen: dict[str, str] = {}
    for login in logins:
        other = seen.setdefault(secret_variable("NATS", login), login)
        if other != login:
            raise InvalidValue(f"{login!r} and {other!r} differ too little", field="access")


def _user(user: BusUser) -> list[str]:
    lines = [
        "      {",
        f"        user: {json.dumps(user.name)}",
        f"        password: ${secret_variable('NATS', user.name)}",
        "        permissions: {",
        *_subjects("publish", user.publish),
        *_subjects("subscribe", user.subscribe),
    ]
    if user.answers:
        lines.append(f'          allow_responses: {{max: 1, expires: "{ANSWERS_WITHIN}"}}')
    return [*lines, "        }", "      }"]


def _subjects(direction: str, subjects: tuple[str, ...]) -> list[str]:
    inside = [f"            {json.dumps(subject)}" for subject in subjects]
    return [f"          {direction}: [", *inside, "          ]"]
