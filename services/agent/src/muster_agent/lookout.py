"""Looks at this machine again and again, and says when something about it has changed."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from muster_agent.inventory import DeviceUse, NodeIdentity, identifiers, node_of, slot_of
from muster_agent.machine_reading import owners_of, read_machine
from muster_agent.nvml import Gpus
from muster_contracts.commands import RunPod
from muster_domain.nodes import Node


class Lookout:
    """Knows what the machine was when it was last looked at."""

    def __init__(
        self,
        identity: NodeIdentity,
        folder: Path,
        gpus: Gpus,
        *,
        active: Callable[[], Mapping[str, RunPod]],
        seen: Callable[[Node], None],
    ) -> None:
        self._identity = identity
        self._folder = folder
        self._gpus = gpus
        self._active = active
        self._seen = seen
        self._last: Node | None = None
        self._identifiers: dict[tuple[str, int], str] = {}

    def identify(self, resource: str, index: int) -> str:
        """The UUID of a device, or its index if it is not known."""
        return self._identifiers.get((resource, index), str(index))

    def processors(self, pod: RunPod) -> tuple[int, ...]:
        """The processors of the NUMA zones that a pod was given; none where it may use all."""
        zones = pod.environment.get("MUSTER_NUMA_NODES", "").split(",")
        known = self._last.zones if self._last is not None else ()
        return tuple(cpu for zone in known if str(zone.number) in zones for cpu in zone.cpus)

    async def run(self, interval_s: float) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(interval_s)

    async def look(self) -> None:
        """Look once.

        Pods of before and after the look count as our own: what started or ended meanwhile must
        not pass for somebody else's.
        """
        before = self._active()
        machine = await asyncio.to_thread(read_machine, self._folder)
        gpus = await asyncio.to_thread(self._gpus.read)
        pods = {**before, **self._active()}
        processes = {
            process
            for gpu in gpus
            for process in (*gpu.processes, *(one for i in gpu.instances for one in i.processes))
        }
        use = DeviceUse(
            owners=await asyncio.to_thread(owners_of, processes, pods.keys()),
            given_out={
                (resource, index)
                for pod in pods.values()
                for resource, indices in pod.devices.items()
                for index in indices
            }
            | {slot_of(one.card, one.start) for pod in pods.values() for one in pod.instances},
        )
        self._identifiers = identifiers(gpus, self._identity.replicas)
        node = node_of(self._identity, machine, gpus, use)
        if node != self._last:
            self._last = node
            self._seen(node)
