"""Turning values into pages, and how values are written on them."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, cast

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from muster.durations import short
from muster.rendering.words import asks, gpus, gpus_milli, short_id
from muster_domain.money import MICROS, format_decimal
from muster_domain.quantity import format_quantity

_MILLI_MS_PER_HOUR = 3_600_000 * 1000
_SECURITY = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; "
        "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def render(
    request: Request, template: str, values: Mapping[str, object], *, status: int = 200
) -> Response:
    """A page. Every value is escaped."""
    page = _ENVIRONMENT.get_template(template)
    text = page.render(path=request.url.path, **values)
    return HTMLResponse(text, status_code=status, headers=_SECURITY)


def percent(thousandths: int) -> str:
    """A width for a style: 125 thousandths are `12.5%`."""
    whole, tenth = divmod(thousandths, 10)
    return f"{whole}.{tenth}%"


def moment(at_ms: int) -> str:
    """A time, UTC."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}Z"


def money(micros: int | None, currency: str) -> str:
    """An amount to the cent, or that there is no price."""
    if micros is None:
        return "no price"
    return f"{format_decimal(Fraction(micros, MICROS), 2)} {currency}"


def gpu_hours(times: Mapping[str, int]) -> str:
    """Card-hours of milli-unit-milliseconds by resource."""
    return format_decimal(Fraction(gpus_milli(times), _MILLI_MS_PER_HOUR), 2)


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("muster_console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    written_by: dict[str, Callable[..., str]] = {
        "asks": asks,
        "gpu_hours": gpu_hours,
        "gpus": gpus,
        "moment": moment,
        "money": money,
        "percent": percent,
        "quantity": format_quantity,
        "short": short,
        "short_id": short_id,
    }
    environment.filters.update(cast("dict[str, Any]", written_by))
    return environment


_ENVIRONMENT = _environment()
