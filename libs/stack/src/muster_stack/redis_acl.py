"""The users of Redis or Valkey: an owner writes the keys of its own shards, nobody else any.

Commands are those of `muster_ledger.redis_store` and its scripts, which run with the rights of
whoever calls them.
"""

from collections.abc import Mapping

from muster_contracts.subjects import Service
from muster_runtime.embedded import DEFAULT_USER_OFF
from muster_stack.access import OPERATOR

_CONNECT = "+hello +auth +ping +select +client|setinfo +client|setname +client|id"
_READ = "+hget +hmget +hgetall +hscan +hlen +xrange +xlen +exists"
_WRITE = "+eval +evalsha +hset +hdel +xadd +xtrim +waitaof"

_PARTITIONS = "muster:{p[0-9][0-9]}:*"
_RIGHTS: Mapping[str, str] = {
    Service.ADMISSION: f"~{_PARTITIONS} {_READ} {_WRITE}",
    Service.PLACEMENT: f"~muster:{{placement}}:* {_READ} {_WRITE}",
    Service.PREEMPTION: f"%R~{_PARTITIONS} {_READ} +eval +evalsha",
}
REDIS_LOGINS: tuple[str, ...] = (*sorted(_RIGHTS), OPERATOR)


def acl_lines(passwords: Mapping[str, str]) -> tuple[str, ...]:
    """`user ...` lines, given a password (or the text that stands for it) by login."""
    owners = [
        f"user {login} reset on >{passwords[login]} {_CONNECT} {_RIGHTS[login]}"
        for login in sorted(_RIGHTS)
    ]
    operator = (
        f"user {OPERATOR} reset on >{passwords[OPERATOR]} ~muster:* +@all -@dangerous +info +keys"
    )
    return (DEFAULT_USER_OFF, *owners, operator)
