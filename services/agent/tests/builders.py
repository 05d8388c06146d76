"""Commands for tests."""

from muster_contracts.commands import RunPod, StopPod
from muster_domain.nodes import MigInstance
from muster_domain.workload import Container, EnvironmentVariable, RestartPolicy


def run_pod(  # noqa: PLR0913 - a pod has that many sides
    uid: str = "w1-1-0",
    *commands: tuple[str, ...],
    restart_policy: RestartPolicy = RestartPolicy.NEVER,
    environment: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    devices: dict[str, tuple[int, ...]] | None = None,
    instances: tuple[MigInstance, ...] = (),
    image: str = "",
    directory: str = "",
    own: dict[str, str] | None = None,
) -> RunPod:
    """A pod with one container for each command, or one that says nothing."""
    containers = tuple(
        Container(
            name=f"c{number}",
            command=command,
            image=image,
            working_directory=directory,
            environment=tuple(
                EnvironmentVariable(name=name, value=value) for name, value in (own or {}).items()
            ),
        )
        for number, command in enumerate(commands or ((),))
    )
    return RunPod(
        pod_uid=uid,
        workload_id=uid.rsplit("-", 2)[0],
        namespace="team",
        workload_name="job",
        attempt=1,
        pod_set="main",
        index=0,
        rank=0,
        containers=containers,
        restart_policy=restart_policy,
        environment=environment or {},
        annotations=annotations or {},
        devices=devices or {},
        instances=instances,
    )


def stop_pod(uid: str = "w1-1-0", grace_ms: int = 1000) -> StopPod:
    """The end of a pod."""
    return StopPod(pod_uid=uid, workload_id=uid.rsplit("-", 2)[0], attempt=1, grace_ms=grace_ms)


def shell(script: str) -> tuple[str, ...]:
    """A command that runs a script."""
    return ("sh", "-c", script)
