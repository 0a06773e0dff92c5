"""A Responses answer, whole and as server-sent events.

Pure except for the encoder's own state. Any thread.
https://platform.openai.com/docs/api-reference/responses-streaming
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal, assert_never, cast

from api.dialects.openai.read import GrowingInput, OfferedTool, called_tool, input_of_arguments
from api.dialects.openai.wire import TokenLogprob
from api.dialects.openai.write import answer_tokens, call_id, entries_to_wire
from api.dialects.responses.read import (
    allows_parallel_calls,
    max_tokens_of,
    offered_tools,
    wants_encrypted_reasoning,
    wants_logprobs,
    wants_report,
    wants_summary,
)
from api.dialects.responses.wire import (
    CustomEcho,
    FormatEcho,
    FunctionEcho,
    ItemEventName,
    ItemStatus,
    NamespaceEcho,
    OutputCall,
    OutputCustomCall,
    OutputItem,
    OutputMessage,
    OutputPart,
    OutputReasoning,
    OutputText,
    ReasoningText,
    ResponseAnswer,
    ResponseEvent,
    ResponseParams,
    ResponseStatus,
    ResponseTool,
    ResponseUsage,
    StateName,
    SummaryText,
)
from api.dialects.shared.answers import (
    AnswerEncoder,
    not_an_ending,
    reasoning_of,
    report_to_wire,
    text_of,
)
from api.dialects.shared.dialect import Collected, Head
from api.dialects.shared.parameters import sent
from api.dialects.shared.sealed import REASONING_MARK, sealed
from api.transport.answer_text import GrowingList, SseEvent, json_text, json_with
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
        "max_output_tokens": max_tokens_of(params),
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
        inner = [_tool(inner) for inner in tool.tools or () if inner.type in _ECHOED]
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
    encrypted: str | None = None,
) -> OutputReasoning:
    """Return an item with reasoning."""
    return {
        "id": item_id,
        "type": "reasoning",
        "status": status,
        "summary": list(summary),
        "content": list(content),
        "encrypted_content": encrypted,
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
    items = _items([event for event in events if is_shown(event, params)], params, head)
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
            encrypted = (
                sealed(thought, REASONING_MARK) if wants_encrypted_reasoning(params) else None
            )
            if wants_summary(params):
                summary = [summary_part(thought)]
                item = reasoning_item(new_id, "completed", (), summary, encrypted)
            else:
                content = [reasoning_part(thought)]
                item = reasoning_item(new_id, "completed", content, encrypted=encrypted)
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


# -- items while they are streamed -------------------------------------------------------------
# There are three kinds: text of the answer, reasoning, and a summary of reasoning, which here is
# the reasoning itself.


TextKind = Literal["output_text", "reasoning_text", "reasoning_summary_text"]
Stage = Literal["added", "done"]


@dataclass(slots=True)
class OpenItem:
    """The item to which text is being added."""

    kind: TextKind
    item_id: str
    index: int
    delta_head: str = ""
    texts: list[str] = field(default_factory=list)
    entries: GrowingList = field(default_factory=GrowingList)

    def __post_init__(self) -> None:
        """Serialise the common part of the deltas once."""
        place = "summary_index" if self.kind == "reasoning_summary_text" else "content_index"
        head = json_text(
            {
                "type": f"response.{self.kind}.delta",
                "item_id": self.item_id,
                "output_index": self.index,
                place: 0,
            }
        )
        self.delta_head = f'{head[:-1]},"sequence_number":'

    @property
    def text(self) -> str:
        """Its whole text."""
        return "".join(self.texts)

    @property
    def holder(self) -> Literal["content", "summary"]:
        """The field of the item that holds its text."""
        return "summary" if self.kind == "reasoning_summary_text" else "content"

    def part(self, text: str) -> OutputPart:
        """Return the part that holds a text of this kind."""
        match self.kind:
            case "output_text":
                return text_part(text, [])
            case "reasoning_text":
                return reasoning_part(text)
            case "reasoning_summary_text":
                return summary_part(text)
            case _:
                assert_never(self.kind)

    def empty(self, status: ItemStatus) -> OutputItem:
        """Return the item without its text."""
        is_message = self.kind == "output_text"
        return (message_item if is_message else reasoning_item)(self.item_id, status)

    def part_event(self, stage: Stage, part: OutputPart, number: int) -> ResponseEvent:
        """Return the event that says that the part begins or is complete."""
        if part["type"] == "summary_text":
            return {
                "type": f"response.reasoning_summary_part.{stage}",  # type: ignore[typeddict-item]
                "sequence_number": number,
                "item_id": self.item_id,
                "output_index": self.index,
                "summary_index": 0,
                "part": part,
            }
        return {
            "type": f"response.content_part.{stage}",  # type: ignore[typeddict-item]
            "sequence_number": number,
            "item_id": self.item_id,
            "output_index": self.index,
            "content_index": 0,
            "part": part,
        }

    def text_done(self, number: int) -> ResponseEvent:
        """Return the event with the whole text, without its logprobs."""
        match self.kind:
            case "output_text":
                return {
                    "type": "response.output_text.done",
                    "sequence_number": number,
                    "item_id": self.item_id,
                    "output_index": self.index,
                    "content_index": 0,
                    "text": self.text,
                    "logprobs": [],
                }
            case "reasoning_text":
                return {
                    "type": "response.reasoning_text.done",
                    "sequence_number": number,
                    "item_id": self.item_id,
                    "output_index": self.index,
                    "content_index": 0,
                    "text": self.text,
                }
            case "reasoning_summary_text":
                return {
                    "type": "response.reasoning_summary_text.done",
                    "sequence_number": number,
                    "item_id": self.item_id,
                    "output_index": self.index,
                    "summary_index": 0,
                    "text": self.text,
                }
            case _:
                assert_never(self.kind)


@dataclass(slots=True)
class OpenCall:
    """The call whose arguments are being written."""

    call: ToolCall
    tool: OfferedTool | None
    delta_name: str
    delta_head: str
    texts: list[str] = field(default_factory=list)
    input: GrowingInput | None = None


@dataclass(frozen=True, slots=True)
class DoneItem:
    """A finished item: its kind, its id and its JSON."""

    type: str
    id: str
    json: str


# -- streams -----------------------------------------------------------------------------------


_NOTHING: Mapping[str, str] = {}


class ResponseEncoder(AnswerEncoder[SseEvent]):
    """Turns the events of one generation into the events of one response."""

    def __init__(self, params: ResponseParams, head: Head) -> None:
        super().__init__()
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
        self._output: list[DoneItem] = []

    def encode(self, events: Sequence[Event], choice: int = 0) -> list[SseEvent]:
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
            response = response_object(self._params, self._head, "in_progress")
            self._state("response.in_progress", response)
        self._start()
        return "".join(frame.frame() for frame in self._sent())

    def _add_token(self, events: Sequence[Event], trace: TokenTrace) -> None:
        """Add a token's text; its logprob is sent with the last piece of it."""
        texts = [event for event in events if isinstance(event, TextDelta)]
        tokens = answer_tokens([trace])
        item = self._open
        if tokens and not texts and item is not None and item.kind == "output_text":
            # Their text was sent before.
            item.entries.add(entries_to_wire(tokens, self._head.vocabulary))
        for event in events:
            self._tokens = tokens if texts and event is texts[-1] else ()
            self._add(event, 0)
        self._tokens = ()

    def _progress(self, progress: PromptProgress, choice: int) -> None:
        self._start()

    def _start(self) -> None:
        if self._has_started:
            return
        self._has_started = True
        response = response_object(self._params, self._head, "in_progress")
        self._state("response.created", response)
        self._state("response.in_progress", response)

    # -- text ------------------------------------------------------------------------------

    def _text(self, text: str, choice: int) -> None:
        item = self._item("output_text")
        entries = json_text(entries_to_wire(self._tokens, self._head.vocabulary))
        item.entries.add_json(entries)
        self._delta(item, text, f',"logprobs":{entries}')

    def _thinking(self, text: str, choice: int) -> None:
        self._delta(self._item(self._thinking_kind), text)

    def _delta(self, item: OpenItem, text: str, more: str = "") -> None:
        item.texts.append(text)
        data = f'{item.delta_head}{self._next()},"delta":{json_text(text)}{more}}}'
        self._send(SseEvent(f"response.{item.kind}.delta", data))

    def _item(self, kind: TextKind) -> OpenItem:
        """Return the open item for a kind of text, after opening one if needed."""
        if self._open is not None and self._open.kind == kind:
            return self._open
        self._start()
        self._close_item("completed")
        index = len(self._output)
        new_id = item_id(self._head, "msg" if kind == "output_text" else "rs", index)
        item = self._open = OpenItem(kind, new_id, index)
        self._item_event("response.output_item.added", index, item.empty("in_progress"))
        self._event(item.part_event("added", item.part(""), self._next()))
        return item

    def _close_item(self, status: Literal["completed", "incomplete"]) -> None:
        item = self._open
        if item is None:
            return
        self._open = None
        is_message = item.kind == "output_text"
        encoded = {"logprobs": item.entries.json()} if is_message else _NOTHING
        self._event(item.text_done(self._next()), encoded)
        part = item.part(item.text)
        part_json = json_with(part, encoded)
        self._event(item.part_event("done", part, self._next()), {"part": part_json})
        whole: dict[str, str] = {item.holder: f"[{part_json}]"}
        if not is_message and self._encrypts_reasoning:
            whole["encrypted_content"] = json_text(sealed(item.text, REASONING_MARK))
        self._done(item.empty(status), whole)

    # -- calls and the end -----------------------------------------------------------------

    def _call_started(self, call: ToolCallStarted, choice: int) -> None:
        self._close_call("completed")  # the next call of the same text begins
        if not shows_call(call.index, self._params):
            return
        self._start()
        self._close_item("completed")
        index, begun = len(self._output), ToolCall(call.call_id, call.name, "")
        tool = called_tool(call.name, self._offered)
        is_custom = tool is not None and tool.is_custom
        item = call_item(begun, tool, "in_progress", "")
        what = "custom_tool_call_input" if is_custom else "function_call_arguments"
        name = f"response.{what}.delta"
        head = json_text({"type": name, "item_id": item["id"], "output_index": index})
        self._open_call = OpenCall(
            begun,
            tool,
            name,
            f'{head[:-1]},"sequence_number":',
            input=GrowingInput() if is_custom else None,
        )
        self._item_event("response.output_item.added", index, item)

    def _call_arguments(self, more: ToolCallArguments, choice: int) -> None:
        open_call = self._open_call
        if open_call is not None and open_call.call.id == more.call_id:
            open_call.texts.append(more.text)
            growing = open_call.input
            self._call_delta(open_call, more.text if growing is None else growing.add(more.text))

    def _call_delta(self, open_call: OpenCall, text: str) -> None:
        if text:
            data = f'{open_call.delta_head}{self._next()},"delta":{json_text(text)}}}'
            self._send(SseEvent(open_call.delta_name, data))

    def _call_abandoned(self, call: ToolCallAbandoned, choice: int) -> None:
        if self._open_call is not None and self._open_call.call.id == call.call_id:
            self._close_call("incomplete")

    def _call(self, call: ToolCallCompleted, choice: int) -> None:
        if self._open_call is not None and self._open_call.call.id == call.call.id:
            self._close_call("completed")

    def _close_call(self, status: Literal["completed", "incomplete"]) -> None:
        open_call = self._open_call
        if open_call is None:
            return
        self._open_call = None
        text = "".join(open_call.texts)
        if open_call.input is not None:
            if status == "completed":
                self._call_delta(open_call, open_call.input.rest(text))
            text = open_call.input.text
        item = call_item(open_call.call, open_call.tool, status, text)
        if status == "completed":
            self._call_done(item)
        self._done(item)

    def _call_done(self, item: OutputCall | OutputCustomCall) -> None:
        """Send the event with the whole text of a call."""
        if item["type"] == "custom_tool_call":
            self._event(
                {
                    "type": "response.custom_tool_call_input.done",
                    "sequence_number": self._next(),
                    "item_id": item["id"],
                    "output_index": len(self._output),
                    "input": item["input"],
                }
            )
            return
        self._event(
            {
                "type": "response.function_call_arguments.done",
                "sequence_number": self._next(),
                "item_id": item["id"],
                "output_index": len(self._output),
                "name": item["name"],
                "arguments": item["arguments"],
            }
        )

    def _end(self, finished: Finished, choice: int) -> None:
        self._start()
        self._has_ended = True
        status = status_of(finished.stop)
        item = self._open
        is_message_open = item is not None and item.kind == "output_text"
        if item is not None and self._has_logprobs and is_message_open:
            item.entries.add(entries_to_wire(answer_tokens([finished]), self._head.vocabulary))
        has_answer = is_message_open or any(item.type != "reasoning" for item in self._output)
        if needs_message(finished, has_answer=has_answer):
            self._item("output_text")
        self._close_item(status)
        response = response_object(self._params, self._head, status, (), finished)
        is_whole = status == "completed"
        whole = self._state("response.completed" if is_whole else "response.incomplete", response)
        if self._head.keep is not None:
            self._head.keep(response["id"], whole, [item.id for item in self._output])

    def _broken(self, error: ApiError, finished: Finished | None = None, choice: int = 0) -> None:
        self._start()
        self._has_ended = True
        response = response_object(self._params, self._head, "failed")
        is_wrong = error.kind is ErrorKind.INVALID_REQUEST
        response["error"] = {
            "code": "invalid_prompt" if is_wrong else "server_error",
            "message": error.message,
        }
        self._state("response.failed", response)

    # -- events ----------------------------------------------------------------------------

    def _done(self, item: OutputItem, encoded: Mapping[str, str] = _NOTHING) -> None:
        whole = json_with(item, encoded)
        index = len(self._output)
        self._item_event("response.output_item.done", index, item, {"item": whole})
        self._output.append(DoneItem(item["type"], item["id"], whole))

    def _state(self, name: StateName, response: ResponseAnswer) -> str:
        """Send an event with the response's state; return the state's JSON."""
        output = ",".join(item.json for item in self._output)
        whole = json_with(response, {"output": f"[{output}]"})
        self._event(
            {"type": name, "sequence_number": self._next(), "response": response},
            {"response": whole},
        )
        return whole

    def _item_event(
        self,
        name: ItemEventName,
        index: int,
        item: OutputItem,
        encoded: Mapping[str, str] = _NOTHING,
    ) -> None:
        self._event(
            {"type": name, "sequence_number": self._next(), "output_index": index, "item": item},
            encoded,
        )

    def _next(self) -> int:
        """Return the number of the next event."""
        self._number += 1
        return self._number - 1

    def _event(self, event: ResponseEvent, encoded: Mapping[str, str] = _NOTHING) -> None:
        """Send an event, some of whose values are JSON already."""
        self._send(SseEvent(event["type"], json_with(event, encoded)))
