"""Submitters: what CI systems do all day, and again whenever nobody answered."""

import asyncio
import json
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx
from nats.aio.client import Client
from nats.errors import Error as NatsError

from muster_contracts import subjects
from muster_contracts.subjects import JobVerb
from muster_testing.waiting import wait_until_async

from . import house

PATIENCE_S = 240.0
RENEW_EVERY_S = 0.5
TRANSIENT = frozenset({429, 502, 503, 504})


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One job and what its submitter does with it. `hold_polls` is set for external jobs."""

    team: str
    name: str
    pods: int
    duration_ms: int
    urgent: bool = False
    by_bus: bool = False
    twice: bool = False
    cancelled: bool = False
    impossible: bool = False
    lease_ms: int | None = None
    hold_polls: int = 0

    @property
    def key(self) -> str:
        """The idempotency key of the submission."""
        return f"crash {self.team}/{self.name}"

    @property
    def manifest(self) -> dict[str, object]:
        """The job as it is submitted."""
        return house.job(
            self.team,
            self.name,
            pods=self.pods,
            duration_ms=self.duration_ms,
            urgent=self.urgent,
        )


def draw(seed: int, waves: int, per_wave: int) -> list[list[Plan]]:
    """Waves of jobs; one team after the other has most of a wave, so that it borrows."""
    chance = random.Random(seed)
    return [
        [_draw_one(chance, wave, number) for number in range(per_wave)] for wave in range(waves)
    ]


def _draw_one(chance: random.Random, wave: int, number: int) -> Plan:
    majority, minority = house.TEAMS[wave % 2], house.TEAMS[1 - wave % 2]
    (team,) = chance.choices((majority, minority, house.LONER), weights=(14, 3, 3))
    name = f"w{wave}-{number}"
    kind = chance.random()
    by_bus = chance.random() < 0.2
    if kind < 0.005:
        return Plan(
            team=team, name=name, pods=house.IMPOSSIBLE_PODS, duration_ms=50, impossible=True
        )
    if kind < 0.055:
        silent = chance.random() < 0.1
        return Plan(
            team=team,
            name=name,
            pods=1,
            duration_ms=0,
            by_bus=by_bus,
            lease_ms=house.SILENT_LEASE_MS if silent else house.LEASE_MS,
            hold_polls=0 if silent else chance.randrange(1, 5),
        )
    pods = chance.randrange(2, 5) if kind < 0.2 else 1
    long = chance.random() < 0.04
    return Plan(
        team=team,
        name=name,
        pods=pods,
        duration_ms=3_000 if long else chance.randrange(50, 300),
        urgent=chance.random() < 0.05,
        by_bus=by_bus,
        twice=chance.random() < 0.1,
        cancelled=chance.random() < 0.05,
    )


@dataclass(slots=True)
class Traffic:
    """Plays plans; what was promised stands in `accepted`, by `namespace/name`."""

    http: httpx.AsyncClient
    bus: Client
    at_once: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(24))
    accepted: dict[str, str] = field(default_factory=dict[str, str])
    """Ids where the submitter was told one; empty for what was published on the bus."""
    counts: Counter[str] = field(default_factory=Counter[str])

    async def play(self, plan: Plan) -> None:
        """Submit, and do with it what the plan says. Raises when a promise is broken."""
        async with self.at_once:
            identity = await self._submit(plan)
        self.accepted[f"{plan.team}/{plan.name}"] = identity
        self.counts["accepted"] += 1
        if plan.cancelled:
            await self._cancel(plan, identity)
        if plan.hold_polls:
            await self._hold(plan)

    async def _submit(self, plan: Plan) -> str:
        if plan.by_bus:
            for _ in range(2 if plan.twice else 1):
                await self._publish(plan, JobVerb.SUBMIT, _bus_body(plan), plan.key)
            return ""
        times = 2 if plan.twice else 1
        identities = await asyncio.gather(*(self._post_job(plan) for _ in range(times)))
        assert len(set(identities)) == 1, f"{plan.name} became two workloads: {identities}"
        return identities[0]

    async def _post_job(self, plan: Plan) -> str:
        answer = await self._persist(
            "POST",
            "/v1/jobs",
            content=json.dumps(plan.manifest).encode(),
            params={} if plan.lease_ms is None else {"external_lease_ms": str(plan.lease_ms)},
            headers={"Content-Type": "application/json", "Idempotency-Key": plan.key},
        )
        assert answer.status_code == httpx.codes.ACCEPTED, answer.text
        return str(answer.json()["jobs"][0]["id"])

    async def _cancel(self, plan: Plan, identity: str) -> None:
        self.counts["cancels"] += 1
        if plan.by_bus:
            body = json.dumps({"name": plan.name}).encode()
            await self._publish(plan, JobVerb.CANCEL, body, f"cancel {plan.key}")
            return
        await self._say(identity, "cancel")

    async def _hold(self, plan: Plan) -> None:
        """Hold an external job: renew its lease while it is admitted, then say it is done."""
        reference = f"{plan.team}:{plan.name}"
        renewals = 0

        async def held() -> bool:
            nonlocal renewals
            answer = await self._persist(
                "GET", f"/v1/workloads/{reference}/decision", patient_404=True
            )
            verdict = answer.json()["decision"]
            if verdict == "finished":
                return True
            if verdict == "admitted" and renewals < plan.hold_polls:
                renewals += 1
                await self._say(reference, "heartbeat")
            elif verdict == "admitted":
                await self._say(reference, "finish", {"outcome": "Succeeded"})
            return False

        await wait_until_async(
            held, PATIENCE_S, lambda: f"{reference} does not end", every_s=RENEW_EVERY_S
        )
        self.counts["held"] += 1

    async def _say(self, reference: str, wish: str, body: object = None) -> None:
        answer = await self._persist(
            "POST", f"/v1/workloads/{reference}/{wish}", patient_404=True, json=body
        )
        assert answer.status_code == httpx.codes.ACCEPTED, answer.text

    async def _publish(self, plan: Plan, verb: JobVerb, body: bytes, key: str) -> None:
        async def stored() -> bool:
            try:
                reply = await self.bus.request(
                    subjects.job(plan.team, verb), body, timeout=5, headers={"Nats-Msg-Id": key}
                )
            except (NatsError, OSError, TimeoutError):
                self.counts["published again"] += 1
                return False
            return "seq" in json.loads(reply.data)

        await wait_until_async(stored, PATIENCE_S, lambda: f"nobody takes {plan.name}")

    async def _persist(
        self,
        method: str,
        path: str,
        *,
        patient_404: bool = False,
        **request: Any,  # noqa: ANN401 - httpx's own options
    ) -> httpx.Response:
        last = "nothing"

        async def answered() -> httpx.Response | None:
            nonlocal last
            try:
                response = await self.http.request(method, path, **request)
            except httpx.TransportError as error:
                last = repr(error)
                self.counts["sent again"] += 1
                return None
            if response.status_code in TRANSIENT or (patient_404 and response.status_code == 404):
                last = f"{response.status_code} {response.text}"
                self.counts[f"sent again after {response.status_code}"] += 1
                return None
            return response

        return await wait_until_async(
            answered, PATIENCE_S, lambda: f"{method} {path} was answered with {last}"
        )


def _bus_body(plan: Plan) -> bytes:
    if plan.lease_ms is None:
        return json.dumps(plan.manifest).encode()
    return json.dumps({"manifest": plan.manifest, "external_lease_ms": plan.lease_ms}).encode()
