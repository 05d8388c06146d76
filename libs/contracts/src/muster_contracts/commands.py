"""What an agent is to do with a pod, and what it samples."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from muster_domain.nodes import MigInstance
from muster_domain.workload import Container, RestartPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPod:
    """Start the pod and keep it until told otherwise. `devices` gives indices by resource.

    `instances` are its MIG instances on cards that are divided as pods need them.
    """

    pod_uid: str
    workload_id: str
    namespace: str
    workload_name: str
    attempt: int
    pod_set: str
    index: int
    rank: int
    containers: tuple[Container, ...]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    devices: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    instances: tuple[MigInstance, ...] = ()
    restart_policy: RestartPolicy = RestartPolicy.NEVER
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    desired: Literal["run"] = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopPod:
    """Stop the pod if it runs, and report it finished either way."""

    pod_uid: str
    workload_id: str
    attempt: int
    grace_ms: int
    desired: Literal["stop"] = "stop"


PodCommand = RunPod | StopPod


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHeartbeat:
    """agent telemetry: the node lives."""

    node: str
    incarnation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodOutput:
    """agent telemetry: lines that a pod wrote. May be lost on the way, never on the node."""

    workload_id: str
    pod_uid: str
    rank: int
    stream: Literal["stdout", "stderr"]
    text: str


class ControlAction(StrEnum):
    """What may happen to a simulated node. FAIL cuts its power, RECOVER boots it again."""

    FAIL = "fail"
    RECOVER = "recover"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentControl:
    """Makes something happen to a simulated node; real nodes do not listen."""

    action: ControlAction
