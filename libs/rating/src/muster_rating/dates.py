"""Instants as people and programs write them, to milliseconds since 1970."""

from datetime import datetime

from muster_domain.errors import InvalidValue

_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00Z")


def read_instant_ms(text: str, field: str, *, utc: bool = False) -> int:
    """A time of RFC 3339. With `utc` one that names no zone is in UTC. Raises `InvalidValue`."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidValue(f"{text!r} is not a time", field=field) from error
    if moment.tzinfo is None:
        if not utc:
            raise InvalidValue(
                f"{text!r} does not say its zone", field=field, fix="add Z or +02:00 at the end"
            )
        moment = moment.replace(tzinfo=_EPOCH.tzinfo)
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
