"""Reads which telemetry OpenTelemetry's environment variables ask for. Pure.

Imports nothing of OpenTelemetry. Only the variables that decide whether telemetry is on, and what
it sends, are read here. The SDK reads the others itself: service name, resource attributes,
sampler, propagators, limits, headers, timeouts
(https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/,
https://opentelemetry.io/docs/specs/otel/protocol/exporter/).
"""

from collections.abc import Mapping
from dataclasses import dataclass

_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"
_OUR_PROTOCOL = "http/protobuf"
_WITH_CONTENT = frozenset({"true", "span_only", "span_and_event"})
_WITHOUT_CONTENT = frozenset({"", "false", "no_content"})


class VariableProblem(ValueError):
    """A variable has an unsupported value; the message names the variable and the remedy."""


@dataclass(frozen=True, slots=True)
class Signals:
    """What is to be sent."""

    spans: bool
    metrics: bool
    content: bool
    because: str


def wanted_by(environment: Mapping[str, str]) -> Signals | None:
    """Return the signals that the variables ask for; None if they ask for none."""
    if _value(environment, "OTEL_SDK_DISABLED").lower() == "true":
        return None
    spans = _why_sent(environment, "TRACES")
    metrics = _why_sent(environment, "METRICS")
    because = spans or metrics
    if because is None:
        return None
    for signal in [name for name, why in (("TRACES", spans), ("METRICS", metrics)) if why]:
        _check_protocol(environment, signal)
    return Signals(
        spans=spans is not None,
        metrics=metrics is not None,
        content=_is_content_wanted(environment),
        because=because,
    )


def _value(environment: Mapping[str, str], name: str) -> str:
    """Return a variable's value; an empty value means not set."""
    return environment.get(name, "").strip()


def _why_sent(environment: Mapping[str, str], signal: str) -> str | None:
    """Return the variable that turns a signal on; None if the signal is off."""
    name = f"OTEL_{signal}_EXPORTER"
    exporter = _value(environment, name).lower()
    match exporter:
        case "none":
            return None
        case "otlp":
            return name
        case "":
            places = (f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT", _ENDPOINT)
            return next((place for place in places if _value(environment, place)), None)
        case _:
            raise VariableProblem(f"{name} is {exporter}; only otlp and none are supported")


def _check_protocol(environment: Mapping[str, str], signal: str) -> None:
    for name in (f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", _PROTOCOL):
        protocol = _value(environment, name)
        if protocol:
            if protocol.lower() != _OUR_PROTOCOL:
                raise VariableProblem(
                    f"{name} is {protocol}; only {_OUR_PROTOCOL} is supported: "
                    "leave the variable out, and name the collector's port for HTTP (usually 4318)"
                )
            return


def _is_content_wanted(environment: Mapping[str, str]) -> bool:
    value = _value(environment, _CONTENT).lower()
    if value in _WITH_CONTENT:
        return True
    if value in _WITHOUT_CONTENT:
        return False
    raise VariableProblem(
        f"{_CONTENT} is {value}; prompts and answers are sent in spans or not at all: "
        "use span_only or no_content"
    )
