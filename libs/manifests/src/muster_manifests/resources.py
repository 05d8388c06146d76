"""What one pod asks for: requests by default from limits, and R-10's sum over containers."""

from dataclasses import dataclass, field

from muster_domain.pod_defaults import LimitRange
from muster_domain.quantity import Resources, add
from muster_manifests.reader import ObjectReader

_PODS = "pods"


@dataclass(slots=True)
class PodRequests:
    """Adds up the requests of one pod in milli-units, container by container (R-10).

    The pod needs the larger of what runs at the end (containers and sidecars) and what any init
    container needs beside the sidecars started before it; then the overhead.
    """

    _running: dict[str, int] = field(default_factory=dict[str, int])
    _sidecars: dict[str, int] = field(default_factory=dict[str, int])
    _init_peak: dict[str, int] = field(default_factory=dict[str, int])

    def add_container(self, requests: Resources) -> None:
        """Count a container."""
        self._running = add(self._running, requests)

    def add_init_container(self, requests: Resources) -> None:
        """Count an init container; call in the order of the manifest."""
        for name, value in add(self._sidecars, requests).items():
            self._init_peak[name] = max(value, self._init_peak.get(name, 0))

    def add_sidecar(self, requests: Resources) -> None:
        """Count an init container that goes on running (`restartPolicy: Always`)."""
        self._sidecars = add(self._sidecars, requests)

    def total(self, *, pod_level: Resources, overhead: Resources) -> dict[str, int]:
        """Return the pod's requests; `pod_level` replaces the sum of the resources it names."""
        total = add(self._running, self._sidecars)
        for name, value in self._init_peak.items():
            total[name] = max(value, total.get(name, 0))
        return add({**total, **pod_level}, overhead)


def read_container_requests(container: ObjectReader) -> dict[str, int]:
    """Read a container's `resources`, completed and bounded by the LimitRanges (R-11)."""
    return read_requests(container, ranges=container.options.limit_ranges)


def read_requests(
    owner: ObjectReader, key: str = "resources", *, ranges: tuple[LimitRange, ...] = ()
) -> dict[str, int]:
    """Read `resources` of a container or pod; a missing request is its limit (R-11)."""
    if owner.raw(key) is None and not ranges:
        return {}
    resources = owner.object(key)
    resources.not_acted_on("claims")
    limits = resources.quantities("limits")
    requests = resources.quantities("requests")
    for limit_range in ranges:
        requests, limits = limit_range.completed(requests, limits)
    for name, value in requests.items():
        if name in limits and value > limits[name]:
            resources.object("requests").misfit(
                name, "more than the limit", "raise the limit or lower the request"
            )
    for limit_range in ranges:
        for name, breach in limit_range.breaches(requests, limits):
            resources.object("requests").misfit(name, breach, "keep within the LimitRange")
    if _PODS in limits or _PODS in requests:
        resources.rule("", f"{_PODS} is counted, not asked for", f"remove {_PODS}")
    return {**limits, **requests}
