"""Putting admission together: the only place that knows all of its parts."""

import asyncio

from muster_admission import queries
from muster_admission.budget_gauges import BudgetGauges
from muster_admission.machine import AdmissionMachine
from muster_admission.metrics import AdmissionMetrics
from muster_admission.settings import AdmissionSettings
from muster_contracts.partitions import PARTITIONS
from muster_contracts.subjects import Service
from muster_manifests.catalogue import ObjectCatalogue
from muster_runtime.clock import now_ms
from muster_runtime.configuration import configuration_of
from muster_runtime.leases import Leases
from muster_runtime.objects import ObjectFeed
from muster_runtime.owner import Owner
from muster_runtime.service import Chassis, run
from muster_runtime.storage import open_store

OBJECTS_WAIT_S = 30.0


def main() -> None:
    """Run the admission service."""
    settings = AdmissionSettings()

    async def work(chassis: Chassis) -> None:
        await _work(chassis, settings)

    run(Service.ADMISSION, settings, work)


async def _work(chassis: Chassis, settings: AdmissionSettings) -> None:
    catalogue = ObjectCatalogue()
    feed = ObjectFeed(chassis.bus, catalogue)

    async def prepare(machine: AdmissionMachine) -> None:
        if machine.objects_needed > catalogue.sequence:
            await feed.wait_for(machine.objects_needed, OBJECTS_WAIT_S)
        if machine.configured_at != catalogue.sequence:
            configuration = configuration_of(catalogue, machine.book.partition)
            machine.configure(configuration, catalogue.sequence, now_ms())

    metrics = AdmissionMetrics(chassis.metrics.registry)
    owner: Owner[AdmissionMachine] = Owner(
        bus=chassis.bus,
        store=open_store(settings),
        build=lambda image: AdmissionMachine(image, settings, metrics),
        metrics=chassis.metrics,
        tracing=chassis.tracing,
        prepare=prepare,
        committed=AdmissionMachine.committed,
        answers=queries.ANSWERS,
    )
    leases = Leases(
        chassis.bus.client,
        service=Service.ADMISSION,
        instance=chassis.settings.instance,
        shards=PARTITIONS,
    )
    chassis.checks["objects"] = feed.trouble
    chassis.checks["cycle"] = owner.trouble
    chassis.before_scrape.append(owner.measure)
    budgets = BudgetGauges(chassis.metrics.registry)

    def measure() -> None:
        machines = tuple(owner.machines.values())
        metrics.refresh(machines)
        budgets.refresh((machine.book.homes for machine in machines), now_ms())

    chassis.before_scrape.append(measure)
    async with asyncio.TaskGroup() as group:
        group.create_task(feed.run())
        await feed.wait_complete(OBJECTS_WAIT_S)
        group.create_task(leases.run(owner.own))
