"""Converts the turns of a Messages conversation to the engine's. Pure, no web framework."""

import json
from collections.abc import Iterator, Sequence
from typing import assert_never

from api.dialects.anthropic.blocks import BlockReader
from api.dialects.anthropic.wire import (
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MessageParam,
    RedactedThinkingBlock,
    SearchResultBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from api.dialects.shared.parameters.content import TextPart
from api.transport.errors import FieldPath, invalid
from engine import Message, ToolCall


class TurnReader:
    """Reads the turns of one conversation."""

    def __init__(self, *, has_notes: bool, has_new_notes: bool) -> None:
        self._reader = BlockReader(has_notes=has_notes)
        self._reader_of_new = BlockReader(has_notes=has_new_notes)
        self._tool_names: dict[str, str] = {}

    def turns(self, message: MessageParam, path: FieldPath, *, is_new: bool) -> Iterator[Message]:
        """Yield the engine's turns for one message; each tool result becomes its own turn."""
        match message.role:
            case "assistant":
                yield self._assistant_turn(message.content, path)
            case "user" | "system":
                reader = self._reader_of_new if is_new else self._reader
                yield from self._turns_with_results(message, path, reader)
            case _:
                assert_never(message.role)

    def _turns_with_results(
        self, message: MessageParam, path: FieldPath, reader: BlockReader
    ) -> Iterator[Message]:
        texts: list[str] = []
        for index, block in enumerate(message.content):
            match block:
                case TextPart():
                    texts.append(block.text)
                case ImageBlock() | DocumentBlock() | SearchResultBlock():
                    texts.append(reader.text_of(block, (*path, index)))
                case ToolResultBlock():
                    if texts:
                        yield Message(message.role, "\n".join(texts))
                        texts = []
                    yield Message(
                        "tool",
                        self._result_text(block, (*path, index, "content")),
                        tool_call_id=block.tool_use_id,
                        name=self._tool_names.get(block.tool_use_id),
                    )
                case ThinkingBlock() | RedactedThinkingBlock() | ToolUseBlock():
                    raise invalid((*path, index), f"{block.type} blocks belong in assistant turns")
                case _:
                    assert_never(block)
        if texts or not message.content:
            yield Message(message.role, "\n".join(texts))

    def _assistant_turn(self, blocks: Sequence[ContentBlock], path: FieldPath) -> Message:
        texts: list[str] = []
        thoughts: list[str] = []
        calls: list[ToolCall] = []
        for index, block in enumerate(blocks):
            match block:
                case TextPart():
                    texts.append(block.text)
                case ThinkingBlock():
                    thoughts.append(block.thinking)
                case RedactedThinkingBlock():
                    pass
                case ToolUseBlock():
                    self._tool_names[block.id] = block.name
                    arguments = json.dumps(block.input, ensure_ascii=False)
                    calls.append(ToolCall(block.id, block.name, arguments))
                case ToolResultBlock() | ImageBlock() | DocumentBlock() | SearchResultBlock():
                    raise invalid((*path, index), f"{block.type} blocks belong in user turns")
                case _:
                    assert_never(block)
        # The blocks are pieces of one text: a line break between them would change a prefilled
        # answer.
        return Message(
            "assistant", "".join(texts), thinking="".join(thoughts), tool_calls=tuple(calls)
        )

    def _result_text(self, block: ToolResultBlock, path: FieldPath) -> str:
        text = "\n".join(
            part.text if isinstance(part, TextPart) else self._reader.text_of(part, (*path, index))
            for index, part in enumerate(block.content or [])
        )
        return f"Error: {text}" if block.is_error else text


def append_turn(messages: list[Message], turn: Message) -> None:
    """Add a turn; consecutive turns of one role are joined, as in the vendor's API."""
    last = messages[-1] if messages else None
    if last is None or last.role != turn.role or turn.role not in ("user", "assistant"):
        messages.append(turn)
        return
    messages[-1] = Message(
        turn.role,
        ("\n" if turn.role == "user" else "").join((last.content, turn.content)),
        thinking=last.thinking + turn.thinking,
        tool_calls=last.tool_calls + turn.tool_calls,
    )
