"""Every scenario that can be, on one running installation."""

from collections.abc import Iterator

import pytest

from muster.client import Client
from muster_contracts.subjects import Service
from muster_simulation.play import play
from muster_stack.plan import StackOptions
from muster_stack.stack import Stack
from muster_testing.waiting import wait_until

from .live_stage import LiveStage, simulated_nodes
from .test_scenarios import SCENARIOS, naming_of

LIVE = {name: scenario for name, scenario in SCENARIOS.items() if "live" in scenario.levels}
NODES = simulated_nodes((scenario, naming_of(name)) for name, scenario in LIVE.items())
SERVICES = (
    Service.GATEWAY, Service.ADMISSION, Service.PLACEMENT, Service.PREEMPTION, Service.AGENT,
)  # fmt: skip

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    options = StackOptions(
        services=SERVICES,
        simulate=NODES,
        environment={"MUSTER_TRACE_RATIO": "0"},
        service_environment={
            Service.PLACEMENT: {
                "MUSTER_NODE_SUSPECT_MS": "8000",
                "MUSTER_NODE_LEASE_MS": "12000",
                "MUSTER_NODE_FENCE_MARGIN_MS": "500",
            }
        },
    )
    with Stack(tmp_path_factory.mktemp("stack"), options) as running:
        yield running


@pytest.fixture(scope="module")
def client(stack: Stack) -> Iterator[Client]:
    with Client(stack.gateway_url, token=stack.tokens["admin"]) as calling:
        expected = NODES.count('"name"')
        wait_until(
            lambda: len(calling.nodes().nodes) == expected, 60, lambda: "not all nodes reported"
        )
        yield calling


@pytest.mark.parametrize("name", sorted(LIVE))
def test_on_the_running_services(name: str, stack: Stack, client: Client) -> None:
    stage = LiveStage(stack, client, naming_of(name))
    try:
        assert play(LIVE[name], stage, naming_of(name)) == []
    finally:
        stage.clear()
