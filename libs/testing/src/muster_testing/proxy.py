"""A wire between a client and a server that a test may hold up or cut."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit, urlunsplit

from muster_runtime.embedded import LOOPBACK

_CHUNK_BYTES = 65_536


class Wire:
    """Passes bytes on in both directions while it is whole and not held up."""

    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)
        self._target = (self._parts.hostname or LOOPBACK, self._parts.port or 0)
        self.port = 0
        self._flows = asyncio.Event()
        self._flows.set()
        self._open: set[asyncio.StreamWriter] = set()
        self.connections = 0
        """How often a client connected."""

    @property
    def url(self) -> str:
        """Where to connect to instead of the server."""
        login, at, _ = self._parts.netloc.rpartition("@")
        return urlunsplit(self._parts._replace(netloc=f"{login}{at}{LOOPBACK}:{self.port}"))

    def hold_up(self) -> None:
        """Pass nothing more to the server; what was sent since is in the kernel's buffers."""
        self._flows.clear()

    def let_flow(self) -> None:
        """Pass everything on again."""
        self._flows.set()

    def cut(self) -> None:
        """End every connection, with what was on its way; new ones may be made."""
        for writer in list(self._open):
            writer.transport.abort()
        self._flows.set()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client until either side ends."""
        self.connections += 1
        try:
            answers, requests = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, requests}
        self._open |= ends
        try:
            await asyncio.gather(
                self._pump(reader, requests, held=True), self._pump(answers, writer, held=False)
            )
        finally:
            self._open -= ends
            for end in ends:
                end.transport.abort()

    async def _pump(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, held: bool
    ) -> None:
        with suppress(OSError):
            while chunk := await source.read(_CHUNK_BYTES):
                if held and not self._flows.is_set():
                    await self._flows.wait()
                    if target.transport.is_closing():
                        break
                target.write(chunk)
                await target.drain()
        target.transport.abort()


@asynccontextmanager
async def wire(url: str) -> AsyncGenerator[Wire, None]:
    """A wire to the server at `url`, for as long as the block lasts."""
    made = Wire(url)
    server = await asyncio.start_server(made.take, LOOPBACK, 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        made.cut()
