"""A Responses answer in the vendor's types: its items, its usage, its end.

Pure functions, no web framework. Any thread.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, assert_never

from api.dialects.openai.calls import call_id
from api.dialects.openai.logprobs import TokenTexts, answer_tokens, entries_to_wire
from api.dialects.responses.read import (
    allows_parallel_calls,
    functions_of,
    wants_logprobs,
    wants_report,
)
from api.dialects.responses.wire import ResponseParams
from api.dialects.shared.extension import report_to_wire
from api.transport.errors import ApiError, ErrorKind
from engine import (
    Channel,
    Event,
    Finished,
    StopInfo,
    StopKind,
    TextDelta,
    ThinkingDelta,
    Tool,
    ToolCall,
    ToolCallDelta,
    Usage,
)

Entries = list[dict[str, object]]


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """What is known of a response before its first token.

    Attributes:
        response_id: Its id.
        created: Unix time, in seconds.
        model: The name of the model that answers.
        params: The request.
    """

    response_id: str
    created: int
    model: str
    params: ResponseParams

    def item_id(self, prefix: str, index: int) -> str:
        """Return the id of the ``index``-th item."""
        return f"{prefix}_{self.response_id.removeprefix('resp_')}{index:02d}"


# -- the response object ----------------------------------------------------------------------


def response_object(
    head: ResponseHead,
    status: str,
    output: Sequence[dict[str, Any]] = (),
    finished: Finished | None = None,
) -> dict[str, Any]:
    """Return a response in one of its states.

    Args:
        head: What is known from the beginning.
        status: The vendor's word for the state.
        output: Its items.
        finished: How it ended, once it has.
    """
    params = head.params
    incomplete = {"reason": "max_output_tokens"} if status == "incomplete" else None
    response: dict[str, Any] = {
        "id": head.response_id,
        "object": "response",
        "created_at": head.created,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": incomplete,
        "instructions": params.instructions,
        "max_output_tokens": params.max_output_tokens,
        "metadata": params.metadata or {},
        "model": head.model,
        "output": list(output),
        "parallel_tool_calls": allows_parallel_calls(params),
        "previous_response_id": None,
        "reasoning": {
            "effort": params.reasoning.effort if params.reasoning else None,
            "summary": None,
        },
        "store": False,
        "temperature": params.temperature,
        "text": {"format": _format(params)},
        "tool_choice": params.tool_choice if params.tool_choice is not None else "auto",
        "tools": [_tool(tool) for tool in functions_of(params)],
        "top_logprobs": params.top_logprobs or 0,
        "top_p": params.top_p,
        "truncation": "disabled",
        "usage": usage_to_wire(finished.usage) if finished is not None else None,
    }
    if finished is not None and wants_report(params):
        response["fullstop"] = report_to_wire(finished)
    return response


def failed_object(
    head: ResponseHead, error: ApiError, output: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """Return a response that broke off, with the items that were whole by then."""
    code = "invalid_prompt" if error.kind is ErrorKind.INVALID_REQUEST else "server_error"
    return response_object(head, "failed", output) | {
        "error": {"code": code, "message": error.message}
    }


def status_of(stop: StopInfo) -> str:
    """Return the state in which an answer ended.

    Raises:
        ApiError: It was no normal end, which this API says with an error.
    """
    match stop.kind:
        case StopKind.EOS | StopKind.STOP_STRING | StopKind.STOP_TOKEN | StopKind.TOOL_CALL:
            return "completed"
        case StopKind.MAX_TOKENS | StopKind.CONTEXT_FULL:
            return "incomplete"
        case StopKind.ERROR | StopKind.CANCELLED:
            raise ApiError(ErrorKind.INTERNAL, f"the generation ended with {stop.kind.value}")
        case _:
            assert_never(stop.kind)


def usage_to_wire(usage: Usage) -> dict[str, object]:
    """Return ``usage``."""
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.thinking_tokens},
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
    }


def _format(params: ResponseParams) -> dict[str, object]:
    wanted = params.text.format if params.text is not None else None
    if wanted is None:
        return {"type": "text"}
    return wanted.model_dump(by_alias=True, exclude_none=True)


def _tool(tool: Tool) -> dict[str, object]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
        "strict": False,
    }


# -- items ------------------------------------------------------------------------------------


def text_part(text: str, logprobs: Entries) -> dict[str, object]:
    """Return a message's content."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}


def reasoning_part(text: str) -> dict[str, object]:
    """Return a reasoning item's content."""
    return {"type": "reasoning_text", "text": text}


def message_item(
    item_id: str, status: str, content: Sequence[dict[str, object]]
) -> dict[str, object]:
    """Return an item with text of the answer."""
    return {
        "id": item_id,
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": list(content),
    }


def reasoning_item(
    item_id: str, status: str, content: Sequence[dict[str, object]]
) -> dict[str, object]:
    """Return an item with reasoning; nobody has summed it up."""
    return {
        "id": item_id,
        "type": "reasoning",
        "status": status,
        "summary": [],
        "content": list(content),
        "encrypted_content": None,
    }


def call_item(call: ToolCall, status: str, arguments: str) -> dict[str, object]:
    """Return an item with a call."""
    return {
        "id": f"fc_{call.id}",
        "type": "function_call",
        "status": status,
        "call_id": call_id(call),
        "name": call.name,
        "arguments": arguments,
    }


def is_shown(event: Event, params: ResponseParams) -> bool:
    """Whether an event is part of the answer: a second call may be unwanted."""
    return not isinstance(event, ToolCallDelta) or (
        event.index == 0 or allows_parallel_calls(params)
    )


def needs_message(finished: Finished, *, has_answer: bool) -> bool:
    """Whether an answer of no text gets an empty message.

    Clients look for one. Only where the answer never began, there is none.
    """
    return not has_answer and finished.stop.channel is not Channel.THINKING


# -- whole answers ----------------------------------------------------------------------------


def response_to_wire(
    head: ResponseHead,
    events: Sequence[Event],
    finished: Finished,
    texts: TokenTexts | None = None,
) -> dict[str, Any]:
    """Return the whole answer.

    Args:
        head: What is known from the beginning.
        events: The generation's events.
        finished: The last event.
        texts: What token ids stand for, where likelihoods are asked for.
    """
    status = status_of(finished.stop)
    items = _items(head, [one for one in events if is_shown(one, head.params)], texts)
    if needs_message(finished, has_answer=any(item["type"] != "reasoning" for item in items)):
        item_id = head.item_id("msg", len(items))
        items.append(message_item(item_id, "completed", [text_part("", [])]))
    if status == "incomplete" and items and items[-1]["type"] != "function_call":
        items[-1]["status"] = status
    return response_object(head, status, items, finished)


def _items(
    head: ResponseHead, events: Sequence[Event], texts: TokenTexts | None
) -> list[dict[str, object]]:
    kinds = (ThinkingDelta, TextDelta, ToolCallDelta)
    deltas = [event for event in events if isinstance(event, kinds)]
    tokens = deque(answer_tokens(events) if wants_logprobs(head.params) else [])
    length = 0
    items: list[dict[str, object]] = []
    for kind, group in groupby(deltas, type):
        index = len(items)
        if kind is ToolCallDelta:
            items += [
                call_item(event.call, "completed", event.call.arguments)
                for event in group
                if isinstance(event, ToolCallDelta)
            ]
            continue
        text = "".join(event.text for event in group if not isinstance(event, ToolCallDelta))
        if kind is ThinkingDelta:
            item_id = head.item_id("rs", index)
            items.append(reasoning_item(item_id, "completed", [reasoning_part(text)]))
        else:
            length += len(text)
            entries: Entries = []
            while tokens and tokens[0].start < length:
                entries += entries_to_wire([tokens.popleft()], texts)
            part = text_part(text, entries)
            items.append(message_item(head.item_id("msg", index), "completed", [part]))
    return items
