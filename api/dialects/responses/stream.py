"""A Responses answer as server-sent events.

Pure except for its own state: the list of what its methods return is the whole stream. Knows no web
framework. Any thread. https://platform.openai.com/docs/api-reference/responses-streaming
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from api.dialects.openai.logprobs import answer_tokens, entries_to_wire
from api.dialects.openai.offered_tools import GrowingInput, called_tool
from api.dialects.responses.answers import (
    OutputCall,
    OutputCustomCall,
    OutputItem,
    ResponseAnswer,
)
from api.dialects.responses.open_items import DoneItem, OpenCall
from api.dialects.responses.read import offered_tools, wants_logprobs, wants_summary
from api.dialects.responses.stream_events import ItemEventName, ResponseEvent, StateName
from api.dialects.responses.text_items import OpenItem, TextKind
from api.dialects.responses.wire import ResponseParams
from api.dialects.responses.write import (
    call_item,
    item_id,
    needs_message,
    response_object,
    shows_call,
    status_of,
)
from api.dialects.shared.answers.encoder import AnswerEncoder
from api.dialects.shared.dialect import Head
from api.transport.answer_text import SseEvent, json_text, json_with
from api.transport.errors import ApiError, ErrorKind
from engine import (
    Event,
    Finished,
    PromptProgress,
    TextDelta,
    TokenSpan,
    TokenTrace,
    ToolCall,
    ToolCallAbandoned,
    ToolCallArguments,
    ToolCallCompleted,
    ToolCallStarted,
)

_NOTHING: Mapping[str, str] = {}


class ResponseEncoder(AnswerEncoder[SseEvent]):
    """Turns the events of one generation into the events of one response."""

    def __init__(self, params: ResponseParams, head: Head) -> None:
        super().__init__()
        self._params = params
        self._head = head
        self._offered = offered_tools(params)
        self._has_logprobs = wants_logprobs(params)
        self._thinking_kind: TextKind = (
            "reasoning_summary_text" if wants_summary(params) else "reasoning_text"
        )
        # The logprobs that are sent with the next text.
        self._tokens: Sequence[TokenSpan] = ()
        self._number = 0
        self._has_started = False
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
        encoded = {"logprobs": item.entries.json()} if item.kind == "output_text" else _NOTHING
        self._event(item.text_done(self._next()), encoded)
        part = item.part(item.text)
        part_json = json_with(part, encoded)
        self._event(item.part_event("done", part, self._next()), {"part": part_json})
        self._done(item.empty(status), {item.holder: f"[{part_json}]"})

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
        status = status_of(finished.stop)
        item = self._open
        is_message_open = item is not None and item.kind == "output_text"
        if item is not None and self._has_logprobs and is_message_open:
            item.entries.add(entries_to_wire(answer_tokens([finished]), self._head.vocabulary))
        has_answer = is_message_open or any(one.type != "reasoning" for one in self._output)
        if needs_message(finished, has_answer=has_answer):
            self._item("output_text")
        self._close_item(status)
        response = response_object(self._params, self._head, status, (), finished)
        is_whole = status == "completed"
        whole = self._state("response.completed" if is_whole else "response.incomplete", response)
        if self._head.keep is not None:
            self._head.keep(response["id"], whole, [one.id for one in self._output])

    def _broken(self, error: ApiError, finished: Finished | None = None, choice: int = 0) -> None:
        self._start()
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
        output = ",".join(one.json for one in self._output)
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
