"""The attributes of a request's span and of its metrics.

Pure; imports nothing of OpenTelemetry. The names are those of the GenAI semantic conventions (see
the package); attributes that the conventions lack begin with ``fullstop.``. Lists have one entry
for each choice, in the same order. The entry of a choice without such a value is "" or -1, because
some collectors drop nulls.
"""

import json
from collections.abc import Mapping, Sequence
from typing import assert_never

from api.server.telemetry.content import content_attributes
from api.transport.context import shown_name
from api.transport.errors import status_of
from api.transport.observing import RequestEnded
from engine import EmbeddingRequest, Finished, GenerationRequest, StopKind, Usage

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
    found: Attributes = {
        "gen_ai.operation.name": began.operation,
        "gen_ai.provider.name": PROVIDER,
        "http.request.method": began.method,
        "http.route": began.route,
        "fullstop.dialect": began.dialect,
        "fullstop.request.id": began.request_id,
    }
    if began.server is not None:
        found["server.address"], found["server.port"] = began.server
    if (status := sent_status(ended)) is not None:
        found["http.response.status_code"] = status
    if _asked_model(ended):
        found["gen_ai.request.model"] = _asked_model(ended)
    if ended.model:
        found["gen_ai.response.model"] = ended.model
    if ended.wanted:
        found |= _request_attributes(ended.wanted)
        found["gen_ai.request.stream"] = ended.wants_stream
    if ended.embedding is not None:
        found |= _embedding_attributes(ended.embedding, ended.embedded_tokens)
        if ended.encoding:
            found["gen_ai.request.encoding_formats"] = [ended.encoding]
    if ended.runs and ended.form.id:
        found["gen_ai.response.id"] = ended.form.id
    if ended.ends:
        found |= _usage_attributes(ended)
        found["gen_ai.response.finish_reasons"] = [finish_reason(one) for one in ended.ends]
        found |= _stop_attributes(ended.ends, with_content=with_content)
    error = error_type(ended)
    if error is not None:
        found["error.type"] = error
    if with_content:
        found |= content_attributes(ended, [finish_reason(one) for one in ended.ends])
    return found


def metric_attributes(ended: RequestEnded) -> Attributes:
    """Return the attributes of a request's measurements.

    None of their values is made up by a client: the model is the one that answered.
    """
    found: Attributes = {
        "gen_ai.operation.name": ended.began.operation,
        "gen_ai.provider.name": PROVIDER,
    }
    if ended.began.server is not None:
        found["server.address"], found["server.port"] = ended.began.server
    if ended.model:
        found["gen_ai.request.model"] = found["gen_ai.response.model"] = ended.model
    return found


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
        request = run.generation.request
        if run.finished is not None:
            prompts.setdefault((id(request.messages), request.prompt), run.finished.usage)
    ends = [one.usage for one in ended.ends]
    return (
        sum(one.prompt_tokens for one in prompts.values()),
        sum(one.cached_tokens for one in prompts.values()),
        sum(one.output_tokens for one in ends),
        sum(one.thinking_tokens for one in ends),
    )


def without_secret(attributes: Mapping[str, Value], secret: str | None) -> Attributes:
    """Return attributes with a secret removed from every text."""
    if not secret:
        return dict(attributes)
    # JSON may escape some of its characters.
    spellings = (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])

    def clean(text: str) -> str:
        for one in spellings:
            text = text.replace(one, "[hidden]")
        return text

    return {
        name: clean(value)
        if isinstance(value, str)
        else [clean(one) if isinstance(one, str) else one for one in value]  # type: ignore[misc]
        if isinstance(value, Sequence)
        else value
        for name, value in attributes.items()
    }


def _asked_model(ended: RequestEnded) -> str:
    return shown_name(ended.asked_model or ended.model)


def _request_attributes(wanted: Sequence[GenerationRequest]) -> Attributes:
    request, sampling = wanted[0], wanted[0].sampling
    prompts = len({(id(one.messages), one.prompt) for one in wanted})
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
    found: Attributes = {}
    if wanted.dimensions is not None:
        found["gen_ai.embeddings.dimension.count"] = wanted.dimensions
    if tokens is not None:
        found["gen_ai.usage.input_tokens"] = tokens
    return found


def _usage_attributes(ended: RequestEnded) -> Attributes:
    prompt, cached, output, thinking = usage_of(ended)
    return {
        "gen_ai.usage.input_tokens": prompt,
        "gen_ai.usage.cache_read.input_tokens": cached,
        "gen_ai.usage.output_tokens": output,
        "gen_ai.usage.reasoning.output_tokens": thinking,
    }


def _stop_attributes(ends: Sequence[Finished], *, with_content: bool) -> Attributes:
    stops = [one.stop for one in ends]
    found: Attributes = {
        "fullstop.stop.kind": [one.kind.value for one in stops],
        "fullstop.stop.sequence": [
            one.value if isinstance(one.value, str) else "" for one in stops
        ],
        "fullstop.stop.token_id": [_number(one.token_id) for one in stops],
        "fullstop.stop.token_index": [_number(one.token_index) for one in stops],
        "fullstop.stop.channel": [one.channel.value for one in stops],
        "fullstop.stop.text_offset": [one.text_offset for one in stops],
        "fullstop.stop.held_characters": [len(one.held) for one in stops],
        "fullstop.stop.dropped_characters": [len(one.dropped) for one in stops],
    }
    if with_content:
        # Held-back and dropped text was written by the model.
        found["fullstop.stop.held"] = [one.held for one in stops]
        found["fullstop.stop.dropped"] = [one.dropped for one in stops]
    return found


def _number(value: int | None) -> int:
    return _NO_NUMBER if value is None else value
