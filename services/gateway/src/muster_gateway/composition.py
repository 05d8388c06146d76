"""Everything the gateway is made of, put together once."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from muster_contracts.streams import FRONT_DOOR
from muster_domain.errors import InvalidValue
from muster_gateway.access import Caller, Tokens, read_role, read_tokens
from muster_gateway.applying import Applying
from muster_gateway.configuration_file import ConfigurationFile, read_configuration_file
from muster_gateway.decisions import DecisionFeed
from muster_gateway.flows import Flows
from muster_gateway.front_door import FrontDoor
from muster_gateway.locating import Locating, Wishes
from muster_gateway.measures import Measures
from muster_gateway.owners import Owners
from muster_gateway.settings import GatewaySettings
from muster_gateway.submitting import Submitting
from muster_gateway.watchers import Watchers
from muster_manifests.catalogue import ObjectCatalogue
from muster_runtime.bus import Bus
from muster_runtime.objects import ObjectFeed
from muster_runtime.service import Chassis
from muster_runtime.telemetry import Tracing
from muster_runtime.worker import Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """What the doors share."""

    settings: GatewaySettings
    tokens: Tokens
    bus: Bus
    feed: ObjectFeed
    decisions: DecisionFeed
    owners: Owners
    locating: Locating
    wishes: Wishes
    submitting: Submitting
    applying: Applying
    flows: Flows
    watchers: Watchers
    measures: Measures
    tracing: Tracing
    worker: Worker
    configuration: ConfigurationFile | None

    async def work(self) -> None:
        """Follow the streams and work off the front door until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.feed.run(), name="objects")
            group.create_task(self.decisions.run(), name="decisions")
            group.create_task(self.flows.run(), name="flows")
            if self.configuration is not None:
                group.create_task(self.configuration.run(), name="configuration file")
            if self.settings.front_door:
                group.create_task(self.worker.run(), name="front door")


def compose(chassis: Chassis, settings: GatewaySettings) -> Gateway:
    """Put the gateway together on a running chassis.

    Raises `InvalidValue` for bad tokens and `ManifestError` for a bad configuration file.
    """
    bus = chassis.bus
    feed = ObjectFeed(bus, ObjectCatalogue())
    decisions = DecisionFeed(bus)
    owners = Owners(bus, timeout_s=settings.query_timeout_s)
    locating = Locating(decisions, owners)
    applying = Applying(bus, feed, owners)
    front_door = FrontDoor(feed, decisions, locating, chassis.tracing)
    gateway = Gateway(
        settings=settings,
        tokens=tokens_of(settings),
        bus=bus,
        feed=feed,
        decisions=decisions,
        owners=owners,
        locating=locating,
        wishes=Wishes(bus, locating),
        submitting=Submitting(bus, feed, decisions, owners),
        applying=applying,
        flows=Flows(bus, feed, decisions),
        watchers=Watchers(settings.watchers_max),
        measures=Measures(chassis.metrics),
        tracing=chassis.tracing,
        worker=Worker(
            bus, FRONT_DOOR, front_door.digest, dead_letters=chassis.metrics.dead_letters
        ),
        configuration=_configuration(settings, feed, applying),
    )
    _attach(chassis, gateway)
    return gateway


def _configuration(
    settings: GatewaySettings, feed: ObjectFeed, applying: Applying
) -> ConfigurationFile | None:
    document = read_configuration_file(settings.config_file) if settings.config_file else None
    return None if document is None else ConfigurationFile(document, feed, applying)


def tokens_of(settings: GatewaySettings) -> Tokens:
    """The tokens that the environment names. Raises `InvalidValue`."""
    callers = read_tokens(settings.tokens.get_secret_value(), "MUSTER_TOKENS")
    if settings.tokens_file:
        try:
            text = Path(settings.tokens_file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidValue(f"not readable: {error}", field="MUSTER_TOKENS_FILE") from error
        callers |= read_tokens(text, settings.tokens_file)
    anonymous: Caller | None = None
    if settings.anonymous_role:
        role = read_role(settings.anonymous_role, "MUSTER_ANONYMOUS_ROLE")
        anonymous = Caller(name="anonymous", role=role)
    return Tokens(callers, anonymous=anonymous)


def _attach(chassis: Chassis, gateway: Gateway) -> None:
    chassis.checks["objects"] = gateway.feed.trouble
    chassis.checks["decisions"] = gateway.decisions.trouble
    if gateway.configuration is not None:
        chassis.checks["configuration file"] = gateway.configuration.trouble
    if gateway.settings.front_door:
        chassis.checks["front door"] = gateway.worker.trouble

    def refresh() -> None:
        gateway.measures.watchers.set(gateway.watchers.count)
        gateway.measures.front_door_done.set(gateway.worker.done_total)

    chassis.before_scrape.append(refresh)
