"""Writes the answers of Chat Completions, whole and as events. Pure but for an encoder's state."""

from collections.abc import Mapping, Sequence
from typing import Any

from api.dialects.openai.chat_read import (
    allows_parallel_calls,
    offered_tools,
    shows_thinking,
)
from api.dialects.openai.chat_wire import (
    AnswerMessage,
    ChatChoice,
    ChatCompletion,
    ChatCompletionParams,
)
from api.dialects.openai.tools import find_called_tool, input_of_arguments
from api.dialects.openai.wire import ChoiceEnding, TokenLogprob
from api.dialects.openai.write import (
    ChoicesEncoder,
    answer_tokens,
    call_to_wire,
    ending_to_wire,
    entries_to_wire,
    prompt_logprobs_to_wire,
    usage_to_wire,
)
from api.dialects.shared.answers import reasoning_of, text_of
from api.dialects.shared.dialect import Collected, Head
from engine import Vocabulary
from engine.values.events import (
    Event,
    Finished,
    ToolCallAbandoned,
    ToolCallArguments,
    ToolCallCompleted,
    ToolCallStarted,
)
from engine.values.request import ToolCall
from engine.values.tokens import TokenSpan


def write_completion(
    answers: Sequence[Collected], params: ChatCompletionParams, head: Head
) -> ChatCompletion:
    """Return the whole answer."""
    choices: list[ChatChoice] = [
        {
            "index": index,
            "message": _message(events, params),
            "logprobs": (
                _logprobs(answer_tokens(events), head.vocabulary) if params.logprobs else None
            ),
            **_ending(finished, params, head),
        }
        for index, (events, finished) in enumerate(answers)
    ]
    completion: ChatCompletion = {
        "id": head.answer_id,
        "object": "chat.completion",
        "created": int(head.created_s),
        "model": head.model,
        "choices": choices,
        "usage": usage_to_wire([finished for _, finished in answers], len(answers)),
    }
    if params.prompt_logprobs is not None:
        completion["prompt_logprobs"] = prompt_logprobs_to_wire(
            answers[0][0], params.prompt_logprobs, head.vocabulary
        )
    return completion


def _logprobs(
    tokens: Sequence[TokenSpan], texts: Vocabulary | None
) -> dict[str, list[TokenLogprob] | None]:
    return {"content": entries_to_wire(tokens, texts), "refusal": None}


def _message(events: Sequence[Event], params: ChatCompletionParams) -> AnswerMessage:
    text, thinking = text_of(events), reasoning_of(events)
    offered = offered_tools(params)
    calls = [
        call_to_wire(event.call, find_called_tool(event.call.name, offered))
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
    if params.functions and calls:
        [call] = calls
        message["function_call"] = call["function"]
    elif calls:
        message["tool_calls"] = calls
    return message


def _ending(finished: Finished, params: ChatCompletionParams, head: Head) -> ChoiceEnding:
    """Return how a choice ended; a call in the older form has a reason of its own."""
    ending = ending_to_wire(finished, head, reports=params.fullstop.report)
    if params.functions and ending["finish_reason"] == "tool_calls":
        ending["finish_reason"] = "function_call"
    return ending


class ChatEncoder(ChoicesEncoder):
    """Turns the events of one request's generations into the chunks of one stream."""

    kind = "chat.completion.chunk"

    def __init__(self, params: ChatCompletionParams, head: Head) -> None:
        count = params.n or 1
        super().__init__(params, head, count=count, has_logprobs=bool(params.logprobs))
        self._params = params
        self._offered = offered_tools(params)
        # Per choice: calls begun in the stream, and whether the last one is left out.
        self._calls = [0] * count
        self._is_call_hidden = [False] * count
        # Per choice: the arguments of the custom call that is being written.
        self._custom: list[str | None] = [None] * count

    def _begin(self, choice: int) -> None:
        # Clients make an empty text of "" even if the answer turns out to be a call.
        content = None if self._offered else ""
        self._delta(choice, _fields({"role": "assistant", "content": content}))

    def _content(self, text: str, tokens: list[TokenSpan] | None = None) -> dict[str, object]:
        logprobs = None if tokens is None else _logprobs(tokens, self._texts)
        return _fields({"content": text}, logprobs)

    def _thinking(self, text: str, choice: int) -> None:
        if shows_thinking(self._params):
            self._delta(choice, _fields({"reasoning_content": text}))

    def _call_started(self, call: ToolCallStarted, choice: int) -> None:
        self._send_custom(choice)  # the next call of the same text begins
        self._is_call_hidden[choice] = call.index > 0 and not allows_parallel_calls(self._params)
        if self._is_call_hidden[choice]:
            return
        self._calls[choice] += 1
        tool = find_called_tool(call.name, self._offered)
        begun = call_to_wire(ToolCall(call.call_id, call.name, ""), tool)
        if begun["type"] == "custom":
            self._custom[choice] = ""
        self._call_delta(choice, begun)

    def _call_arguments(self, more: ToolCallArguments, choice: int) -> None:
        custom = self._custom[choice]
        if self._is_call_hidden[choice]:
            return
        if custom is None:
            self._call_delta(choice, {"function": {"arguments": more.text}})
        else:
            self._custom[choice] = custom + more.text

    def _call_delta(self, choice: int, fields: Mapping[str, Any]) -> None:
        if self._params.functions:
            delta = {"function_call": fields["function"]}
        else:
            delta = {"tool_calls": [{"index": self._calls[choice] - 1, **fields}]}
        self._delta(choice, _fields(delta))

    def _call_abandoned(self, call: ToolCallAbandoned, choice: int) -> None:
        self._custom[choice] = None

    def _call(self, call: ToolCallCompleted, choice: int) -> None:
        """Send a custom tool's input; the next event reports the end of other calls."""
        self._send_custom(choice)

    def _send_custom(self, choice: int) -> None:
        arguments, self._custom[choice] = self._custom[choice], None
        if arguments:
            self._call_delta(choice, {"custom": {"input": input_of_arguments(arguments)}})

    def _ending(self, finished: Finished) -> dict[str, object]:
        return {**_fields({}), **_ending(finished, self._params, self._head)}


def _fields(
    delta: Mapping[str, object], logprobs: Mapping[str, object] | None = None
) -> dict[str, object]:
    return {"delta": delta, "logprobs": logprobs}
