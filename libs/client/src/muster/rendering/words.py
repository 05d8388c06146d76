"""Small texts that several views share."""

from collections.abc import Mapping
from datetime import UTC, datetime

from muster_contracts.pod_environment import GPU_RESOURCE
from muster_domain.quantity import format_quantity

ID_SHOWN = 8


def short_id(identity: str) -> str:
    """Enough of an id to tell it from others."""
    return identity[:ID_SHOWN]


def utc_time(at_ms: int) -> str:
    """A moment in RFC 3339, UTC, parts of a second cut off."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def is_gpu(resource: str) -> bool:
    """Whether a resource is a graphics card or a part of one."""
    name = resource.rpartition("/")[2]
    return name.startswith(("gpu", "mig-")) or name == "mig" or resource.endswith(".gpu")


def gpus_milli(resources: Mapping[str, int]) -> int:
    """Cards of all makes together, in milli-units."""
    return sum(quantity for name, quantity in resources.items() if is_gpu(name))


def count(milli: int) -> str:
    """So many cards, parts of one as decimals: `2.375`."""
    whole, part = divmod(milli, 1000)
    return f"{whole}.{part:03}".rstrip("0").rstrip(".")


def gpus(resources: Mapping[str, int]) -> str:
    """Number of cards, or a dash."""
    cards = gpus_milli(resources)
    return count(cards) if cards else "-"


def asks(resources: Mapping[str, int]) -> str:
    """What is asked for in one line, cards first: `8 x nvidia.com/gpu, cpu 4`."""
    names = sorted(resources, key=lambda name: (not is_gpu(name), name))
    parts = [
        f"{count(resources[name])} x {name}"
        if is_gpu(name)
        else f"{name} {format_quantity(resources[name])}"
        for name in names
    ]
    return ", ".join(parts) or "nothing"


def main_resource(names: tuple[str, ...]) -> str:
    """The resource that matters most: NVIDIA's cards, other cards, then the first by name."""
    if GPU_RESOURCE in names:
        return GPU_RESOURCE
    cards = sorted(name for name in names if is_gpu(name))
    return cards[0] if cards else min(names, default="")
