"""The console as a process."""

import uvicorn
from fastapi import FastAPI

from muster.client import Client
from muster_console import measures, pages, session
from muster_console.reading import Reading
from muster_console.settings import ConsoleSettings

TIMEOUT_S = 10.0
"""People do not look at a page for longer than that."""


def main() -> None:
    """Serve the pages until told to stop."""
    settings = ConsoleSettings()
    uvicorn.run(
        build(settings),
        host=settings.http_host,
        port=settings.http_port,
        log_level=settings.log_level.lower(),
        access_log=False,
        server_header=False,
    )


def build(settings: ConsoleSettings) -> FastAPI:
    """All pages, reading from the gateway of the settings.

    Nobody waits for a second try: a page that could not be drawn looks again by itself.
    """

    def connect(token: str) -> Client:
        return Client(settings.url, token=token, timeout_s=TIMEOUT_S, looking_s=0)

    app = FastAPI(title="Muster console", openapi_url=None)
    app.state.reading = Reading(connect, fresh_s=settings.console_fresh_s)
    app.state.secure = settings.console_secure
    session.install(app)
    pages.install(app)
    measures.install(app, measures.Measures())
    return app
