"""Nodes that exist on paper only, as `MUSTER_AGENT_SIMULATE` describes them.

    16x4gpu                                         16 nodes with 4 GPUs each
    16x4gpu:zone=a,rack=r{n/4}                      with labels; nodes 0 to 3 are in rack r0
    8x8gpu,cpu=128,memory=1Ti:kind=a;4x0gpu:kind=b  two groups
    @/etc/muster/nodes.yaml                         a file with either form
    - {count: 2, gpus: 4, labels: {zone: a}}        YAML or JSON, a list of groups

In names and labels `{n}` is the number of the node, counted from 0 over all groups; `{n/4}` and
`{n%4}` divide it, `{n:3}` writes it with 3 digits.
"""

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from muster_agent.inventory import DeviceUse, MachineReading, NodeIdentity, node_of
from muster_agent.nvml import GpuReading
from muster_agent.settings import parse_labels, parse_taints
from muster_domain.errors import InvalidValue
from muster_domain.mig import known_profiles, slots_of
from muster_domain.nodes import Device, MigInstance, Node
from muster_domain.quantity import parse_quantity_milli

NODES_MAX = 20_000
_SHORTHAND = re.compile(r"(?P<count>\d+)x(?P<gpus>\d+)gpu(?P<options>(?:,\w+=[^,:;]+)*)")
_NUMBER = re.compile(r"\{n(?:([/%:])([1-9]\d*))?\}")
_VARIABLE = "MUSTER_AGENT_SIMULATE"
_FIX = "write for example 16x4gpu:zone=a,rack=r{n/4}, or a YAML list of groups"


class SimulatedGroup(BaseModel):
    """Equal nodes. Quantities as in Kubernetes; GPUs are spread evenly over the NUMA nodes.

    With `mig` the GPUs, of a model that is known, are divided into MIG instances as pods need it;
    with `gpu_replicas` so many pods take turns on each.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)

    count: int = Field(default=1, ge=1, le=NODES_MAX)
    name: str = ""
    gpus: int = Field(default=0, ge=0, le=64)
    gpu_model: str = "Simulated GPU"
    gpu_memory: str = "80Gi"
    mig: bool = False
    gpu_replicas: int = Field(default=1, ge=1, le=64)
    cpu: str = "64"
    memory: str = "512Gi"
    disk: str = "1Ti"
    numa_nodes: int = Field(default=2, ge=1, le=16)
    resources: dict[str, str] = Field(default_factory=dict[str, str])
    labels: dict[str, str] = Field(default_factory=dict[str, str])
    taints: tuple[str, ...] = ()


_GROUPS = TypeAdapter(tuple[SimulatedGroup, ...])


def simulated_nodes(text: str) -> tuple[Node, ...]:
    """The nodes that the text describes. Raises `InvalidValue`."""
    if text.startswith("@"):
        try:
            text = Path(text[1:]).read_text(encoding="utf-8")
        except OSError as error:
            raise InvalidValue(
                f"cannot read {text[1:]}: {error.strerror}", field=_VARIABLE
            ) from error
    groups = _read_groups(text.strip())
    total = sum(group.count for group in groups)
    if not 0 < total <= NODES_MAX:
        raise InvalidValue(f"{total} nodes; from 1 to {NODES_MAX} can be simulated", fix=_FIX)
    digits = max(2, len(str(total - 1)))
    numbered = enumerate(group for group in groups for _ in range(group.count))
    nodes = tuple(_node(group, number, digits) for number, group in numbered)
    names = sorted(node.name for node in nodes)
    twice = next((name for name, other in pairwise(names) if name == other), "")
    if twice:
        raise InvalidValue(f"two nodes are called {twice!r}", fix="put {n} into the name")
    return nodes


def _read_groups(text: str) -> tuple[SimulatedGroup, ...]:
    if re.match(r"\d+x", text):
        written = [_read_shorthand(part.strip()) for part in text.split(";") if part.strip()]
    else:
        try:
            written: object = YAML(typ="safe", pure=True).load(text)
        except YAMLError as error:
            raise InvalidValue(f"not YAML: {error}", field=_VARIABLE, fix=_FIX) from error
    try:
        return _GROUPS.validate_python(written)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidValue(first["msg"], field=where or _VARIABLE, fix=_FIX) from error


def _read_shorthand(text: str) -> dict[str, object]:
    head, _, labels = text.partition(":")
    match = _SHORTHAND.fullmatch(head)
    if match is None:
        raise InvalidValue(f"{text!r} describes no nodes", field=_VARIABLE, fix=_FIX)
    return {
        **parse_labels(match["options"].lstrip(",")),
        "count": match["count"],
        "gpus": match["gpus"],
        "labels": parse_labels(labels),
    }


def _node(group: SimulatedGroup, number: int, digits: int) -> Node:
    def filled(template: str) -> str:
        return _NUMBER.sub(lambda match: _number(number, match), template)

    identity = NodeIdentity(
        name=filled(group.name or f"sim-{{n:{digits}}}"),
        labels={filled(key): filled(value) for key, value in group.labels.items()},
        taints=parse_taints(",".join(filled(taint) for taint in group.taints)),
        replicas=group.gpu_replicas,
    )
    machine = MachineReading(
        cpu_milli=parse_quantity_milli(group.cpu),
        memory_bytes=_whole(group.memory),
        disk_bytes=_whole(group.disk),
        architecture="amd64",
        system="linux",
    )
    profiles = known_profiles(group.gpu_model, _whole(group.gpu_memory)) if group.mig else ()
    if group.mig and not profiles:
        raise InvalidValue(
            f"it is not known how {group.gpu_model!r} is divided",
            field="gpu_model",
            fix="write for example NVIDIA A100-SXM4-80GB, H100, H200, B200 or A30",
        )
    gpus = tuple(
        GpuReading(
            index=index,
            uuid=f"GPU-{identity.name}-{index}",
            name=group.gpu_model,
            memory_bytes=_whole(group.gpu_memory),
            numa_node=index * group.numa_nodes // group.gpus,
            pci_bus=f"{index:08x}:00:00.0",
            partitioned=group.mig,
            profiles=profiles,
        )
        for index in range(group.gpus)
    )
    node = node_of(identity, machine, gpus, DeviceUse(owners={}, given_out=frozenset()))
    more = {name: parse_quantity_milli(value) for name, value in group.resources.items()}
    return replace(node, allocatable={**node.allocatable, **more}, simulated=True)


def divided(node: Node, instances: tuple[MigInstance, ...]) -> Node:
    """The node once its cards have these instances; others of the same slices are gone."""
    devices: list[Device] = []
    for device in node.devices:
        profiles = {profile.name: profile for profile in device.profiles}
        made = [one for one in instances if one.card == device.index and one.profile in profiles]
        slots = 0
        for one in made:
            slots |= slots_of(profiles[one.profile], one.start)
        kept = [
            one
            for one in device.instances
            if not slots_of(profiles[one.profile], one.start) & slots
        ]
        found = sorted((*kept, *made), key=lambda one: one.start)
        devices.append(replace(device, instances=tuple(found)) if device.profiles else device)
    return replace(node, devices=tuple(devices))


def _number(number: int, match: re.Match[str]) -> str:
    operand = int(match[2] or 0)
    match match[1]:
        case "/":
            return str(number // operand)
        case "%":
            return str(number % operand)
        case ":":
            return str(number).zfill(operand)
        case _:
            return str(number)


def _whole(quantity: str) -> int:
    return parse_quantity_milli(quantity) // 1000
