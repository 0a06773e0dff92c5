"""Writes the answers of Ollama's API, whole and as lines. Pure but for the encoders' state.

https://github.com/ollama/ollama/blob/main/docs/api.md
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, assert_never

from api.dialects.ollama.models import add_tag, time_text
from api.dialects.ollama.wire import (
    AnswerParams,
    ChatParams,
    DoneReason,
    OllamaAnswer,
    OllamaContent,
    OllamaText,
)
from api.dialects.openai.write import answer_tokens, entries_to_wire
from api.dialects.shared.answers import (
    AnswerEncoder,
    not_an_ending,
    raw_text_of,
    reasoning_of,
    report_to_wire,
    text_of,
    with_field,
)
from api.dialects.shared.dialect import Collected, Head
from api.dialects.shared.encoding import json_line
from api.service.errors import ApiError, ContextOverflow
from engine.stopping.record import StopInfo, StopKind
from engine.values.events import Event, Finished, TokenTrace, ToolCallCompleted

NS = 1_000_000_000


def done_reason_to_wire(stop: StopInfo) -> DoneReason:
    """Return ``done_reason``; this API has no field for the stop that matched."""
    match stop.kind:
        case StopKind.EOS | StopKind.STOP_STRING | StopKind.STOP_TOKEN | StopKind.TOOL_CALL:
            return "stop"
        case (
            StopKind.REPETITION | StopKind.MAX_TOKENS | StopKind.CONTEXT_FULL | StopKind.MEMORY_FULL
        ):
            return "length"
        case StopKind.ERROR | StopKind.CANCELLED:
            raise not_an_ending(stop)
        case _:
            assert_never(stop.kind)


class LineEncoder(AnswerEncoder):
    """Turns the events of one generation into the lines of one answer.

    ``/api/generate`` takes no tools, so a call is text there.
    """

    def __init__(self, params: AnswerParams, head: Head) -> None:
        super().__init__()
        # The requested name, which the reference repeats.
        self._model = params.model or add_tag(head.model)
        self._is_chat = isinstance(params, ChatParams)
        self._clock = head.clock
        self._no_effect = head.no_effect
        self._reports = params.fullstop.report
        self._has_logprobs = bool(params.logprobs)
        self._texts = head.vocabulary
        # Text that waits for the trace of its token.
        self._text_due = ""

    def line(
        self, text: str = "", thinking: str = "", calls: Sequence[dict[str, Any]] = ()
    ) -> OllamaAnswer:
        content: OllamaContent
        if self._is_chat:
            content = {"message": {"role": "assistant", "content": text}}
            if thinking:
                content["message"]["thinking"] = thinking
            if calls:
                content["message"]["tool_calls"] = list(calls)
        else:
            content = {"response": text}
            if thinking:
                content["thinking"] = thinking
        created_at = time_text(self._clock())
        return {"model": self._model, "created_at": created_at, **content, "done": False}

    def end(self, answer: OllamaAnswer, finished: Finished) -> None:
        usage, timing = finished.usage, finished.timing
        answer["done"] = True
        answer["done_reason"] = done_reason_to_wire(finished.stop)
        if self._reports:
            answer["fullstop"] = report_to_wire(finished, self._no_effect)
        answer["total_duration"] = round(timing.total_s * NS)
        answer["load_duration"] = 0
        answer["prompt_eval_count"] = usage.prompt_tokens
        answer["prompt_eval_duration"] = round(timing.prefill_s * NS)
        answer["eval_count"] = usage.output_tokens
        answer["eval_duration"] = round(timing.decode_s * NS)

    def keepalive(self) -> str:
        """Return a line without content; a blank line would not be JSON for the clients."""
        return json_line(self.line())

    def logprobs(self, answer: OllamaAnswer, events: Iterable[Event]) -> None:
        if self._has_logprobs:
            answer["logprobs"] = entries_to_wire(answer_tokens(events), self._texts)

    def _text(self, text: str, choice: int) -> None:
        if self._has_logprobs:
            self._text_due += text
        else:
            self._send(json_line(self.line(text=text)))

    def _token(self, trace: TokenTrace | Finished, choice: int) -> None:
        """Send the text that an event completes, with its logprobs if the request asks for them."""
        text, self._text_due = self._text_due, ""
        if self._has_logprobs and (text or answer_tokens([trace])):
            answer = self.line(text=text)
            self.logprobs(answer, [trace])
            self._send(json_line(answer))

    def _thinking(self, text: str, choice: int) -> None:
        self._send(json_line(self.line(thinking=text)))

    def _call(self, call: ToolCallCompleted, choice: int) -> None:
        if self._is_chat:
            self._send(json_line(self.line(calls=[call_to_wire(call)])))
        else:
            super()._call(call, choice)

    def _end(self, finished: Finished, choice: int) -> None:
        self._token(finished, choice)
        answer = self.line()
        self.end(answer, finished)
        self._send(json_line(answer))

    def _broken(self, error: ApiError, finished: Finished | None = None, choice: int = 0) -> None:
        failure = error_to_wire(error, "")[1]
        if finished is None:
            self._send(json_line(failure))
        else:
            answer = self.line()
            answer["done"], answer["done_reason"] = True, "error"
            answer["error"] = failure["error"]
            self._send(json_line(answer))


def write_answer(answers: Sequence[Collected], params: AnswerParams, head: Head) -> OllamaAnswer:
    """Return a whole answer."""
    [(events, finished)] = answers
    encoder = LineEncoder(params, head)
    is_chat = isinstance(params, ChatParams)
    text = text_of(events) if is_chat else raw_text_of(events, has_thinking=True)
    calls = [call_to_wire(event) for event in events if isinstance(event, ToolCallCompleted)]
    answer = encoder.line(text, reasoning_of(events), calls)
    encoder.logprobs(answer, [*events, finished])
    encoder.end(answer, finished)
    return answer


def call_to_wire(event: ToolCallCompleted) -> dict[str, Any]:
    """Return a call as this API spells it: arguments are an object."""
    call = event.call
    function = {"index": event.index, "name": call.name, "arguments": json.loads(call.arguments)}
    return {"id": f"call_{call.id}", "function": function}


def error_to_wire(error: ApiError, request_id: str) -> tuple[int, OllamaText]:
    """Return the status and the body of an error answer: one text, as clients expect."""
    message = with_field(error)
    if isinstance(error, ContextOverflow):
        # Clients look for exactly this text.
        excess = error.prompt_tokens - error.max_tokens
        message = f"prompt too long; exceeded max context length by {excess} tokens"
    return error.kind.status, {"error": message}
