"""The accounts of nats-server as configuration text; passwords stay in its environment."""

import json

from muster_domain.errors import InvalidValue
from muster_stack.access import SYSTEM, Access, secret_variable
from muster_stack.bus_users import (
    AGENT_ANSWERS,
    AGENT_PASSAGES,
    CI_PASSAGES,
    BusUser,
    Passage,
    agent_users,
    ci_users,
    internal_users,
)

ANSWERS_WITHIN = "1m"
HOME = "MUSTER"
AGENTS = "AGENTS"
CI = "CI"


def render(access: Access) -> str:
    """`accounts {...}` with a user per role. Raises `InvalidValue` when two share a variable."""
    check_distinct(bus_logins(access))
    exports = [
        *(_export(passage, AGENTS) for passage in AGENT_PASSAGES),
        *(_export(passage, CI) for passage in CI_PASSAGES),
    ]
    lines = [
        "accounts {",
        f"  {HOME}: {{",
        "    jetstream: enabled",
        *_users(internal_users()),
        "    exports: [",
        *exports,
        "    ]",
        f"    imports: [{_import(AGENT_ANSWERS, AGENTS)}]",
        "  }",
        *_guests(AGENTS, agent_users(access), AGENT_PASSAGES, (AGENT_ANSWERS,)),
        *_guests(CI, ci_users(access), CI_PASSAGES, ()),
        f"  SYS: {{users: [{{user: {SYSTEM}, password: ${secret_variable('NATS', SYSTEM)}}}]}}",
        "}",
        "system_account: SYS",
    ]
    return "\n".join(lines) + "\n"


def bus_logins(access: Access) -> tuple[str, ...]:
    """Everybody who needs a password on the bus, sorted."""
    users = (*internal_users(), *agent_users(access), *ci_users(access))
    return tuple(sorted([SYSTEM, *(user.name for user in users)]))


def check_distinct(logins: tuple[str, ...]) -> None:
    """Raise `InvalidValue` when two logins would share a password variable."""
    seen: dict[str, str] = {}
    for login in logins:
        other = seen.setdefault(secret_variable("NATS", login), login)
        if other != login:
            raise InvalidValue(f"{login!r} and {other!r} differ too little", field="access")


def _guests(
    account: str,
    users: tuple[BusUser, ...],
    passages: tuple[Passage, ...],
    answers: tuple[Passage, ...],
) -> list[str]:
    return [
        f"  {account}: {{",
        *_users(users),
        "    imports: [",
        *(_import(passage, HOME) for passage in passages),
        "    ]",
        "    exports: [",
        *(_export(passage, HOME) for passage in answers),
        "    ]",
        "  }",
    ]


def _users(users: tuple[BusUser, ...]) -> list[str]:
    return ["    users: [", *(line for user in users for line in _user(user)), "    ]"]


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


def _export(passage: Passage, account: str) -> str:
    kind = "stream" if passage.stream else "service"
    many = ", response_type: stream" if passage.answers_many else ""
    return f"      {{{kind}: {json.dumps(passage.subject)}, accounts: [{account}]{many}}}"


def _import(passage: Passage, account: str) -> str:
    kind = "stream" if passage.stream else "service"
    subject = json.dumps(passage.subject)
    to = f", to: {json.dumps(passage.local)}" if passage.local else ""
    return f"      {{{kind}: {{account: {account}, subject: {subject}}}{to}}}"
