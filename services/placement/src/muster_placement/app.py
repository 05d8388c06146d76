"""Putting placement together: the only place that knows all of its parts."""

import asyncio
from typing import TYPE_CHECKING

from muster_contracts import codec, subjects
from muster_contracts.commands import NodeHeartbeat
from muster_contracts.partitions import PLACEMENT_SHARD
from muster_contracts.queries import Query
from muster_contracts.subjects import Service
from muster_domain.errors import InvalidValue
from muster_domain.policy import Policy
from muster_manifests.catalogue import ObjectCatalogue
from muster_placement import fit, queries
from muster_placement.machine import PlacementMachine
from muster_placement.metrics import PlacementMetrics
from muster_placement.settings import PlacementSettings
from muster_runtime.clock import now_ms
from muster_runtime.leases import Leases
from muster_runtime.objects import ObjectFeed
from muster_runtime.owner import Owner
from muster_runtime.service import Chassis, run
from muster_runtime.storage import open_store
from muster_scheduling.placement.topology.terms import topology_options
from muster_scheduling.snapshot.volcano import VOLCANO_FLAVOR, volcano_flavor
from muster_scheduling.volcano.floor import VolcanoRules

if TYPE_CHECKING:
    from muster_ledger.redis_store import RedisStore

OBJECTS_WAIT_S = 30.0


def main() -> None:
    """Run the placement service."""
    settings = PlacementSettings()

    async def work(chassis: Chassis) -> None:
        await _work(chassis, settings)

    run(Service.PLACEMENT, settings, work)


async def _work(chassis: Chassis, settings: PlacementSettings) -> None:
    catalogue = ObjectCatalogue()
    feed = ObjectFeed(chassis.bus, catalogue)
    store: RedisStore = open_store(settings)
    configured: dict[int, int] = {}

    async def prepare(machine: PlacementMachine) -> None:
        if configured.get(id(machine)) != catalogue.sequence:
            flavors = {**catalogue.flavors, VOLCANO_FLAVOR: volcano_flavor()}
            kueue = catalogue.configuration
            options = topology_options(kueue.policy if kueue is not None else Policy())
            volcano = VolcanoRules(
                queues=tuple(catalogue.volcano_queues.values()),
                hyper_nodes=tuple(catalogue.hyper_nodes.values()),
                scheduler=catalogue.volcano_scheduler,
            )
            machine.configure(flavors, dict(catalogue.topologies), options, volcano)
            configured.clear()
            configured[id(machine)] = catalogue.sequence

    owner: Owner[PlacementMachine] = Owner(
        bus=chassis.bus,
        store=store,
        build=lambda image: PlacementMachine(image, settings, now_ms()),
        metrics=chassis.metrics,
        tracing=chassis.tracing,
        prepare=prepare,
        answers={
            Query.NODES: queries.nodes,
            Query.DOMAINS: queries.domains,
            Query.SEATS: queries.seats,
            Query.FIT: fit.fit,
        },
    )
    leases = Leases(
        chassis.bus.client,
        service=Service.PLACEMENT,
        instance=chassis.settings.instance,
        shards=(PLACEMENT_SHARD,),
    )
    metrics = PlacementMetrics(chassis.metrics.registry)
    chassis.checks["objects"] = feed.trouble
    chassis.checks["cycle"] = owner.trouble
    chassis.before_scrape.append(owner.measure)
    chassis.before_scrape.append(lambda: metrics.refresh(tuple(owner.machines.values())))
    await _listen(chassis, owner)
    async with asyncio.TaskGroup() as group:
        group.create_task(feed.run())
        await feed.wait_complete(OBJECTS_WAIT_S)
        group.create_task(leases.run(owner.own))


async def _listen(chassis: Chassis, owner: Owner[PlacementMachine]) -> None:
    """Pass heartbeats to the machine, for as long as the process lives."""

    def on_heartbeat(body: bytes) -> None:
        try:
            beat = codec.decode(NodeHeartbeat, body)
        except InvalidValue:
            return
        for machine in owner.machines.values():
            machine.heard(beat.node, now_ms())

    await chassis.bus.listen(subjects.telemetry_of_all("heartbeat"), on_heartbeat)
