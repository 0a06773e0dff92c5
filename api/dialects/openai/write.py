"""Writes what answers of OpenAI's three APIs share: ends, counts, logprobs, errors, choices.

Pure but for an encoder's own state; any thread.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, assert_never

from api.dialects.openai.tools import OfferedTool, input_of_arguments
from api.dialects.openai.wire import (
    CallAnswer,
    ChoiceEnding,
    ChoicesParams,
    CompletionUsage,
    ErrorAnswer,
    ErrorType,
    FinishReason,
    PromptLogprobs,
    TokenLogprob,
)
from api.dialects.shared.answers import AnswerEncoder, not_an_ending, report_to_wire, with_field
from api.dialects.shared.dialect import Head
from api.dialects.shared.encoding import DONE, json_text, sse_event
from api.service.errors import ApiError, ContextOverflow, ErrorKind, path_text
from engine import Vocabulary
from engine.stopping.record import Channel, StopInfo, StopKind
from engine.values.events import Event, Finished, PromptProgress, TokenTrace
from engine.values.request import ToolCall
from engine.values.tokens import PromptScores, PromptToken, TokenSpan


def ending_to_wire(finished: Finished, head: Head, *, reports: bool) -> ChoiceEnding:
    """Return how a choice ended."""
    reason, matched = stop_to_wire(finished.stop, is_strict=head.is_strict)
    ending: ChoiceEnding = {
        "finish_reason": reason,
        "matched_stop": None if finished.stop.kind is StopKind.REPETITION else matched,
        "stop_reason": matched,
    }
    if reports:
        ending["fullstop"] = report_to_wire(finished, head.no_effect)
    return ending


def stop_to_wire(stop: StopInfo, *, is_strict: bool) -> tuple[FinishReason, str | int | None]:
    """Return ``finish_reason`` and ``stop_reason``: the stop that matched, or vLLM's word."""
    match stop.kind:
        case StopKind.EOS:
            return "stop", None
        case StopKind.STOP_STRING | StopKind.STOP_TOKEN:
            return "stop", stop.value
        case StopKind.REPETITION:
            # The vendor's own list of reasons has no such word.
            return ("length", None) if is_strict else ("repetition", "repetition_detected")
        case StopKind.MAX_TOKENS | StopKind.CONTEXT_FULL | StopKind.MEMORY_FULL:
            return "length", None
        case StopKind.TOOL_CALL:
            return "tool_calls", None
        case StopKind.ERROR | StopKind.CANCELLED:
            raise not_an_ending(stop)
        case _:
            assert_never(stop.kind)


def usage_to_wire(answers: Sequence[Finished], per_prompt: int) -> CompletionUsage:
    """Return ``usage`` over all choices."""
    usages = [answer.usage for answer in answers]
    drafts = [answer.speculation for answer in answers]
    prompts = usages[::per_prompt]
    prompt_tokens = sum(usage.prompt_tokens for usage in prompts)
    completion_tokens = sum(usage.output_tokens for usage in usages)
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": sum(usage.cached_tokens for usage in prompts)},
        "completion_tokens_details": {
            "reasoning_tokens": sum(usage.thinking_tokens for usage in usages),
            "accepted_prediction_tokens": sum(counts.prediction_accepted for counts in drafts),
            "rejected_prediction_tokens": sum(counts.prediction_rejected for counts in drafts),
        },
    }


def call_to_wire(call: ToolCall, tool: OfferedTool | None = None) -> CallAnswer:
    """Return a call as Chat Completions spells it."""
    if tool is not None and tool.is_custom:
        text = input_of_arguments(call.arguments) if call.arguments else ""
        return {
            "id": f"call_{call.id}",
            "type": "custom",
            "custom": {"name": tool.name, "input": text},
        }
    return {
        "id": f"call_{call.id}",
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }


# The engine's fields that all three APIs spell the same.
FIELD_NAMES = {"stops.strings": "stop", "stops.token_ids": "stop_token_ids"}
# https://platform.openai.com/docs/guides/error-codes
_TYPES_AND_CODES: Mapping[ErrorKind, tuple[ErrorType, str | None]] = {
    ErrorKind.INVALID_REQUEST: ("invalid_request_error", None),
    ErrorKind.AUTHENTICATION: ("invalid_request_error", "invalid_api_key"),
    ErrorKind.PERMISSION: ("permission_error", "forbidden"),
    ErrorKind.NOT_FOUND: ("invalid_request_error", "not_found"),
    ErrorKind.METHOD_NOT_ALLOWED: ("invalid_request_error", "method_not_allowed"),
    ErrorKind.TIMEOUT: ("invalid_request_error", "request_timeout"),
    ErrorKind.TOO_LARGE: ("invalid_request_error", "request_too_large"),
    ErrorKind.UNSUPPORTED_ENCODING: ("invalid_request_error", "unsupported_encoding"),
    ErrorKind.RATE_LIMITED: ("rate_limit_error", "rate_limit_exceeded"),
    ErrorKind.NO_MODEL: ("server_error", "no_model_loaded"),
    ErrorKind.OVERLOADED: ("server_error", "memory_short"),
    ErrorKind.UNAVAILABLE: ("server_error", "service_unavailable"),
    ErrorKind.INTERNAL: ("server_error", None),
}


def error_to_wire(error: ApiError, request_id: str) -> tuple[int, ErrorAnswer]:
    """Return the status and the body of an error answer; all four keys are always present."""
    type_, code = _TYPES_AND_CODES[error.kind]
    message = with_field(error)
    if isinstance(error, ContextOverflow):
        # Clients look for exactly this text. Some also look for the code in them, which the
        # vendor's own library no longer adds since version 3.
        message = (
            f"This model's maximum context length is {error.max_tokens} tokens. However, your "
            f"messages resulted in {error.prompt_tokens} tokens. Please reduce the length of the "
            f"messages. ({error.code})"
        )
    return error.kind.status, {
        "error": {
            "message": message,
            "type": type_,
            "param": path_text(error.field) or None,
            "code": error.code or code,
        }
    }


# The vendor's value for an impossible token; JSON has no infinity.
_MIN_LOGPROB = -9999.0


def answer_tokens(events: Iterable[Event]) -> list[TokenSpan]:
    """Return the tokens of the answer's text that these events complete, in order."""
    return [
        span
        for event in events
        if isinstance(event, (TokenTrace, Finished))
        for span in event.settled
        if span.channel is Channel.TEXT
    ]


def entries_to_wire(tokens: Sequence[TokenSpan], texts: Vocabulary | None) -> list[TokenLogprob]:
    """Return tokens as Chat Completions and Responses describe them."""
    entries = []
    for token in tokens:
        entry = _entry(token.raw, _MIN_LOGPROB if token.stats is None else token.stats.logprob)
        entry["top_logprobs"] = []
        if token.stats is not None and texts is not None:
            entry["top_logprobs"] = [
                _entry(texts.bytes_of(token_id), logprob) for token_id, logprob in token.stats.top
            ]
        entries.append(entry)
    return entries


def _entry(raw: bytes, logprob: float) -> TokenLogprob:
    return {"token": token_text(raw), "logprob": finite(logprob), "bytes": list(raw)}


def finite(logprob: float) -> float:
    """Return a log-probability as a finite number, which JSON can represent."""
    # NaN, which overflowing logits produce, also becomes the least value.
    return logprob if logprob > _MIN_LOGPROB else _MIN_LOGPROB


def token_text(raw: bytes) -> str:
    """Return a token's text; bytes of incomplete characters are shown as bytes."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)


def prompt_tokens(events: Iterable[Event]) -> list[PromptToken]:
    """Return the scored tokens of a prompt."""
    scores = [event for event in events if isinstance(event, PromptScores)]
    return [token for event in scores for token in event.tokens()]


def prompt_logprobs_to_wire(
    events: Sequence[Event], count: int, texts: Vocabulary | None
) -> PromptLogprobs:
    """Return ``prompt_logprobs`` from the events of an answer, as vLLM spells them.

    https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html
    """
    positions: PromptLogprobs = []
    for token in prompt_tokens(events):
        if token.logprob is None or token.rank is None:
            positions.append(None)
            continue
        ranked = [(token.rank + 1, token.token_id, token.logprob)]
        ranked += [(rank, *likely) for rank, likely in enumerate(token.top[:count], 1)]
        position: dict[str, dict[str, float | str]] = {
            str(token_id): {
                "logprob": finite(logprob),
                "rank": rank,
                "decoded_token": texts.text_of(token_id) if texts is not None else "",
            }
            for rank, token_id, logprob in ranked
        }
        positions.append(position)
    return positions


class ChoicesEncoder(AnswerEncoder):
    """Turns the events of one request's generations into chunks, which a subclass fills."""

    kind: ClassVar[str]

    def __init__(
        self, params: ChoicesParams, head: Head, *, count: int, has_logprobs: bool
    ) -> None:
        super().__init__()
        self._common = {
            "id": head.answer_id,
            "object": self.kind,
            "created": int(head.created_s),
            "model": head.model,
        }
        self._count, self._per_prompt = count, params.n or 1
        options = params.stream_options
        self._includes_usage = options is not None and bool(options.include_usage)
        self._has_logprobs = has_logprobs
        self._reports = params.fullstop.report
        self._head = head
        self._texts = head.vocabulary
        # Text that waits for the trace of its token.
        self._texts_due = [""] * count
        self._started: set[int] = set()
        self._ends: dict[int, Finished] = {}

    def _begin(self, choice: int) -> None:
        """Send the frames before the text of a choice."""

    @abstractmethod
    def _content(self, text: str, tokens: list[TokenSpan] | None = None) -> dict[str, object]:
        """Return the fields of a choice with more text and, with logprobs, its tokens."""

    @abstractmethod
    def _ending(self, finished: Finished) -> Mapping[str, object]:
        """Return the fields of a choice that has ended: no new content, and how it ended."""

    def _delta(self, choice: int, fields: Mapping[str, object]) -> None:
        self._chunk([{"index": choice, **fields, "finish_reason": None}])

    def _chunk(
        self, choices: Sequence[Mapping[str, object]], usage: CompletionUsage | None = None
    ) -> None:
        chunk: dict[str, object] = {**self._common, "choices": choices}
        if self._includes_usage:
            chunk["usage"] = usage
        self._send(sse_event(json_text(chunk)))

    def _progress(self, progress: PromptProgress, choice: int) -> None:
        self._start(choice)

    def _start(self, choice: int) -> None:
        if choice not in self._started:
            self._started.add(choice)
            self._begin(choice)

    def _text(self, text: str, choice: int) -> None:
        if self._has_logprobs:
            self._texts_due[choice] += text
        else:
            self._delta(choice, self._content(text))

    def _token(self, trace: TokenTrace | Finished, choice: int) -> None:
        """Send the text that an event completes, with its logprobs if the request asks for them."""
        if not self._has_logprobs:
            return
        text, self._texts_due[choice] = self._texts_due[choice], ""
        tokens = answer_tokens([trace])
        if text or tokens:
            self._delta(choice, self._content(text, tokens))

    def _end(self, finished: Finished, choice: int) -> None:
        self._start(choice)
        self._token(finished, choice)
        self._chunk([{"index": choice, **self._ending(finished)}])
        self._ends[choice] = finished
        if len(self._ends) < self._count:
            return
        if self._includes_usage:
            in_order = [self._ends[index] for index in sorted(self._ends)]
            self._chunk([], usage_to_wire(in_order, self._per_prompt))
        self._send(DONE)

    def _broken(self, error: ApiError, finished: Finished | None = None, choice: int = 0) -> None:
        self._send(sse_event(json_text(error_to_wire(error, "")[1])))
