"""The same servers from containers, where `MUSTER_TEST_ENGINE=docker` asks for them.

The images must be there already; nothing is pulled. Ports are bound to fixed numbers, because a
container that restarts would otherwise get others.
"""

import os
import subprocess
import time
from types import TracebackType
from typing import Self, cast

from muster_domain.errors import NotFound
from muster_runtime.embedded import (
    LOOPBACK,
    EmbeddedServerError,
    NatsProbe,
    Probe,
    RedisProbe,
    free_ports,
)

os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")

from testcontainers.core.container import DockerContainer

REDIS_IMAGE = os.environ.get("MUSTER_TEST_REDIS_IMAGE", "redis:7")
NATS_IMAGE = os.environ.get("MUSTER_TEST_NATS_IMAGE", "nats:2.15")
"""Local names of the images; CI builds its own."""

_READY_S = 60.0
_POLL_S = 0.05


def docker_is_chosen() -> bool:
    """Whether the tests were asked to use containers."""
    return os.environ.get("MUSTER_TEST_ENGINE") == "docker"


class ContainerServer:
    """One container on the loopback interface that a test may kill and restart."""

    url: str

    def __init__(self, image: str, command: str, ports: dict[int, int], probe: Probe) -> None:
        _require(image)
        self._container = DockerContainer(image).with_command(command)
        bound = cast("dict[str, object]", self._container.ports)
        bound.update({f"{inside}/tcp": (LOOPBACK, outside) for inside, outside in ports.items()})
        self._probe = probe

    def __enter__(self) -> Self:
        self._container.start()
        try:
            self._wait_ready()
        except BaseException:
            self._container.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._container.stop()

    def kill(self) -> None:
        """End it at once, as `kill -9` does."""
        self._container.get_wrapped_container().kill()

    def restart(self) -> None:
        """Start it again, whether or not it runs, with what it had on disk."""
        self._container.get_wrapped_container().restart()
        self._wait_ready()

    def _wait_ready(self) -> None:
        until = time.monotonic() + _READY_S
        while not self._probe():
            if time.monotonic() > until:
                raise EmbeddedServerError(f"{self.url} is not ready after {_READY_S} s")
            time.sleep(_POLL_S)


class RedisContainerServer(ContainerServer):
    """Redis 7 with an append-only file."""

    def __init__(self, image: str = REDIS_IMAGE) -> None:
        (port,) = free_ports(1)
        self.url = f"redis://{LOOPBACK}:{port}/0"
        command = "redis-server --appendonly yes --protected-mode no --save ''"
        super().__init__(image, command, {6379: port}, RedisProbe(port))


class NatsContainerServer(ContainerServer):
    """nats-server with JetStream."""

    def __init__(self, image: str = NATS_IMAGE) -> None:
        port, monitor_port = free_ports(2)
        self.url = f"nats://{LOOPBACK}:{port}"
        command = "nats-server --jetstream --store_dir /data --http_port 8222"
        ports = {4222: port, 8222: monitor_port}
        super().__init__(image, command, ports, NatsProbe(monitor_port))


def _require(image: str) -> None:
    """Raise `NotFound` unless the engine answers and has the image."""
    try:
        found = subprocess.run(  # noqa: S603 - fixed words and an image name of our own
            ["docker", "image", "inspect", image],  # noqa: S607 - whichever docker is on PATH
            check=False,
            capture_output=True,
            timeout=10,
        )
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        raise NotFound("MUSTER_TEST_ENGINE=docker, and no engine answers") from error
    if found.returncode:
        raise NotFound(f"MUSTER_TEST_ENGINE=docker, and the engine has no image {image}")
