"""Writes Responses answers in the vendor's types: their items, usage and end.

Pure functions, no web framework. Any thread.
"""

from collections import deque
from collections.abc import Sequence
from itertools import groupby
from typing import Literal, assert_never, cast

from api.dialects.openai.answers import TokenLogprob
from api.dialects.openai.endings import call_id
from api.dialects.openai.logprobs import answer_tokens, entries_to_wire
from api.dialects.openai.offered_tools import OfferedTool, called_tool, input_of_arguments
from api.dialects.responses.answers import (
    CustomEcho,
    FormatEcho,
    FunctionEcho,
    ItemStatus,
    NamespaceEcho,
    OutputCall,
    OutputCustomCall,
    OutputItem,
    OutputMessage,
    OutputReasoning,
    OutputText,
    ReasoningText,
    ResponseAnswer,
    ResponseStatus,
    ResponseUsage,
    SummaryText,
)
from api.dialects.responses.read import (
    allows_parallel_calls,
    offered_tools,
    wants_logprobs,
    wants_report,
    wants_summary,
)
from api.dialects.responses.wire import ResponseParams, ResponseTool
from api.dialects.shared.answers.errors import not_an_ending
from api.dialects.shared.answers.report import report_to_wire
from api.dialects.shared.answers.said import reasoning_of, text_of
from api.dialects.shared.dialect import Collected, Head
from api.dialects.shared.parameters.sampling import sent
from api.transport.answer_text import json_text
from engine import (
    Channel,
    Event,
    Finished,
    StopInfo,
    StopKind,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolCallCompleted,
    Usage,
)

Entries = list[TokenLogprob]
_ECHOED = ("function", "custom", "namespace")


def item_id(head: Head, prefix: str, index: int) -> str:
    """Return the id of the ``index``-th item."""
    return f"{prefix}_{head.unique}{index:02d}"


def answer_id(params: object, head: Head) -> str:
    """Return the id of an answer."""
    return f"resp_{head.unique}"


# -- the response object ----------------------------------------------------------------------


def response_object(
    params: ResponseParams,
    head: Head,
    status: ResponseStatus,
    output: Sequence[OutputItem] = (),
    finished: Finished | None = None,
) -> ResponseAnswer:
    """Return a response in one of its states."""
    response: ResponseAnswer = {
        "id": answer_id(params, head),
        "object": "response",
        "created_at": int(head.created_s),
        "completed_at": (
            int(head.created_s + finished.timing.total_s)
            if finished is not None and status == "completed"
            else None
        ),
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": ({"reason": "max_output_tokens"} if status == "incomplete" else None),
        "instructions": params.instructions,
        "max_output_tokens": params.max_output_tokens,
        "metadata": params.metadata or {},
        "model": head.model,
        "output": list(output),
        "parallel_tool_calls": allows_parallel_calls(params),
        "previous_response_id": params.previous_response_id,
        "prompt_cache_key": params.prompt_cache_key,
        "reasoning": {
            "effort": params.reasoning.effort if params.reasoning else None,
            "summary": "detailed" if wants_summary(params) else None,
        },
        "safety_identifier": params.safety_identifier,
        "store": params.store is not False,
        "temperature": sent(params, "OpenAI", "temperature"),
        "text": {"format": _format(params)},
        "tool_choice": params.tool_choice if params.tool_choice is not None else "auto",
        "tools": [_tool(tool) for tool in params.tools or () if tool.type in _ECHOED],
        "top_logprobs": params.top_logprobs or 0,
        "top_p": sent(params, "OpenAI", "top_p"),
        "truncation": "disabled",
        "usage": usage_to_wire(finished.usage) if finished is not None else None,
        "user": params.user,
    }
    if finished is not None and wants_report(params):
        response["fullstop"] = report_to_wire(finished)
    return response


def status_of(stop: StopInfo) -> Literal["completed", "incomplete"]:
    """Return the state in which an answer ended."""
    match stop.kind:
        case StopKind.EOS | StopKind.STOP_STRING | StopKind.STOP_TOKEN | StopKind.TOOL_CALL:
            return "completed"
        case StopKind.MAX_TOKENS | StopKind.CONTEXT_FULL | StopKind.MEMORY_FULL:
            return "incomplete"
        case StopKind.ERROR | StopKind.CANCELLED:
            raise not_an_ending(stop)
        case _:
            assert_never(stop.kind)


def usage_to_wire(usage: Usage) -> ResponseUsage:
    """Return ``usage``."""
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.thinking_tokens},
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
    }


def _format(params: ResponseParams) -> FormatEcho:
    """Return the requested format as it was requested."""
    wanted = params.text.format if params.text is not None else None
    if wanted is None:
        return {"type": "text"}
    return cast(FormatEcho, wanted.model_dump(by_alias=True, exclude_none=True))


def _tool(tool: ResponseTool) -> FunctionEcho | CustomEcho | NamespaceEcho:
    """Return a tool as the model was offered it; those that were left out are not repeated."""
    if tool.type == "namespace":
        inner = [_tool(one) for one in tool.tools or () if one.type in _ECHOED]
        return {
            "type": "namespace",
            "name": tool.name or "",
            "description": tool.description or "",
            "tools": cast(list[FunctionEcho | CustomEcho], inner),
        }
    if tool.type == "custom":
        form = None if tool.format is None else tool.format.model_dump(exclude_none=True)
        return {
            "type": "custom",
            "name": tool.name or "",
            "description": tool.description or "",
            "format": form or {"type": "text"},
        }
    return {
        "type": "function",
        "name": tool.name or "",
        "description": tool.description or "",
        "parameters": tool.parameters or {},
        "strict": False,
    }


# -- items ------------------------------------------------------------------------------------


def text_part(text: str, logprobs: Entries) -> OutputText:
    """Return a message's content."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}


def reasoning_part(text: str) -> ReasoningText:
    """Return a reasoning item's content."""
    return {"type": "reasoning_text", "text": text}


def summary_part(text: str) -> SummaryText:
    """Return the summary of a reasoning item."""
    return {"type": "summary_text", "text": text}


def message_item(
    item_id: str, status: ItemStatus, content: Sequence[OutputText] = ()
) -> OutputMessage:
    """Return an item with text of the answer."""
    return {
        "id": item_id,
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": list(content),
    }


def reasoning_item(
    item_id: str,
    status: ItemStatus,
    content: Sequence[ReasoningText] = (),
    summary: Sequence[SummaryText] = (),
) -> OutputReasoning:
    """Return an item with reasoning."""
    return {
        "id": item_id,
        "type": "reasoning",
        "status": status,
        "summary": list(summary),
        "content": list(content),
        "encrypted_content": None,
    }


def call_item(
    call: ToolCall, tool: OfferedTool | None, status: ItemStatus, text: str
) -> OutputCall | OutputCustomCall:
    """Return an item with a call, in the client's terms."""
    item: OutputCall | OutputCustomCall
    name = call.name if tool is None else tool.name
    if tool is not None and tool.is_custom:
        item = {
            "id": f"ctc_{call.id}",
            "type": "custom_tool_call",
            "status": status,
            "call_id": call_id(call),
            "name": name,
            "input": text,
        }
    else:
        item = {
            "id": f"fc_{call.id}",
            "type": "function_call",
            "status": status,
            "call_id": call_id(call),
            "name": name,
            "arguments": text,
        }
    if tool is not None and tool.namespace is not None:
        item["namespace"] = tool.namespace
    return item


def _called(call: ToolCall, offered: Sequence[OfferedTool]) -> OutputItem:
    tool = called_tool(call.name, offered)
    is_custom = tool is not None and tool.is_custom
    text = input_of_arguments(call.arguments) if is_custom else call.arguments
    return call_item(call, tool, "completed", text)


def is_shown(event: Event, params: ResponseParams) -> bool:
    """Whether an event is part of the answer; a request can forbid a second call."""
    return not isinstance(event, ToolCallCompleted) or shows_call(event.index, params)


def shows_call(index: int, params: ResponseParams) -> bool:
    """Whether the call with this number is part of the answer."""
    return index == 0 or allows_parallel_calls(params)


def needs_message(finished: Finished, *, has_answer: bool) -> bool:
    """Whether an answer without text gets an empty message.

    Clients expect one, unless generation ended while the model was still reasoning.
    """
    return not has_answer and finished.stop.channel is not Channel.THINKING


# -- whole answers ----------------------------------------------------------------------------


def write_response(
    answers: Sequence[Collected], params: ResponseParams, head: Head
) -> ResponseAnswer:
    """Return the whole answer."""
    [(events, finished)] = answers
    status = status_of(finished.stop)
    items = _items([one for one in events if is_shown(one, params)], params, head)
    if needs_message(finished, has_answer=any(item["type"] != "reasoning" for item in items)):
        empty = item_id(head, "msg", len(items))
        items.append(message_item(empty, "completed", [text_part("", [])]))
    if status == "incomplete" and items and items[-1]["type"] in ("message", "reasoning"):
        items[-1]["status"] = status
    response = response_object(params, head, status, items, finished)
    if head.keep is not None:
        head.keep(response["id"], json_text(response), [item["id"] for item in items])
    return response


def _items(events: Sequence[Event], params: ResponseParams, head: Head) -> list[OutputItem]:
    kinds = (ThinkingDelta, TextDelta, ToolCallCompleted)
    deltas = [event for event in events if isinstance(event, kinds)]
    tokens = deque(answer_tokens(events) if wants_logprobs(params) else [])
    offered = offered_tools(params)
    length = 0
    items: list[OutputItem] = []
    for kind, group in groupby(deltas, type):
        same = list(group)
        if kind is ToolCallCompleted:
            items += [
                _called(event.call, offered)
                for event in same
                if isinstance(event, ToolCallCompleted)
            ]
        elif kind is ThinkingDelta:
            thought, new_id = reasoning_of(same), item_id(head, "rs", len(items))
            if wants_summary(params):
                item = reasoning_item(new_id, "completed", summary=[summary_part(thought)])
            else:
                item = reasoning_item(new_id, "completed", [reasoning_part(thought)])
            items.append(item)
        else:
            text = text_of(same)
            length += len(text)
            entries: Entries = []
            while tokens and tokens[0].start < length:
                entries += entries_to_wire([tokens.popleft()], head.vocabulary)
            part = text_part(text, entries)
            items.append(message_item(item_id(head, "msg", len(items)), "completed", [part]))
    return items
