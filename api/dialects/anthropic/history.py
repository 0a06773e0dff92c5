"""Converts the turns of a Messages conversation: texts, documents, calls, results, deferred tools.

https://docs.claude.com/en/api/messages. Pure but for a history's own state.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, assert_never

from api.dialects.anthropic.wire import (
    FOREIGN_TYPES,
    ContentBlock,
    ForeignBlock,
    MediaBlock,
    MessageParam,
    MessageTool,
    ResultBlock,
    SearchResultBlock,
    ThinkingBlock,
    ToolChangeBlock,
    ToolReferenceBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from api.dialects.shared.foreign_parts import result_text
from api.dialects.shared.requests import (
    Content,
    TextPart,
    decode_text,
    is_text_type,
    note_of,
)
from api.dialects.shared.sealed import REASONING_MARK, open_sealed
from api.service.errors import FieldPath, invalid, required, shown
from engine.values.request import Message, Tool, ToolCall

_SUMMARY = "A summary of the conversation before this message:"


class History:
    """Converts the turns of one conversation, in their order.

    A deferred tool is described where the conversation first refers to it, not in the template's
    list of tools, so that the beginning of the prompt remains the same.

    Attributes:
        left_out: The blocks that have no text for the model, each with its path.
    """

    def __init__(
        self, deferred: Mapping[str, Tool], has_old_notes: bool, has_new_notes: bool
    ) -> None:
        self.left_out: list[str] = []
        self._deferred = deferred
        self._described: dict[str, Tool] = {}
        self._removed: set[str] = set()
        # The names of the called tools by the ids of their calls.
        self._called: dict[str, str] = {}
        self._has_old_notes, self._has_new_notes = has_old_notes, has_new_notes

    def callable_tools(
        self, offered: Sequence[Tool], chosen: str | None, *, has_search: bool
    ) -> tuple[Tool, ...]:
        """Return the tools that the model can call after these turns."""
        used = {*self._called.values(), chosen}
        lists_all = not has_search and not self._described
        listed = [
            tool
            for tool in offered
            if tool.name not in self._removed
            and tool.name not in self._described
            and (lists_all or tool.name not in self._deferred or tool.name in used)
        ]
        # A template explains calls only where it lists a tool.
        described = [replace(tool, is_deferred=bool(listed)) for tool in self._described.values()]
        return (*listed, *described)

    def turns(self, message: MessageParam, path: FieldPath, *, is_new: bool) -> Iterator[Message]:
        if message.role == "system":
            # Settings of a turn, which only whole requests have here.
            if message.clear_at not in (None, "never"):
                self._name((*path[:-1], "clear_at"))
            if message.output_config:
                self._name((*path[:-1], "output_config"))
        elif "content" not in message.model_fields_set:
            raise required(path)
        if message.role == "assistant":
            yield self._assistant_turn(message.content, path)
            return
        has_notes = self._has_new_notes if is_new else self._has_old_notes
        content = Content()
        for index, block in enumerate(message.content):
            block_path = (*path, index)
            match block:
                case ToolResultBlock():
                    if content.text:
                        yield _turn(message.role, content)
                        content = Content()
                    yield self._result(block, (*block_path, "content"))
                case ThinkingBlock() | ToolUseBlock():
                    raise invalid(block_path, f"{block.type} blocks belong in assistant turns")
                case ForeignBlock() if block.type not in FOREIGN_TYPES:
                    raise invalid(
                        (*block_path, "type"),
                        f"{shown(block.type)} is not supported here",
                        code="invalid_value",
                    )
                case _:
                    self._add_block(content, block, block_path, has_notes)
        if content.text or not any(isinstance(block, ToolResultBlock) for block in message.content):
            yield _turn(message.role, content)

    def _assistant_turn(self, blocks: Sequence[ContentBlock], path: FieldPath) -> Message:
        texts: list[str] = []
        thoughts: list[str] = []
        calls: list[ToolCall] = []
        for index, block in enumerate(blocks):
            block_path = (*path, index)
            match block:
                case TextPart():
                    texts.append(block.text)
                case ThinkingBlock():
                    # None if only another server can read it.
                    thought = block.thinking or open_sealed(block.signature or "", REASONING_MARK)
                    if thought is None:
                        self._name_block(block.type, block_path)
                    else:
                        thoughts.append(thought)
                case ToolUseBlock():
                    self._called[block.id] = block.name
                    arguments = block.input
                    if not isinstance(arguments, str):
                        arguments = json.dumps(arguments or {}, ensure_ascii=False)
                    calls.append(ToolCall(block.id, block.name, arguments))
                case ForeignBlock() | ToolReferenceBlock() | ToolChangeBlock():
                    if text := self._block_text(block, block_path):
                        texts.append(f"{text}\n\n")
                case ToolResultBlock() | MediaBlock() | SearchResultBlock():
                    raise invalid(block_path, f"{block.type} blocks belong in user turns")
                case _:
                    assert_never(block)
        # The blocks are pieces of one text: a line break between them would change a prefilled
        # answer.
        return Message(
            "assistant", "".join(texts), thinking="".join(thoughts), tool_calls=tuple(calls)
        )

    def _result(self, block: ToolResultBlock, path: FieldPath) -> Message:
        content = Content()
        for index, part in enumerate(block.content or []):
            self._add_block(content, part, (*path, index), self._has_old_notes, is_result=True)
        return Message(
            "tool",
            f"Error: {content.text}" if block.is_error else content.text,
            tool_call_id=block.tool_use_id,
            name=self._called.get(block.tool_use_id),
            pictures=tuple(content.pictures),
        )

    def _add_block(
        self,
        content: Content,
        block: ResultBlock | ToolChangeBlock,
        path: FieldPath,
        has_notes: bool,
        *,
        is_result: bool = False,
    ) -> None:
        """Add a block to a turn; an empty text counts in a result alone."""
        if isinstance(block, MediaBlock):
            self._note_citations(block, path)
            add = _add_image if block.type == "image" else _add_document
            add(content, block, path, has_notes)
            return
        text = self._block_text(block, path)
        if text or (is_result and text is not None):
            content.add(text)

    def _note_citations(self, block: MediaBlock | SearchResultBlock, path: FieldPath) -> None:
        if isinstance(block.citations, dict) and block.citations.get("enabled"):
            self._name((*path, "citations"))

    def _block_text(
        self,
        block: TextPart | ForeignBlock | ToolReferenceBlock | ToolChangeBlock | SearchResultBlock,
        path: FieldPath,
    ) -> str | None:
        """Return the text of a block in the prompt; None for a block that is left out."""
        match block:
            case TextPart():
                return block.text
            case ToolReferenceBlock():
                return self._description(block.tool_name)
            case ToolChangeBlock():
                return self._change_text(block, (*path, "tool"))
            case ForeignBlock():
                return self._foreign_text(block, path)
            case SearchResultBlock():
                self._note_citations(block, path)
                text = "\n".join(part.text for part in block.content)
                return f"Search result: {block.title} ({block.source})\n{text}"
            case _:
                assert_never(block)

    def _foreign_text(self, block: ForeignBlock, path: FieldPath) -> str | None:
        if block.id is not None and block.name is not None:
            self._called[block.id] = block.name
        texts = [self._description(name) for name in block.references]
        if block.readable and block.type == "compaction":
            texts.insert(0, f"{_SUMMARY}\n{block.readable}")
        elif block.readable:
            name = self._called.get(block.tool_use_id or "")
            texts.insert(0, result_text(block.type, block.readable, name))
        if not texts:
            self._name_block(block.type, path)
            return None
        return "\n".join(texts)

    def _name(self, path: FieldPath) -> None:
        self.left_out.append(".".join(map(str, path)))

    def _name_block(self, kind: str, path: FieldPath) -> None:
        self.left_out.append(f"{'.'.join(map(str, path))} ({shown(kind)})")

    def _change_text(self, block: ToolChangeBlock, path: FieldPath) -> str | None:
        definition = block.tool.definition
        if definition is not None and definition.type in (None, "custom"):
            return self._description_of(custom_tool(definition, (*path, "definition")))
        name = block.tool.name
        if name is None:
            self._name_block(block.type, path[:-1])
            return None
        if block.type == "tool_removal":
            self._removed.add(name)
            self._described.pop(name, None)
            return f"The tool {name} can no longer be called."
        self._removed.discard(name)
        return self._description(name)

    def _description(self, name: str) -> str:
        """Return the description of a tool where it is referred to, or its name later on."""
        tool = self._deferred.get(name)
        if tool is None or name in self._described:
            return f"The tool {name}."
        return self._description_of(tool)

    def _description_of(self, tool: Tool) -> str:
        self._removed.discard(tool.name)
        self._described[tool.name] = tool
        function = {"description": tool.description, "parameters": tool.parameters}
        text = json.dumps({"name": tool.name, **function}, ensure_ascii=False)
        return f"This tool can be called now:\n{text}"


def _turn(role: Literal["user", "system"], content: Content) -> Message:
    return Message(role, content.text, pictures=tuple(content.pictures))


def _add_image(content: Content, block: MediaBlock, path: FieldPath, has_notes: bool) -> None:
    source = block.source if isinstance(block.source, dict) else {}
    given = source.get("data") if source.get("type") == "base64" else source.get("url")
    content.add_media(given, path, has_note=has_notes, media_type=source.get("media_type"))


def _add_document(content: Content, block: MediaBlock, path: FieldPath, has_notes: bool) -> None:
    if block.title:
        content.add(f"Document: {block.title}")
    if block.context:
        content.add(block.context)
    source = block.source if isinstance(block.source, dict) else {}
    kind, data, source_path = source.get("type"), source.get("data"), (*path, "source")
    if kind == "content":
        _add_parts(content, source.get("content"), (*source_path, "content"), has_notes)
    elif kind == "text":
        if not isinstance(data, str):
            raise invalid((*source_path, "data"), "must be text")
        content.add(data)
    elif kind == "base64" and is_text_type(source.get("media_type")):
        content.add(decode_text(data, (*source_path, "data")))
    else:
        note = note_of(path, source.get("media_type"), is_allowed=has_notes, what=block.type)
        content.add(note)


def _add_parts(content: Content, parts: Any, path: FieldPath, has_notes: bool) -> None:
    if isinstance(parts, str):
        content.add(parts)
        return
    if not isinstance(parts, list):
        raise invalid(path, "must be text or a list of blocks")
    for index, item in enumerate(parts):
        part = item if isinstance(item, dict) else {}
        if part.get("type") == "text" and isinstance(part.get("text"), str):
            content.add(part["text"])
        elif part.get("type") == "image":
            image = MediaBlock(type="image", source=part.get("source"))
            _add_image(content, image, (*path, index), has_notes)
        else:
            raise invalid((*path, index), "must be a block of text or an image")


def custom_tool(tool: MessageTool, path: FieldPath) -> Tool:
    """Return a tool that the client defines and runs."""
    if tool.name is None:
        raise required((*path, "name"))
    if tool.input_schema is None:
        raise required((*path, "input_schema"))
    description = tool.description or ""
    if tool.input_examples:
        examples = (json.dumps(example, ensure_ascii=False) for example in tool.input_examples)
        description = "\n".join([description, "Examples of its input:", *examples]).lstrip()
    return Tool(tool.name, description, tool.input_schema)
