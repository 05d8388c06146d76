"""What is generated: secrets, users, and what each process is told."""

import hashlib
import json
import stat
from pathlib import Path

import pytest

from muster_contracts.subjects import Service
from muster_domain.errors import InvalidValue
from muster_runtime.embedded import DEFAULT_USER_OFF
from muster_stack import bus_users, compose_files, nats_accounts, redis_acl, tokens
from muster_stack.access import Access
from muster_stack.credentials import complete, read_environment
from muster_stack.plan import StackOptions, instances
from muster_stack.secrets import prepare

ACCESS = Access(nodes=("n1",), simulated=True, ci={"builds": ("team-a",), "all": ("*",)})


def test_secrets_are_private_made_once_and_completed(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "secrets.env"
    first = complete(path, ["ONE"])
    again = complete(path, ["ONE", "TWO"])
    assert again["ONE"] == first["ONE"] != again["TWO"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_environment(path) == again


def test_a_line_that_is_no_assignment_is_named(tmp_path: Path) -> None:
    path = tmp_path / "env"
    path.write_text("# fine\nONE=1\n\nnonsense\n")
    with pytest.raises(InvalidValue, match="line 4"):
        read_environment(path)


def test_files_for_containers_hold_no_secret(tmp_path: Path) -> None:
    prepare(ACCESS, tmp_path / ".env", tmp_path / "compose")
    found = read_environment(tmp_path / ".env")
    assert len(set(found.values())) == len(found)
    for name in ("nats.conf", "redis-start.sh", "tokens.json"):
        text = (tmp_path / "compose" / name).read_text()
        assert not [value for value in found.values() if value in text], name
    private = tmp_path / "compose" / "nats.env"
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert {line.split("=")[0] for line in private.read_text().splitlines()} == {
        name for name in found if name.startswith("MUSTER_NATS_PASSWORD_")
    }


def test_making_secrets_again_changes_nothing(tmp_path: Path) -> None:
    prepare(ACCESS, tmp_path / ".env", tmp_path / "compose")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    prepare(ACCESS, tmp_path / ".env", tmp_path / "compose")
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_every_bus_user_has_a_password_of_its_own() -> None:
    logins = nats_accounts.bus_logins(ACCESS)
    text = nats_accounts.render(ACCESS)
    assert len(set(logins)) == len(logins)
    variables = [line.split("$")[1] for line in text.splitlines() if "password: $" in line]
    assert len(variables) == len(set(variables)) == len(logins)


def test_two_logins_that_would_share_a_variable_are_refused() -> None:
    with pytest.raises(InvalidValue, match="differ too little"):
        nats_accounts.render(Access(nodes=("a-b", "a_b")))


@pytest.mark.parametrize("name", ["a.b", "a b", "*", ">", "team.>"])
def test_no_name_becomes_a_wildcard(name: str) -> None:
    agent = bus_users.agent(f"x{name}")
    ci = bus_users.ci_system("x", (f"x{name}",))
    for subject in (*agent.publish, *ci.publish, *ci.subscribe):
        assert f"x{name}" not in subject
        assert subject.startswith(("muster.", "$JS.", "_INBOX."))


def test_a_ci_system_of_every_namespace_has_wildcards() -> None:
    user = bus_users.ci_system("x", ("*",))
    assert "muster.v1.jobs.*.*" in user.publish
    assert "muster.v1.decisions.*.>" in user.subscribe


def test_tokens_are_kept_as_digests_with_role_and_namespaces() -> None:
    made = {name: f"token-of-{name}" for name in tokens.token_names(ACCESS)}
    entries = json.loads(tokens.render(ACCESS, made))
    assert entries[hashlib.sha256(b"token-of-ci-builds").hexdigest()] == {
        "name": "ci-builds",
        "role": "ci",
        "namespaces": ["team-a"],
    }
    assert entries[hashlib.sha256(b"token-of-ci-all").hexdigest()]["namespaces"] == "*"
    assert entries[hashlib.sha256(b"token-of-admin").hexdigest()]["role"] == "admin"


def test_the_ledger_users_are_those_with_a_password() -> None:
    lines = redis_acl.acl_lines(dict.fromkeys(redis_acl.REDIS_LOGINS, "pw"))
    assert lines[0] == DEFAULT_USER_OFF
    assert {line.split()[1] for line in lines[1:]} == set(redis_acl.REDIS_LOGINS)


def test_access_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "access.toml"
    path.write_text('nodes = ["n1"]\nsimulated = true\n[ci.builds]\nnamespaces = ["team-a"]\n')
    assert Access.read(path) == Access(nodes=("n1",), simulated=True, ci={"builds": ("team-a",)})
    path.write_text("nodes = [")
    with pytest.raises(InvalidValue):
        Access.read(path)


def test_replicas_and_agents_are_processes_of_their_own() -> None:
    options = StackOptions(
        services=(Service.ADMISSION, Service.AGENT),
        replicas={Service.ADMISSION: 2},
        simulate="2x4gpu",
        nodes=("n1",),
    )
    assert [each.name for each in instances(options)] == [
        "admission-1",
        "admission-2",
        "agent",
        "agent-n1",
    ]


def test_the_names_of_secrets_are_those_of_the_compose_file() -> None:
    text = (Path(__file__).resolve().parents[3] / "docker-compose.yml").read_text()
    asked = {part.split(":")[0] for part in text.split("${")[1:] if ":?" in part.split("}")[0]}
    default = Access(nodes=("node-1",), simulated=True, ci={"ci": ("team-a", "team-b")})
    assert asked <= set(compose_files.secret_names(default))
