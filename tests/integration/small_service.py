"""The smallest service: `python small_service.py MODE`, as a process of its own."""

import asyncio
import sys

from counting import CountingMachine

from muster_contracts.subjects import Service
from muster_runtime.leases import Leases
from muster_runtime.owner import Owner
from muster_runtime.service import Chassis, run
from muster_runtime.settings import ServiceSettings
from muster_runtime.storage import open_store

SHARDS = ("p00", "p01")


async def own(chassis: Chassis) -> None:
    """Own two shards of a counting machine."""
    owner: Owner[CountingMachine] = Owner(
        bus=chassis.bus,
        store=open_store(ServiceSettings()),
        build=CountingMachine,
        metrics=chassis.metrics,
        tracing=chassis.tracing,
    )
    leases = Leases(
        chassis.bus.client,
        service=Service.ADMISSION,
        instance=chassis.settings.instance,
        shards=SHARDS,
    )
    chassis.checks["cycle"] = owner.trouble
    chassis.before_scrape.append(owner.measure)
    await leases.run(owner.own)


async def fail(chassis: Chassis) -> None:
    """Fail once everything is up."""
    await chassis.bus.wait_connected()
    raise RuntimeError("the work failed")


async def linger(_chassis: Chassis) -> None:
    """Do not want to stop."""
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue


if __name__ == "__main__":
    run(
        Service.ADMISSION,
        ServiceSettings(),
        {"own": own, "fail": fail, "linger": linger}[sys.argv[1]],
    )
