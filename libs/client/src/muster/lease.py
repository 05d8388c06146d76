"""Keeping the lease of a job that we run ourselves.

The holder stops what it runs when it could not renew in time: whoever gave the lease has given the
cards to somebody else by then.
"""

import threading
import time
from types import TracebackType
from typing import Self

from muster.client import Client
from muster.errors import Refused, Unreachable

RENEWALS_PER_LEASE = 3


class Lease:
    """Renews in a thread of its own until the block ends."""

    def __init__(self, client: Client, workload: str, lease_s: float) -> None:
        self._client = client
        self._workload = workload
        self._lease_s = lease_s
        self._renewed_s = time.monotonic()
        self._refused: Refused | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopped.set()

    def lost(self) -> str:
        """Why the lease must be taken for lost; empty while it holds."""
        if self._refused is not None:
            return f"the lease is refused: {self._refused}"
        silent_s = time.monotonic() - self._renewed_s
        return (
            f"the lease was not renewed for {int(silent_s)} s" if silent_s > self._lease_s else ""
        )

    def _run(self) -> None:
        while not self._stopped.wait(self._lease_s / RENEWALS_PER_LEASE):
            asked_s = time.monotonic()
            try:
                self._client.heartbeat(self._workload)
            except Refused as error:
                self._refused = error
                return
            except Unreachable:
                continue
            self._renewed_s = asked_s
