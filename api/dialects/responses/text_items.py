"""The text items of a Responses answer while they are being streamed.

There are three kinds: text of the answer, reasoning, and a summary of reasoning, which here is the
reasoning itself. Pure except for an item's own text; knows no web framework. Any thread.
"""

from dataclasses import dataclass, field
from typing import Literal, assert_never

from api.dialects.responses.answers import ItemStatus, OutputItem, OutputPart
from api.dialects.responses.stream_events import ResponseEvent
from api.dialects.responses.write import (
    message_item,
    reasoning_item,
    reasoning_part,
    summary_part,
    text_part,
)
from api.transport.answer_text import GrowingList, json_text

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
