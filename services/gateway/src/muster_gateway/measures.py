"""What the gateway measures about itself."""

from prometheus_client import Counter, Gauge, Histogram

from muster_runtime.telemetry import Metrics

_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Measures:
    """Counters in the registry of the service; labels are bounded by the routes there are."""

    def __init__(self, metrics: Metrics) -> None:
        self.requests = Counter(
            "muster_gateway_requests_total",
            "Requests by route, method and status",
            ["route", "method", "status"],
            registry=metrics.registry,
        )
        self.request_seconds = Histogram(
            "muster_gateway_request_seconds",
            "Time to answer a request; event streams count until they end",
            ["route"],
            buckets=_BUCKETS_S,
            registry=metrics.registry,
        )
        self.watchers = Gauge(
            "muster_gateway_watchers", "Open event streams", registry=metrics.registry
        )
        self.front_door_done = Gauge(
            "muster_gateway_front_door_done",
            "Messages of the stream of jobs worked off since the start",
            registry=metrics.registry,
        )
