"""Converts requests of the Messages API to the engine's, and back. Pure functions."""

import base64
import binascii
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple, assert_never

from api.dialects.anthropic.wire import (
    ContentBlock,
    CountTokensParams,
    DocumentBlock,
    ImageBlock,
    MessageCreateParams,
    MessageParam,
    MessageTool,
    RedactedThinkingBlock,
    SearchResultBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from api.dialects.shared.parameters import (
    allows_more_keys,
    effort_of,
    is_report_wanted,
    sampling_of,
    sampling_to_wire,
    wants_image_notes,
    with_own_options,
)
from api.dialects.shared.requests import (
    JsonObject,
    TextPart,
    answers_itself,
    arguments_of,
    check_left_out,
    filled,
    note_of,
    system_apart,
)
from api.transport.errors import FieldPath, invalid, required, shown, unsupported
from engine import (
    GenerationRequest,
    Message,
    OutputConstraint,
    StopRules,
    Tool,
    ToolCall,
    ToolChoice,
    checked_strings,
    checked_token_ids,
)

# The hosted API's minimum.
_MIN_BUDGET = 1_024


def requests_from_wire(
    params: MessageCreateParams, *, strict: bool = False
) -> list[GenerationRequest]:
    """Return what a request asks for: one generation.

    Takes and raises what ``ReadRequest`` does.
    """
    prompt = prompt_from_wire(params)
    if only_warms(params) and params.stream:
        raise invalid(("stream",), "has no effect with max_tokens 0, which only reads the prompt")
    if strict:
        _check_budget(params)
    stops = StopRules.of(
        *_stop_strings(params.stop_sequences or [], strict),
        token_ids=checked_token_ids(params.stop_token_ids or ()),
    )
    wanted = replace(
        prompt,
        sampling=sampling_of(params, "Anthropic"),
        stops=with_own_options(stops, params.fullstop),
        # The engine samples one token when it reads the whole prompt.
        max_tokens=params.max_tokens,
    )
    return [wanted]


def prompt_from_wire(params: CountTokensParams) -> GenerationRequest:
    """Return the request for a prompt alone; raises like ``requests_from_wire``."""
    _refuse_unsupported(params)
    system = "\n\n".join(block.text for block in params.system or [])
    messages = [Message("system", system)] if system else []
    tool_names: dict[str, str] = {}
    has_old_notes, has_new_notes = (
        wants_image_notes(params.fullstop, is_new=is_new) for is_new in (False, True)
    )
    last = len(params.messages) - 1
    for index, message in enumerate(params.messages):
        turns = _turns(
            message,
            ("messages", index, "content"),
            tool_names,
            has_notes=has_new_notes if index == last else has_old_notes,
            has_result_notes=has_old_notes,
        )
        for turn in turns:
            _append_turn(messages, turn)
    tools = _tools(params)
    choice = _tool_choice(params, tools)
    thinking, config = params.thinking, params.output_config
    return GenerationRequest(
        messages=tuple(messages),
        tools=tools if choice.mode != "none" else (),
        tool_choice=choice,
        constraint=_constraint(params),
        allows_more_keys=allows_more_keys(params.fullstop),
        # An absent field means off, as in the vendor's API, whatever the model's template prefers.
        thinking=thinking is not None and thinking.type in ("enabled", "adaptive"),
        thinking_budget=None if thinking is None else thinking.budget_tokens,
        effort=effort_of(None if config is None else config.effort),
    )


def counted_from_wire(
    params: CountTokensParams, *, strict: bool = False
) -> list[GenerationRequest]:
    """Return the request whose prompt is counted; takes and raises the same as ``ReadRequest``."""
    return [prompt_from_wire(params)]


def allows_parallel_calls(params: CountTokensParams) -> bool:
    """Whether an answer may call more than one tool."""
    choice = params.tool_choice
    return choice is None or not choice.disable_parallel_tool_use


def only_warms(params: MessageCreateParams) -> bool:
    """Whether a request only asks to cache its prompt."""
    return params.max_tokens == 0


def shows_thinking(params: CountTokensParams) -> bool:
    """Whether the answer includes the text of the reasoning."""
    return params.thinking is None or params.thinking.display != "omitted"


def _refuse_unsupported(params: CountTokensParams) -> None:
    if params.thread is not None:
        # The vendors' clients know this code: they then send the whole conversation instead.
        raise invalid(
            ("thread",),
            "threads are not stored by this server; send the full conversation without it",
            details={"error_code": "thread_unsupported_request"},
        )
    if params.mcp_servers:
        raise unsupported(("mcp_servers",), "calling MCP servers")


def _check_budget(params: MessageCreateParams) -> None:
    """Refuse a reasoning budget that the hosted API refuses."""
    budget = None if params.thinking is None else params.thinking.budget_tokens
    if budget is None:
        return
    path = ("thinking", "budget_tokens")
    if budget < _MIN_BUDGET:
        raise invalid(path, f"must be at least {_MIN_BUDGET}")
    if budget >= params.max_tokens:
        raise invalid(path, f"must be less than max_tokens ({params.max_tokens})")


def _stop_strings(values: Sequence[object], strict: bool) -> tuple[str, ...]:
    strings = checked_strings(values, "stop_sequences")
    if strict:
        for index, value in enumerate(values):
            if isinstance(value, str) and not value.strip():
                raise invalid(("stop_sequences", index), "must contain non-whitespace")
    return strings


def _tools(params: CountTokensParams) -> tuple[Tool, ...]:
    """Return the tools that the client runs; tools of some other types are left out."""
    tools = []
    for index, tool in enumerate(params.tools or []):
        path = ("tools", index)
        if tool.type is None or tool.type == "custom":
            tools.append(_tool(tool, path))
        elif (known := client_tool(tool.type, tool.name)) is not None:
            tools.append(known)
        else:
            check_left_out(tool.type, path)
    return tuple(tools)


def _tool(tool: MessageTool, path: FieldPath) -> Tool:
    if tool.name is None:
        raise required((*path, "name"))
    if tool.input_schema is None:
        raise required((*path, "input_schema"))
    return Tool(tool.name, tool.description or "", tool.input_schema)


def _tool_choice(params: CountTokensParams, tools: Sequence[Tool]) -> ToolChoice:
    """Return whether a tool may, must or must not be called."""
    wanted = params.tool_choice
    names = [tool.name for tool in tools]
    if wanted is None or wanted.type == "auto":
        return ToolChoice()
    if wanted.type == "none":
        return ToolChoice("none")
    if not names:
        raise invalid(("tool_choice",), "requires a call, but there are no tools")
    if wanted.type == "any":
        return ToolChoice("required")
    if wanted.name is None:
        raise required(("tool_choice", "name"))
    if wanted.name not in names:
        raise invalid(("tool_choice", "name"), f"{shown(wanted.name)} is not among the tools")
    return ToolChoice("required", wanted.name)


def _constraint(params: CountTokensParams) -> OutputConstraint | None:
    """Return the schema that the answer must follow; None if there is none."""
    config = params.output_config
    wanted = config.format if config is not None else None
    wanted = wanted or params.output_format
    return OutputConstraint(wanted.json_schema) if wanted is not None else None


def wants_report(params: MessageCreateParams) -> bool:
    """Whether the answer carries the stop record.

    The vendor's fields have no place for a token id that matched.
    """
    return bool(params.stop_token_ids) or is_report_wanted(params.fullstop)


# -- blocks that are not plain text ------------------------------------------------------------


def _block_text(
    block: ImageBlock | DocumentBlock | SearchResultBlock, path: FieldPath, has_notes: bool
) -> str:
    """Return the text of a block in the prompt: its own text, or a note."""
    if isinstance(block, SearchResultBlock):
        text = "\n".join(part.text for part in block.content)
        return f"Search result: {block.title} ({block.source})\n{text}"
    if isinstance(block, DocumentBlock):
        return _with_heading(block, _document_text(block, path, has_notes))
    return _note(block, path, has_notes)


def _document_text(block: DocumentBlock, path: FieldPath, has_notes: bool) -> str:
    source = block.source if isinstance(block.source, dict) else {}
    kind, place = source.get("type"), (*path, "source")
    if kind == "text":
        data = source.get("data")
        if not isinstance(data, str):
            raise invalid((*place, "data"), "must be text")
        return data
    if kind == "content":
        return _content_text(source.get("content"), (*place, "content"), has_notes)
    if kind == "base64" and str(source.get("media_type", "")).startswith("text/"):
        return _decoded(source.get("data"), (*place, "data"))
    return _note(block, path, has_notes)


def _content_text(content: Any, path: FieldPath, has_notes: bool) -> str:
    """Return the text of a document that consists of blocks of text and images."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise invalid(path, "must be text or a list of blocks")
    texts = []
    for index, item in enumerate(content):
        part = item if isinstance(item, dict) else {}
        if part.get("type") == "text" and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif part.get("type") == "image":
            image = ImageBlock(type="image", source=part.get("source"))
            texts.append(_note(image, (*path, index), has_notes))
        else:
            raise invalid((*path, index), "must be a block of text or an image")
    return "\n".join(texts)


def _note(block: ImageBlock | DocumentBlock, path: FieldPath, has_notes: bool) -> str:
    kind = block.source.get("media_type") if isinstance(block.source, dict) else None
    return note_of(path, kind, is_allowed=has_notes, what=block.type)


def _with_heading(block: DocumentBlock, text: str) -> str:
    """Return a document's text below its title and the client's description of it."""
    heading = [f"Document: {block.title}"] if block.title else []
    return "\n".join([*heading, *([block.context] if block.context else []), text])


def _decoded(data: object, path: FieldPath) -> str:
    try:
        return base64.b64decode(data if isinstance(data, str) else "", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise invalid(path, "must be text in UTF-8, encoded as base64") from None


# -- turns -------------------------------------------------------------------------------------


def _turns(
    message: MessageParam,
    path: FieldPath,
    tool_names: dict[str, str],
    *,
    has_notes: bool,
    has_result_notes: bool,
) -> Iterator[Message]:
    """Yield the engine's turns for one message; each tool result becomes its own turn."""
    if message.role == "assistant":
        yield _assistant_turn(message.content, path, tool_names)
        return
    texts: list[str] = []
    for index, block in enumerate(message.content):
        match block:
            case TextPart():
                texts.append(block.text)
            case ImageBlock() | DocumentBlock() | SearchResultBlock():
                texts.append(_block_text(block, (*path, index), has_notes))
            case ToolResultBlock():
                if texts:
                    yield Message(message.role, "\n".join(texts))
                    texts = []
                yield Message(
                    "tool",
                    _result_text(block, (*path, index, "content"), has_result_notes),
                    tool_call_id=block.tool_use_id,
                    name=tool_names.get(block.tool_use_id),
                )
            case ThinkingBlock() | RedactedThinkingBlock() | ToolUseBlock():
                raise invalid((*path, index), f"{block.type} blocks belong in assistant turns")
            case _:
                assert_never(block)
    if texts or not message.content:
        yield Message(message.role, "\n".join(texts))


def _assistant_turn(
    blocks: Sequence[ContentBlock], path: FieldPath, tool_names: dict[str, str]
) -> Message:
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
                tool_names[block.id] = block.name
                arguments = json.dumps(block.input, ensure_ascii=False)
                calls.append(ToolCall(block.id, block.name, arguments))
            case ToolResultBlock() | ImageBlock() | DocumentBlock() | SearchResultBlock():
                raise invalid((*path, index), f"{block.type} blocks belong in user turns")
            case _:
                assert_never(block)
    # The blocks are pieces of one text: a line break between them would change a prefilled
    # answer.
    return Message("assistant", "".join(texts), thinking="".join(thoughts), tool_calls=tuple(calls))


def _result_text(block: ToolResultBlock, path: FieldPath, has_notes: bool) -> str:
    text = "\n".join(
        part.text if isinstance(part, TextPart) else _block_text(part, (*path, index), has_notes)
        for index, part in enumerate(block.content or [])
    )
    return f"Error: {text}" if block.is_error else text


def _append_turn(messages: list[Message], turn: Message) -> None:
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


# -- the vendor's tools that the client runs ---------------------------------------------------
# Its own models know their schemas; others receive them as functions.


_TEXT: Mapping[str, Any] = MappingProxyType({"type": "string"})


class _Known(NamedTuple):
    name: str
    description: str
    parameters: Mapping[str, Any]


def _object(required: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def _files(commands: tuple[str, ...], what: str, **more: Any) -> dict[str, Any]:
    """Return the schema of a tool whose commands work on files."""
    text = {"old_str": _described("str_replace: the text that is replaced; it occurs once"),
            "new_str": _described("str_replace: the new text")}  # fmt: skip
    inserted = {what: _described("insert: the text that is inserted")}
    if what == "new_str":
        inserted = {what: _described("str_replace and insert: the new text")}
    return _object(
        ("command",) if more else ("command", "path"),
        command={"type": "string", "enum": list(commands)},
        path=_described("the absolute path of a file or folder"),
        view_range={
            "type": "array",
            "items": {"type": "integer"},
            "minItems": 2,
            "maxItems": 2,
            "description": "view: the first and the last line, counted from 1; -1 is the end",
        },
        file_text=_described("create: the content of the file"),
        **(text | inserted),
        insert_line={
            "type": "integer",
            "description": "insert: the line after which the text is inserted; 0 is the beginning",
        },
        **more,
    )


def _described(description: str) -> dict[str, Any]:
    return {**_TEXT, "description": description}


_EDITING = ("view", "create", "str_replace", "insert")
_SHELL = _Known(
    "bash",
    "Run a command in a shell that keeps its state between calls.",
    _object(
        (),
        command=_described("the command"),
        restart={"type": "boolean", "description": "true restarts the shell"},
    ),
)
_EDITOR = "View, create and edit text files."
_OLDER_EDITOR = _Known("str_replace_editor", _EDITOR, _files((*_EDITING, "undo_edit"), "new_str"))
_NEWER_EDITOR = _Known("str_replace_based_edit_tool", _EDITOR, _files(_EDITING, "new_str"))
_MEMORY = _Known(
    "memory",
    "Keep notes between conversations, as text files in the folder /memories. Look there first.",
    _files(
        (*_EDITING, "delete", "rename"),
        "insert_text",
        old_path=_described("rename: the current path"),
        new_path=_described("rename: the new path"),
    ),
)
# https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview
_KNOWN = {
    "bash_20241022": _SHELL,
    "bash_20250124": _SHELL,
    "text_editor_20241022": _OLDER_EDITOR,
    "text_editor_20250124": _OLDER_EDITOR,
    "text_editor_20250429": _NEWER_EDITOR,
    "text_editor_20250728": _NEWER_EDITOR,
    "memory_20250818": _MEMORY,
}


def client_tool(kind: str, name: str | None) -> Tool | None:
    """Return the function for a tool of the vendor; None if the type is unknown."""
    known = _KNOWN.get(kind)
    if known is None:
        return None
    return Tool(name or known.name, known.description, known.parameters)


# -- the way back ------------------------------------------------------------------------------


# The API requires a limit; this one is used if the run had none.
_ANSWER_ROOM = 4096


def ask(request: GenerationRequest, model: str, prompt: str) -> JsonObject | None:
    """Return the body that asks for a generation; None if the API cannot express it."""
    system, turns = system_apart(request)
    if not turns or answers_itself(request):
        return None
    return {
        "model": model,
        **filled(
            max_tokens=_ANSWER_ROOM if request.max_tokens is None else request.max_tokens,
            system=system,
            messages=[_asked_turn(message) for message in turns],
            stop_sequences=list(request.stops.strings),
            stop_token_ids=list(request.stops.token_ids),
            **sampling_to_wire(request.sampling, "Anthropic"),
            thinking=_asked_thinking(request),
            output_config=filled(effort=request.effort),
            tools=[
                {"name": t.name, "description": t.description, "input_schema": dict(t.parameters)}
                for t in request.tools
            ],
            tool_choice=_asked_choice(request.tool_choice),
        ),
    }


def _asked_turn(message: Message) -> JsonObject:
    if message.role == "tool":
        result = {
            "type": "tool_result",
            "tool_use_id": message.tool_call_id or "",
            "content": message.content,
        }
        return {"role": "user", "content": [result]}
    if not message.tool_calls:
        return {"role": message.role, "content": message.content}
    text = [{"type": "text", "text": message.content}] if message.content else []
    calls = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments_of(call)}
        for call in message.tool_calls
    ]
    return {"role": "assistant", "content": [*text, *calls]}


def _asked_choice(choice: ToolChoice) -> JsonObject | None:
    if choice.mode == "required":
        return {"type": "tool", "name": choice.name} if choice.name else {"type": "any"}
    return {"type": "none"} if choice.mode == "none" else None


def _asked_thinking(request: GenerationRequest) -> JsonObject | None:
    if request.thinking is None:
        return None
    if request.thinking and request.thinking_budget is not None:
        return {"type": "enabled", "budget_tokens": request.thinking_budget}
    return {"type": "adaptive" if request.thinking else "disabled"}
