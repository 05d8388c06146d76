import json

import pytest

from muster_domain.errors import Forbidden, InvalidValue
from muster_gateway.access import (
    Caller,
    Right,
    Role,
    Tokens,
    Unauthenticated,
    read_tokens,
    token_digest,
)

ANNA = Caller(name="anna", role=Role.USER, namespaces=frozenset({"team-a", "team-b"}))
EVERYBODY_MAY = {Right.READ}
USERS_MAY = EVERYBODY_MAY | {Right.SUBMIT, Right.END}
CI_MAY = USERS_MAY | {Right.SPEAK_FOR_OTHERS}


@pytest.mark.parametrize(
    ("role", "rights"),
    [
        (Role.VIEWER, EVERYBODY_MAY),
        (Role.USER, USERS_MAY),
        (Role.CI, CI_MAY),
        (Role.CHECKER, EVERYBODY_MAY | {Right.ANSWER_CHECKS}),
        (Role.OPERATOR, set(Right)),
        (Role.ADMIN, set(Right)),
    ],
)
def test_every_role_has_exactly_its_rights(role: Role, rights: set[Right]) -> None:
    caller = Caller(name="x", role=role)
    granted: set[Right] = set()
    for right in Right:
        try:
            caller.need(right)
        except Forbidden:
            continue
        granted.add(right)
    assert granted == rights


def test_a_caller_is_held_to_its_namespaces() -> None:
    ANNA.need(Right.SUBMIT, "team-a")
    with pytest.raises(Forbidden, match="team-c"):
        ANNA.need(Right.SUBMIT, "team-c")
    assert ANNA.visible() == ("team-a", "team-b")
    assert ANNA.visible("team-b") == ("team-b",)
    with pytest.raises(Forbidden):
        ANNA.visible("team-c")
    assert Caller(name="root", role=Role.ADMIN).visible() == ()


def test_a_caller_of_no_namespace_does_not_see_all_of_them() -> None:
    with pytest.raises(Forbidden):
        Caller(name="nobody", role=Role.USER, namespaces=frozenset()).visible()


@pytest.mark.parametrize("right", [Right.CONFIGURE, Right.OPERATE])
def test_an_operator_of_some_namespaces_changes_nothing_that_all_share(right: Right) -> None:
    with pytest.raises(Forbidden):
        Caller(name="o", role=Role.OPERATOR, namespaces=frozenset({"team-a"})).need(right)


def test_tokens_are_known_by_their_digest() -> None:
    text = json.dumps(
        {token_digest("t1"): {"name": "anna", "role": "user", "namespaces": ["team-a"]}}
    )
    tokens = Tokens(read_tokens(text, "env"))
    caller = tokens.caller("Bearer t1")
    assert (caller.name, caller.namespaces) == ("anna", frozenset({"team-a"}))
    assert tokens.caller("bearer  t1 ") == caller


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Basic t1", "Bearer t2", "t1", "Bearer t1 t1", "Bearer \udcff"],
)
def test_anything_else_is_turned_away(header: str) -> None:
    tokens = Tokens({token_digest("t1"): ANNA})
    with pytest.raises(Unauthenticated):
        tokens.caller(header)


def test_without_a_token_one_may_be_let_in_as_anonymous() -> None:
    nobody = Caller(name="anonymous", role=Role.VIEWER)
    tokens = Tokens({}, anonymous=nobody)
    assert tokens.caller("") == nobody
    with pytest.raises(Unauthenticated):
        tokens.caller("Bearer wrong")


DIGEST = "a" * 64


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("{", "env"),
        ("[]", "env"),
        ('{"abc": {}}', "env"),
        (json.dumps({DIGEST: 7}), "env.aaaaaaaa"),
        (json.dumps({DIGEST: {"role": "user"}}), "env.aaaaaaaa.name"),
        (json.dumps({DIGEST: {"name": "x", "role": "king"}}), "env.aaaaaaaa.role"),
        (json.dumps({DIGEST: {"name": "x"}}), "env.aaaaaaaa.role"),
        (
            json.dumps({DIGEST: {"name": "x", "role": "user", "namespaces": "team-a"}}),
            "env.aaaaaaaa.namespaces",
        ),
        (
            json.dumps({DIGEST: {"name": "x", "role": "user", "namespaces": [1]}}),
            "env.aaaaaaaa.namespaces",
        ),
    ],
)
def test_a_bad_token_file_says_where(text: str, field: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        read_tokens(text, "env")
    assert caught.value.field == field


def test_no_token_file_is_no_tokens() -> None:
    assert read_tokens(" ", "env") == {}
