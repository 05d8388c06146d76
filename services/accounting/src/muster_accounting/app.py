"""Putting accounting together: the only place that knows all of its parts."""

from muster_accounting.meter import Meter
from muster_accounting.metrics import AccountingMetrics
from muster_accounting.settings import AccountingSettings, load_prices, load_token_terms
from muster_accounting.store import SHARD, UsageStore
from muster_contracts.subjects import Service
from muster_runtime.clock import now_ms
from muster_runtime.leases import Leases
from muster_runtime.service import Chassis, run


def main() -> None:
    """Run the accounting service."""
    settings = AccountingSettings()
    prices = load_prices(settings)
    terms = load_token_terms(settings)
    labels = [name.strip() for name in settings.cost_labels.split(",") if name.strip()]

    async def work(chassis: Chassis) -> None:
        store = UsageStore(settings.accounting_url)
        meter = Meter(
            bus=chassis.bus,
            store=store,
            prices=prices,
            terms=terms,
            metrics=AccountingMetrics(chassis.metrics.registry, labels),
            chassis_metrics=chassis.metrics,
            clock=now_ms,
            lag_max=settings.log_lag_max,
            zones=tuple(zone.strip() for zone in settings.months_of.split(",")),
        )
        chassis.checks["log"] = meter.trouble
        chassis.before_scrape.append(meter.measure)
        leases = Leases(
            chassis.bus.client,
            service=Service.ACCOUNTING,
            instance=chassis.settings.instance,
            shards=(SHARD,),
        )
        try:
            await store.prepare()
            await leases.run(meter.own)
        finally:
            await store.close()

    run(Service.ACCOUNTING, settings, work)
