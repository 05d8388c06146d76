from collections.abc import Iterator

import pytest

from muster_agent.runtimes import process
from muster_testing.fixtures import nats

__all__ = ["nats"]


@pytest.fixture(autouse=True, scope="session")
def _reaped() -> Iterator[None]:
    """Keepers that a test let go are reaped, as a living agent would."""
    yield
    for keeper in process._LET_GO:
        keeper.poll()
