"""Kueue's Configuration from a file of the operator's: applied at every start, as people would."""

import asyncio
from pathlib import Path

import structlog

from muster_domain.errors import Conflict, InvalidValue, Transient
from muster_gateway.applying import Applying
from muster_gateway.events import Cause
from muster_manifests import Document, KueueConfiguration, load
from muster_runtime.clock import now_ms
from muster_runtime.objects import ObjectFeed

FIELD = "MUSTER_CONFIG_FILE"
OBJECTS_WAIT_S = 30.0
RETRY_WAIT_S = 1.0

_log = structlog.get_logger()


class ConfigurationFile:
    """One file with one Configuration. Applying it again changes nothing, whoever does it."""

    def __init__(self, document: Document, feed: ObjectFeed, applying: Applying) -> None:
        self._document = document
        self._feed = feed
        self._applying = applying
        self._why = "is not applied yet"

    def trouble(self) -> str:
        """Why the file does not hold; empty when it does."""
        return self._why

    async def run(self) -> None:
        """Apply the file; outages are waited out, a conflict is for a person."""
        while self._why:
            try:
                await self._feed.wait_complete(OBJECTS_WAIT_S)
                cause = Cause(at_ms=now_ms())
                await self._applying.apply((self._document,), by=FIELD, cause=cause)
            except Transient as error:
                self._why = str(error)
                await asyncio.sleep(RETRY_WAIT_S)
            except Conflict as error:
                self._why = str(error)
                _log.error("configuration file not applied", reason=str(error))
                return
            else:
                self._why = ""


def read_configuration_file(path: str) -> Document | None:
    """The Configuration in a file; an empty file is none. Raises `InvalidValue`, `ManifestError`.

    Containers are given a file always, an empty one where the operator names none.
    """
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise InvalidValue(f"not readable: {error}", field=FIELD) from error
    if not text.strip():
        return None
    result = load(text, source=path)
    for warning in result.warnings:
        _log.warning("configuration file", finding=str(warning))
    if len(result.documents) == 1:
        (document,) = result.documents
        if isinstance(document.content, KueueConfiguration):
            return document
    raise InvalidValue(f"{path} is not one Configuration", field=FIELD)
