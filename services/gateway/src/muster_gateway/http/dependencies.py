"""What routes are given: the gateway, the caller, the body, the cause."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Header, Query, Request
from fastapi.security import HTTPBearer

from muster_gateway.access import Caller
from muster_gateway.bodies import checked_name
from muster_gateway.composition import Gateway
from muster_gateway.events import Cause
from muster_runtime.clock import now_ms
from muster_runtime.telemetry import TRACEPARENT

DEFAULT_NAMESPACE = "default"
_bearer = HTTPBearer(auto_error=False, description="A token that the operator gave out")


def gateway_of(request: Request) -> Gateway:
    """The gateway that this API is a door of."""
    return cast("Gateway", request.app.state.gateway)


Gate = Annotated[Gateway, Depends(gateway_of)]


def caller_of(
    request: Request, gateway: Gate, _shown: Annotated[object, Depends(_bearer)]
) -> Caller:
    """Who calls. Raises `Unauthenticated`."""
    return gateway.tokens.caller(request.headers.get("authorization", ""))


Who = Annotated[Caller, Depends(caller_of)]


async def body_of(request: Request) -> bytes:
    """The body as it was sent."""
    return await request.body()


Sent = Annotated[bytes, Depends(body_of)]


def cause_of(
    request: Request, idempotency_key: Annotated[str, Header(max_length=256)] = ""
) -> Cause:
    """When and after what this call came, and in which trace."""
    traceparent = cast("str", getattr(request.state, TRACEPARENT, ""))
    return Cause(at_ms=now_ms(), causation_id=idempotency_key, traceparent=traceparent)


Why = Annotated[Cause, Depends(cause_of)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Everything about a call but its own parameters."""

    gateway: Gateway
    caller: Caller
    cause: Cause
    headers: Mapping[str, str]


def call_of(request: Request, gateway: Gate, caller: Who, cause: Why) -> Call:
    """The call as a whole."""
    return Call(gateway=gateway, caller=caller, cause=cause, headers=request.headers)


Called = Annotated[Call, Depends(call_of)]


def namespace_of(
    namespace: Annotated[
        str, Query(description="Given to what names none", max_length=253)
    ] = DEFAULT_NAMESPACE,
) -> str:
    """The namespace for what names none. Raises `InvalidValue`."""
    return checked_name(namespace, "namespace")


InNamespace = Annotated[str, Depends(namespace_of)]
