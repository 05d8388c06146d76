"""Metrics, traces and logs of a service.

Metric names are Kueue's under the prefix `muster_` where Kueue has one. A trace goes from the job
event to the decision: its context travels in message headers and in the outbox.
"""

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from muster_ledger.store import OutboxMessage

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import Span

    from muster_contracts.subjects import Service
    from muster_runtime.settings import ServiceSettings

TRACEPARENT = "traceparent"
_SAMPLED = "-01"
_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """What every service measures about itself, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.commit_seconds = Histogram(
            "muster_commit_seconds",
            "Time of one commit to the ledger",
            buckets=_BUCKETS_S,
            registry=self.registry,
        )
        self.dead_letters = Counter(
            "muster_dead_letters_total",
            "Messages put aside because they could not be digested",
            registry=self.registry,
        )
        self.log_pending = Gauge(
            "muster_log_pending",
            "Messages of the log that the owner of a shard has not read yet",
            ["shard"],
            registry=self.registry,
        )
        self.outbox_pending = Gauge(
            "muster_outbox_pending",
            "Committed messages that are not on the bus yet",
            ["shard"],
            registry=self.registry,
        )


class Tracing:
    """Continues traces over the bus."""

    def __init__(self, settings: "ServiceSettings", service: "Service") -> None:
        self._provider = TracerProvider(
            resource=Resource.create({"service.name": f"muster-{service}"}),
            sampler=ParentBased(TraceIdRatioBased(settings.trace_ratio)),
        )
        if settings.trace_endpoint:
            exporter = OTLPSpanExporter(endpoint=f"{settings.trace_endpoint}/v1/traces")
            self._provider.add_span_processor(BatchSpanProcessor(exporter))
        if settings.trace_file:
            lines = Path(settings.trace_file).open("a", encoding="utf-8")  # noqa: SIM115 - open as long as the process
            self._provider.add_span_processor(
                BatchSpanProcessor(ConsoleSpanExporter(out=lines, formatter=_span_line))
            )
        self.tracer = self._provider.get_tracer("muster")
        self._context = TraceContextTextMapPropagator()

    def start(self, name: str, traceparent: str) -> tuple["Span", str]:
        """A span below the given context (a new trace if empty), and the context below it."""
        parent = self._context.extract({TRACEPARENT: traceparent}) if traceparent else None
        span = self.tracer.start_span(name, context=parent)
        below = span.get_span_context()
        ids = f"{below.trace_id:032x}-{below.span_id:016x}"
        return span, f"00-{ids}-{below.trace_flags:02x}" if below.is_valid else ""

    def continue_outbox(
        self, outbox: tuple[OutboxMessage, ...]
    ) -> tuple[tuple[OutboxMessage, ...], list["Span"]]:
        """Put a span of this service between the cause of each message and the message.

        Messages of traces that are not kept pass as they are.
        """
        continued: list[OutboxMessage] = []
        spans: list[Span] = []
        for message in outbox:
            parent = message.headers.get(TRACEPARENT, "")
            if not parent.endswith(_SAMPLED):
                continued.append(message)
                continue
            span, below = self.start(message.headers.get("ce-type", message.subject), parent)
            spans.append(span)
            continued.append(
                OutboxMessage(
                    subject=message.subject,
                    message_id=message.message_id,
                    body=message.body,
                    headers={**message.headers, TRACEPARENT: below},
                )
            )
        return tuple(continued), spans

    def shutdown(self) -> None:
        """Write out what is left."""
        self._provider.shutdown()


def _span_line(span: "ReadableSpan") -> str:
    return span.to_json(indent=None) + "\n"


def configure_logs(settings: "ServiceSettings", service: "Service") -> None:
    """Structured logs on stderr, one event a line, each with the service and its replica."""
    renderer = (
        structlog.processors.JSONRenderer()
        if settings.log_json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[settings.log_level.upper()]
        ),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(service=str(service), instance=settings.instance)
