"""Reads Jan's threads: a folder for each, with ``thread.json`` and ``messages.jsonl``.

https://jan.ai/docs/desktop/data-folder describes the folder. Pure; any thread.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from engine import StopKind, ToolCall
from engine.files.json_fields import DamagedFile, Fields
from engine.files.json_items import MAX_ITEM_BYTES, json_value
from ui.records.attachments import Attachment
from ui.records.conversations import Conversation
from ui.records.exchange.contents import FoundConversations
from ui.records.exchange.other_programs import (
    MOST_MESSAGES,
    TOO_LARGE,
    Reason,
    Said,
    call_of,
    conversation_of,
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
THREAD, MESSAGES = "thread.json", "messages.jsonl"
_SAMPLING = ("temperature", "top_p")
# What Jan notes of an answer that is complete says nothing of its end.
_ENDS = {"stopped": StopKind.CANCELLED, "error": StopKind.ERROR}


def read_jan(
    part: Fields, lines: Iterable[bytes | None], name: str, found: FoundConversations
) -> None:
    """Read a thread; damaged messages are listed, and the others are read."""
    own = text_in(part, "id") or name
    began, ended = seconds(part.raw("created")), seconds(part.raw("updated"))
    conversation = conversation_of(JAN, own, text_in(part, "title"), began, ended)
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
            one = _said(Fields(json_value(line)), found)
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
    holders = [one.inner("parameters") for one in (inner, assistant) if one.has("parameters")]
    options: dict[str, Any] = {}
    for holder in holders:
        options |= {name: holder.maybe(name, float) for name in _SAMPLING if holder.has(name)}
        if holder.has("stop"):
            stops = [text for text in holder.maybe("stop", list) or [] if text]
            conversation.stops = stop_entries(stops, f"{where}.stop", found)
    conversation.settings = replace(conversation.settings, system_prompt=prompt, **options)


def _plain(error: DamagedFile) -> str:
    return str(error).replace("line 1 is not valid JSON", "this is not valid JSON")


def _said(message: Fields, found: FoundConversations) -> Said | None:
    role = message.take("role", str)
    if role not in ("user", "assistant"):
        found.left_out["message of a tool" if role == "tool" else "message of the system"] += 1
        return None
    texts: list[str] = []
    thoughts: list[str] = []
    files: list[Attachment] = []
    for item in message.items("content"):
        kind = text_in(item, "type")
        if kind.startswith("image"):
            files.append(picture(f"picture {len(files) + 1}", found, _kept(item, found)))
        elif item.has("text"):
            value = whole(text_in(item.inner("text"), "value"))
            (thoughts if kind == "reasoning" else texts).append(value)
        else:
            found.left_out["unknown part"] += 1
    text = "\n\n".join(filter(None, texts))
    when = seconds(message.raw("created_at") or message.raw("created"))
    if role == "user":
        made = Said("user", text, when, files=tuple(files))
        return None if made.is_empty else made
    text, thought = thought_apart(text)
    details = message.inner("metadata") if message.has("metadata") else Fields({})
    calls, results = _calls(details, files, found)
    text, pictures = with_files(text, files)
    end = _ENDS.get(text_in(message, "status"))
    made = Said(
        "assistant", text, when, thinking="\n\n".join(filter(None, [*thoughts, thought])),
        calls=calls, results=results, pictures=pictures,
        reason=None if end is None else Reason(end),
    )  # fmt: skip
    return None if made.is_empty else made


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
        texts = []
        for part in Fields(response).items("content"):
            if isinstance(text := part.raw("text"), str):
                texts.append(text)
            elif part.raw("type") == "image":
                files.append(picture_of_tool(part, f"picture {len(files) + 1}", found))
            else:
                found.left_out["unknown part"] += 1
        error = response.get("error")
        texts += [error] if isinstance(error, str) and error else []
        results.append(result_of(calls[-1], "\n\n".join(texts), is_error=bool(error)))
    return tuple(calls), tuple(results)
