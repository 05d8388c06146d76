"""What an agent is told by its environment."""

import socket
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from muster_domain.errors import InvalidValue
from muster_domain.selectors import Taint, TaintEffect
from muster_runtime.settings import ServiceSettings


class AgentSettings(ServiceSettings):
    """`node_lease_ms` must be the same for placement and all agents."""

    agent_node: str = Field(default="", description="Name of the node; the host's name if empty")
    agent_labels: str = Field(
        default="", description="Labels of the node: key=value, separated by commas"
    )
    agent_taints: str = Field(
        default="", description="Taints of the node: key=value:Effect, separated by commas"
    )
    agent_address: str = Field(
        default="", description="Where pods of other nodes reach this one; the node's name if empty"
    )
    agent_data_dir: Path = Field(
        default=Path("~/.muster/agent"), description="Records and pod output; survives restarts"
    )
    agent_runtime: Literal["process", "docker", "none"] = Field(
        default="process", description="How pods run; none only reports the machine"
    )
    agent_mig: Literal["static", "dynamic"] = Field(
        default="static",
        description="Whether cards in MIG mode keep the instances that they have, or are divided"
        " anew as pods need it",
    )
    agent_gpu_replicas: int = Field(
        default=1,
        ge=1,
        le=64,
        description="So many pods take turns on each card (time-slicing), each as one"
        " nvidia.com/gpu.shared; nothing keeps one from the memory of another",
    )
    agent_heartbeat_interval_ms: int = Field(default=2_000, ge=50, description="A sign of life")
    agent_inventory_interval_ms: int = Field(
        default=10_000, ge=50, description="How often the machine is looked at for changes"
    )
    agent_sample_interval_ms: int = Field(
        default=5_000,
        ge=0,
        le=20_000,
        description="How often GPUs are asked how busy they are; 0: never",
    )
    node_lease_ms: int = Field(
        default=20_000, ge=200, description="Cut off for so long, the node has ended its pods"
    )
    agent_stop_window_ms: int = Field(
        default=4_000,
        ge=40,
        description="Cut off, pods are asked to end so long before the lease does",
    )
    agent_restarts_max: int = Field(
        default=6, ge=0, description="Restarts of a container after failures, OnFailure and Always"
    )
    agent_restart_pause_ms: int = Field(
        default=10_000, ge=1, description="Pause before the first restart; doubles each time"
    )
    agent_keep_output_s: int = Field(
        default=7 * 24 * 3600, ge=0, description="How long the output of a pod stays on the node"
    )
    agent_simulate: str = Field(
        default="",
        description="Simulated nodes instead of this machine: 16x4gpu:zone=a, a YAML or JSON "
        "list, or @FILE with one",
    )
    agent_simulated_duration_ms: int = Field(
        default=10_000, ge=0, description="How long a simulated pod runs if it does not say"
    )

    @model_validator(mode="after")
    def _times_fit(self) -> Self:
        if self.agent_stop_window_ms * 2 > self.node_lease_ms:
            raise ValueError("MUSTER_AGENT_STOP_WINDOW_MS must be at most half the node lease")
        if self.agent_heartbeat_interval_ms * 4 > self.node_lease_ms:
            raise ValueError("MUSTER_AGENT_HEARTBEAT_INTERVAL_MS must be at most a quarter of it")
        return self

    @property
    def node_name(self) -> str:
        """The node's name."""
        return self.agent_node or socket.gethostname()

    @property
    def folder(self) -> Path:
        """Where everything of this agent lies; agents of several names share a machine."""
        name = "simulated" if self.agent_simulate else f"node-{self.node_name}"
        return self.agent_data_dir.expanduser() / name.replace("/", "_")

    @property
    def silence_max_ms(self) -> int:
        """Cut off for so long, the node begins to end its pods."""
        return self.node_lease_ms - self.agent_stop_window_ms


def parse_labels(text: str) -> dict[str, str]:
    """Read `key=value,key=value`. Raises `InvalidValue`."""
    labels: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise InvalidValue(
                f"{part!r} is not a label", field="labels", fix="write key=value,key=value"
            )
        labels[key.strip()] = value.strip()
    return labels


def parse_taints(text: str) -> tuple[Taint, ...]:
    """Read `key=value:Effect` or `key:Effect`, separated by commas. Raises `InvalidValue`."""
    return tuple(_parse_taint(part) for part in (part.strip() for part in text.split(",")) if part)


def _parse_taint(text: str) -> Taint:
    rest, _, effect = text.rpartition(":")
    key, _, value = rest.partition("=")
    if not key or effect not in list(TaintEffect):
        raise InvalidValue(
            f"{text!r} is not a taint",
            field="taints",
            fix=f"write key=value:EFFECT with one of {', '.join(TaintEffect)}",
        )
    return Taint(key=key, value=value, effect=TaintEffect(effect))
