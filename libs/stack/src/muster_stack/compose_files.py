"""The configuration that the containers of `docker-compose.yml` mount, made from `access.toml`.

None of it holds a secret: passwords come from the environment of each container, tokens appear as
digests.
"""

from collections.abc import Mapping

from muster_stack import nats_accounts, redis_acl, tokens
from muster_stack.access import Access, secret_variable

_NATS = """\
listen: "0.0.0.0:4222"
http: "127.0.0.1:8222"
server_name: muster
max_payload: 1MB
jetstream {
  store_dir: /data
  max_memory_store: 256MB
  max_file_store: 32GB
  sync_interval: "10s"
}
"""

_REDIS = """\
#!/bin/sh
# The configuration goes in on standard input, so no password is ever written to a file.
exec redis-server - <<CONFIGURATION
bind 0.0.0.0
port 6379
protected-mode yes
dir /data
appendonly yes
appendfsync ${MUSTER_REDIS_APPENDFSYNC:-always}
aof-use-rdb-preamble yes
save ""
maxmemory-policy noeviction
"""

GRAFANA_PASSWORD = "MUSTER_GRAFANA_PASSWORD"  # noqa: S105 - the name of a variable


def secret_names(access: Access) -> tuple[str, ...]:
    """Every secret of an installation in containers, by environment variable."""
    return (
        *(secret_variable("NATS", login) for login in nats_accounts.bus_logins(access)),
        *(secret_variable("REDIS", login) for login in redis_acl.REDIS_LOGINS),
        *(tokens.token_variable(name) for name in tokens.token_names(access)),
        GRAFANA_PASSWORD,
    )


def nats_conf(access: Access) -> str:
    """`nats.conf`; nats-server reads the passwords from its environment."""
    return _NATS + nats_accounts.render(access)


def nats_environment(access: Access, secrets: Mapping[str, str]) -> str:
    """The environment of nats-server, NAME=value lines. This one is secret."""
    names = [secret_variable("NATS", login) for login in nats_accounts.bus_logins(access)]
    return "".join(f"{name}={secrets[name]}\n" for name in names)


def redis_start() -> str:
    """The script that starts Redis or Valkey with its users."""
    passwords = {
        login: f"${{{secret_variable('REDIS', login)}:?}}" for login in redis_acl.REDIS_LOGINS
    }
    return _REDIS + "\n".join(redis_acl.acl_lines(passwords)) + "\nCONFIGURATION\n"


def tokens_json(access: Access, secrets: Mapping[str, str]) -> str:
    """The gateway's file of token digests."""
    names = tokens.token_names(access)
    return tokens.render(access, {name: secrets[tokens.token_variable(name)] for name in names})
