"""Reading Muster for viewers: as each viewer's own token allows, and not more often than needed.

Everything goes through the gateway's API, so a viewer sees here what the same token sees there.
"""

import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeVar, cast

from muster.client import Client, seated_on
from muster.errors import Unreachable
from muster_contracts.api import QuotaList, WhoAmI, WorkloadList
from muster_contracts.fit import FitPage
from muster_contracts.floor import DomainPage
from muster_contracts.queries import CostReport, NodePage, NodeRow, WorkloadDetail

VIEWERS_MAX = 256
ANSWERS_MAX = 1024

Parameters = tuple[tuple[str, str], ...]
"""Names and values, sorted by name."""
About = Parameters | str | None
Answer = TypeVar("Answer")


def given(parameters: Mapping[str, str]) -> Parameters:
    """The parameters that say something."""
    return tuple(sorted((name, value) for name, value in parameters.items() if value))


class Reading:
    """Answers by viewer, each kept for `fresh_s` seconds: reloading pages asks nobody again.

    Every call raises `muster.errors.Refused` or `Unreachable`.
    """

    def __init__(self, connect: Callable[[str], Client], *, fresh_s: float) -> None:
        self._fresh_s = fresh_s
        self._client = lru_cache(VIEWERS_MAX)(connect)
        self._answer = lru_cache(ANSWERS_MAX)(self._ask)

    def whoami(self, token: str) -> WhoAmI:
        """Who the viewer is taken for."""
        return self._read(Client.whoami, token)

    def quota(self, token: str) -> QuotaList:
        """All queues and their quota."""
        return self._read(Client.quota, token)

    def workloads(self, token: str, parameters: Parameters) -> WorkloadList:
        """A page of workloads, filtered as the API filters."""
        return self._read(Client.workloads, token, parameters)

    def workload(self, token: str, reference: str) -> WorkloadDetail:
        """All about one workload."""
        return self._read(Client.workload, token, reference)

    def fit(self, token: str, reference: str) -> FitPage | None:
        """Where a workload sits or would; None while nobody can tell, which no page waits for."""
        try:
            return self._read(Client.fit, token, reference)
        except Unreachable:
            return None

    def nodes(self, token: str, parameters: Parameters) -> NodePage:
        """The nodes that are meant, as the API understands it."""
        return self._read(Client.some_nodes, token, parameters)

    def domains(self, token: str) -> DomainPage:
        """The domains of the topologies, and the largest gangs that fit now."""
        return self._read(Client.domains, token)

    def seated(self, token: str, detail: WorkloadDetail) -> tuple[NodeRow, ...]:
        """The nodes that a workload sits on, as far as it can be known now."""
        return seated_on(self._client(token), detail)

    def statement(self, token: str, month: str, parameters: Parameters) -> bytes:
        """A month's statement as a file. `parameters`: tz, by, format."""
        return self._client(token).statement(month, dict(parameters))

    def cost(self, token: str, parameters: Parameters) -> CostReport:
        """What a window cost."""
        return self._read(Client.cost, token, parameters)

    def _read(self, call: Callable[..., Answer], token: str, about: About = None) -> Answer:
        moment = int(time.monotonic() / self._fresh_s)
        return cast("Answer", self._answer(call, token, about, moment))

    def _ask(self, call: Callable[..., object], token: str, about: About, _moment: int) -> object:
        client = self._client(token)
        match about:
            case None:
                return call(client)
            case str():
                return call(client, about)
            case tuple():
                return call(client, dict(about))
