"""Converts requests of the Responses API to the engine's, and back. Pure functions."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import assert_never

from api.dialects.openai.read import (
    format_fields,
    generation_of,
    last_turn_fields,
    with_last_turn,
)
from api.dialects.openai.tools import (
    OfferedTool,
    arguments_of_input,
    choose_tools,
    function_name,
    offer_custom_tool,
    offer_function,
)
from api.dialects.openai.wire import RefusalPart
from api.dialects.responses.wire import (
    AdditionalToolsItem,
    CallItem,
    CallOutputItem,
    ForeignItem,
    ForeignPart,
    ItemReference,
    McpCallItem,
    MediaPart,
    MessageItem,
    Part,
    ResponseParams,
    ResponseTool,
    SealedItem,
    text_or_json,
)
from api.dialects.shared.foreign_parts import result_text
from api.dialects.shared.inspector_bodies import (
    JsonObject,
    content_to_wire,
    data_url,
    drop_empty,
    functions,
    sampling_and_stops,
    system_apart,
)
from api.dialects.shared.parameters import OPENAI_STOP_OPTIONS, ReadContext, token_limit
from api.dialects.shared.requests import (
    Content,
    TextPart,
    check_left_out,
    media_type_of,
    note_of,
    reasoning_text,
)
from api.dialects.shared.sealed import REASONING_MARK, SUMMARY_MARK, open_sealed
from api.service.errors import (
    ApiError,
    FieldPath,
    invalid,
    path_text,
    required,
    shown,
    unsupported,
)
from engine.values.request import (
    GenerationRequest,
    Message,
    OutputConstraint,
    Tool,
    ToolCall,
    ToolChoice,
    TraceLevel,
)

_SUMMARY = "A summary of the conversation after these messages:"
TASK = (
    "Summarise this conversation, so that it can be continued from the summary and my messages "
    "alone: what was found, decided and done, with names, numbers and paths, and what is left to "
    "do. Write only the summary."
)


def requests_from_wire(params: ResponseParams, context: ReadContext) -> list[GenerationRequest]:
    """Return what a request asks for: one generation."""
    if params.needs_recall:
        raise not_stored()
    if params.prompt is not None:
        raise unsupported(("prompt",), "a stored prompt")
    if (params.prompt_cache_options or {}).get("prewarm"):
        raise unsupported(("prompt_cache_options", "prewarm"), "reading a prompt without answering")
    tools, tool_choice = choose_tools(params.tool_choice, offered_tools(params), params)
    messages, left_out = _messages(params, context)
    if not messages:
        raise required(("input",))
    effort = None if params.reasoning is None else params.reasoning.effort
    common = generation_of(
        params,
        context,
        effort=params.reasoning_effort if effort is None else effort,
        default_effort=None if params.reasoning is None else "medium",
        constraint=_constraint(params),
    )
    request = replace(
        common,
        messages=messages,
        tools=tools,
        tool_choice=tool_choice,
        max_tokens=max_tokens_of(params),
        trace=TraceLevel.FULL if wants_logprobs(params) else TraceLevel.OFF,
        top_logprobs=params.top_logprobs or 0,
        not_applied=left_out,
    )
    return [with_last_turn(request, params)]


def max_tokens_of(params: ResponseParams) -> int | None:
    """Return the limit of the answer, by this API's name or by those of Chat; None for none."""
    return token_limit(params.max_output_tokens, params.max_completion_tokens, params.max_tokens)


def wants_logprobs(params: ResponseParams) -> bool:
    """Whether the answer includes logprobs."""
    return "message.output_text.logprobs" in (params.include or ()) or bool(params.top_logprobs)


def wants_summary(params: ResponseParams) -> bool:
    """Whether the answer includes its reasoning as a summary."""
    reasoning = params.reasoning
    if reasoning is None:
        return False
    return (reasoning.summary or reasoning.generate_summary or "none") != "none"


def offered_tools(params: ResponseParams) -> list[OfferedTool]:
    """Return the tools that the model is offered; tools of some other types are left out."""
    return list(_offered(params.all_tools, ("tools",)))


def _offered(
    tools: Sequence[ResponseTool], path: FieldPath, inside: ResponseTool | None = None
) -> Iterator[OfferedTool]:
    """Yield the tools of a list, those of namespaces included."""
    namespace = None if inside is None else inside.name
    # What holds for all tools of a namespace is said with the first of them.
    about = "" if inside is None else inside.description or ""
    for index, tool in enumerate(tools):
        tool_path = (*path, index)
        if tool.type not in ("function", "custom", "namespace"):
            check_left_out(tool.type, tool_path)
            continue
        if not tool.name:
            raise required((*tool_path, "name"))
        if tool.type == "namespace" and inside is None:
            yield from _offered(tool.tools or (), (*tool_path, "tools"), tool)
            continue
        description = "\n\n".join(text for text in (tool.description, about) if text)
        about = ""
        if tool.type == "custom":
            form = (*tool_path, "format")
            yield offer_custom_tool(tool.name, description, tool.format, form, namespace)
        elif tool.type == "function":
            known = Tool(tool.name, description, tool.parameters or {})
            yield offer_function(known, namespace)
        else:
            raise invalid((*tool_path, "type"), "a namespace cannot be inside another one")


def not_stored() -> ApiError:
    """Return the error for an earlier answer that is not kept."""
    # Clients know this code: they then send the whole conversation.
    return invalid(
        ("previous_response_id",),
        "this response, or one before it, is not stored by this server (any more); send the whole "
        "conversation as input",
        code="previous_response_not_found",
    )


def _constraint(params: ResponseParams) -> OutputConstraint | None:
    """Return the constraint that ``text.format`` asks for; None if the text is free."""
    form = params.text.format if params.text is not None else None
    if form is None or form.type == "text":
        return None
    if form.type == "json_object":
        return OutputConstraint()
    if form.type != "json_schema":
        raise unsupported(("text", "format", "type"), f"the format {form.type}")
    if form.json_schema is None:
        raise required(("text", "format", "schema"))
    return OutputConstraint(form.json_schema, is_strict=form.strict is True)


def _messages(
    params: ResponseParams, context: ReadContext
) -> tuple[tuple[Message, ...], tuple[str, ...]]:
    """Return the turns of a request, and its items that are left out of them, by their paths."""
    turns = [Message("system", params.instructions)] if params.instructions else []
    left_out = ["truncation"] if params.truncation == "auto" else []
    tool_names: dict[str, str] = {}
    answered = {item.call_id for item in params.input if isinstance(item, CallOutputItem)}
    for index, item in enumerate(params.input):
        own = index - params.recalled
        path: FieldPath = ("input", own) if own >= 0 else ("previous_response_id",)
        is_new = index == len(params.input) - 1 and isinstance(item, MessageItem)
        has_notes = context.allows_image_note(params.fullstop, is_new=is_new)
        match item:
            case MessageItem(role="assistant"):
                content = _content(
                    item.content, (*path, "content"), has_notes, separator="", left_out=left_out
                )
                _add_assistant(turns, Message("assistant", content.text))
            case MessageItem():
                content = _content(item.content, (*path, "content"), has_notes)
                turns.append(
                    Message(
                        "user" if item.role == "user" else "system",
                        content.text,
                        pictures=tuple(content.pictures),
                    )
                )
            case CallItem():
                if item.status == "incomplete" and item.call_id not in answered:
                    left_out.append(f"{path_text(path)} ({item.type})")
                    continue  # it was cut off, so it is not a call
                name = tool_names[item.call_id] = function_name(item.name, item.namespace)
                call = ToolCall(item.call_id, name, _arguments(item, path))
                _add_assistant(turns, Message("assistant", "", tool_calls=(call,)))
            case CallOutputItem():
                if item.call_id not in tool_names:
                    raise invalid(
                        (*path, "call_id"),
                        f"no call with the id {shown(item.call_id)} comes before this output",
                    )
                content = _content(item.output, (*path, "output"), has_notes, left_out=left_out)
                turns.append(
                    Message(
                        "tool",
                        content.text,
                        tool_call_id=item.call_id,
                        name=tool_names[item.call_id],
                        pictures=tuple(content.pictures),
                    )
                )
            case McpCallItem():
                call = ToolCall(item.call_id, item.name, text_or_json(item.arguments or {}))
                _add_assistant(turns, Message("assistant", "", tool_calls=(call,)))
                text = text_or_json(item.error or item.output or "")
                turns.append(Message("tool", text, tool_call_id=item.call_id, name=item.name))
            case SealedItem(type="compaction"):
                if (summary := open_sealed(item.encrypted_content or "", SUMMARY_MARK)) is not None:
                    turns.append(Message("user", f"{_SUMMARY}\n\n{summary}"))
                else:
                    left_out.append(f"{path_text(path)} ({item.type})")
            case SealedItem():
                if thinking := _reasoning_text(item):
                    _add_assistant(turns, Message("assistant", "", thinking=thinking))
                elif item.encrypted_content:
                    left_out.append(f"{path_text(path)} ({item.type})")
            case ForeignItem(type="compaction_trigger"):
                raise unsupported(
                    (*path, "type"), "compaction in an answer (POST /v1/responses/compact)"
                )
            case ForeignItem():
                if item.readable:
                    text = f"{result_text(item.type, item.readable)}\n\n"
                    _add_assistant(turns, Message("assistant", text))
                else:
                    left_out.append(f"{path_text(path)} ({shown(item.type)})")
            case AdditionalToolsItem():
                pass
            case ItemReference():
                raise not_stored()
            case _:
                assert_never(item)
    return tuple(turns), tuple(left_out)


def _reasoning_text(item: SealedItem) -> str:
    """Return the reasoning of an earlier answer; empty if only another server can read it."""
    summary = "\n\n".join(filter(None, map(reasoning_text, item.summary or ())))
    return reasoning_text(
        item.content, open_sealed(item.encrypted_content or "", REASONING_MARK), summary
    )


def _arguments(item: CallItem, path: FieldPath) -> str:
    if item.type == "custom_tool_call" and item.input is not None:
        return arguments_of_input(item.input)
    if item.type == "function_call" and item.arguments is not None:
        return item.arguments or "{}"
    raise required((*path, "input" if item.type == "custom_tool_call" else "arguments"))


def _content(
    parts: Sequence[Part],
    path: FieldPath,
    has_notes: bool,
    *,
    separator: str = "\n",
    left_out: list[str] | None = None,
) -> Content:
    """Return a message's content; without a separator, that of an answer. See ``_messages``."""
    content = Content(separator)
    for index, part in enumerate(parts):
        part_path = (*path, index)
        match part:
            case TextPart():
                content.add(part.text)
            case RefusalPart():
                content.add(part.refusal)
            case MediaPart():
                what = "image" if part.type == "input_image" else "document"
                source = part.image_url or part.file_data
                source = source.get("url") if isinstance(source, dict) else source
                if separator:
                    is_small = part.detail == "low"
                    content.add_media(
                        source,
                        part_path,
                        has_note=has_notes,
                        what=what,
                        is_small=is_small,
                        title=part.filename,
                    )
                else:
                    kind = media_type_of(source)
                    content.add(note_of(part_path, kind, is_allowed=has_notes, what=what))
            case ForeignPart() if left_out is None:
                reason = f"{shown(part.type)} is not supported here"
                raise invalid((*part_path, "type"), reason, code="invalid_value")
            case ForeignPart(readable=""):
                left_out.append(f"{path_text(part_path)} ({shown(part.type)})")
            case ForeignPart():
                content.add(part.readable)
    return content


def _add_assistant(turns: list[Message], turn: Message) -> None:
    """Add a part of an answer: this API sends its text and its calls as separate items."""
    last = turns[-1] if turns else None
    if last is None or last.role != "assistant":
        turns.append(turn)
        return
    thoughts = (last.thinking, turn.thinking)
    turns[-1] = Message(
        "assistant",
        last.content + turn.content,
        thinking="\n\n".join(thought for thought in thoughts if thought),
        tool_calls=last.tool_calls + turn.tool_calls,
    )


def summary_requests(params: ResponseParams, context: ReadContext) -> list[GenerationRequest]:
    """Return the request for the summary."""
    [request] = requests_from_wire(params, context)
    return [
        replace(
            request,
            messages=(*request.messages, Message("user", TASK)),
            max_tokens=request.max_tokens or 2_048,
            tools=(),
            tool_choice=ToolChoice(),
            constraint=None,
            thinking=False,
        )
    ]


def request_body(request: GenerationRequest, model: str, prompt: str) -> JsonObject | None:
    """Return the body that asks for a generation; None if the API cannot express it."""
    system, turns = system_apart(request)
    if not turns:
        return None
    choice = request.tool_choice
    tool_choice: object = None if choice.mode == "auto" else choice.mode
    if choice.name is not None:
        tool_choice = {"type": "function", "name": choice.name}
    format_of_text = format_fields(request.constraint)
    if (form := format_of_text.pop("response_format", None)) is not None:
        format_of_text["text"] = {"format": {"type": form["type"], **form.get("json_schema", {})}}
    return {
        "model": model,
        **sampling_and_stops(request, OPENAI_STOP_OPTIONS),
        **last_turn_fields(request),
        **drop_empty(
            instructions=system,
            input=[item for message in turns for item in _items(message)],
            max_output_tokens=request.max_tokens,
            reasoning=drop_empty(effort=request.effort),
            enable_thinking=request.thinking,
            thinking_budget=request.thinking_budget,
            chat_template_kwargs=dict(request.template_options),
            tools=[{"type": "function", **tool["function"]} for tool in functions(request)],
            tool_choice=tool_choice,
            **format_of_text,
        ),
    }


def _items(message: Message) -> Iterator[JsonObject]:
    if message.role == "tool":
        yield {
            "type": "function_call_output",
            "call_id": message.tool_call_id or "",
            "output": content_to_wire(message, "input_text", _picture_to_wire),
        }
        return
    if message.content:
        content = content_to_wire(message, "input_text", _picture_to_wire)
        yield {"role": message.role, "content": content}
    for call in message.tool_calls:
        yield {
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
        }


def _picture_to_wire(media_type: str, data: str) -> JsonObject:
    return {"type": "input_image", "image_url": data_url(media_type, data)}
