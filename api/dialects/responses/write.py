"""Writes a Responses answer, whole and as server-sent events. Pure but for an encoder's state.

https://platform.openai.com/docs/api-reference/responses-streaming
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from api.dialects.openai.tools import find_called_tool, input_of_arguments
from api.dialects.openai.wire import TokenLogprob
from api.dialects.openai.write import (
    answer_tokens,
    entries_to_wire,
    error_to_wire,
    stop_to_wire,
)
from api.dialects.responses.read import (
    max_tokens_of,
    offered_tools,
    wants_logprobs,
    wants_summary,
)
from api.dialects.responses.wire import (
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
from api.dialects.shared.encoding import json_text, sse_event
from api.dialects.shared.sealed import REASONING_MARK, seal_text
from api.service.errors import ApiError, ErrorKind
from engine.stopping.record import Channel
from engine.values.events import (
    Event,
    Finished,
    PromptProgress,
    TextDelta,
    ThinkingDelta,
    TokenTrace,
    ToolCallAbandoned,
    ToolCallArguments,
    ToolCallCompleted,
    ToolCallStarted,
    Usage,
)
from engine.values.tokens import TokenSpan

_ECHOED = ("function", "custom", "namespace")


def usage_to_wire(usage: Usage) -> ResponseUsage:
    """Return ``usage``."""
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.thinking_tokens},
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
    }


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
    encoder.store()
    return encoder.response


@dataclass(slots=True)
class OpenText:
    """The text that is being written, with the name of its events and the fields of its part."""

    kind: Literal["output_text", "reasoning_text", "reasoning_summary_text"]
    item: OutputMessage | OutputReasoning
    part: OutputPart
    position: dict[str, str | int]


class ResponseEncoder(AnswerEncoder):
    """Turns the events of one generation into the events of one response."""

    def __init__(self, params: ResponseParams, head: Head) -> None:
        super().__init__()
        self.response: ResponseAnswer | None = None
        self._params = params
        self._head = head
        self._offered = offered_tools(params)
        self._has_logprobs = wants_logprobs(params)
        # The logprobs that are sent with the next text.
        self._tokens: Sequence[TokenSpan] = ()
        self._number = 0
        self._has_started = False
        self._has_ended = False
        self._open: OpenText | None = None
        # The input of a custom tool is sent when it is complete; until then it has the arguments.
        self._open_call: OutputCall | None = None
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
            self._event("response.in_progress", response=self._response("in_progress"))
        self._start()
        return "".join(self._sent())

    def store(self) -> None:
        if self.response is not None and self._head.store is not None:
            item_ids = [item["id"] for item in self._output]
            self._head.store(self.response["id"], json_text(self.response), item_ids)

    def _add_token(self, events: Sequence[Event], trace: TokenTrace) -> None:
        """Add a token's text; its logprob is sent with the last piece of it."""
        texts = [event for event in events if isinstance(event, TextDelta)]
        tokens = answer_tokens([trace])
        if not texts:
            self._add_logprobs(tokens)  # their text was sent before
        for event in events:
            self._tokens = tokens if texts and event is texts[-1] else ()
            self._add(event, 0)
        self._tokens = ()

    def _add_logprobs(self, tokens: Sequence[TokenSpan]) -> list[TokenLogprob]:
        """Add tokens to the open text of the answer, if there is one; return their logprobs."""
        entries = entries_to_wire(tokens, self._head.vocabulary)
        if self._open is not None and self._open.kind == "output_text":
            self._open.part["logprobs"] += entries
        return entries

    def _progress(self, progress: PromptProgress, choice: int) -> None:
        self._start()

    def _start(self) -> None:
        if not self._has_started:
            self._has_started = True
            response = self._response("in_progress")
            self._event("response.created", response=response)
            self._event("response.in_progress", response=response)

    def _text(self, text: str, choice: int) -> None:
        opened = self._open_text("message")
        entries = self._add_logprobs(self._tokens)
        opened.part["text"] += text
        self._event("response.output_text.delta", **opened.position, delta=text, logprobs=entries)

    def _thinking(self, text: str, choice: int) -> None:
        opened = self._open_text("reasoning")
        opened.part["text"] += text
        self._event(f"response.{opened.kind}.delta", **opened.position, delta=text)

    def _open_text(self, item_type: Literal["message", "reasoning"]) -> OpenText:
        """Return the open text of an item, after opening one if needed."""
        if self._open is not None and self._open.item["type"] == item_type:
            return self._open
        self._start()
        self._close_text("completed")
        index = len(self._output)
        prefix = "msg" if item_type == "message" else "rs"
        item_id = f"{prefix}_{self._head.unique}{index:02d}"
        position: dict[str, str | int] = {"item_id": item_id, "output_index": index}
        if item_type == "message":
            self._open = OpenText(
                "output_text",
                {
                    "id": item_id,
                    "type": "message",
                    "status": "in_progress",
                    "role": "assistant",
                    "content": [],
                },
                {"type": "output_text", "text": "", "annotations": [], "logprobs": []},
                {**position, "content_index": 0},
            )
        else:
            is_summary = wants_summary(self._params)
            self._open = OpenText(
                "reasoning_summary_text" if is_summary else "reasoning_text",
                {
                    "id": item_id,
                    "type": "reasoning",
                    "status": "in_progress",
                    "summary": [],
                    "content": [],
                    "encrypted_content": None,
                },
                {"type": "summary_text" if is_summary else "reasoning_text", "text": ""},
                {**position, "summary_index" if is_summary else "content_index": 0},
            )
        self._item_event("added", self._open.item)
        self._part_event("added", self._open)
        return self._open

    def _close_text(self, status: Literal["completed", "incomplete"]) -> None:
        opened, self._open = self._open, None
        if opened is None:
            return
        item, part = opened.item, opened.part
        logprobs = {"logprobs": part["logprobs"]} if "logprobs" in part else {}
        name = f"response.{opened.kind}.done"
        self._event(name, **opened.position, text=part["text"], **logprobs)
        self._part_event("done", opened)
        item["status"] = status
        if item["type"] == "reasoning" and part["type"] == "summary_text":
            item["summary"].append(part)
        else:
            item["content"].append(part)
        included = self._params.include or ()
        if item["type"] == "reasoning" and "reasoning.encrypted_content" in included:
            item["encrypted_content"] = seal_text(part["text"], REASONING_MARK)
        self._done(item)

    def _part_event(self, stage: Literal["added", "done"], opened: OpenText) -> None:
        is_summary = opened.kind == "reasoning_summary_text"
        name = "reasoning_summary_part" if is_summary else "content_part"
        self._event(f"response.{name}.{stage}", **opened.position, part=opened.part)

    def _call_started(self, call: ToolCallStarted, choice: int) -> None:
        self._close_call("completed")  # the next call of the same text begins
        if call.index > 0 and self._params.parallel_tool_calls is False:
            return
        self._start()
        self._close_text("completed")
        tool = find_called_tool(call.name, self._offered)
        is_custom = tool is not None and tool.is_custom
        item: OutputCall = {
            "id": f"{'ctc' if is_custom else 'fc'}_{call.call_id}",
            "type": "custom_tool_call" if is_custom else "function_call",
            "status": "in_progress",
            "call_id": f"call_{call.call_id}",
            "name": call.name if tool is None else tool.name,
        }
        item["input" if is_custom else "arguments"] = ""
        if tool is not None and tool.namespace is not None:
            item["namespace"] = tool.namespace
        self._open_call = item
        self._item_event("added", item)

    def _is_open(self, call_id: str) -> bool:
        return self._open_call is not None and self._open_call["call_id"] == f"call_{call_id}"

    def _call_arguments(self, more: ToolCallArguments, choice: int) -> None:
        item = self._open_call
        if item is None or not self._is_open(more.call_id):
            return
        if item["type"] == "custom_tool_call":
            item["input"] += more.text
        elif more.text:
            item["arguments"] += more.text
            self._call_event("function_call_arguments.delta", item, delta=more.text)

    def _call_event(self, event_type: str, item: OutputCall, /, **fields: str) -> None:
        position = {"item_id": item["id"], "output_index": len(self._output)}
        self._event(f"response.{event_type}", **position, **fields)

    def _call_abandoned(self, call: ToolCallAbandoned, choice: int) -> None:
        if self._is_open(call.call_id):
            self._close_call("incomplete")

    def _call(self, call: ToolCallCompleted, choice: int) -> None:
        if self._is_open(call.call.id):
            self._close_call("completed")

    def _close_call(self, status: Literal["completed", "incomplete"]) -> None:
        item, self._open_call = self._open_call, None
        if item is None:
            return
        item["status"], is_complete = status, status == "completed"
        if item["type"] == "custom_tool_call":
            text = item["input"] = input_of_arguments(item["input"]) if is_complete else ""
            if text:
                self._call_event("custom_tool_call_input.delta", item, delta=text)
            if is_complete:
                self._call_event("custom_tool_call_input.done", item, input=text)
        elif is_complete:
            fields = {"name": item["name"], "arguments": item["arguments"]}
            self._call_event("function_call_arguments.done", item, **fields)
        self._done(item)

    def _end(self, finished: Finished, choice: int) -> None:
        self._start()
        self._has_ended = True
        is_cut = stop_to_wire(finished.stop, is_strict=True)[0] == "length"
        status: Literal["completed", "incomplete"] = "incomplete" if is_cut else "completed"
        if self._has_logprobs:
            self._add_logprobs(answer_tokens([finished]))
        is_message_open = self._open is not None and self._open.kind == "output_text"
        has_answer = is_message_open or any(item["type"] != "reasoning" for item in self._output)
        # Clients expect a message, unless generation ended while the model was still reasoning.
        if not has_answer and finished.stop.channel is not Channel.THINKING:
            self._open_text("message")
        self._close_text(status)
        response = self.response = self._response(status, finished)
        self._event(f"response.{status}", response=response)

    def _broken(self, error: ApiError, finished: Finished | None = None, choice: int = 0) -> None:
        self._start()
        self._has_ended = True
        response = self._response("failed")
        is_wrong = error.kind is ErrorKind.INVALID_REQUEST
        _, body = error_to_wire(error, self._head.request_id)
        response["error"] = {
            "code": error.code or ("invalid_prompt" if is_wrong else "server_error"),
            "message": body["error"]["message"],
        }
        self._event("response.failed", response=response)

    def _response(self, status: ResponseStatus, finished: Finished | None = None) -> ResponseAnswer:
        """Return the response in one of its states."""
        params, head = self._params, self._head
        form = params.text.format if params.text is not None else None
        response: ResponseAnswer = {
            "id": head.answer_id,
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
            "incomplete_details": (
                {"reason": "max_output_tokens"} if status == "incomplete" else None
            ),
            "instructions": params.instructions,
            "max_output_tokens": max_tokens_of(params),
            "metadata": params.metadata or {},
            "model": head.model,
            "output": list(self._output),
            "parallel_tool_calls": params.parallel_tool_calls is not False,
            "previous_response_id": params.previous_response_id,
            "prompt_cache_key": params.prompt_cache_key,
            "reasoning": {
                "effort": params.reasoning.effort if params.reasoning else None,
                "summary": "detailed" if wants_summary(params) else None,
            },
            "safety_identifier": params.safety_identifier,
            "store": head.store is not None,
            "temperature": params.temperature,
            "text": {
                "format": {"type": "text"}
                if form is None
                else form.model_dump(by_alias=True, exclude_none=True)
            },
            "tool_choice": params.tool_choice if params.tool_choice is not None else "auto",
            "tools": [_tool(tool) for tool in params.all_tools if tool.type in _ECHOED],
            "top_logprobs": params.top_logprobs or 0,
            "top_p": params.top_p,
            "truncation": "disabled",
            "usage": usage_to_wire(finished.usage) if finished is not None else None,
            "user": params.user,
        }
        # This API has no other field for the stop that matched.
        is_reported = params.stop or params.stop_token_ids or params.fullstop.report
        if finished is not None and is_reported:
            response["fullstop"] = report_to_wire(finished, self._head.no_effect)
        return response

    def _done(self, item: OutputItem) -> None:
        self._item_event("done", item)
        self._output.append(item)

    def _item_event(self, stage: Literal["added", "done"], item: OutputItem) -> None:
        name = f"response.output_item.{stage}"
        self._event(name, output_index=len(self._output), item=item)

    def _event(self, event_type: str, /, **fields: object) -> None:
        """Send an event: https://platform.openai.com/docs/api-reference/responses-streaming."""
        event = {"type": event_type, "sequence_number": self._number, **fields}
        self._number += 1
        self._send(sse_event(json_text(event), event_type))
