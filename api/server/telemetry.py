"""Reports requests to an OpenTelemetry collector: one span for each request, and histograms.

Off unless OpenTelemetry's own environment variables name a collector. Only then are its packages
(the extra ``telemetry``) imported. It is an observer like any other: the server does not know of
it. It must never disturb an answer, whatever the collector does.

The names are those of the GenAI semantic conventions, which are still in development, as the
package ``opentelemetry-semantic-conventions`` 0.66b2 (schema 1.44.0) has them:
https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans and
https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-metrics.
"""

import json
import logging
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from queue import Full, Queue
from typing import TYPE_CHECKING, assert_never
from urllib.parse import unquote
from uuid import uuid4

from api.transport.errors import status_of
from api.transport.observation import (
    Content,
    ObservedRun,
    RequestAdvanced,
    RequestBegan,
    RequestEnded,
)
from api.transport.service import shown_name
from engine import (
    EmbeddingRequest,
    Finished,
    GenerationRequest,
    Message,
    StopKind,
    Tool,
    ToolCall,
    TraceLevel,
    Usage,
)

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.trace import Tracer

# Only the variables that decide whether telemetry is on, and what it sends, are read here. The
# SDK reads the others itself: service name, resource attributes, sampler, propagators, limits,
# headers, timeouts
# (https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/,
# https://opentelemetry.io/docs/specs/otel/protocol/exporter/).

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


# Rewrites the log records of OpenTelemetry's packages as one line each, without secrets.
#
# These packages log a traceback for each batch that the collector does not accept, and they quote
# malformed headers, which may contain the collector's key.

_log = logging.getLogger(__name__)

_THEIRS = "opentelemetry"
_HEADER_PARSER = "opentelemetry.util.re"
_SILENCE_S = 60.0
_MAX_CHARACTERS = 300
_IN_ADDRESS = re.compile(r"//[^/@\s]*@")


class OtelLogFilter(logging.Handler):
    """Passes on their log records, each kind at most once a minute."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        super().__init__(logging.WARNING)
        self._secrets = _secrets_in(environment)
        self._told_at: dict[tuple[str, str], float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record in one line of ours."""
        now_s = time.monotonic()
        kind = (record.name, str(record.msg))
        if now_s - self._told_at.get(kind, -_SILENCE_S) < _SILENCE_S:
            return
        self._told_at[kind] = now_s
        _log.warning("telemetry (answers are not affected): %s", self._text(record))

    def _text(self, record: logging.LogRecord) -> str:
        if record.name == _HEADER_PARSER:
            return "a header in OTEL_EXPORTER_OTLP_HEADERS or a request's baggage is malformed"
        text = " ".join(record.getMessage().split())
        for secret in self._secrets:
            text = text.replace(secret, "[hidden]")
        return _IN_ADDRESS.sub("//", text)[:_MAX_CHARACTERS]


def install_log_filter(environment: Mapping[str, str]) -> None:
    """Replace the log output of OpenTelemetry's packages by ours."""
    theirs = logging.getLogger(_THEIRS)
    theirs.handlers = [OtelLogFilter(environment)]
    theirs.propagate = False


def _secrets_in(environment: Mapping[str, str]) -> list[str]:
    """Return the header values that are sent to a collector, the longest first."""
    secrets = set()
    for name, text in environment.items():
        if name.startswith("OTEL_EXPORTER_OTLP_") and name.endswith("HEADERS"):
            for pair in text.split(","):
                value = pair.partition("=")[2].strip()
                secrets |= {value, unquote(value), *value.split(), *unquote(value).split()}
    # Words such as Bearer are not secret, and hiding short words would hide half of a text.
    return sorted((secret for secret in secrets if len(secret) > 6), key=len, reverse=True)


# Prompts and answers as the GenAI semantic conventions write them.
#
# They are sent only if the environment variables ask for them
# (https://opentelemetry.io/docs/specs/semconv/gen-ai/
# gen-ai-spans/#capturing-instructions-inputs-and-outputs), as JSON of the schemas
# ``gen-ai-input-messages``, ``gen-ai-output-messages``, ``gen-ai-system-instructions`` and
# ``gen-ai-tool-definitions`` there. Instructions that stand in the conversation itself stay
# there.

_Part = dict[str, object]


def content_attributes(ended: RequestEnded, reasons: Sequence[str]) -> dict[str, str]:
    """Return the prompt and the answers of a request as attributes."""
    attributes = {}
    if ended.wanted:
        asked = _asked(ended.wanted)
        if ended.form.has_instructions and asked[0]["role"] == "system":
            attributes["gen_ai.system_instructions"] = _json(asked.pop(0)["parts"])
        attributes["gen_ai.input.messages"] = _json(asked)
        if ended.wanted[0].tools:
            attributes["gen_ai.tool.definitions"] = _json(
                [_tool(tool) for tool in ended.wanted[0].tools]
            )
    if ended.runs:
        prefix = ended.form.call_prefix
        answers = [_answer(run, why, prefix) for run, why in zip(ended.runs, reasons, strict=True)]
        attributes["gen_ai.output.messages"] = _json(answers)
    return attributes


def _asked(wanted: Sequence[GenerationRequest]) -> list[_Part]:
    request = wanted[0]
    if request.prompt is None:
        return [_message(message) for message in request.messages]
    prompts = dict.fromkeys(request.prompt for request in wanted if request.prompt is not None)
    return [{"role": "user", "parts": [_prompt(prompt)]} for prompt in prompts]


def _prompt(prompt: str | tuple[int, ...]) -> _Part:
    if isinstance(prompt, str):
        return {"type": "text", "content": prompt}
    return {"type": "token_ids", "content": list(prompt)}


def _message(message: Message) -> _Part:
    if message.role == "tool":
        answer = {
            "type": "tool_call_response",
            "id": message.tool_call_id,
            "response": message.content,
        }
        return {"role": "tool", "parts": [answer]}
    parts = _parts(message.thinking, message.content, message.tool_calls)
    return {"role": message.role, "parts": parts}


def _answer(run: ObservedRun, reason: str, prefix: str) -> _Part:
    """Return an answer; the ids of its calls are those that the client sends back."""
    calls = [replace(completed.call, id=f"{prefix}{completed.call.id}") for completed in run.calls]
    parts = _parts("".join(run.thoughts), "".join(run.texts), calls)
    return {"role": "assistant", "parts": parts, "finish_reason": reason}


def _parts(thinking: str, text: str, calls: Sequence[ToolCall]) -> list[_Part]:
    parts: list[_Part] = []
    if thinking:
        parts.append({"type": "reasoning", "content": thinking})
    if text:
        parts.append({"type": "text", "content": text})
    parts += [_call(call) for call in calls]
    return parts


def _call(call: ToolCall) -> _Part:
    try:
        arguments: object = json.loads(call.arguments)
    except ValueError:
        arguments = call.arguments
    return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments}


def _tool(tool: Tool) -> _Part:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=dict)


# The attributes of a request's span and of its metrics.
#
# The names are those of the GenAI semantic conventions (see the package); attributes that the
# conventions lack begin with ``fullstop.``. Lists have one entry for each choice, in the same
# order. The entry of a choice without such a value is "" or -1, because some collectors drop
# nulls.

Value = str | bool | int | float | Sequence[str] | Sequence[int]
Attributes = dict[str, Value]

PROVIDER = "fullstop"
CANCELLED = "cancelled"
_CLIENT_GONE = 499
_NO_NUMBER = -1


def span_name(ended: RequestEnded) -> str:
    """Return the name of a request's span: the operation and the model that the client named."""
    return f"{ended.began.operation} {_asked_model(ended)}".rstrip()


def span_attributes(ended: RequestEnded, *, with_content: bool) -> Attributes:
    """Return the attributes of a request's span."""
    began = ended.began
    attributes: Attributes = {
        "gen_ai.operation.name": began.operation,
        "gen_ai.provider.name": PROVIDER,
        "http.request.method": began.method,
        "http.route": began.route,
        "fullstop.dialect": began.dialect,
        "fullstop.request.id": began.request_id,
    }
    if began.server is not None:
        attributes["server.address"], attributes["server.port"] = began.server
    if (status := sent_status(ended)) is not None:
        attributes["http.response.status_code"] = status
    if _asked_model(ended):
        attributes["gen_ai.request.model"] = _asked_model(ended)
    if ended.model:
        attributes["gen_ai.response.model"] = ended.model
    if ended.wanted:
        attributes |= _request_attributes(ended.wanted)
        attributes["gen_ai.request.stream"] = ended.wants_stream
    if ended.embedding is not None:
        attributes |= _embedding_attributes(ended.embedding, ended.embedded_tokens)
        if ended.encoding:
            attributes["gen_ai.request.encoding_formats"] = [ended.encoding]
    if ended.runs and ended.form.id:
        attributes["gen_ai.response.id"] = ended.form.id
    if ended.ends:
        attributes |= _usage_attributes(ended)
        attributes["gen_ai.response.finish_reasons"] = [finish_reason(end) for end in ended.ends]
        attributes |= _stop_attributes(ended.ends, with_content=with_content)
    error = error_type(ended)
    if error is not None:
        attributes["error.type"] = error
    if with_content:
        attributes |= content_attributes(ended, [finish_reason(end) for end in ended.ends])
    return attributes


def metric_attributes(ended: RequestEnded) -> Attributes:
    """Return the attributes of a request's measurements.

    None of their values is made up by a client: the model is the one that answered.
    """
    attributes: Attributes = {
        "gen_ai.operation.name": ended.began.operation,
        "gen_ai.provider.name": PROVIDER,
    }
    if ended.began.server is not None:
        attributes["server.address"], attributes["server.port"] = ended.began.server
    if ended.model:
        attributes["gen_ai.request.model"] = attributes["gen_ai.response.model"] = ended.model
    return attributes


def sent_status(ended: RequestEnded) -> int | None:
    """Return the HTTP status that was sent; None if the client left before any was."""
    if ended.status != _CLIENT_GONE:
        return ended.status
    return 200 if ended.is_stream else None


def has_failed(ended: RequestEnded) -> bool:
    """Whether the server failed, so that the span's status is an error.

    A request that is wrong, or whose client left, is no failure of a server.
    https://opentelemetry.io/docs/specs/semconv/http/http-spans/#status
    """
    if ended.failure is not None:
        return status_of(ended.failure) >= 500
    return ended.status >= 500


def error_type(ended: RequestEnded) -> str | None:
    """Return the kind of failure, ``cancelled`` if the client left, None for a success."""
    if ended.failure is not None:
        return ended.failure.value
    if ended.status == _CLIENT_GONE:
        return CANCELLED
    return "internal" if ended.status >= 500 else None


def finish_reason(finished: Finished) -> str:
    """Return why a choice ended, in the terms of the conventions' message schema.

    https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-output-messages.json
    """
    kind = finished.stop.kind
    match kind:
        case StopKind.EOS | StopKind.STOP_STRING | StopKind.STOP_TOKEN:
            return "stop"
        case StopKind.MAX_TOKENS | StopKind.CONTEXT_FULL | StopKind.MEMORY_FULL:
            return "length"
        case StopKind.TOOL_CALL:
            return "tool_call"
        case StopKind.CANCELLED:
            return CANCELLED
        case StopKind.ERROR:
            return "error"
        case _:
            assert_never(kind)


def usage_of(ended: RequestEnded) -> tuple[int, int, int, int]:
    """Return prompt, cached, output and thinking tokens; each prompt counts once."""
    prompts: dict[tuple[int, object], Usage] = {}
    for run in ended.runs:
        if run.finished is not None:
            prompts.setdefault(run.generation.request.prompt_key, run.finished.usage)
    ends = [end.usage for end in ended.ends]
    return (
        sum(usage.prompt_tokens for usage in prompts.values()),
        sum(usage.cached_tokens for usage in prompts.values()),
        sum(usage.output_tokens for usage in ends),
        sum(usage.thinking_tokens for usage in ends),
    )


def without_secret(attributes: Mapping[str, Value], secret: str | None) -> Attributes:
    """Return attributes with a secret removed from every text."""
    if not secret:
        return dict(attributes)
    # JSON may escape some of its characters.
    spellings = (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])

    def clean(text: str) -> str:
        for spelling in spellings:
            text = text.replace(spelling, "[hidden]")
        return text

    return {
        name: clean(value)
        if isinstance(value, str)
        else [clean(item) if isinstance(item, str) else item for item in value]  # type: ignore[misc]
        if isinstance(value, Sequence)
        else value
        for name, value in attributes.items()
    }


def _asked_model(ended: RequestEnded) -> str:
    return shown_name(ended.asked_model or ended.model)


def _request_attributes(wanted: Sequence[GenerationRequest]) -> Attributes:
    request, sampling = wanted[0], wanted[0].sampling
    prompts = len({(id(request.messages), request.prompt) for request in wanted})
    choices = len(wanted) // prompts
    is_json = request.constraint is not None and request.constraint.text_form is None
    given: dict[str, Value | None] = {
        "gen_ai.output.type": "json" if is_json else "text",
        "gen_ai.request.choice.count": choices if choices != 1 else None,
        "gen_ai.request.frequency_penalty": sampling.frequency_penalty,
        "gen_ai.request.max_tokens": request.max_tokens,
        "gen_ai.request.presence_penalty": sampling.presence_penalty,
        "gen_ai.request.seed": sampling.seed,
        "gen_ai.request.stop_sequences": list(request.stops.strings) or None,
        "gen_ai.request.temperature": sampling.temperature,
        "gen_ai.request.top_k": sampling.top_k,
        "gen_ai.request.top_p": sampling.top_p,
        "fullstop.request.prompts": prompts if prompts != 1 else None,
        "fullstop.request.stop_token_ids": list(request.stops.token_ids) or None,
        "fullstop.request.stop_scope": request.stops.scope.value,
    }
    return {name: value for name, value in given.items() if value is not None}


def _embedding_attributes(wanted: EmbeddingRequest, tokens: int | None) -> Attributes:
    attributes: Attributes = {}
    if wanted.dimensions is not None:
        attributes["gen_ai.embeddings.dimension.count"] = wanted.dimensions
    if tokens is not None:
        attributes["gen_ai.usage.input_tokens"] = tokens
    return attributes


def _usage_attributes(ended: RequestEnded) -> Attributes:
    prompt, cached, output, thinking = usage_of(ended)
    return {
        "gen_ai.usage.input_tokens": prompt,
        "gen_ai.usage.cache_read.input_tokens": cached,
        "gen_ai.usage.output_tokens": output,
        "gen_ai.usage.reasoning.output_tokens": thinking,
    }


def _stop_attributes(ends: Sequence[Finished], *, with_content: bool) -> Attributes:
    stops = [end.stop for end in ends]
    attributes: Attributes = {
        "fullstop.stop.kind": [stop.kind.value for stop in stops],
        "fullstop.stop.sequence": [
            stop.value if isinstance(stop.value, str) else "" for stop in stops
        ],
        "fullstop.stop.token_id": [_number(stop.token_id) for stop in stops],
        "fullstop.stop.token_index": [_number(stop.token_index) for stop in stops],
        "fullstop.stop.channel": [stop.channel.value for stop in stops],
        "fullstop.stop.text_offset": [stop.text_offset for stop in stops],
        "fullstop.stop.held_characters": [len(stop.held) for stop in stops],
        "fullstop.stop.dropped_characters": [len(stop.dropped) for stop in stops],
    }
    if with_content:
        # Held-back and dropped text was written by the model.
        attributes["fullstop.stop.held"] = [stop.held for stop in stops]
        attributes["fullstop.stop.dropped"] = [stop.dropped for stop in stops]
    return attributes


def _number(value: int | None) -> int:
    return _NO_NUMBER if value is None else value


# Makes spans and measurements from requests that have ended. Imports OpenTelemetry.
#
# The server's loop only puts a request into a queue; a separate thread does the rest. Failures
# there, in the SDK or at the collector, are logged and never reach an answer.


_MAX_WAITING = 1000
_CLOSE_TIMEOUT_S = 3.0

# The bucket boundaries that the conventions prescribe for each histogram.
_TOKENS = [4.0**power for power in range(14)]
_DURATION_S = [0.01 * 2**power for power in range(14)]
_FIRST_TOKEN_S = [
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
]
_OUTPUT_TOKEN_S = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5]


class Instruments:
    """The histograms of the GenAI semantic conventions."""

    def __init__(self, meter: "Meter") -> None:
        self.tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self.duration = meter.create_histogram(
            "gen_ai.server.request.duration",
            "s",
            "Time from a request to the last byte of its answer.",
            explicit_bucket_boundaries_advisory=_DURATION_S,
        )
        self.first_token = meter.create_histogram(
            "gen_ai.server.time_to_first_token",
            "s",
            "Time to the first token of a successful answer.",
            explicit_bucket_boundaries_advisory=_FIRST_TOKEN_S,
        )
        self.output_token = meter.create_histogram(
            "gen_ai.server.time_per_output_token",
            "s",
            "Time for each token after the first of a successful answer.",
            explicit_bucket_boundaries_advisory=_OUTPUT_TOKEN_S,
        )

    def measure(self, ended: RequestEnded) -> None:
        """Record the measurements of one request."""
        told = metric_attributes(ended)
        error = error_type(ended)
        self.duration.record(ended.took_s, told if error is None else {**told, "error.type": error})
        if ended.embedded_tokens is not None:
            self.tokens.record(ended.embedded_tokens, {**told, "gen_ai.token.type": "input"})
        if not ended.ends:
            return
        prompt_tokens, _, output_tokens, _ = usage_of(ended)
        self.tokens.record(prompt_tokens, {**told, "gen_ai.token.type": "input"})
        self.tokens.record(output_tokens, {**told, "gen_ai.token.type": "output"})
        if error is not None:
            return
        for end in ended.ends:
            if end.timing.first_token_s is not None:
                self.first_token.record(end.timing.first_token_s, told)
            if end.usage.output_tokens > 1:
                each_s = end.timing.decode_s / (end.usage.output_tokens - 1)
                self.output_token.record(each_s, told)


class Telemetry:
    """Reports each request for an answer to a collector.

    Fits ``api.transport.observation.RequestObserver``.

    Args:
        tracer: Makes the spans; None for no spans.
        meter: Makes the instruments; None for no metrics.
        with_content: Whether spans contain prompts and answers.
        secret: A text that no span may contain: the server's key.
        shutdowns: Functions that send the remaining data; each may take long.

    Attributes:
        secret: As above; a server that goes on with another key replaces it.
    """

    def __init__(
        self,
        tracer: "Tracer | None",
        meter: "Meter | None",
        *,
        with_content: bool,
        secret: str | None,
        shutdowns: tuple[Callable[[], object], ...] = (),
    ) -> None:
        self._tracer = tracer
        self._instruments = None if meter is None else Instruments(meter)
        self._with_content = with_content
        self.secret = secret
        self._shutdowns = shutdowns
        self._queue: Queue[RequestEnded | None] = Queue(_MAX_WAITING)
        self._thread = threading.Thread(target=self._record_all, name="telemetry", daemon=True)
        self._thread.start()

    def wanted_trace(self) -> tuple[TraceLevel, int]:
        """Return that no token traces are wanted."""
        return TraceLevel.OFF, 0

    def wanted_content(self) -> Content:
        """Return whether prompts and answers are wanted."""
        return Content.TEXTS if self._with_content else Content.NONE

    def request_began(self, began: RequestBegan) -> None:
        """Do nothing: the span is made when the request has ended."""

    def request_advanced(self, advanced: RequestAdvanced) -> None:
        """Do nothing: the span is made when the request has ended."""

    def request_ended(self, ended: RequestEnded) -> None:
        """Queue a request for an answer."""
        if not ended.began.operation:
            return
        try:
            self._queue.put_nowait(ended)
        except Full:
            _log.warning("a request is missing from telemetry: too many are waiting")

    def close(self, timeout_s: float = _CLOSE_TIMEOUT_S) -> None:
        """Send the remaining data and end. Blocks no longer than the given time."""
        ends_at = time.monotonic() + timeout_s
        ending = [
            threading.Thread(
                target=self._shut_down, args=(shutdown,), name="telemetry", daemon=True
            )
            for shutdown in self._shutdowns
        ]
        try:
            self._queue.put(None, timeout=timeout_s)
        except Full:
            _log.warning("the last requests are missing from telemetry: too many are waiting")
        self._thread.join(max(0.0, ends_at - time.monotonic()))
        for thread in ending:
            thread.start()
        for thread in ending:
            thread.join(max(0.0, ends_at - time.monotonic()))
        if any(thread.is_alive() for thread in ending):
            _log.warning(
                "the last telemetry may be lost: the collector did not accept it in %.0f s",
                timeout_s,
            )

    def _shut_down(self, shutdown: Callable[[], object]) -> None:
        try:
            shutdown()
        except Exception as error:
            _log.warning("telemetry failed while it was closing (%s)", type(error).__name__)

    def _record_all(self) -> None:
        while (ended := self._queue.get()) is not None:
            try:
                if self._tracer is not None:
                    self._make_span(ended, self._tracer)
                if self._instruments is not None:
                    self._instruments.measure(ended)
            except Exception as error:
                # The error's text is not logged: it may quote the prompt.
                _log.warning("a request is missing from telemetry (%s)", type(error).__name__)

    def _make_span(self, ended: RequestEnded, tracer: "Tracer") -> None:
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind, Status, StatusCode

        began = ended.began
        attributes = span_attributes(ended, with_content=self._with_content)
        name = {"name": span_name(ended)}
        began_ns = int(began.began_at * 1e9)
        span = tracer.start_span(
            str(without_secret(name, self.secret)["name"]),
            context=extract({name.lower(): value for name, value in began.headers}),
            kind=SpanKind.SERVER,
            attributes=without_secret(attributes, self.secret),
            start_time=began_ns,
        )
        if has_failed(ended):
            span.set_status(Status(StatusCode.ERROR))
        span.end(began_ns + int(ended.took_s * 1e9))


# Sets up OpenTelemetry's SDK as its environment variables ask. Imports OpenTelemetry.
#
# Nothing global is set, so that no other library in this process begins to send data.

_SCHEMA = "https://opentelemetry.io/schemas/1.44.0"
_NAME = "fullstop"


def telemetry(wanted: Signals, version: str, secret: str | None) -> Telemetry:
    """Return the observer that reports requests to the collector."""
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

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


def _resource(version: str) -> "Resource":
    """Return the description of this process, which environment variables may override."""
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    ours = {
        "service.name": _NAME,
        "service.version": version,
        # Several servers may report to one collector, which must keep their sums apart.
        "service.instance.id": str(uuid4()),
    }
    said = OTELResourceDetector().detect().attributes
    return Resource.create({name: value for name, value in ours.items() if name not in said})


# Starts telemetry if environment variables ask for it, or logs in one line why it cannot.
#
# OpenTelemetry is imported only then. A failure here never keeps the server from starting.


def telemetry_for(
    environment: Mapping[str, str], version: str, secret: str | None
) -> "Telemetry | None":
    """Return the observer that reports requests to a collector; None if telemetry is off.

    Args:
        environment: The process's environment variables.
        version: The program's version.
        secret: A text that must never be sent: the server's key.
    """
    try:
        wanted = wanted_by(environment)
    except VariableProblem as problem:
        _log.warning("telemetry is off: %s", problem)
        return None
    if wanted is None:
        return None

    install_log_filter(environment)
    try:
        return telemetry(wanted, version, secret)
    except ImportError:
        _log.warning(
            "telemetry is off: %s is set, but OpenTelemetry is not installed; install it with "
            "pip install 'fullstop-chat[telemetry]', or unset the variable",
            wanted.because,
        )
    except Exception as error:
        # The error's text is not logged: it may quote a variable that contains a key.
        _log.warning(
            "telemetry is off: OpenTelemetry cannot be started with these OTEL_… variables (%s)",
            type(error).__name__,
        )
    return None
