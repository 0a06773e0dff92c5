"""Reads Open WebUI's exports: a list of chats, each with its messages by their ids.

https://docs.openwebui.com describes the export; its format has no reference. Messages name the one
before them, and ``currentId`` says which of them are shown. Reasoning and calls are ``<details>``
in the text. Pure; any thread.
"""

import contextlib
import html
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from engine.files.json_fields import DamagedFile, Fields
from engine.values.request import ToolCall
from ui.records.attachments import Attachment
from ui.records.conversations import ChosenModel, Placement
from ui.records.exchange.contents import FileContents
from ui.records.exchange.other_programs import (
    MAX_MESSAGES,
    TOO_LARGE,
    Node,
    Turn,
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
    valid_text,
    with_pictures,
)
from ui.records.titles import title_from_file
from ui.records.tool_calls import CallResult

OPEN_WEBUI = "Open WebUI"
_SAMPLING = ("temperature", "top_p")
_DETAILS = re.compile(r'<details type="(\w+)"([^>]*)>(.*?)</details>\s*', re.DOTALL)
_SUMMARY = re.compile(r"\s*<summary>.*?</summary>\s*", re.DOTALL)
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')


def read_open_webui(part: Fields, contents: FileContents) -> None:
    """Read one chat; damaged messages are listed, and the others are read."""
    chat = part.inner("chat")
    own = text_field(part, "id") or text_field(chat, "id")
    title = text_field(part, "title") or text_field(chat, "title")
    began = seconds(part.raw("created_at") or chat.raw("timestamp"))
    conversation = new_conversation(
        OPEN_WEBUI, own or title, title, began, seconds(part.raw("updated_at"))
    )
    conversation.is_pinned = part.raw("pinned") is True
    conversation.placement = Placement("", is_archived=part.raw("archived") is True)
    models = chat.raw("models")
    if isinstance(models, list) and models and isinstance(models[0], str):
        conversation.model = ChosenModel(title_from_file(models[0]))
    where = f"“{conversation.title}”"
    if chat.has("params"):
        params = chat.inner("params")
        options: dict[str, Any] = {
            name: params.maybe(name, float) for name in _SAMPLING if params.has(name)
        }
        prompt = text_field(params, "system")
        conversation.settings = replace(conversation.settings, system_prompt=prompt, **options)
        stops = [text for text in params.maybe("stop", list) or [] if text]
        conversation.stops = stop_entries(stops, f"{where}: params.stop", contents)
    history = chat.inner("history")
    messages = history.take("messages", dict)
    if len(messages) > MAX_MESSAGES:
        raise history.wrong("messages", TOO_LARGE)
    nodes = [
        Node(name, above, _read_message(message, where, contents))
        for name, above, message in _parents_first(messages)
    ]
    shown, at = set(), text_field(history, "currentId")
    above_of = {node.own: node.above for node in nodes}
    while at in above_of and at not in shown:
        shown.add(at)
        at = above_of[at] or ""
    fill_versions(conversation, nodes, contents, shown)


def _parents_first(messages: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield messages with their ids and those of the ones before them; empty for the first."""
    below: defaultdict[str, list[str]] = defaultdict(list)
    for name, message in messages.items():
        above = message.get("parentId") if isinstance(message, dict) else ""
        below[above if isinstance(above, str) and above in messages else ""].append(name)
    waiting = [("", name) for name in reversed(below[""])]
    while waiting:
        above, name = waiting.pop()
        yield name, above, messages[name]
        waiting += ((name, child) for child in reversed(below[name]))


def _read_message(values: Any, where: str, contents: FileContents) -> Turn | None:
    try:
        message = Fields(values, where)
        role, content = message.take("role", str), text_field(message, "content")
        files = [_file(item, contents) for item in message.items("files")]
    except DamagedFile as error:
        contents.note_damage(str(error))
        return None
    when = seconds(message.raw("timestamp"))
    if role == "user":
        turn = Turn("user", content, when, files=tuple(files))
        return None if turn.is_empty else turn
    if role != "assistant":
        contents.left_out["system message"] += 1
        return None
    thoughts: list[str] = []
    calls: list[ToolCall] = []
    results: list[CallResult] = []

    def take(details: re.Match[str]) -> str:
        values = {name: html.unescape(value) for name, value in _ATTRIBUTE.findall(details[2])}
        if details[1] == "reasoning":
            lines = html.unescape(_SUMMARY.sub("", details[3])).strip().splitlines()
            thoughts.append("\n".join(line.removeprefix(">").removeprefix(" ") for line in lines))
        elif details[1] == "tool_calls":
            own = values.get("id") or f"call_{len(calls)}"
            given = _plain(values.get("arguments", ""))
            calls.append(make_call(own, values.get("name", ""), given or {}))
            if result := values.get("result"):
                results.append(make_result(calls[-1], _plain(result)))
        else:
            return details[0]
        return ""

    text, thought = split_thinking(_DETAILS.sub(take, content))
    text, pictures = with_pictures(text, files)
    turn = Turn(
        "assistant", text, when, thinking="\n\n".join(filter(None, [*thoughts, thought])),
        model=text_field(message, "model"), calls=tuple(calls), results=tuple(results),
        pictures=pictures,
    )  # fmt: skip
    return None if turn.is_empty else turn


def _plain(value: str) -> str:
    """Return a text that is written as JSON, or the text itself."""
    with contextlib.suppress(ValueError, RecursionError):
        if isinstance(inner := json.loads(value), str):
            value = inner
    return valid_text(value)


def _file(item: Fields, contents: FileContents) -> Attachment:
    """Return an attached file; later versions keep pictures on their server, and name them."""
    name, address = text_field(item, "name"), text_field(item, "url")
    if text_field(item, "type") == "image" or text_field(item, "content_type").startswith("image/"):
        kept = contents.pictures.file_from(address)
        return picture(name or "untitled", contents, kept)
    inner = item.inner("file") if item.has("file") else Fields({})
    data = inner.inner("data") if inner.has("data") else Fields({})
    if text := text_field(data, "content"):
        return Attachment(file_name(name), text)
    return missing_file(name or "file", contents)
