"""Rows of a LiteLLM proxy's spend log to token use.

Two spellings are read: the rows of the proxy's table (`request_id`, `spend`, `team_id`, `api_key`,
`startTime`), as its exports have them, and what its callbacks send (`id`, `response_cost`,
`metadata.user_api_key_team_id`). Every scalar may be text, so that amounts stay what was written.
"""

import json
from collections.abc import Mapping, Sequence
from typing import cast

from muster_domain.errors import InvalidValue
from muster_domain.money import nearest
from muster_domain.tokens import NANOS, TokenUse
from muster_rating.dates import read_instant_ms
from muster_rating.model_prices import read_decimal

TEXT_MAX = 253
TAGS_MAX = 32
_SECONDS_DIGITS_MAX = 11


def read_spend_row(row: Mapping[str, object], *, namespace: str = "") -> TokenUse:
    """One row.

    Without a namespace of its own its model is served in `namespace`, else in the namespace that is
    called as the team. Raises `InvalidValue` naming the field.
    """
    metadata = _nested(row.get("metadata"), "metadata")
    team = _first(row, metadata, "team_id", "user_api_key_team_id")
    served_in = _text(metadata.get("namespace")) or namespace or team
    if not served_in:
        raise InvalidValue(
            "the row does not say where its model is served",
            field="namespace",
            fix="write metadata.namespace, or name a namespace for all rows",
        )
    return TokenUse(
        request_id=_needed(row, "request_id", "id"),
        at_ms=_time_ms(row),
        model=_needed(row, "model_group", "model"),
        namespace=served_in,
        team=team or served_in,
        key=_first(row, metadata, "api_key", "user_api_key_hash"),
        user=_first(row, metadata, "user", "user_api_key_user_id"),
        tags=_tags(row.get("request_tags")),
        prompt_tokens=_count(row, "prompt_tokens"),
        completion_tokens=_count(row, "completion_tokens"),
        reported_nanos=_nanos(row),
    )


def _time_ms(row: Mapping[str, object]) -> int:
    written = _text(row.get("endTime")) or _needed(row, "startTime")
    whole = written.partition(".")[0]
    if whole.isdecimal() and len(whole) <= _SECONDS_DIGITS_MAX:
        return nearest(read_decimal(written, "endTime") * 1000)
    return read_instant_ms(written, "endTime", utc=True)


def _nanos(row: Mapping[str, object]) -> int | None:
    written = _text(row.get("spend")) or _text(row.get("response_cost"))
    if not written:
        return None
    amount = read_decimal(written, "spend")
    if amount < 0:
        raise InvalidValue(f"{written!r} is below zero", field="spend")
    return nearest(amount * NANOS)


def _count(row: Mapping[str, object], name: str) -> int:
    written = _text(row.get(name)) or "0"
    if not written.isdecimal():
        raise InvalidValue(f"{written!r} is no number of tokens", field=name)
    return int(written)


def _tags(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        try:
            value = cast("object", json.loads(value or "[]"))
        except ValueError:
            value = [part.strip() for part in str(value).split(",")]
    if value is None:
        return ()
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise InvalidValue("not a list of tags", field="request_tags")
    tags = {_text(tag) for tag in cast("Sequence[object]", value)} - {""}
    if len(tags) > TAGS_MAX:
        raise InvalidValue(f"{len(tags)} tags on one request", field="request_tags")
    return tuple(sorted(tags))


def _nested(value: object, field: str) -> Mapping[str, object]:
    if isinstance(value, str) and value:
        try:
            value = cast("object", json.loads(value))
        except ValueError as error:
            raise InvalidValue(f"not JSON: {error}", field=field) from error
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def _needed(row: Mapping[str, object], *names: str) -> str:
    for name in names:
        if _text(row.get(name)):
            return _checked(_text(row.get(name)), name)
    raise InvalidValue(f"the row has no {names[0]}", field=names[0])


def _first(row: Mapping[str, object], metadata: Mapping[str, object], own: str, told: str) -> str:
    return _checked(_text(row.get(own)) or _text(metadata.get(told)), own)


def _checked(text: str, field: str) -> str:
    if len(text) > TEXT_MAX:
        raise InvalidValue(f"{field} is longer than {TEXT_MAX}", field=field)
    return text


def _text(value: object) -> str:
    return "" if value is None or isinstance(value, bool) else str(value).strip()
