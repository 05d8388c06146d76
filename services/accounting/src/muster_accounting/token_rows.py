"""Token use to rows and back, and to sums."""

import json

from muster_accounting.rows import Row
from muster_domain.tokens import TokenUse
from muster_rating.tokens import TokenSum
from muster_rating.windows import Window


def token_use_row(use: TokenUse) -> dict[str, object]:
    """All columns of a request."""
    return {
        "request_id": use.request_id,
        "at_ms": use.at_ms,
        "model": use.model,
        "namespace": use.namespace,
        "team": use.team,
        "key_hash": use.key,
        "user_name": use.user,
        "tags": json.dumps(use.tags),
        "prompt_tokens": use.prompt_tokens,
        "completion_tokens": use.completion_tokens,
        "reported_nanos": use.reported_nanos,
    }


def token_use_of(row: Row) -> TokenUse:
    """The request of a row."""
    return TokenUse(
        request_id=row["request_id"],
        at_ms=row["at_ms"],
        model=row["model"],
        namespace=row["namespace"],
        team=row["team"],
        key=row["key_hash"],
        user=row["user_name"],
        tags=tuple(json.loads(row["tags"])),
        prompt_tokens=row["prompt_tokens"],
        completion_tokens=row["completion_tokens"],
        reported_nanos=row["reported_nanos"],
    )


def token_sum_of(row: Row, window: Window) -> TokenSum:
    """The sum of a row of sums; a database may sum whole numbers to its own decimal type."""
    return TokenSum(
        window=window,
        model=row["model"],
        namespace=row["namespace"],
        team=row["team"],
        key=row["key_hash"],
        user=row["user_name"],
        tags=tuple(json.loads(row["tags"])),
        requests=int(row["requests"]),
        prompt_tokens=int(row["prompt_tokens"]),
        completion_tokens=int(row["completion_tokens"]),
        reported_nanos=int(row["reported_nanos"]),
    )
