"""What a body at the door may be: a manifest, a `SubmitJob`, or a CloudEvent around either.

Reading is bounded and total: whatever the bytes are, the result is a value or `InvalidValue`.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster_contracts import codec
from muster_contracts.envelope import IDEMPOTENCY_KEY, MESSAGE_ID
from muster_contracts.jobs import SubmitJob
from muster_contracts.pod_environment import GPU_RESOURCE
from muster_domain.errors import InvalidValue
from muster_domain.quantity import parse_quantity_milli

LEASE_MS_MIN = 5_000
LEASE_MS_MAX = 24 * 3_600_000
KEY_LENGTH_MAX = 256


USER_LENGTH_MAX = 256
NAME_LENGTH_MAX = 253
_KEYS = (IDEMPOTENCY_KEY.lower(), MESSAGE_ID.lower(), "ce-id")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_ID = re.compile(r"[0-9a-f]{32}")
_RESOURCES = {"gpu": GPU_RESOURCE, "mem": "memory"}
_POD_EXAMPLE = "gpu=8,cpu=32,memory=200Gi"


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A submission as it was sent: the manifest as text or as JSON values, never both.

    `key` is what makes a repetition of it the same submission; empty where none was sent.
    """

    text: str = ""
    manifest: Mapping[str, Any] | None = None
    user: str = ""
    external_lease_ms: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    key: str = ""


def read_body(body: bytes, headers: Mapping[str, str]) -> Body:
    """Read a submission. Raises `InvalidValue`.

    The key is the header `Idempotency-Key`, `Nats-Msg-Id` or `ce-id`, or the id of a structured
    CloudEvent.
    """
    if len(body) > codec.BODY_BYTES_MAX:
        raise InvalidValue(
            f"the body has {len(body)} bytes", fix=f"send at most {codec.BODY_BYTES_MAX} bytes"
        )
    lowered = {name.lower(): value for name, value in headers.items()}
    key = next(filter(None, map(lowered.get, _KEYS)), "")
    read = _read(body, key)
    if len(read.key) > KEY_LENGTH_MAX:
        raise InvalidValue(
            f"the key has {len(read.key)} characters",
            field=IDEMPOTENCY_KEY,
            fix=f"send at most {KEY_LENGTH_MAX}",
        )
    return read


def _read(body: bytes, key: str, *, inside_event: bool = False) -> Body:
    value = codec.parse_object(body)
    if value is None:
        return Body(text=_text(body), key=key)
    if "specversion" in value and not inside_event:
        return _cloud_event(value, key)
    if "apiVersion" in value or "kind" in value:
        return Body(manifest=value, key=key)
    return _submit_job(codec.decode_object(SubmitJob, value), key)


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidValue(
            f"byte {error.start} is not UTF-8", field="body", fix="send UTF-8 text"
        ) from error


def _cloud_event(event: dict[str, Any], key: str) -> Body:
    identity, source = event.get("id"), event.get("source")
    if not isinstance(identity, str) or not identity:
        raise InvalidValue("the event has no id", field="id", fix="set the CloudEvent's id")
    data: object = event.get("data")
    if isinstance(data, dict):
        inner = json.dumps(data).encode()
    elif isinstance(data, str):
        inner = data.encode("utf-8", "surrogatepass")
    elif isinstance(encoded := event.get("data_base64"), str):
        inner = _unbase64(encoded)
    else:
        raise InvalidValue("the event carries no data", field="data", fix="put the manifest there")
    own_key = f"{source}#{identity}" if isinstance(source, str) else identity
    return _read(inner, key or own_key, inside_event=True)


def _unbase64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidValue("not base64", field="data_base64") from error


def _submit_job(job: SubmitJob, key: str) -> Body:
    if (job.manifest is None) == (not job.yaml):
        raise InvalidValue(
            "a job needs a manifest", field="manifest", fix="set either manifest or yaml"
        )
    if len(job.user) > USER_LENGTH_MAX:
        raise InvalidValue(f"longer than {USER_LENGTH_MAX} characters", field="user")
    return Body(
        text=job.yaml,
        manifest=job.manifest,
        user=job.user,
        external_lease_ms=checked_lease(job.external_lease_ms),
        labels=job.labels,
        key=key,
    )


def checked_lease(lease_ms: int | None) -> int | None:
    """The lease if it is within bounds. Raises `InvalidValue`."""
    if lease_ms is not None and not LEASE_MS_MIN <= lease_ms <= LEASE_MS_MAX:
        raise InvalidValue(
            f"a lease of {lease_ms} ms is out of range",
            field="external_lease_ms",
            fix=f"write {LEASE_MS_MIN} to {LEASE_MS_MAX}",
        )
    return lease_ms


def pod_of(text: str) -> dict[str, int]:
    """What one pod asks for, as in `gpu=8,cpu=32,memory=200Gi`. Raises `InvalidValue`."""
    asked: dict[str, int] = {}
    for part in text.split(","):
        name, equals, quantity = part.partition("=")
        resource = _RESOURCES.get(name.strip(), name.strip())
        if not equals or not resource or resource in asked:
            raise InvalidValue(f"{part!r} is no request", field="pod", fix=f"write {_POD_EXAMPLE}")
        try:
            asked[resource] = parse_quantity_milli(quantity)
        except InvalidValue as error:
            raise InvalidValue(error.problem, field=f"pod.{resource}", fix=error.fix) from error
    return asked


def is_name(text: str) -> bool:
    """Whether Kubernetes would take it as the name of something."""
    return len(text) <= NAME_LENGTH_MAX and _NAME.fullmatch(text) is not None


def checked_name(text: str, where: str) -> str:
    """The name if it is one. Raises `InvalidValue`."""
    if not is_name(text):
        raise InvalidValue(
            f"{text[:60]!r} is not a name",
            field=where,
            fix="write lower-case letters, digits, '-' and '.', 253 at most",
        )
    return text


def is_id(text: str) -> bool:
    """Whether it looks like the id of a workload."""
    return _ID.fullmatch(text) is not None


def checked_id(text: str) -> str:
    """The id if it is one. Raises `InvalidValue`."""
    if not is_id(text):
        raise InvalidValue(
            f"{text[:60]!r} is not the id of a workload",
            field="id",
            fix="write the 32 hexadecimal digits that the submission was answered with",
        )
    return text
