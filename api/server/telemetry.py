"""Reports requests to an OpenTelemetry collector: one span for each request.

Off unless OpenTelemetry's own environment variables name a collector. Only then are its packages
(the extra ``telemetry``) imported. The SDK queues and sends on threads of its own; a failure here,
there or at the collector is logged and never reaches an answer. Nothing global is set, so that no
other library in this process begins to send data.

The names are those of the GenAI semantic conventions, which are still in development, as the
package ``opentelemetry-semantic-conventions`` 0.66b2 (schema 1.44.0) has them:
https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans. Metrics are at ``/metrics``.
"""

import hashlib
import json
import logging
import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

from api.service.errors import shown
from api.service.record import (
    CLIENT_DISCONNECTED,
    RequestObserver,
    RequestRecord,
)
from engine.stopping.record import StopKind
from engine.values.request import PICTURE_MARK, GenerationRequest, Message, Picture, ToolCall

_log = logging.getLogger(__name__)

_NAME = "fullstop"
_SCHEMA = "https://opentelemetry.io/schemas/1.44.0"
# Only the variables that turn telemetry and the content of spans on are read here. The SDK reads
# the others itself: service name, resource attributes, sampler, propagators, limits, headers
# (https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/).
_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_OTLP = "OTEL_EXPORTER_OTLP"
_EXPORTER = "OTEL_TRACES_EXPORTER"
_WITH_CONTENT = frozenset({"true", "span_only", "span_and_event"})
_CANCELLED = "cancelled"
_FINISH_REASONS = {
    StopKind.REPETITION: "repetition",
    StopKind.MAX_TOKENS: "length",
    StopKind.CONTEXT_FULL: "length",
    StopKind.MEMORY_FULL: "length",
    StopKind.TOOL_CALL: "tool_call",
    StopKind.CANCELLED: _CANCELLED,
    StopKind.ERROR: "error",
}
# Parameters that are called the same here.
_SAMPLING = ("frequency_penalty", "presence_penalty", "seed", "temperature", "top_k", "top_p")

Attributes = dict[str, Any]


def traces_variable(environment: Mapping[str, str]) -> str | None:
    """Return the variable that turns traces on; None if telemetry is off.

    Raises:
        ValueError: A variable has an unsupported value; the message names it and the remedy.
    """
    values = {name: value.strip() for name, value in environment.items() if value.strip()}
    names = (_EXPORTER, f"{_OTLP}_TRACES_ENDPOINT", f"{_OTLP}_ENDPOINT")
    found = next((name for name in names if name in values), None)
    is_disabled = values.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if found is None or is_disabled or values.get(_EXPORTER) == "none":
        return None
    protocols = (f"{_OTLP}_TRACES_PROTOCOL", f"{_OTLP}_PROTOCOL")
    protocol = next((name for name in protocols if name in values), protocols[-1])
    for name, supported in ((_EXPORTER, "otlp"), (protocol, "http/protobuf")):
        if (value := values.get(name, supported)) != supported:
            raise ValueError(f"{name} is {value}; only {supported} is supported: unset it")
    return found


class OtelLogFilter(logging.Handler):
    """Logs the records of OpenTelemetry's packages in one line each, without keys.

    These packages log a traceback for each batch that the collector does not accept, and quote
    malformed headers, which may contain the collector's key.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        super().__init__(logging.WARNING)
        headers = [text for name, text in environment.items() if name.endswith("_HEADERS")]
        parts = re.split(r"[,=\s]+", " ".join([*headers, *map(unquote, headers)]))
        self._secrets = sorted({part for part in parts if len(part) > 6}, key=len, reverse=True)

    def emit(self, record: logging.LogRecord) -> None:
        text = " ".join(record.getMessage().split())
        for secret in self._secrets:
            text = text.replace(secret, "[hidden]")
        text = re.sub(r"//[^/@\s]*@", "//", text)[:300]
        _log.warning("telemetry (answers are not affected): %s", text)


def telemetry_for(
    environment: Mapping[str, str], version: str, secret: str | None
) -> "Telemetry | None":
    """Return the observer that reports requests to a collector; None if telemetry is off."""
    try:
        variable = traces_variable(environment)
    except ValueError as error:
        _log.warning("telemetry is off: %s", error)
        return None
    if variable is None:
        return None
    theirs = logging.getLogger("opentelemetry")
    theirs.handlers, theirs.propagate = [OtelLogFilter(environment)], False
    try:
        return Telemetry(version, secret, environment.get(_CONTENT, "").lower() in _WITH_CONTENT)
    except ImportError:
        problem = (
            f"{variable} is set, but OpenTelemetry is not installed; install it with pip install "
            "'fullstop-chat[telemetry]', or unset the variable"
        )
    except Exception as error:
        # Not its text, which may quote a variable that contains a key.
        kind = type(error).__name__
        problem = f"OpenTelemetry cannot be started with these OTEL_… variables ({kind})"
    _log.warning("telemetry is off: %s", problem)
    return None


class Telemetry(RequestObserver):
    """Reports each request for an answer to a collector."""

    def __init__(self, version: str, secret: str | None, with_content: bool) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        # No span may contain it: the server's key.
        self.secret = secret
        self._with_content = with_content
        ours = {
            "service.name": _NAME,
            "service.version": version,
            # Several servers may report to one collector, which must keep their sums apart.
            "service.instance.id": str(uuid4()),
        }
        # Environment variables may override ours.
        resource = Resource.create({**ours, **OTELResourceDetector().detect().attributes})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer(_NAME, version, schema_url=_SCHEMA)

    def request_ended(self, record: RequestRecord) -> None:
        if not record.operation:
            return
        try:
            self._make_span(record)
        except Exception as error:
            # The error's text is not logged: it may quote the prompt.
            _log.warning("a request is missing from telemetry (%s)", type(error).__name__)

    def close(self, timeout_s: float = 3.0) -> None:
        """Send the remaining data and end. Blocks no longer than the given time."""
        # The SDK waits for its collector as long as an export may take.
        thread = threading.Thread(target=self._provider.shutdown, name="telemetry", daemon=True)
        thread.start()
        thread.join(timeout_s)
        if thread.is_alive():
            _log.warning(
                "the last telemetry may be lost: the collector did not accept it in %.0f s",
                timeout_s,
            )

    def _make_span(self, record: RequestRecord) -> None:
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind, Status, StatusCode

        began_ns = int(record.began_at * 1e9)
        attributes = span_attributes(record, with_content=self._with_content)
        span = self._tracer.start_span(
            self._without_secret(f"{record.operation} {_requested_model(record)}".rstrip()),
            context=extract({name.lower(): value for name, value in record.headers}),
            kind=SpanKind.SERVER,
            attributes={name: self._without_secret(value) for name, value in attributes.items()},
            start_time=began_ns,
        )
        # A request that is wrong, or whose client disconnected, is no failure of a server.
        # https://opentelemetry.io/docs/specs/semconv/http/http-spans/#status
        if (record.status if record.failure is None else record.failure.status) >= 500:
            span.set_status(Status(StatusCode.ERROR))
        span.end(began_ns + int(record.took_s * 1e9))

    def _without_secret(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._without_secret(item) for item in value]
        if self.secret and isinstance(value, str):
            escaped = json.dumps(self.secret, ensure_ascii=False)[1:-1]
            return value.replace(self.secret, "[hidden]").replace(escaped, "[hidden]")
        return value


def span_attributes(record: RequestRecord, *, with_content: bool) -> Attributes:
    """Return the attributes of a request's span; without content, no text of a prompt or answer.

    Attributes beyond the conventions begin with ``fullstop.``. Lists have one entry for each
    choice, in the same order.
    """
    is_cancelled = record.status == CLIENT_DISCONNECTED
    # The client disconnected before any status was sent, or after the head of a stream.
    status = (200 if record.is_stream else None) if is_cancelled else record.status
    error = "internal" if record.status >= 500 else _CANCELLED if is_cancelled else None
    reasons = [_FINISH_REASONS.get(end.stop.kind, "stop") for end in record.ends]
    attributes: Attributes = {
        "gen_ai.operation.name": record.operation,
        "gen_ai.provider.name": _NAME,
        "http.request.method": record.method,
        "http.route": record.route,
        "http.response.status_code": status,
        "fullstop.dialect": record.dialect,
        "fullstop.request.id": record.request_id,
        "gen_ai.request.model": _requested_model(record) or None,
        "gen_ai.response.model": record.model or None,
        "gen_ai.response.id": (record.runs and record.answer_id) or None,
        "gen_ai.response.finish_reasons": reasons or None,
        "error.type": error if record.failure is None else record.failure.value,
    }
    if record.server is not None:
        attributes["server.address"], attributes["server.port"] = record.server
    if record.requests:
        attributes |= _request_attributes(record.requests)
        attributes["gen_ai.request.stream"] = record.wants_stream
    if record.ends:
        attributes |= _usage_attributes(record)
        attributes |= _stop_attributes(record, with_content=with_content)
    else:
        attributes["gen_ai.usage.input_tokens"] = record.embedded_tokens
    if with_content and record.requests:
        attributes |= _content_attributes(record, reasons)
    return {name: value for name, value in attributes.items() if value is not None}


def _requested_model(record: RequestRecord) -> str:
    return shown(record.requested_model or record.model)


def _request_attributes(requests: Sequence[GenerationRequest]) -> Attributes:
    request = requests[0]
    prompts = len({(id(request.messages), request.prompt) for request in requests})
    is_json = request.constraint is not None and request.constraint.text_form is None
    return {
        "gen_ai.output.type": "json" if is_json else "text",
        "gen_ai.request.choice.count": len(requests) // prompts,
        "gen_ai.request.max_tokens": request.max_tokens,
        "gen_ai.request.stop_sequences": list(request.stops.strings) or None,
        **{f"gen_ai.request.{name}": getattr(request.sampling, name) for name in _SAMPLING},
        "fullstop.request.prompts": prompts,
        "fullstop.request.stop_token_ids": list(request.stops.token_ids) or None,
        "fullstop.request.stop_scope": request.stops.scope.value,
    }


def _usage_attributes(record: RequestRecord) -> Attributes:
    """Return the tokens of a request; a prompt with several choices counts once."""
    ends = [end.usage for end in record.ends]
    runs = [run for run in reversed(record.runs) if run.finished is not None]
    by_prompt = {run.generation.request.prompt_key: run.finished for run in runs}
    prompts = [end.usage for end in by_prompt.values() if end is not None]
    tokens = {
        "input_tokens": sum(usage.prompt_tokens for usage in prompts),
        "cache_read.input_tokens": sum(usage.cached_tokens for usage in prompts),
        "output_tokens": sum(usage.output_tokens for usage in ends),
        "reasoning.output_tokens": sum(usage.thinking_tokens for usage in ends),
    }
    return {f"gen_ai.usage.{name}": count for name, count in tokens.items()}


def _stop_attributes(record: RequestRecord, *, with_content: bool) -> Attributes:
    stops = [end.stop for end in record.ends]
    # -1 is no number: some collectors drop nulls.
    attributes: Attributes = {
        "kind": [stop.kind.value for stop in stops],
        "sequence": [stop.value if isinstance(stop.value, str) else "" for stop in stops],
        "token_id": [-1 if stop.token_id is None else stop.token_id for stop in stops],
        "token_index": [-1 if stop.token_index is None else stop.token_index for stop in stops],
        "channel": [stop.channel.value for stop in stops],
        "text_offset": [stop.text_offset for stop in stops],
        "held_characters": [len(stop.held) for stop in stops],
        "dropped_characters": [len(stop.dropped) for stop in stops],
    }
    if with_content:  # the model wrote the text that was held back or dropped
        attributes["held"] = [stop.held for stop in stops]
        attributes["dropped"] = [stop.dropped for stop in stops]
    return {f"fullstop.stop.{name}": value for name, value in attributes.items()}


def _content_attributes(record: RequestRecord, reasons: Sequence[str]) -> Attributes:
    """Return the prompt and the answers of a request, as JSON of the conventions' schemas.

    https://opentelemetry.io/docs/specs/semconv/gen-ai/
    gen-ai-spans/#capturing-instructions-inputs-and-outputs
    """
    request = record.requests[0]
    inputs = [_message(message) for message in request.messages]
    prompts = (request.prompt for request in record.requests if request.prompt is not None)
    for prompt in dict.fromkeys(prompts):
        kind = "text" if isinstance(prompt, str) else "token_ids"
        prompt = prompt.replace(PICTURE_MARK, "") if isinstance(prompt, str) else prompt
        inputs.append({"role": "user", "parts": [{"type": kind, "content": prompt}]})
    tools = [
        {"type": "function", "name": tool.name, "description": tool.description}
        | {"parameters": tool.parameters}
        for tool in request.tools
    ]
    answers = []
    for run, reason in zip(record.runs, reasons, strict=True):
        calls = [completed.call for completed in run.calls]
        parts = _parts("".join(run.thoughts), "".join(run.texts), calls)
        answers.append({"role": "assistant", "parts": parts, "finish_reason": reason})
    contents = {
        "gen_ai.input.messages": inputs,
        "gen_ai.tool.definitions": tools,
        "gen_ai.output.messages": answers,
    }
    return {
        name: json.dumps(content, ensure_ascii=False, default=dict)
        for name, content in contents.items()
        if content
    }


def _message(message: Message) -> Attributes:
    if message.role != "tool":
        parts = _parts(message.thinking, message.text, message.tool_calls)
        parts += map(_picture, message.pictures)
        return {"role": message.role, "parts": parts}
    part = {"type": "tool_call_response", "id": message.tool_call_id, "response": message.text}
    return {"role": "tool", "parts": [part, *map(_picture, message.pictures)]}


def _picture(picture: Picture) -> Attributes:
    digest = hashlib.sha256(picture.data).hexdigest()[:16]
    return {"type": "picture", "bytes": len(picture.data), "sha256": digest}


def _parts(thinking: str, text: str, calls: Sequence[ToolCall]) -> list[Attributes]:
    texts = [{"type": "reasoning", "content": thinking}, {"type": "text", "content": text}]
    parts: list[Attributes] = [part for part in texts if part["content"]]
    for call in calls:
        arguments: object = call.arguments
        with suppress(ValueError):
            arguments = json.loads(call.arguments)
        parts.append(
            {"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments}
        )
    return parts
