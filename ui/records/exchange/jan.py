"""Reads Jan's threads: a folder for each, with ``thread.json`` and ``messages.jsonl``.

https://jan.ai/docs/desktop/data-folder describes the folder. Pure; any thread.
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from engine import StopKind, ToolCall
from engine.files.json_fields import DamagedFile, Fields
from engine.files.json_items import MAX_ITEM_BYTES, json_value
from ui.records.attachments import Attachment
from ui.records.conversations import (
    ChosenModel,
    Conversation,
    ConversationFolder,
    Placement,
    title_from_file,
)
from ui.records.exchange.contents import FoundConversations, origin_of
from ui.records.exchange.fields_left import note_fields, shape_of
from ui.records.exchange.other_programs import (
    MOST_MESSAGES,
    TOO_LARGE,
    Reason,
    Said,
    call_of,
    conversation_of,
    file_name,
    fill,
    picture,
    picture_of_tool,
    result_of,
    seconds,
    stop_entries,
    text_in,
    thought_apart,
    whole,
    with_files,
)
from ui.records.messages import chained
from ui.records.tools import CallResult

JAN = "Jan"
# What becomes of each field.
_THREAD_FIELDS = shape_of("""
    : id title created updated object~ order~ isFavorite
    model: id provider~ engine~
    metadata: is_favorite isFavorite order~ lastMessage~ updated_at~ hasDocuments~
    metadata.project: id name updated_at~ logo~
    assistants: assistant_id~ id~ name~ assistant_name~ instructions avatar~ created_at~ object~
    assistants.parameters: temperature top_p stop
    assistants.model: id engine~ settings~ provider~
    assistants.model.parameters: temperature top_p stop
""")
_MESSAGE_FIELDS = shape_of("""
    : id~ object~ type~ thread_id~ assistant_id~ role status created_at created completed_at~
    : error_code tool_call_id~
    content: type tool_call_id~ tool_name input! output!
    content.text: value annotations~
    content.image_url: url detail~
    attachments: name file_id~ tools~
    metadata: modelId model_id model assistant~ tokenSpeed~ usage~ selectedModel~
    metadata.tool_calls: response!
    metadata.tool_calls.tool: id~ type~
    metadata.tool_calls.tool.function: name arguments!
""")
THREAD, MESSAGES = "thread.json", "messages.jsonl"
_SAMPLING = ("temperature", "top_p")
# What Jan notes of an answer that is complete says nothing of its end.
_ENDS = {"stopped": StopKind.CANCELLED, "error": StopKind.ERROR}


def read_jan(
    values: Any, lines: Iterable[bytes | None], name: str, found: FoundConversations
) -> None:
    """Read a thread; damaged messages are listed, and the others are read."""
    part = Fields(values, name)
    own = text_in(part, "id") or name
    began, ended = seconds(part.raw("created")), seconds(part.raw("updated"))
    conversation = conversation_of(JAN, own, text_in(part, "title"), began, ended)
    details = part.inner("metadata") if part.has("metadata") else Fields({})
    favorites = (part.raw("isFavorite"), details.raw("is_favorite"), details.raw("isFavorite"))
    conversation.is_pinned = True in favorites
    conversation.placement = Placement(_project(details, found))
    model = part.inner("model") if part.has("model") else Fields({})
    if own_model := text_in(model, "id"):
        conversation.model = ChosenModel(title_from_file(own_model))
    note_fields(values, _THREAD_FIELDS, found.left_out)
    for assistant in part.items("assistants")[:1]:
        _settings(conversation, assistant, f"{name}/{THREAD}: assistants[0]", found)
    said: list[Said] = []
    size = 0
    for number, line in enumerate(lines, 1):
        try:
            if line is None:
                raise DamagedFile(f"it is larger than {MAX_ITEM_BYTES >> 20} MB")
            if not line.strip():
                continue
            message = json_value(line)
            one = _said(Fields(message), said, found)
            note_fields(message, _MESSAGE_FIELDS, found.left_out)
        except DamagedFile as error:
            found.note_damage(f"{name}/{MESSAGES}, line {number}: {_plain(error)}")
            continue
        if one is not None:
            size += len(one.text) + len(one.thinking)
            if size > MAX_ITEM_BYTES or len(said) == MOST_MESSAGES:
                raise DamagedFile(TOO_LARGE)
            said.append(one)
    # Some versions write the newest message first.
    if all(message.when for message in said):
        said.sort(key=lambda one: one.when)
    fill(conversation, chained(message.message(None) for message in said))
    if said:
        found.conversations.append(conversation)
    else:
        found.left_out["empty conversation"] += 1


def _settings(
    conversation: Conversation, assistant: Fields, where: str, found: FoundConversations
) -> None:
    """Take the instructions, the sampling and the stops of a thread's assistant."""
    prompt = whole(text_in(assistant, "instructions"))
    inner = assistant.inner("model") if assistant.has("model") else Fields({})
    if conversation.model is None and (model := text_in(inner, "id")):
        conversation.model = ChosenModel(title_from_file(model))
    holders = [one.inner("parameters") for one in (inner, assistant) if one.has("parameters")]
    options: dict[str, Any] = {}
    for holder in holders:
        options |= {name: holder.maybe(name, float) for name in _SAMPLING if holder.has(name)}
        if holder.has("stop"):
            stops = [text for text in holder.maybe("stop", list) or [] if text]
            conversation.stops = stop_entries(stops, f"{where}.stop", found)
    conversation.settings = replace(conversation.settings, system_prompt=prompt, **options)


def _project(details: Fields, found: FoundConversations) -> str:
    """Return the folder for the project that a thread is in."""
    if not isinstance(details.raw("project"), dict):
        return ""
    project = details.inner("project")
    own, name = text_in(project, "id"), title_from_file(text_in(project, "name"))
    identity = origin_of(JAN, f"project:{own or name}")
    if all(folder.id != identity for folder in found.folders):
        found.folders.append(ConversationFolder(name, id=identity))
    return identity


def _plain(error: DamagedFile) -> str:
    return str(error).replace("line 1 is not valid JSON", "this is not valid JSON")


def _said(message: Fields, before: list[Said], found: FoundConversations) -> Said | None:
    role = message.take("role", str)
    if role == "tool" and _give_result(message, before):
        return None
    if role not in ("user", "assistant"):
        found.left_out["tool message" if role == "tool" else "system message"] += 1
        return None
    texts: list[str] = []
    thoughts: list[str] = []
    files: list[Attachment] = []
    calls: list[ToolCall] = []
    results: list[CallResult] = []
    for item in message.items("content"):
        kind = text_in(item, "type")
        if kind.startswith("image"):
            files.append(picture(f"picture {len(files) + 1}", found, _kept(item, found)))
        elif kind == "tool_call":
            own = text_in(item, "tool_call_id") or f"call_{len(calls)}"
            call = call_of(own, text_in(item, "tool_name"), item.raw("input") or {})
            calls.append(call)
            if (output := item.raw("output")) is not None:
                results.append(result_of(call, _output_text(output, files, found)))
        elif item.has("text"):
            value = whole(text_in(item.inner("text"), "value"))
            (thoughts if kind == "reasoning" else texts).append(value)
        else:
            found.left_out["unknown part"] += 1
    text = "\n\n".join(filter(None, texts))
    when = seconds(message.raw("created_at") or message.raw("created"))
    for item in message.items("attachments"):
        found.left_out["attached file"] += 1
        called = text_in(item, "name") or text_in(item, "file_id") or "file"
        files.append(Attachment(file_name(called), "(the file is not kept here)"))
    if role == "user":
        made = Said("user", text, when, files=tuple(files))
        return None if made.is_empty else made
    text, thought = thought_apart(text)
    details = message.inner("metadata") if message.has("metadata") else Fields({})
    more_calls, more_results = _calls(details, files, found)
    calls += more_calls
    results += more_results
    text, pictures = with_files(text, files)
    end = _ENDS.get(text_in(message, "status"))
    made = Said(
        "assistant", text, when, thinking="\n\n".join(filter(None, [*thoughts, thought])),
        calls=tuple(calls), results=tuple(results), pictures=pictures, model=_model(details),
        reason=None if end is None else Reason(end, error=text_in(message, "error_code")),
    )  # fmt: skip
    return None if made.is_empty else made


def _model(details: Fields) -> str:
    names = (details.raw(name) for name in ("modelId", "model_id", "model"))
    return next((whole(name) for name in names if isinstance(name, str) and name), "")


def _give_result(message: Fields, before: list[Said]) -> bool:
    """Give the call that a tool answers its result; return whether there is one."""
    own = text_in(message, "tool_call_id")
    parts = [item.inner("text") for item in message.items("content") if item.has("text")]
    for place in range(len(before) - 1, -1, -1):
        said = before[place]
        call = next((call for call in said.calls if call.id == own), None)
        if call is not None:
            text = "\n\n".join(text_in(part, "value") for part in parts)
            before[place] = replace(said, results=(*said.results, result_of(call, text)))
            return True
    return False


def _output_text(output: Any, files: list[Attachment], found: FoundConversations) -> str:
    """Return what a call returned: text, parts, or any other value as JSON."""
    if isinstance(output, str):
        return output
    parts = output.get("content") if isinstance(output, dict) else output
    if isinstance(parts, list) and all(isinstance(part, dict) for part in parts):
        return _parts_text(map(Fields, parts), files, found)
    return whole(json.dumps(output, ensure_ascii=False))


def _kept(item: Fields, found: FoundConversations) -> str:
    """Return the name of the copy of a picture; empty if it cannot be kept."""
    holder = item.raw("image_url")
    address = holder.get("url") if isinstance(holder, dict) else holder
    return found.pictures.file_from(address) if isinstance(address, str) else ""


def _calls(
    details: Fields, files: list[Attachment], found: FoundConversations
) -> tuple[tuple[ToolCall, ...], tuple[CallResult, ...]]:
    """Return the calls of an answer, and what the tools returned; add their pictures to files."""
    calls: list[ToolCall] = []
    results: list[CallResult] = []
    for number, one in enumerate(details.items("tool_calls")):
        tool = one.inner("tool")
        function = tool.inner("function")
        own = text_in(tool, "id") or f"call_{number}"
        calls.append(call_of(own, text_in(function, "name"), function.raw("arguments") or {}))
        response = one.raw("response")
        if not isinstance(response, dict):
            continue
        text = _parts_text(Fields(response).items("content"), files, found)
        error = response.get("error")
        if isinstance(error, str) and error:
            text = "\n\n".join(filter(None, (text, error)))
        results.append(result_of(calls[-1], text, is_error=bool(error)))
    return tuple(calls), tuple(results)


def _parts_text(parts: Iterable[Fields], files: list[Attachment], found: FoundConversations) -> str:
    """Return the text of what a tool returned; its pictures are added to the files."""
    texts = []
    for part in parts:
        if isinstance(text := part.raw("text"), str):
            texts.append(text)
        elif part.raw("type") == "image":
            files.append(picture_of_tool(part, f"picture {len(files) + 1}", found))
        else:
            found.left_out["unknown part"] += 1
    return "\n\n".join(texts)
