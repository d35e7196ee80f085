"""OpenTelemetry as a program sets it up: one provider of each kind per process, and a place to look at what came."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

_reader: InMemoryMetricReader | None = None


class Spans:
    """The spans that have ended, by name."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    def all(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.all() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        [span] = self.named(name)
        return span

    def children(self, span: ReadableSpan) -> list[ReadableSpan]:
        """In the order in which they began."""
        found = [s for s in self.all() if s.parent and span.context and s.parent.span_id == span.context.span_id]
        return sorted(found, key=lambda child: child.start_time or 0)

    def clear(self) -> None:
        self._exporter.clear()


@contextlib.contextmanager
def traced() -> Iterator[Spans]:
    """Collect the spans of the block."""
    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    try:
        yield Spans(exporter)
    finally:
        exporter.shutdown()


Points = dict[tuple[tuple[str, Any], ...], Any]


def measured() -> dict[str, Points]:
    """What the instruments say now, by name and attributes: a number, or a histogram's count and sum."""
    global _reader
    if _reader is None:
        _reader = InMemoryMetricReader()
        metrics.set_meter_provider(MeterProvider([_reader]))
    found: dict[str, Points] = {}
    data = _reader.get_metrics_data()
    for resource in data.resource_metrics if data is not None else ():
        for scope in resource.scope_metrics:
            assert scope.scope.name == "quire"
            for metric in scope.metrics:
                for point in metric.data.data_points:
                    value = point.value if hasattr(point, "value") else (point.count, point.sum)
                    found.setdefault(metric.name, {})[tuple(sorted((point.attributes or {}).items()))] = value
    return found
