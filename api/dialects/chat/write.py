"""A Chat Completions answer, whole and as server-sent events.

Pure except for the encoder's own state. Knows no web framework. Any thread.
"""

from collections.abc import Sequence

from api.dialects.chat.read import allows_parallel_calls, shows_thinking
from api.dialects.chat.wire import (
    AnswerMessage,
    ChatChoice,
    ChatCompletion,
    ChatCompletionChunk,
    ChatCompletionParams,
    ChatLogprobs,
    ChunkChoice,
)
from api.dialects.openai.choices import Choices, ChoicesEncoder
from api.dialects.openai.endings import call_to_wire, ending_to_wire, usage_to_wire
from api.dialects.openai.logprobs import answer_tokens, entries_to_wire
from api.dialects.openai.parameters import includes_usage
from api.dialects.openai.prompt_logprobs import prompt_logprobs_to_wire
from api.dialects.shared.answers.said import reasoning_of, text_of
from api.dialects.shared.dialect import Collected, Head
from api.dialects.shared.parameters.extension import is_report_wanted
from api.transport.json_text import json_text
from engine import (
    Event,
    Finished,
    TokenSpan,
    ToolCall,
    ToolCallArguments,
    ToolCallCompleted,
    ToolCallStarted,
    Vocabulary,
)


def write_completion(
    answers: Sequence[Collected], params: ChatCompletionParams, head: Head
) -> ChatCompletion:
    """Return the whole answer.

    Args:
        answers: The events of each choice, adjacent deltas merged, and its end.
        params: The request.
        head: What is known from the beginning.
    """
    reports = is_report_wanted(params.fullstop)
    choices: list[ChatChoice] = [
        {
            "index": index,
            "message": _message(events, params),
            "logprobs": (
                _logprobs(answer_tokens(events), head.vocabulary) if params.logprobs else None
            ),
            **ending_to_wire(finished, reports=reports),
        }
        for index, (events, finished) in enumerate(answers)
    ]
    found: ChatCompletion = {
        "id": _id(head),
        "object": "chat.completion",
        "created": int(head.created_s),
        "model": head.model,
        "choices": choices,
        "usage": usage_to_wire([finished for _, finished in answers]),
    }
    if params.prompt_logprobs is not None:
        found["prompt_logprobs"] = prompt_logprobs_to_wire(
            answers[0][0], params.prompt_logprobs, head.vocabulary
        )
    return found


def _id(head: Head) -> str:
    return f"chatcmpl-{head.unique}"


def _logprobs(tokens: Sequence[TokenSpan], texts: Vocabulary | None) -> ChatLogprobs:
    return {"content": entries_to_wire(tokens, texts), "refusal": None}


def _message(events: Sequence[Event], params: ChatCompletionParams) -> AnswerMessage:
    text, thinking = text_of(events), reasoning_of(events)
    calls = [
        call_to_wire(event.call)
        for event in events
        if isinstance(event, ToolCallCompleted)
        and (event.index == 0 or allows_parallel_calls(params))
    ]
    message: AnswerMessage = {
        "role": "assistant",
        "content": text if text or not calls else None,
        "refusal": None,
    }
    if thinking and shows_thinking(params):
        message["reasoning_content"] = thinking
    if calls:
        message["tool_calls"] = calls
    return message


class ChatEncoder(ChoicesEncoder):
    """Turns the events of one request's generations into the chunks of one stream."""

    def __init__(self, params: ChatCompletionParams, head: Head) -> None:
        count = params.n or 1
        empty: ChatCompletionChunk = {
            "id": _id(head),
            "object": "chat.completion.chunk",
            "created": int(head.created_s),
            "model": head.model,
            "choices": [],
        }
        super().__init__(
            empty,
            Choices(
                count=count,
                per_prompt=count,
                includes_usage=includes_usage(params.stream_options),
                has_logprobs=bool(params.logprobs),
                reports=is_report_wanted(params.fullstop),
            ),
        )
        self._allows_parallel_calls = allows_parallel_calls(params)
        # Per choice: calls begun in the stream, and whether the last one is left out.
        self._calls = [0] * count
        self._is_call_hidden = [False] * count
        self._shows_thinking = shows_thinking(params)
        self._texts = head.vocabulary

    def _begin(self, choice: int) -> None:
        self._delta(choice, _fields('"role":"assistant","content":""'))

    def _text_fields(self, text: str) -> str:
        return _fields(f'"content":{json_text(text)}')

    def _token_fields(self, text: str, tokens: list[TokenSpan]) -> str:
        logprobs = json_text(_logprobs(tokens, self._texts))
        return _fields(f'"content":{json_text(text)}', logprobs)

    def _thinking(self, text: str, choice: int) -> None:
        if self._shows_thinking:
            self._delta(choice, _fields(f'"reasoning_content":{json_text(text)}'))

    def _call_started(self, call: ToolCallStarted, choice: int) -> None:
        self._is_call_hidden[choice] = call.index > 0 and not self._allows_parallel_calls
        if self._is_call_hidden[choice]:
            return
        index = self._calls[choice]
        self._calls[choice] += 1
        begun = call_to_wire(ToolCall(call.call_id, call.name, ""))
        self._delta(choice, _fields(f'"tool_calls":{json_text([{"index": index, **begun}])}'))

    def _call_arguments(self, more: ToolCallArguments, choice: int) -> None:
        if not self._is_call_hidden[choice]:
            index = self._calls[choice] - 1
            function = f'{{"arguments":{json_text(more.text)}}}'
            calls = f'"tool_calls":[{{"index":{index},"function":{function}}}]'
            self._delta(choice, _fields(calls))

    def _call(self, call: ToolCallCompleted, choice: int) -> None:
        """Send nothing: clients see a call's end by the event after it."""

    def _last_choice(self, finished: Finished, choice: int) -> ChunkChoice:
        ending = ending_to_wire(finished, reports=self._choices.reports)
        return {"index": choice, "delta": {}, "logprobs": None, **ending}


def _fields(delta: str, logprobs: str = "null") -> str:
    return f'"delta":{{{delta}}},"logprobs":{logprobs}'
