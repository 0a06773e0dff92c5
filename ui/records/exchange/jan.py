"""Reads Jan's threads: a folder for each, with ``thread.json`` and ``messages.jsonl``.

https://jan.ai/docs/desktop/data-folder describes the folder. Where messages name the one before
them, edits and retries become our versions. Pure; any thread.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from engine.files.json_fields import DamagedFile, Fields, parsed_json
from engine.stopping.record import StopKind
from engine.values.request import ToolCall
from ui.records.attachments import Attachment
from ui.records.conversations import ChosenModel, Conversation, Placement
from ui.records.exchange.contents import FileContents
from ui.records.exchange.other_programs import (
    MAX_MESSAGES,
    TOO_LARGE,
    Node,
    Turn,
    add_folder,
    ended,
    file_name,
    fill_versions,
    make_call,
    make_result,
    missing_file,
    new_conversation,
    picture,
    seconds,
    split_thinking,
    stop_entries,
    text_field,
    tool_text,
    valid_text,
    with_pictures,
)
from ui.records.titles import title_from_file
from ui.records.tool_calls import CallResult

JAN = "Jan"
THREAD, MESSAGES = "thread.json", "messages.jsonl"
_SAMPLING = ("temperature", "top_p")
# A question names the files that were read for it, without their content.
_FILES = re.compile(r"\s*\[ATTACHED_FILES\]\n(.*?)\n\[/ATTACHED_FILES\]", re.DOTALL)
_FILE_NAME = re.compile(r"\bname: ([^,\n]+)")
# Jan records nothing about the end of a complete answer.
_ENDS = {"stopped": StopKind.CANCELLED, "error": StopKind.ERROR}


def read_jan(values: Any, lines: Iterable[bytes], name: str, contents: FileContents) -> None:
    """Read a thread; damaged messages are listed, and the others are read."""
    part = Fields(values, name)
    own = text_field(part, "id") or name
    began, ended = seconds(part.raw("created")), seconds(part.raw("updated"))
    conversation = new_conversation(JAN, own, text_field(part, "title"), began, ended)
    details = part.inner("metadata") if part.has("metadata") else Fields({})
    favorites = (part.raw("isFavorite"), details.raw("is_favorite"), details.raw("isFavorite"))
    conversation.is_pinned = True in favorites
    conversation.placement = Placement(_project(details, contents))
    model = part.inner("model") if part.has("model") else Fields({})
    if own_model := text_field(model, "id"):
        conversation.model = ChosenModel(title_from_file(own_model))
    for assistant in part.items("assistants")[:1]:
        _settings(conversation, assistant, f"{name}/{THREAD}: assistants[0]", contents)
    turns: list[Turn] = []
    names: list[tuple[str, str | None]] = []
    chosen: set[str] = set()
    for number, line in enumerate(lines, 1):
        try:
            if not line.strip():
                continue
            message = Fields(parsed_json(line))
            turn = _read_message(message, turns, contents)
            links = message.inner("metadata") if message.has("metadata") else Fields({})
            is_linked = "parentId" in (message.raw("metadata") or {})  # null for the first
            above = text_field(links, "parentId") if is_linked else None
            chosen |= {child} if (child := text_field(links, "activeChildId")) else set()
        except DamagedFile as error:
            contents.note_damage(f"{name}/{MESSAGES}, line {number}: {_plain(error)}")
            continue
        if turn is not None:
            if len(turns) == MAX_MESSAGES:
                raise DamagedFile(TOO_LARGE)
            turns.append(turn)
            names.append((text_field(message, "id"), above))
    nodes = [Node(*own, turn) for own, turn in zip(names, turns, strict=True)]
    # Some versions write the newest message first.
    if all(turn.when for turn in turns):
        nodes.sort(key=lambda node: node.turn.when if node.turn else 0.0)
    fill_versions(conversation, nodes, contents, chosen)


def _settings(
    conversation: Conversation, assistant: Fields, where: str, contents: FileContents
) -> None:
    """Take the instructions, the sampling and the stops of a thread's assistant."""
    prompt = text_field(assistant, "instructions")
    inner = assistant.inner("model") if assistant.has("model") else Fields({})
    if conversation.model is None and (model := text_field(inner, "id")):
        conversation.model = ChosenModel(title_from_file(model))
    holders = [
        holder.inner("parameters") for holder in (inner, assistant) if holder.has("parameters")
    ]
    options: dict[str, Any] = {}
    for holder in holders:
        options |= {name: holder.maybe(name, float) for name in _SAMPLING if holder.has(name)}
        if holder.has("stop"):
            stops = [text for text in holder.maybe("stop", list) or [] if text]
            conversation.stops = stop_entries(stops, f"{where}.stop", contents)
    conversation.settings = replace(conversation.settings, system_prompt=prompt, **options)


def _project(details: Fields, contents: FileContents) -> str:
    """Return the folder for the project that a thread is in."""
    if not isinstance(details.raw("project"), dict):
        return ""
    project = details.inner("project")
    name = text_field(project, "name")
    return add_folder(JAN, f"project:{text_field(project, 'id') or name}", name, contents)


def _plain(error: DamagedFile) -> str:
    return str(error).replace("line 1 is not valid JSON", "this is not valid JSON")


def _read_message(message: Fields, before: list[Turn], contents: FileContents) -> Turn | None:
    role = message.take("role", str)
    if role == "tool" and _give_result(message, before):
        return None
    if role not in ("user", "assistant"):
        contents.left_out["tool message" if role == "tool" else "system message"] += 1
        return None
    texts: list[str] = []
    thoughts: list[str] = []
    files: list[Attachment] = []
    calls: list[ToolCall] = []
    results: list[CallResult] = []
    for item in message.items("content"):
        kind = text_field(item, "type")
        if kind.startswith("image"):
            files.append(picture(f"picture {len(files) + 1}", contents, _kept(item, contents)))
        elif kind == "input_audio":
            contents.left_out["sound recording"] += 1
            files.append(Attachment("Recording", "(the file is not kept here)"))
        elif kind == "tool_call":
            own = text_field(item, "tool_call_id") or f"call_{len(calls)}"
            call = make_call(own, text_field(item, "tool_name"), item.raw("input") or {})
            calls.append(call)
            if (output := item.raw("output")) is not None:
                inner = output.get("content") if isinstance(output, dict) else None
                shown: list[Attachment] = []
                text = tool_text(inner or output, shown, contents)
                results.append(make_result(call, text, shown))
        elif item.has("text"):
            value = valid_text(text_field(item.inner("text"), "value"))
            (thoughts if kind == "reasoning" else texts).append(value)
        else:
            contents.note_unknown()
    text = "\n\n".join(filter(None, texts))
    when = seconds(message.raw("created_at") or message.raw("created"))
    details = message.inner("metadata") if message.has("metadata") else Fields({})
    for item in details.items("inline_file_contents"):
        name = file_name(text_field(item, "name") or "file")
        files.append(Attachment(name, text_field(item, "content")))
    named = [
        text_field(item, "name") or text_field(item, "file_id") or "file"
        for item in message.items("attachments")
    ]
    if role == "user" and (listed := _FILES.search(text)) is not None:
        named += _FILE_NAME.findall(listed[1])
        text = text[: listed.start()] + text[listed.end() :]
    known = {file.name for file in files}
    for called in dict.fromkeys(map(file_name, named)):
        if called not in known:
            files.append(missing_file(called, contents))
    if role == "user":
        made = Turn("user", text, when, files=tuple(files))
        return None if made.is_empty else made
    text, thought = split_thinking(text)
    more_calls, more_results = _calls(details, contents)
    calls += more_calls
    results += more_results
    text, pictures = with_pictures(text, files)
    end = _ENDS.get(text_field(message, "status"))
    end = StopKind.CANCELLED if end is None and details.raw("stopped") is True else end
    made = Turn(
        "assistant", text, when, thinking="\n\n".join(filter(None, [*thoughts, thought])),
        calls=tuple(calls), results=tuple(results), pictures=pictures, model=_model(details),
        end=None if end is None else ended(end, error=text_field(message, "error_code")),
    )  # fmt: skip
    return None if made.is_empty else made


def _model(details: Fields) -> str:
    names = (details.raw(name) for name in ("modelId", "model_id", "model"))
    return next((valid_text(name) for name in names if isinstance(name, str) and name), "")


def _give_result(message: Fields, before: list[Turn]) -> bool:
    """Give the call that a tool answers its result; return whether there is one."""
    own = text_field(message, "tool_call_id")
    parts = [item.inner("text") for item in message.items("content") if item.has("text")]
    for index in range(len(before) - 1, -1, -1):
        turn = before[index]
        call = next((call for call in turn.calls if call.id == own), None)
        if call is not None:
            text = "\n\n".join(text_field(part, "value") for part in parts)
            before[index] = replace(turn, results=(*turn.results, make_result(call, text)))
            return True
    return False


def _kept(item: Fields, contents: FileContents) -> str:
    """Return the name of the copy of a picture; empty if it cannot be kept."""
    holder = item.raw("image_url")
    address = holder.get("url") if isinstance(holder, dict) else holder
    return contents.pictures.file_from(address) if isinstance(address, str) else ""


def _calls(
    details: Fields, contents: FileContents
) -> tuple[tuple[ToolCall, ...], tuple[CallResult, ...]]:
    """Return the calls of an answer, and what the tools returned."""
    calls: list[ToolCall] = []
    results: list[CallResult] = []
    for number, item in enumerate(details.items("tool_calls")):
        tool = item.inner("tool")
        function = tool.inner("function")
        own = text_field(tool, "id") or f"call_{number}"
        calls.append(make_call(own, text_field(function, "name"), function.raw("arguments") or {}))
        response = item.raw("response")
        if not isinstance(response, dict):
            continue
        files: list[Attachment] = []
        text = tool_text(response.get("content") or "", files, contents)
        error = response.get("error")
        if isinstance(error, str) and error:
            text = "\n\n".join(filter(None, (text, error)))
        results.append(make_result(calls[-1], text, files, is_error=bool(error)))
    return tuple(calls), tuple(results)
