"""Reads Jan's threads: a folder for each, with ``thread.json`` and ``messages.jsonl``.

https://jan.ai/docs/desktop/data-folder describes the folder. Pure; any thread.
"""

from dataclasses import replace

from engine.files.fields import DamagedFile, Fields, parsed_json
from ui.records.exchange.found import FoundConversations
from ui.records.exchange.other_programs import (
    Said,
    conversation_of,
    fill,
    seconds,
    text_in,
    whole,
)
from ui.records.messages import chained

JAN = "Jan"
THREAD, MESSAGES = "thread.json", "messages.jsonl"


def read_jan(part: Fields, lines: str, name: str, found: FoundConversations) -> None:
    """Read a thread; damaged messages are listed, and the others are read.

    Args:
        part: The content of ``thread.json``.
        lines: The content of ``messages.jsonl``.
        name: The folder's name.
        found: Gets the conversation.
    """
    own = text_in(part, "id") or name
    began, ended = seconds(part.raw("created")), seconds(part.raw("updated"))
    conversation = conversation_of(JAN, own, text_in(part, "title"), began, ended)
    for assistant in part.items("assistants")[:1]:
        prompt = whole(text_in(assistant, "instructions"))
        conversation.settings = replace(conversation.settings, system_prompt=prompt)
    said: list[Said] = []
    # Only a line feed ends a line: texts in JSON may contain other line separators.
    for number, line in enumerate(lines.split("\n"), 1):
        if not line.strip():
            continue
        try:
            one = _said(Fields(parsed_json(line)))
        except DamagedFile as error:
            found.damaged.append(f"{name}/{MESSAGES}, line {number}: {_plain(error)}")
            continue
        if one is not None:
            said.append(one)
    # Some versions write the newest message first.
    if all(one.when for one in said):
        said.sort(key=lambda one: one.when)
    fill(conversation, chained(one.message(None) for one in said))
    if said:
        found.conversations.append(conversation)


def _plain(error: DamagedFile) -> str:
    return str(error).replace("line 1 is not valid JSON", "this is not valid JSON")


def _said(message: Fields) -> Said | None:
    role = message.take("role", str)
    if role not in ("user", "assistant"):
        return None
    texts: list[str] = []
    thoughts: list[str] = []
    for item in message.items("content"):
        if not item.has("text"):
            continue
        value = whole(text_in(item.inner("text"), "value"))
        (thoughts if text_in(item, "type") == "reasoning" else texts).append(value)
    text = "\n\n".join(filter(None, texts))
    when = seconds(message.raw("created_at") or message.raw("created"))
    if not text.strip():
        return None
    if role == "user":
        return Said("user", text, when)
    return Said("assistant", text, when, thinking="\n\n".join(thoughts))
