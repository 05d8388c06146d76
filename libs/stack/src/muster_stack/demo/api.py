"""The gateway as the demonstration uses it: what any client could do with a token."""

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import httpx
import stamina

from muster_contracts.envelope import derived_id

Json = dict[str, Any]
FINISHED = "Finished"
PATIENCE_S = 60.0
_NOT_FOUND = 404
_TRY_AGAIN = (429, 503)


class Api:
    """Calls of the gateway's HTTP API."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self._http = httpx.Client(base_url=url, headers=dict(headers), timeout=20.0)
        self._submissions = 0
        stamina.instrumentation.set_on_retry_hooks([])

    def close(self) -> None:
        """Let the connections go."""
        self._http.close()

    def submit(self, manifest: str, *, wait: bool = False) -> list[Json]:
        """Apply objects and submit jobs; returns the jobs, with their decisions if asked to wait.

        Sent again under the same key while the gateway does not answer.
        """
        self._submissions += 1
        response = self._persist(
            "POST",
            "/v1/jobs",
            content=manifest.encode(),
            params={"wait": "decision"} if wait else {},
            headers={
                "Content-Type": "application/yaml",
                "Idempotency-Key": derived_id("demo", self._submissions),
            },
        )
        return list(response["jobs"])

    def workloads(self, **filters: str) -> list[Json]:
        """All workloads that match."""
        rows: list[Json] = []
        while True:
            query = {**filters, "limit": "400", "offset": str(len(rows))}
            page = self._persist("GET", "/v1/workloads", params=query)["page"]
            rows += page["rows"]
            if not page["rows"] or len(rows) >= page["total"]:
                return rows

    def workload(self, identity: str) -> Json | None:
        """Everything about one workload; None while admission has not read its submission."""
        try:
            return self._persist("GET", f"/v1/workloads/{identity}")
        except httpx.HTTPStatusError as error:
            if error.response.status_code == _NOT_FOUND:
                return None
            raise

    def quota(self) -> Json:
        """Queues and quota."""
        return dict(self._persist("GET", "/v1/quota")["page"])

    def nodes(self) -> list[Json]:
        """All nodes."""
        return list(self._persist("GET", "/v1/nodes")["nodes"])

    def cost(self, by: str) -> Json:
        """The cost report by one dimension."""
        return self._persist("GET", "/v1/cost", params={"by": by})

    def verify(self) -> list[Json]:
        """Whether the books agree, by partition."""
        return list(self._persist("GET", "/v1/ledger/verify")["reports"])

    def _persist(self, method: str, path: str, **request: Any) -> Json:  # noqa: ANN401 - httpx's own options
        for attempt in stamina.retry_context(
            on=(httpx.TransportError, _AwayError), attempts=None, timeout=PATIENCE_S, wait_max=1.0
        ):
            with attempt:
                response = self._http.request(method, path, **request)
                if response.status_code in _TRY_AGAIN:
                    raise _AwayError(f"{method} {path}: {response.text}")
                response.raise_for_status()
                return dict(response.json())
        raise _AwayError(f"{method} {path} was not answered")


class _AwayError(Exception):
    """The gateway, or an owner behind it, does not answer at the moment."""


def manifest(name: str) -> str:
    """The text of one of the demonstration's manifests."""
    return (files("muster_stack.demo") / "manifests" / f"{name}.yaml").read_text(encoding="utf-8")
