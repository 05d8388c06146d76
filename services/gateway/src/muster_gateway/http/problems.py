"""How errors look over HTTP: one status for each kind, one shape for all."""

from collections.abc import Mapping

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from muster_contracts import codec
from muster_contracts.api import Problem, Refusal, RefusalAnswer
from muster_domain.errors import (
    Conflict,
    Forbidden,
    InvalidValue,
    MusterError,
    NotFound,
    Transient,
)
from muster_gateway.access import Unauthenticated
from muster_manifests import ManifestError

RETRY_AFTER_S = 1
_STATUS: tuple[tuple[type[MusterError], str, int], ...] = (
    (ManifestError, "invalid_manifest", 422),
    (InvalidValue, "invalid", 422),
    (Conflict, "conflict", 409),
    (NotFound, "not_found", 404),
    (Forbidden, "forbidden", 403),
    (Unauthenticated, "unauthenticated", 401),
    (Transient, "unavailable", 503),
)


class TooLarge(InvalidValue):
    """A body over the limit; nothing of it was kept."""


def status_of(error: MusterError) -> tuple[int, str]:
    """The HTTP status and the kind of an error."""
    if isinstance(error, TooLarge):
        return 413, "too_large"
    for kind, name, status in _STATUS:
        if isinstance(error, kind):
            return status, name
    return 500, "internal"


def headers_of(error: MusterError) -> dict[str, str]:
    """What a client is told to do next."""
    if isinstance(error, Unauthenticated):
        return {"WWW-Authenticate": "Bearer"}
    return {"Retry-After": str(RETRY_AFTER_S)} if isinstance(error, Transient) else {}


def refusal_of(error: MusterError, kind: str) -> Refusal:
    """What is told about an error."""
    match error:
        case ManifestError(problems=problems):
            first = problems[0]
            return Refusal(
                kind=kind,
                problem=first.problem,
                field=first.field,
                fix=first.fix,
                problems=tuple(
                    Problem(
                        problem=problem.problem,
                        field=problem.field,
                        fix=problem.fix,
                        source=problem.source,
                        line=problem.mark.line,
                        column=problem.mark.column,
                    )
                    for problem in problems
                ),
            )
        case InvalidValue(problem=problem, field=field, fix=fix):
            return Refusal(kind=kind, problem=problem, field=field, fix=fix)
        case Unauthenticated():
            return Refusal(
                kind=kind,
                problem=str(error),
                field="Authorization",
                fix="send a bearer token: set MUSTER_TOKEN or ~/.config/muster/token",
            )
        case Transient():
            return Refusal(kind=kind, problem=str(error), fix="try again in a moment")
        case _:
            return Refusal(kind=kind, problem=str(error))


def install(api: FastAPI) -> None:
    """Answer every error in the one shape."""
    api.add_exception_handler(MusterError, _on_muster_error)
    api.add_exception_handler(RequestValidationError, _on_bad_parameters)
    api.add_exception_handler(HTTPException, _on_http_exception)


async def _on_muster_error(_request: Request, error: Exception) -> Response:
    if not isinstance(error, MusterError):
        raise error
    status, kind = status_of(error)
    return _answer(status, refusal_of(error, kind), headers_of(error))


async def _on_bad_parameters(_request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    problems = tuple(
        Problem(problem=str(found["msg"]), field=".".join(str(part) for part in found["loc"]))
        for found in error.errors()
    )
    first = problems[0]
    refusal = Refusal(kind="invalid", problem=first.problem, field=first.field, problems=problems)
    return _answer(422, refusal, {})


async def _on_http_exception(_request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    kind = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "invalid")
    refusal = Refusal(kind=kind, problem=str(error.detail), fix="see /docs for the paths there are")
    return _answer(error.status_code, refusal, error.headers or {})


def _answer(status: int, refusal: Refusal, headers: Mapping[str, str]) -> Response:
    return Response(
        codec.encode(RefusalAnswer(error=refusal)),
        status_code=status,
        headers=dict(headers),
        media_type="application/json",
    )
