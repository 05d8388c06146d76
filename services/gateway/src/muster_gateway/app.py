"""The gateway as a service."""

from starlette.types import ASGIApp

from muster_contracts.subjects import Service
from muster_gateway.composition import Gateway, compose
from muster_gateway.http.app import build_api
from muster_gateway.settings import GatewaySettings
from muster_runtime.service import Chassis, run


class GatewayService:
    """Builds the gateway when the chassis is up, for the API and for the work alike."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._settings = settings
        self._gateway: Gateway | None = None

    def http(self, chassis: Chassis) -> ASGIApp:
        """The API."""
        return build_api(self._of(chassis))

    async def work(self, chassis: Chassis) -> None:
        """Everything else, until cancelled."""
        await self._of(chassis).work()

    def _of(self, chassis: Chassis) -> Gateway:
        if self._gateway is None:
            self._gateway = compose(chassis, self._settings)
        return self._gateway


def main() -> None:
    """Run the gateway until it is told to stop."""
    settings = GatewaySettings()
    service = GatewayService(settings)
    run(Service.GATEWAY, settings, service.work, service.http)
