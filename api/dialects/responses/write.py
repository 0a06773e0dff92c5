"""Writes a Responses answer, whole and as server-sent events. Pure but for an encoder's state.

https://platform.openai.com/docs/api-reference/responses-streaming
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, assert_never

from api.dialects.openai.tools import OfferedTool, called_tool, input_of_arguments
from api.dialects.openai.wire import TokenLogprob
from api.dialects.openai.write import answer_tokens, call_id, entries_to_wire
from api.dialects.responses.read import (
    max_tokens_of,
    offered_tools,
    wants_encrypted_reasoning,
    wants_logprobs,
    wants_report,
    wants_summary,
)
from api.dialects.responses.wire import (
    ItemStatus,
    OutputCall,
    OutputItem,
    OutputMessage,
    OutputPart,
    OutputReasoning,
    ResponseAnswer,
    ResponseParams,
    ResponseStatus,
    ResponseTool,
    ResponseUsage,
)
from api.dialects.shared.answers import AnswerEncoder, not_an_ending, report_to_wire
from api.dialects.shared.dialect import Collected, Head
from api.dialects.shared.sealed import REASONING_MARK, sealed
from api.transport.answer_text import json_text, sse_event
from api.transport.errors import ApiError, ErrorKind
from engine import (
    Channel,
    Event,
    Finished,
    PromptProgress,
    StopInfo,
    StopKind,
    TextDelta,
    ThinkingDelta,
    TokenSpan,
    TokenTrace,
    ToolCall,
    ToolCallAbandoned,
    ToolCallArguments,
    ToolCallCompleted,
    ToolCallStarted,
    Usage,
)

_ECHOED = ("function", "custom", "namespace")


def item_id(head: Head, prefix: str, index: int) -> str:
    """Return the id of the ``index``-th item."""
    return f"{prefix}_{head.unique}{index:02d}"


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
        "id": f"resp_{head.unique}",
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
        "max_output_tokens": max_tokens_of(params),
        "metadata": params.metadata or {},
        "model": head.model,
        "output": list(output),
        "parallel_tool_calls": params.parallel_tool_calls is not False,
        "previous_response_id": params.previous_response_id,
        "prompt_cache_key": params.prompt_cache_key,
        "reasoning": {
            "effort": params.reasoning.effort if params.reasoning else None,
            "summary": "detailed" if wants_summary(params) else None,
        },
        "safety_identifier": params.safety_identifier,
        "store": params.store is not False,
        "temperature": params.temperature,
        "text": {"format": _format(params)},
        "tool_choice": params.tool_choice if params.tool_choice is not None else "auto",
        "tools": [_tool(tool) for tool in params.tools or () if tool.type in _ECHOED],
        "top_logprobs": params.top_logprobs or 0,
        "top_p": params.top_p,
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


def _format(params: ResponseParams) -> dict[str, Any]:
    """Return the requested format as it was requested."""
    if params.text is None or params.text.format is None:
        return {"type": "text"}
    return params.text.format.model_dump(by_alias=True, exclude_none=True)


def _tool(tool: ResponseTool) -> dict[str, Any]:
    """Return an offered tool as the answer repeats it."""
    common = {"type": tool.type, "name": tool.name or "", "description": tool.description or ""}
    if tool.type == "namespace":
        return {
            **common,
            "tools": [_tool(inner) for inner in tool.tools or () if inner.type in _ECHOED],
        }
    if tool.type == "custom":
        form = None if tool.format is None else tool.format.model_dump(exclude_unset=True)
        return {**common, "format": form or {"type": "text"}}
    return {**common, "parameters": tool.parameters or {}, "strict": False}


# -- items -------------------------------------------------------------------------------------


TextKind = Literal["output_text", "reasoning_text", "reasoning_summary_text"]


@dataclass(slots=True)
class OpenItem:
    """The item to which text is being added: of the answer, or reasoning (or a summary of it)."""

    kind: TextKind
    item_id: str
    index: int
    text: str = ""
    entries: list[TokenLogprob] = field(default_factory=list)

    @property
    def position(self) -> dict[str, str | int]:
        """The fields of an event that name its part."""
        part = "summary_index" if self.kind == "reasoning_summary_text" else "content_index"
        return {"item_id": self.item_id, "output_index": self.index, part: 0}

    def part(self) -> OutputPart:
        """Return the part that holds its text."""
        match self.kind:
            case "output_text":
                return {
                    "type": "output_text",
                    "text": self.text,
                    "annotations": [],
                    "logprobs": self.entries,
                }
            case "reasoning_text":
                return {"type": "reasoning_text", "text": self.text}
            case "reasoning_summary_text":
                return {"type": "summary_text", "text": self.text}
            case _:
                assert_never(self.kind)

    def item(
        self, status: ItemStatus, parts: list[OutputPart], encrypted: str | None = None
    ) -> OutputMessage | OutputReasoning:
        """Return the item with its parts."""
        if self.kind == "output_text":
            return {
                "id": self.item_id,
                "type": "message",
                "status": status,
                "role": "assistant",
                "content": parts,
            }
        is_summary = self.kind == "reasoning_summary_text"
        return {
            "id": self.item_id,
            "type": "reasoning",
            "status": status,
            "summary": parts if is_summary else [],
            "content": [] if is_summary else parts,
            "encrypted_content": encrypted,
        }


@dataclass(slots=True)
class OpenCall:
    """The call whose arguments are being written; a custom tool's input is sent when complete."""

    call: ToolCall
    tool: OfferedTool | None
    arguments: str = ""

    @property
    def is_custom(self) -> bool:
        """Whether it calls a custom tool."""
        return self.tool is not None and self.tool.is_custom

    def item(self, status: ItemStatus, text: str = "") -> OutputCall:
        """Return the item of the call, with the client's name of the tool."""
        tool = self.tool
        item: OutputCall = {
            "id": f"{'ctc' if self.is_custom else 'fc'}_{self.call.id}",
            "type": "custom_tool_call" if self.is_custom else "function_call",
            "status": status,
            "call_id": call_id(self.call),
            "name": self.call.name if tool is None else tool.name,
        }
        item["input" if self.is_custom else "arguments"] = text
        if tool is not None and tool.namespace is not None:
            item["namespace"] = tool.namespace
        return item


# -- whole answers and streams -----------------------------------------------------------------


def write_response(
    answers: Sequence[Collected], params: ResponseParams, head: Head
) -> ResponseAnswer:
    """Return the whole answer: the response of a stream's last event."""
    [(events, finished)] = answers
    kinds = (ThinkingDelta, TextDelta, ToolCallCompleted, TokenTrace)
    encoder = ResponseEncoder(params, head)
    encoder.encode([*(event for event in events if isinstance(event, kinds)), finished])
    if encoder.response is None:
        raise encoder.failure or not_an_ending(finished.stop)
    return encoder.response


class ResponseEncoder(AnswerEncoder):
    """Turns the events of one generation into the events of one response."""

    def __init__(self, params: ResponseParams, head: Head) -> None:
        super().__init__()
        self.response: ResponseAnswer | None = None
        self._params = params
        self._head = head
        self._offered = offered_tools(params)
        self._has_logprobs = wants_logprobs(params)
        self._encrypts_reasoning = wants_encrypted_reasoning(params)
        self._thinking_kind: TextKind = (
            "reasoning_summary_text" if wants_summary(params) else "reasoning_text"
        )
        # The logprobs that are sent with the next text.
        self._tokens: Sequence[TokenSpan] = ()
        self._number = 0
        self._has_started = False
        self._has_ended = False
        self._open: OpenItem | None = None
        self._open_call: OpenCall | None = None
        self._output: list[OutputItem] = []

    def encode(self, events: Sequence[Event], choice: int = 0) -> list[str]:
        """Return the response's next events; the last one once ``Finished`` is among them."""
        if not self._has_logprobs:
            return super().encode(events, choice)
        of_token: list[Event] = []
        for event in events:
            if isinstance(event, TokenTrace):
                self._add_token(of_token, event)
                of_token = []
            else:
                of_token.append(event)
        return super().encode(of_token, choice)

    def keepalive(self) -> str:
        """Return an event without news: Codex ends a stream that only has comments.

        https://github.com/openai/codex/blob/main/codex-rs/codex-api/src/sse/responses.rs
        """
        if not self._head.is_accepted or self._has_ended:
            return super().keepalive()
        if self._has_started:
            self._state("response.in_progress", self._response("in_progress"))
        self._start()
        return "".join(self._sent())

    def _add_token(self, events: Sequence[Event], trace: TokenTrace) -> None:
        """Add a token's text; its logprob is sent with the last piece of it."""
        texts = [event for event in events if isinstance(event, TextDelta)]
        tokens = answer_tokens([trace])
        item = self._open
        if tokens and not texts and item is not None and item.kind == "output_text":
            # Their text was sent before.
            item.entries += entries_to_wire(tokens, self._head.vocabulary)
        for event in events:
            self._tokens = tokens if texts and event is texts[-1] else ()
            self._add(event, 0)
        self._tokens = ()

    def _progress(self, progress: PromptProgress, choice: int) -> None:
        self._start()

    def _start(self) -> None:
        if not self._has_started:
            self._has_started = True
            response = self._response("in_progress")
            self._state("response.created", response)
            self._state("response.in_progress", response)

    # -- text ------------------------------------------------------------------------------

    def _text(self, text: str, choice: int) -> None:
        item = self._item("output_text")
        entries = entries_to_wire(self._tokens, self._head.vocabulary)
        item.entries += entries
        item.text += text
        self._event(f"response.{item.kind}.delta", item.position, delta=text, logprobs=entries)

    def _thinking(self, text: str, choice: int) -> None:
        item = self._item(self._thinking_kind)
        item.text += text
        self._event(f"response.{item.kind}.delta", item.position, delta=text)

    def _item(self, kind: TextKind) -> OpenItem:
        """Return the open item for a kind of text, after opening one if needed."""
        if self._open is not None and self._open.kind == kind:
            return self._open
        self._start()
        self._close_item("completed")
        index = len(self._output)
        new_id = item_id(self._head, "msg" if kind == "output_text" else "rs", index)
        item = self._open = OpenItem(kind, new_id, index)
        self._item_event("response.output_item.added", index, item.item("in_progress", []))
        self._part_event("added", item)
        return item

    def _close_item(self, status: Literal["completed", "incomplete"]) -> None:
        item, self._open = self._open, None
        if item is None:
            return
        logprobs = {"logprobs": item.entries} if item.kind == "output_text" else {}
        self._event(f"response.{item.kind}.done", item.position, text=item.text, **logprobs)
        self._part_event("done", item)
        is_reasoning = item.kind != "output_text"
        encrypted = (
            sealed(item.text, REASONING_MARK) if is_reasoning and self._encrypts_reasoning else None
        )
        self._done(item.item(status, [item.part()], encrypted))

    def _part_event(self, stage: Literal["added", "done"], item: OpenItem) -> None:
        is_summary = item.kind == "reasoning_summary_text"
        name = "reasoning_summary_part" if is_summary else "content_part"
        self._event(f"response.{name}.{stage}", item.position, part=item.part())

    # -- calls and the end -----------------------------------------------------------------

    def _call_started(self, call: ToolCallStarted, choice: int) -> None:
        self._close_call("completed")  # the next call of the same text begins
        if call.index > 0 and self._params.parallel_tool_calls is False:
            return
        self._start()
        self._close_item("completed")
        begun = ToolCall(call.call_id, call.name, "")
        self._open_call = OpenCall(begun, called_tool(call.name, self._offered))
        item = self._open_call.item("in_progress")
        self._item_event("response.output_item.added", len(self._output), item)

    def _call_arguments(self, more: ToolCallArguments, choice: int) -> None:
        open_call = self._open_call
        if open_call is not None and open_call.call.id == more.call_id:
            open_call.arguments += more.text
            if more.text and not open_call.is_custom:
                self._call_event("function_call_arguments.delta", open_call, delta=more.text)

    def _call_event(self, event_type: str, open_call: OpenCall, **fields: str) -> None:
        item_id = open_call.item("in_progress")["id"]
        position: dict[str, str | int] = {"item_id": item_id, "output_index": len(self._output)}
        self._event(f"response.{event_type}", position, **fields)

    def _call_abandoned(self, call: ToolCallAbandoned, choice: int) -> None:
        if self._open_call is not None and self._open_call.call.id == call.call_id:
            self._close_call("incomplete")

    def _call(self, call: ToolCallCompleted, choice: int) -> None:
        if self._open_call is not None and self._open_call.call.id == call.call.id:
            self._close_call("completed")

    def _close_call(self, status: Literal["completed", "incomplete"]) -> None:
        open_call, self._open_call = self._open_call, None
        if open_call is None:
            return
        text = open_call.arguments
        if open_call.is_custom:
            text = input_of_arguments(text) if status == "completed" else ""
            if text:
                self._call_event("custom_tool_call_input.delta", open_call, delta=text)
        item = open_call.item(status, text)
        if status == "completed" and open_call.is_custom:
            self._call_event("custom_tool_call_input.done", open_call, input=text)
        elif status == "completed":
            fields = {"name": item["name"], "arguments": text}
            self._call_event("function_call_arguments.done", open_call, **fields)
        self._done(item)

    def _end(self, finished: Finished, choice: int) -> None:
        self._start()
        self._has_ended = True
        status = status_of(finished.stop)
        item = self._open
        is_message_open = item is not None and item.kind == "output_text"
        if item is not None and self._has_logprobs and is_message_open:
            item.entries += entries_to_wire(answer_tokens([finished]), self._head.vocabulary)
        has_answer = is_message_open or any(item["type"] != "reasoning" for item in self._output)
        # Clients expect a message, unless generation ended while the model was still reasoning.
        if not has_answer and finished.stop.channel is not Channel.THINKING:
            self._item("output_text")
        self._close_item(status)
        response = self.response = self._response(status, finished)
        is_whole = status == "completed"
        self._state("response.completed" if is_whole else "response.incomplete", response)
        if self._head.store is not None:
            item_ids = [item["id"] for item in self._output]
            self._head.store(response["id"], json_text(response), item_ids)

    def _broken(self, error: ApiError, finished: Finished | None = None, choice: int = 0) -> None:
        self._start()
        self._has_ended = True
        response = self._response("failed")
        is_wrong = error.kind is ErrorKind.INVALID_REQUEST
        response["error"] = {
            "code": "invalid_prompt" if is_wrong else "server_error",
            "message": error.message,
        }
        self._state("response.failed", response)

    # -- events ----------------------------------------------------------------------------

    def _response(self, status: ResponseStatus, finished: Finished | None = None) -> ResponseAnswer:
        return response_object(self._params, self._head, status, self._output, finished)

    def _done(self, item: OutputItem) -> None:
        self._item_event("response.output_item.done", len(self._output), item)
        self._output.append(item)

    def _state(self, name: str, response: ResponseAnswer) -> None:
        self._event(name, {}, response=response)

    def _item_event(self, name: str, index: int, item: OutputItem) -> None:
        self._event(name, {"output_index": index}, item=item)

    def _event(self, event_type: str, position: Mapping[str, str | int], **fields: object) -> None:
        """Send an event: https://platform.openai.com/docs/api-reference/responses-streaming."""
        event = {"type": event_type, "sequence_number": self._number, **position, **fields}
        self._number += 1
        self._send(sse_event(json_text(event), event_type))
