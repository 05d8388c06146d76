"""What a cluster adds to the requests of pods, and the bounds it keeps them in (R-11)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from muster_domain.quantity import Resources, format_quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRange:
    """Bounds and defaults of each container of a namespace, milli-units by resource."""

    namespace: str
    name: str
    least: Resources = field(default_factory=dict[str, int])
    most: Resources = field(default_factory=dict[str, int])
    limits: Resources = field(default_factory=dict[str, int])
    requests: Resources = field(default_factory=dict[str, int])

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    def completed(
        self, requests: Resources, limits: Resources
    ) -> tuple[dict[str, int], dict[str, int]]:
        """Requests and limits of a container with the defaults for what is missing."""
        own = {**limits, **requests}
        return {**self.limits, **self.requests, **own}, {**self.limits, **limits}

    def breaches(self, requests: Resources, limits: Resources) -> Iterator[tuple[str, str]]:
        """Resources of a container that are out of bounds, and what is wrong with them."""
        for name in sorted(self.least):
            if requests.get(name, 0) < self.least[name]:
                bound = format_quantity(self.least[name])
                yield name, f"less than the {bound} of LimitRange {self.name}"
        for name in sorted(self.most):
            if max(requests.get(name, 0), limits.get(name, 0)) > self.most[name]:
                bound = format_quantity(self.most[name])
                yield name, f"more than the {bound} of LimitRange {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeClass:
    """What a way of running pods takes of a machine besides the pod, milli-units by resource."""

    name: str
    overhead: Resources = field(default_factory=dict[str, int])


RuntimeClasses = Mapping[str, RuntimeClass]
"""By name."""
