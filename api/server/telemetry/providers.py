"""Sets up OpenTelemetry's SDK as its environment variables ask. Imports OpenTelemetry.

Nothing global is set, so that no other library in this process begins to send data.
"""

from uuid import uuid4

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from api.server.telemetry.recording import Telemetry
from api.server.telemetry.variables import Signals

_SCHEMA = "https://opentelemetry.io/schemas/1.44.0"
_NAME = "fullstop"


def telemetry(wanted: Signals, version: str, secret: str | None) -> Telemetry:
    """Return the observer that reports requests to the collector."""
    resource = _resource(version)
    tracer = meter = None
    shutdowns = []
    if wanted.spans:
        tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        tracer = tracers.get_tracer(_NAME, version, schema_url=_SCHEMA)
        shutdowns.append(tracers.shutdown)
    if wanted.metrics:
        reader = PeriodicExportingMetricReader(OTLPMetricExporter())
        meters = MeterProvider([reader], resource, shutdown_on_exit=False)
        meter = meters.get_meter(_NAME, version, schema_url=_SCHEMA)
        shutdowns.append(meters.shutdown)
    return Telemetry(
        tracer,
        meter,
        with_content=wanted.content,
        secret=secret,
        shutdowns=tuple(shutdowns),
    )


def _resource(version: str) -> Resource:
    """Return the description of this process, which environment variables may override."""
    ours = {
        "service.name": _NAME,
        "service.version": version,
        # Several servers may report to one collector, which must keep their sums apart.
        "service.instance.id": str(uuid4()),
    }
    said = OTELResourceDetector().detect().attributes
    return Resource.create({name: value for name, value in ours.items() if name not in said})
