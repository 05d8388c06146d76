"""Who looks: the viewer's own token in a cookie that no script can read.

The console keeps no list of tokens and has none of its own; the gateway says what each may see.
"""

from typing import Annotated, cast
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, FastAPI, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from muster.errors import Refused
from muster_console.reading import Reading
from muster_console.rendering import DOOR, render

COOKIE = "muster_token"
COOKIE_AGE_S = 12 * 3600
FORM_BYTES_MAX = 8192
TOKEN_LENGTH_MAX = 4096

router = APIRouter()


class NobodyThere(Exception):
    """The request carries no token, or one that the gateway does not know."""


def reading_of(request: Request) -> Reading:
    """What pages read through."""
    return cast("Reading", request.app.state.reading)


def token_of(request: Request) -> str:
    """The viewer's token. Raises `NobodyThere`."""
    token = request.cookies.get(COOKIE, "")
    if not token:
        raise NobodyThere
    return token


Reads = Annotated[Reading, Depends(reading_of)]
Token = Annotated[str, Depends(token_of)]


@router.get("/login")
def ask(request: Request) -> Response:
    """Ask for a token."""
    return render(request, DOOR, {"problem": ""})


@router.post("/login")
async def enter(request: Request, reading: Reads) -> Response:
    """Take a token that the gateway knows."""
    token = await _sent_token(request)
    if not (token and await run_in_threadpool(_is_known, reading, token)):
        problem = "This token is not known. Ask who operates Muster for one."
        return render(request, DOOR, {"problem": problem}, status=401)
    answer = RedirectResponse("/", status_code=303)
    answer.set_cookie(
        COOKIE,
        token,
        max_age=COOKIE_AGE_S,
        httponly=True,
        samesite="strict",
        secure=request.app.state.secure,
    )
    return answer


@router.post("/logout")
def leave() -> Response:
    """Forget the token."""
    answer = RedirectResponse("/login", status_code=303)
    answer.delete_cookie(COOKIE)
    return answer


def install(app: FastAPI) -> None:
    """Add the ways in and out; whoever is not known is sent to the door."""
    app.include_router(router)

    @app.exception_handler(NobodyThere)
    def to_the_door(_request: Request, _error: NobodyThere) -> Response:
        return RedirectResponse("/login", status_code=303)


def _is_known(reading: Reading, token: str) -> bool:
    try:
        reading.whoami(token)
    except Refused:
        return False
    return True


async def _sent_token(request: Request) -> str:
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > FORM_BYTES_MAX:
            return ""
    fields = parse_qs(body.decode("utf-8", "replace"))
    token = fields.get("token", [""])[0].strip()
    return (
        token if token.isascii() and token.isprintable() and len(token) <= TOKEN_LENGTH_MAX else ""
    )
