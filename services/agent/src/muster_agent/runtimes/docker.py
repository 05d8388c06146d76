"""Pods as containers of the node's Docker engine, on the host's network.

The container's name is the run's, so a run exists at most once; it is removed only when its pod is
over and recorded. Containers outlive the agent, and no keeper watches the lease for them: with
this runtime a node that is cut off ends its pods in time only while its agent runs.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing, suppress
from typing import Any, cast

import aiodocker
import structlog
from aiodocker.containers import DockerContainer
from aiohttp import ClientError, ClientTimeout

from muster_agent.pods import (
    EXIT_CANNOT_RUN,
    ContainerRun,
    RunBegan,
    RunEnded,
    RunTask,
    checkpoint_of,
)
from muster_agent.runtimes import Divide, Observe, Processors, Write
from muster_contracts.envelope import derived_id
from muster_contracts.pod_environment import (
    GPU_RESOURCE,
    container_environment,
    expand,
)
from muster_domain.errors import Conflict
from muster_domain.mig import MIG_PREFIX
from muster_domain.time_slicing import SHARED_GPU

RETRY_S = 1.0
POD_LABEL = "dev.muster.pod"
EXIT_NEVER_STARTED = 143
STREAMS = ("stdout", "stderr")
_ENDLESS = ClientTimeout(total=None)
_CONFLICT = 409
_NOT_FOUND = 404
_SERVER_ERROR = 500

_log = structlog.get_logger()


class DockerRuntime:
    """Runs each container of a pod as a container of the engine."""

    def __init__(
        self,
        engine: aiodocker.Docker,
        *,
        observe: Observe,
        write: Write,
        identify: Callable[[str, int], str],
        processors: Processors,
        divide: Divide,
    ) -> None:
        self._engine = engine
        self._observe = observe
        self._write = write
        self._identify = identify
        self._processors = processors
        self._divide = divide
        self._follows: dict[ContainerRun, asyncio.Task[None]] = {}
        self._wanted: dict[ContainerRun, str] = {}
        self._errands: set[asyncio.Task[None]] = set()

    def run(self, task: RunTask) -> None:
        """As `Runtime`."""
        self._follow(task, create=True)

    def stop(self, task: RunTask, *, kill: bool) -> None:
        """As `Runtime`."""
        self._wanted[task.id] = "SIGKILL" if kill else "SIGTERM"
        self._follow(task, create=False)
        self._errand(self._signal(task.id))

    def checkpoint(self, task: RunTask) -> None:
        """As `Runtime`."""
        checkpoint = checkpoint_of(task.pod)
        if checkpoint is not None:
            self._wanted.setdefault(task.id, checkpoint.signal)
            self._follow(task, create=False)
            self._errand(self._signal(task.id))

    def forget(self, pod_uid: str) -> None:
        """As `Runtime`."""
        for run in [run for run in self._follows if run.pod_uid == pod_uid]:
            self._follows.pop(run).cancel()
            self._wanted.pop(run, None)
        self._errand(self._remove(pod_uid))

    async def close(self) -> None:
        """As `Runtime`.

        The log streams end because the engine is let go: `aiodocker` leaves the connection of a
        stream open that is cancelled.
        """
        follows = list(self._follows.values())
        for task in follows:
            task.cancel()
        await asyncio.gather(*follows, return_exceptions=True)
        await self._engine.close()
        if self._errands:
            await asyncio.wait(self._errands, timeout=RETRY_S)
        for task in self._errands:
            task.cancel()

    def _follow(self, task: RunTask, *, create: bool) -> None:
        if task.id not in self._follows:
            self._follows[task.id] = asyncio.create_task(self._follow_on(task, create=create))

    async def _follow_on(self, task: RunTask, *, create: bool) -> None:
        while True:
            try:
                await self._live(task, create=create)
            except aiodocker.DockerError as error:
                if error.status < _SERVER_ERROR:
                    self._finish(task, EXIT_CANNOT_RUN, error.message)
                    return
                _log.warning("engine refuses", pod=task.id.pod_uid, error=error.message)
            except (ClientError, OSError, TimeoutError) as error:
                _log.warning("engine does not answer", pod=task.id.pod_uid, error=str(error))
            except Conflict as error:
                self._finish(task, EXIT_CANNOT_RUN, str(error))
                return
            else:
                return
            await asyncio.sleep(RETRY_S)

    async def _live(self, task: RunTask, *, create: bool) -> None:
        container = await self._find(task.id)
        if container is None and create:
            container = await self._create(task)
        fresh = container is not None and await self._is_fresh(container)
        if container is None or (fresh and not create):
            self._finish(task, EXIT_NEVER_STARTED, "it was called off before it started")
            return
        if fresh:
            await container.start()
        self._observe(RunBegan(task.id))
        if task.id in self._wanted:
            await self._signal(task.id)
        outputs = [self._errand(self._pass_on(task, container, stream)) for stream in STREAMS]
        result = await container.wait(timeout=_ENDLESS)
        await asyncio.wait(outputs, timeout=RETRY_S)
        self._finish(task, int(result["StatusCode"]), "")

    async def _create(self, task: RunTask) -> DockerContainer:
        config = self._config(task, await self._divide(task.pod))
        for tries in (1, 2):
            try:
                return await self._engine.containers.create(config, name=container_name(task.id))
            except aiodocker.DockerError as error:
                if error.status == _CONFLICT:
                    return await self._engine.containers.get(container_name(task.id))
                if error.status != _NOT_FOUND or tries > 1:
                    raise
                await self._pull(task.container.image)
        raise AssertionError("either created or raised")

    async def _pull(self, image: str) -> None:
        try:
            await self._engine.images.pull(from_image=image)
        except aiodocker.DockerError as error:
            raise aiodocker.DockerError(
                _NOT_FOUND, f"cannot pull {image}: {error.message}"
            ) from error

    def _config(self, task: RunTask, instances: tuple[str, ...]) -> dict[str, Any]:
        container = task.container
        given = {**task.pod.environment, "MUSTER_POD_UID": task.pod.pod_uid}
        variables = container_environment(given, container)
        devices = [
            self._identify(resource, index)
            for resource in sorted(task.pod.devices)
            if resource in (GPU_RESOURCE, SHARED_GPU) or resource.startswith(MIG_PREFIX)
            for index in task.pod.devices[resource]
        ]
        devices = [*dict.fromkeys(devices), *instances]
        host: dict[str, Any] = {"NetworkMode": "host", "Init": True}
        processors = self._processors(task.pod)
        if processors:
            host["CpusetCpus"] = ",".join(str(cpu) for cpu in processors)
            host["CpusetMems"] = given["MUSTER_NUMA_NODES"]
        if devices:
            host["DeviceRequests"] = [
                {"Driver": "nvidia", "DeviceIDs": devices, "Capabilities": [["gpu"]]}
            ]
        config: dict[str, Any] = {
            "Image": container.image,
            "Env": [f"{name}={value}" for name, value in variables.items()],
            "Labels": {POD_LABEL: task.pod.pod_uid},
            "HostConfig": host,
        }
        if container.command:
            config["Entrypoint"] = [expand(word, variables) for word in container.command]
        if container.args:
            config["Cmd"] = [expand(word, variables) for word in container.args]
        if container.working_directory:
            config["WorkingDir"] = container.working_directory
        return config

    async def _pass_on(self, task: RunTask, container: DockerContainer, stream: str) -> None:
        wanted = {stream: True}
        log = cast("AsyncGenerator[str]", container.log(**wanted, follow=True, timeout=_ENDLESS))
        async with aclosing(log) as lines:
            async for line in lines:
                self._write(task, stream, line)

    async def _find(self, run: ContainerRun) -> DockerContainer | None:
        try:
            return await self._engine.containers.get(container_name(run))
        except aiodocker.DockerError as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    async def _is_fresh(self, container: DockerContainer) -> bool:
        """Whether the container was never started; one that ended must not start again."""
        description = await container.show()
        return str(description["State"]["Status"]) == "created"

    async def _signal(self, run: ContainerRun) -> None:
        container = self._engine.containers.container(container_name(run))
        await container.kill(signal=self._wanted[run])

    async def _remove(self, pod_uid: str) -> None:
        filters = f'{{"label": ["{POD_LABEL}={pod_uid}"]}}'
        for container in await self._engine.containers.list(all="true", filters=filters):
            await container.delete(force=True)

    def _errand(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        async def run() -> None:
            with suppress(aiodocker.DockerError, ClientError, OSError, TimeoutError):
                await work

        task = asyncio.create_task(run())
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)
        return task

    def _finish(self, task: RunTask, code: int, message: str) -> None:
        self._observe(RunEnded(id=task.id, exit_code=code, message=message))


def container_name(run: ContainerRun) -> str:
    """The engine's name for a run."""
    return f"muster-{derived_id(run.pod_uid)}-{run.container}-{run.run}"
