"""Writes the answers of Chat Completions, whole and as events. Pure but for an encoder's state."""

from collections.abc import Sequence
from typing import cast

from api.dialects.openai.chat_read import (
    allows_parallel_calls,
    has_functions,
    offered_tools,
    shows_thinking,
)
from api.dialects.openai.chat_wire import (
    AnswerMessage,
    ChatChoice,
    ChatCompletion,
    ChatCompletionParams,
    ChatLogprobs,
)
from api.dialects.openai.tools import called_tool, input_of_arguments
from api.dialects.openai.wire import (
    CallAnswer,
    ChoiceEnding,
    includes_usage,
)
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
from api.dialects.shared.parameters import enables_report
from api.transport.answer_text import json_text
from engine import (
    Event,
    Finished,
    TokenSpan,
    ToolCall,
    ToolCallAbandoned,
    ToolCallArguments,
    ToolCallCompleted,
    ToolCallStarted,
    Vocabulary,
)


def write_completion(
    answers: Sequence[Collected], params: ChatCompletionParams, head: Head
) -> ChatCompletion:
    """Return the whole answer."""
    reports = enables_report(params.fullstop)
    choices: list[ChatChoice] = [
        {
            "index": index,
            "message": _message(events, params),
            "logprobs": (
                _logprobs(answer_tokens(events), head.vocabulary) if params.logprobs else None
            ),
            **_ending(finished, params, reports=reports),
        }
        for index, (events, finished) in enumerate(answers)
    ]
    completion: ChatCompletion = {
        "id": f"chatcmpl-{head.unique}",
        "object": "chat.completion",
        "created": int(head.created_s),
        "model": head.model,
        "choices": choices,
        "usage": usage_to_wire([finished for _, finished in answers]),
    }
    if params.prompt_logprobs is not None:
        completion["prompt_logprobs"] = prompt_logprobs_to_wire(
            answers[0][0], params.prompt_logprobs, head.vocabulary
        )
    return completion


def _logprobs(tokens: Sequence[TokenSpan], texts: Vocabulary | None) -> ChatLogprobs:
    return {"content": entries_to_wire(tokens, texts), "refusal": None}


def _message(events: Sequence[Event], params: ChatCompletionParams) -> AnswerMessage:
    text, thinking = text_of(events), reasoning_of(events)
    offered = offered_tools(params)
    calls = [
        call_to_wire(event.call, called_tool(event.call.name, offered))
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
    if has_functions(params) and calls:
        [call] = calls
        message["function_call"] = cast(CallAnswer, call)["function"]
    elif calls:
        message["tool_calls"] = calls
    return message


def _ending(finished: Finished, params: ChatCompletionParams, *, reports: bool) -> ChoiceEnding:
    """Return how a choice ended; a call in the older form has a reason of its own."""
    ending = ending_to_wire(finished, reports=reports)
    if has_functions(params) and ending["finish_reason"] == "tool_calls":
        ending["finish_reason"] = "function_call"
    return ending


class ChatEncoder(ChoicesEncoder):
    """Turns the events of one request's generations into the chunks of one stream."""

    def __init__(self, params: ChatCompletionParams, head: Head) -> None:
        count = params.n or 1
        empty: dict[str, object] = {
            "id": f"chatcmpl-{head.unique}",
            "object": "chat.completion.chunk",
            "created": int(head.created_s),
            "model": head.model,
            "choices": [],
        }
        super().__init__(
            empty,
            count=count,
            per_prompt=count,
            includes_usage=includes_usage(params.stream_options),
            has_logprobs=bool(params.logprobs),
        )
        self._params = params
        self._reports = enables_report(params.fullstop)
        self._offered = offered_tools(params)
        self._allows_parallel_calls = allows_parallel_calls(params)
        # Per choice: calls begun in the stream, and whether the last one is left out.
        self._calls = [0] * count
        self._is_call_hidden = [False] * count
        # Per choice: the arguments of the custom call that is being written.
        self._custom: list[str | None] = [None] * count
        self._shows_thinking = shows_thinking(params)
        self._texts = head.vocabulary

    def _begin(self, choice: int) -> None:
        # Clients make an empty text of "" even if the answer turns out to be a call.
        content = "null" if self._offered else '""'
        self._delta(choice, _fields(f'"role":"assistant","content":{content}'))

    def _text_fields(self, text: str) -> str:
        return _fields(f'"content":{json_text(text)}')

    def _token_fields(self, text: str, tokens: list[TokenSpan]) -> str:
        logprobs = json_text(_logprobs(tokens, self._texts))
        return _fields(f'"content":{json_text(text)}', logprobs)

    def _thinking(self, text: str, choice: int) -> None:
        if self._shows_thinking:
            self._delta(choice, _fields(f'"reasoning_content":{json_text(text)}'))

    def _call_started(self, call: ToolCallStarted, choice: int) -> None:
        self._send_custom(choice)  # the next call of the same text begins
        self._is_call_hidden[choice] = call.index > 0 and not self._allows_parallel_calls
        if self._is_call_hidden[choice]:
            return
        index = self._calls[choice]
        self._calls[choice] += 1
        tool = called_tool(call.name, self._offered)
        begun = call_to_wire(ToolCall(call.call_id, call.name, ""), tool)
        if begun["type"] == "custom":
            self._custom[choice] = ""
        if has_functions(self._params):
            function = json_text(cast(CallAnswer, begun)["function"])
            self._delta(choice, _fields(f'"function_call":{function}'))
            return
        self._delta(choice, _fields(f'"tool_calls":{json_text([{"index": index, **begun}])}'))

    def _call_arguments(self, more: ToolCallArguments, choice: int) -> None:
        if self._is_call_hidden[choice]:
            return
        custom = self._custom[choice]
        if custom is not None:
            self._custom[choice] = custom + more.text
        elif has_functions(self._params):
            arguments = f'"function_call":{{"arguments":{json_text(more.text)}}}'
            self._delta(choice, _fields(arguments))
        else:
            self._call_delta(choice, f'"function":{{"arguments":{json_text(more.text)}}}')

    def _call_delta(self, choice: int, fields: str) -> None:
        index = self._calls[choice] - 1
        self._delta(choice, _fields(f'"tool_calls":[{{"index":{index},{fields}}}]'))

    def _call_abandoned(self, call: ToolCallAbandoned, choice: int) -> None:
        self._custom[choice] = None

    def _call(self, call: ToolCallCompleted, choice: int) -> None:
        """Send a custom tool's input; the next event reports the end of other calls."""
        self._send_custom(choice)

    def _send_custom(self, choice: int) -> None:
        arguments, self._custom[choice] = self._custom[choice], None
        if arguments:
            text = json_text(input_of_arguments(arguments))
            self._call_delta(choice, f'"custom":{{"input":{text}}}')

    def _last_choice(self, finished: Finished, choice: int) -> dict[str, object]:
        ending = _ending(finished, self._params, reports=self._reports)
        return {"index": choice, "delta": {}, "logprobs": None, **ending}


def _fields(delta: str, logprobs: str = "null") -> str:
    return f'"delta":{{{delta}}},"logprobs":{logprobs}'
