"""Turning values into pages, and how values are written on them."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from muster.durations import short
from muster.rendering.floor import short_level
from muster.rendering.words import asks, gpus, short_id
from muster_domain.quantity import format_quantity

DOOR = "login.html"
"""The page of those who are not known; it leads nowhere else."""
SECURITY = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; "
        "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""Headers of everything that shows what somebody's token may see."""


def render(
    request: Request, template: str, values: Mapping[str, object], *, status: int = 200
) -> Response:
    """A page. Every value is escaped."""
    page = _ENVIRONMENT.get_template(template)
    text = page.render(path=request.url.path, entered=template != DOOR, **values)
    return HTMLResponse(text, status_code=status, headers=SECURITY)


def percent(thousandths: int) -> str:
    """A width for a style: 125 thousandths are `12.5%`."""
    whole, tenth = divmod(thousandths, 10)
    return f"{whole}.{tenth}%"


def moment(at_ms: int) -> str:
    """A time, UTC."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}Z"


def query(parameters: Mapping[str, str], **changes: str) -> str:
    """Parameters of a link, with some of them changed and the empty ones left out."""
    return urlencode({name: text for name, text in {**parameters, **changes}.items() if text})


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
        "gpus": gpus,
        "moment": moment,
        "percent": percent,
        "quantity": format_quantity,
        "query": query,
        "short": short,
        "short_id": short_id,
        "short_level": short_level,
    }
    environment.filters.update(cast("dict[str, Any]", written_by))
    return environment


_ENVIRONMENT = _environment()
