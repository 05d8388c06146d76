"""A scenario on the running services, through the front door."""

import asyncio
import json
from collections.abc import Iterable

from muster.client import Client
from muster.errors import Refused
from muster_contracts import codec, events, subjects
from muster_contracts.commands import ControlAction
from muster_contracts.queries import Phase, WorkloadDetail
from muster_contracts.streams import EVENTS
from muster_contracts.subjects import Service
from muster_domain.conditions import EvictionReason
from muster_runtime.bus import Bus
from muster_simulation.manifests import SCENARIO_LABEL, Naming, node_groups
from muster_simulation.play import Seen, differences
from muster_simulation.scenario import Expectation, Manifest, Preempted, Scenario
from muster_stack.bus import control, joined
from muster_stack.stack import Stack
from muster_testing.waiting import wait_until

PATIENCE_S = 60.0
LEASE_MS = 600_000
CONFLICT = 409


def simulated_nodes(scenarios: Iterable[tuple[Scenario, Naming]]) -> str:
    """All nodes of all scenarios, as the agent is told of them."""
    groups = [
        {
            "name": naming.shared(group.name.replace("{n}", str(number))),
            "gpus": group.gpus,
            "gpu_model": group.mig_model or "Simulated GPU",
            "mig": bool(group.mig_model),
            "cpu": group.resources.get("cpu", "64"),
            "memory": group.resources.get("memory", "512Gi"),
            "resources": {
                name: amount
                for name, amount in group.resources.items()
                if name not in ("cpu", "memory")
            },
            "labels": {**group.labels, SCENARIO_LABEL: naming.prefix},
        }
        for scenario, naming in scenarios
        for group in node_groups(scenario)
        for number in range(group.count)
    ]
    return json.dumps(groups)


class LiveStage:
    """One scenario in one namespace; time is real, so only the order of its rounds counts."""

    def __init__(self, stack: Stack, client: Client, naming: Naming) -> None:
        self._stack = stack
        self._client = client
        self._naming = naming
        self._identities: dict[str, str] = {}
        self._sent = 0
        self._evictions: list[events.WorkloadEvicted] = []
        self._read_to = 0

    def declare(self, manifests: list[Manifest]) -> None:
        self._send(manifests, {})

    def submit(self, manifest: Manifest, *, ends_by_order: bool) -> None:
        parameters: dict[str, object] = {"wait": "decision", "wait_s": "5"}
        if ends_by_order:
            parameters["external_lease_ms"] = LEASE_MS
        try:
            self._send([manifest], parameters)
        except Refused as refused:
            if refused.status != CONFLICT:
                raise

    def finish(self, name: str) -> None:
        self._client.finish(self._identities[name], succeeded=True)

    def cancel(self, name: str) -> None:
        self._client.cancel(self._identities[name])

    def checkpoint(self, name: str) -> None:
        self._client.checkpoint(self._identities[name])

    def fail_node(self, name: str) -> None:
        asyncio.run(control(self._stack, name, ControlAction.FAIL))

    def recover_node(self, name: str) -> None:
        asyncio.run(control(self._stack, name, ControlAction.RECOVER))

    def pass_time(self, at_ms: int) -> None:
        """The expectations wait for what they expect."""

    def rest(self) -> None:
        """Every owner has answered once more after all that was asked of it."""
        for name in sorted(self.look().pending):
            self._client.workload(self._identities[name])

    def expect(self, expectation: Expectation, seen_before: int) -> list[str]:
        found: list[str] = ["nothing was looked at"]

        def as_expected() -> bool:
            nonlocal found
            found = differences(expectation, self.look(), seen_before)
            return not found

        try:
            wait_until(as_expected, PATIENCE_S, lambda: "; ".join(found))
        except TimeoutError:
            return found
        return []

    def look(self) -> Seen:
        seen = Seen()
        for name, identity in self._identities.items():
            self._add(seen, name, self._client.workload(identity))
        names = {identity: name for name, identity in self._identities.items()}
        asyncio.run(self._read_evictions())
        for fact in self._evictions:
            if fact.workload_id not in names:
                continue
            if isinstance(fact.state.reason, EvictionReason):
                seen.evictions += 1
            if fact.state.preemptor:
                by, reason = names[fact.state.preemptor], str(fact.state.preemption_reason)
                preempted = Preempted(by=by, reason=reason)
                seen.preempted.append((names[fact.workload_id], preempted))
        return seen

    def clear(self) -> None:
        """End what is left, so that the next scenario has the machine for itself.

        What is the installation's goes as well: the next scenario has its own, or none.
        """
        for name in [*self.look().pending, *self.look().admitted]:
            self.cancel(name)
        for configuration in self._client.objects("configuration").objects:
            self._client.delete("configuration", configuration.name, "default")
        for scheduler in self._client.objects("configmap").objects:
            self._client.delete("configmap", scheduler.name, scheduler.namespace)

    def _send(self, manifests: list[Manifest], parameters: dict[str, object]) -> None:
        self._sent += 1
        text = "\n---\n".join(json.dumps(manifest) for manifest in manifests)
        key = f"{self._naming.prefix}-{self._sent}"
        accepted = self._client.submit(text, key=key, parameters=parameters)
        for job in accepted.jobs:
            self._identities.setdefault(job.name, job.id)

    def _add(self, seen: Seen, name: str, detail: WorkloadDetail) -> None:
        row = detail.row
        match row.phase:
            case Phase.PENDING | Phase.RESERVED:
                seen.pending[name] = detail.explanation.reason
            case Phase.ADMITTED | Phase.RUNNING:
                seen.admitted.add(name)
                seen.nodes[name] = tuple(self._naming.plain(node) for node in row.nodes)
                seen.pods[name] = row.pods if row.pods_now is None else row.pods_now
            case Phase.FINISHED:
                seen.finished[name] = str(row.outcome)
            case _:
                seen.leaving.add(name)

    async def _read_evictions(self) -> None:
        async with joined(self._stack.bus_login()) as client:
            subject = subjects.facts_of(Service.ADMISSION, "workload_evicted")
            bus = Bus(client, Service.GATEWAY)
            for received in await bus.read_to_end(EVENTS.name, subject, after=self._read_to):
                fact = codec.decode_event("workload_evicted", received.body)
                assert isinstance(fact, events.WorkloadEvicted)
                self._evictions.append(fact)
                self._read_to = received.sequence
