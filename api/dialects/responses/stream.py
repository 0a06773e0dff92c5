"""A Responses answer as server-sent events.

Pure but for its own state: a whole conversation is the list of what its methods returned. Knows
no web framework. Any thread.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, assert_never

from api.dialects.openai.logprobs import TokenTexts, answer_tokens, entries_to_wire
from api.dialects.responses.read import wants_logprobs
from api.dialects.responses.write import (
    Entries,
    ResponseHead,
    call_item,
    failed_object,
    is_shown,
    message_item,
    needs_message,
    reasoning_item,
    reasoning_part,
    response_object,
    status_of,
    text_part,
)
from api.transport.errors import ApiError, failure_of
from api.transport.events import SseEvent
from api.transport.json_text import json_text
from engine import (
    Event,
    Finished,
    PromptProgress,
    TextDelta,
    ThinkingDelta,
    TokenSpan,
    TokenTrace,
    ToolCallDelta,
)

_Kind = Literal["output_text", "reasoning_text"]


@dataclass(slots=True)
class _OpenItem:
    """The item to which text is being added."""

    kind: _Kind
    item_id: str
    index: int
    delta_head: str
    texts: list[str] = field(default_factory=list)
    entries: Entries = field(default_factory=list)


class ResponseEncoder:
    """Turns the events of one generation into the events of one response.

    Args:
        head: What is known from the beginning.
        texts: What token ids stand for, where likelihoods are asked for.
    """

    def __init__(self, head: ResponseHead, texts: TokenTexts | None = None) -> None:
        self._head = head
        self._texts = texts
        self._has_logprobs = wants_logprobs(head.params)
        self._number = 0
        self._has_started = False
        self._open: _OpenItem | None = None
        self._output: list[dict[str, object]] = []

    def encode(self, events: Sequence[Event], choice: int = 0) -> list[SseEvent]:
        """Return the response's next events; the last one once ``Finished`` is among them."""
        out: list[SseEvent] = []
        of_token: list[Event] = []
        for event in events:
            if not self._has_logprobs:
                self._add(out, event)
            elif isinstance(event, TokenTrace):
                self._add_token(out, of_token, event)
                of_token = []
            else:
                of_token.append(event)
        for event in of_token:
            self._add(out, event)
        return out

    def fail(self, error: ApiError) -> list[SseEvent]:
        """Return the response's failure, after which the stream is closed."""
        out: list[SseEvent] = []
        self._start(out)
        self._event(out, "response.failed", response=failed_object(self._head, error, self._output))
        return out

    def _add_token(self, out: list[SseEvent], events: Sequence[Event], trace: TokenTrace) -> None:
        """Add what one token brought: its likelihood goes with the last of its text."""
        texts = [event for event in events if isinstance(event, TextDelta)]
        tokens = answer_tokens([trace])
        item = self._open
        if tokens and not texts and item is not None and item.kind == "output_text":
            # Settled by what came after their text.
            item.entries += entries_to_wire(tokens, self._texts)
        for event in events:
            self._add(out, event, tokens if texts and event is texts[-1] else ())

    def _add(self, out: list[SseEvent], event: Event, tokens: Sequence[TokenSpan] = ()) -> None:
        match event:
            case TextDelta():
                self._add_text(out, "output_text", event.text, tokens)
            case ThinkingDelta():
                self._add_text(out, "reasoning_text", event.text, ())
            case ToolCallDelta():
                if is_shown(event, self._head.params):
                    self._add_call(out, event)
            case PromptProgress():
                self._start(out)
            case Finished():
                self._finish(out, event)
            case TokenTrace():
                pass
            case _:
                assert_never(event)

    def _start(self, out: list[SseEvent]) -> None:
        if self._has_started:
            return
        self._has_started = True
        response = response_object(self._head, "in_progress")
        self._event(out, "response.created", response=response)
        self._event(out, "response.in_progress", response=response)

    # -- text ------------------------------------------------------------------------------

    def _add_text(
        self, out: list[SseEvent], kind: _Kind, text: str, tokens: Sequence[TokenSpan]
    ) -> None:
        item = self._open
        if item is None or item.kind != kind:
            item = self._open_item(out, kind)
        item.texts.append(text)
        logprobs = ""
        if kind == "output_text":
            entries = entries_to_wire(tokens, self._texts)
            item.entries += entries
            logprobs = f',"logprobs":{json_text(entries)}'
        name = f"response.{kind}.delta"
        data = f'{item.delta_head}{self._number},"delta":{json_text(text)}{logprobs}}}'
        self._number += 1
        out.append(SseEvent(name, data))

    def _open_item(self, out: list[SseEvent], kind: _Kind) -> _OpenItem:
        self._start(out)
        self._close_item(out, "completed")
        index = len(self._output)
        is_message = kind == "output_text"
        item_id = self._head.item_id("msg" if is_message else "rs", index)
        # What every delta of this item has in common is serialised once.
        delta_head = json_text(
            {
                "type": f"response.{kind}.delta",
                "item_id": item_id,
                "output_index": index,
                "content_index": 0,
            }
        )
        item = _OpenItem(kind, item_id, index, f'{delta_head[:-1]},"sequence_number":')
        self._open = item
        empty = (message_item if is_message else reasoning_item)(item_id, "in_progress", ())
        self._event(out, "response.output_item.added", output_index=index, item=empty)
        part = text_part("", []) if is_message else reasoning_part("")
        self._event(out, "response.content_part.added", **_place(item), part=part)
        return item

    def _close_item(self, out: list[SseEvent], status: str) -> None:
        item = self._open
        if item is None:
            return
        self._open = None
        text = "".join(item.texts)
        if item.kind == "output_text":
            part = text_part(text, item.entries)
            done = message_item(item.item_id, status, [part])
            extra: dict[str, object] = {"logprobs": item.entries}
        else:
            part = reasoning_part(text)
            done = reasoning_item(item.item_id, status, [part])
            extra = {}
        self._event(out, f"response.{item.kind}.done", **_place(item), text=text, **extra)
        self._event(out, "response.content_part.done", **_place(item), part=part)
        self._done(out, done)

    # -- calls and the end -----------------------------------------------------------------

    def _add_call(self, out: list[SseEvent], event: ToolCallDelta) -> None:
        self._start(out)
        self._close_item(out, "completed")
        index = len(self._output)
        arguments = event.call.arguments
        added = call_item(event.call, "in_progress", "")
        done = call_item(event.call, "completed", arguments)
        place = {"item_id": done["id"], "output_index": index}
        name = "response.function_call_arguments"
        self._event(out, "response.output_item.added", output_index=index, item=added)
        self._event(out, f"{name}.delta", **place, delta=arguments)
        self._event(out, f"{name}.done", **place, name=event.call.name, arguments=arguments)
        self._done(out, done)

    def _finish(self, out: list[SseEvent], finished: Finished) -> None:
        failure = failure_of(finished)
        if failure is not None:
            out.extend(self.fail(failure))
            return
        self._start(out)
        status = status_of(finished.stop)
        item = self._open
        if item is not None and self._has_logprobs and item.kind == "output_text":
            item.entries += entries_to_wire(answer_tokens([finished]), self._texts)
        kinds = {one["type"] for one in self._output}
        is_message_open = item is not None and item.kind == "output_text"
        has_answer = is_message_open or bool(kinds - {"reasoning"})
        if needs_message(finished, has_answer=has_answer):
            self._open_item(out, "output_text")
        self._close_item(out, status)
        response = response_object(self._head, status, self._output, finished)
        self._event(out, f"response.{status}", response=response)

    def _done(self, out: list[SseEvent], item: dict[str, object]) -> None:
        self._event(out, "response.output_item.done", output_index=len(self._output), item=item)
        self._output.append(item)

    def _event(self, out: list[SseEvent], name: str, /, **fields: object) -> None:
        data = {"type": name, "sequence_number": self._number, **fields}
        self._number += 1
        out.append(SseEvent(name, json_text(data)))


def _place(item: _OpenItem) -> dict[str, object]:
    return {"item_id": item.item_id, "output_index": item.index, "content_index": 0}
