"""Reads Claude's export: ``conversations.json``, each conversation a list of messages.

https://support.claude.com/en/articles/9450526-how-can-i-export-my-claude-ai-data describes the
export; its format has no reference. Where messages name the one before them, edits and retries
become our versions. Pure; any thread.
"""

from typing import Any

from engine.files.json_fields import DamagedFile, Fields
from engine.stopping.record import StopKind
from engine.values.events import Finished
from engine.values.request import ToolCall
from ui.records.attachments import Attachment
from ui.records.conversations import ConversationFolder, Placement
from ui.records.exchange.contents import FileContents, origin_of
from ui.records.exchange.other_programs import (
    Node,
    Turn,
    add_folder,
    ended,
    file_name,
    fill_versions,
    list_items,
    make_call,
    make_result,
    missing_file,
    new_conversation,
    picture,
    seconds,
    set_model,
    text_field,
    tool_text,
    valid_text,
    with_pictures,
)
from ui.records.titles import title_from_file
from ui.records.tool_calls import CallResult

CLAUDE = "Claude"
_ENDS = {
    "end_turn": StopKind.EOS,
    "stop_sequence": StopKind.STOP_STRING,
    "max_tokens": StopKind.MAX_TOKENS,
    "tool_use": StopKind.TOOL_CALL,
    "user_canceled": StopKind.CANCELLED,
}


def read_claude(part: Fields, contents: FileContents) -> None:
    """Read one conversation; damaged messages are listed, and the others are read."""
    began, ended = seconds(part.raw("created_at")), seconds(part.raw("updated_at"))
    name = part.take("uuid", str)
    conversation = new_conversation(CLAUDE, name, text_field(part, "name"), began, ended)
    conversation.is_pinned = part.raw("is_starred") is True
    conversation.placement = Placement(_project(part, contents))
    nodes: list[Node] = []
    for where, value in list_items(part, "chat_messages"):
        try:
            message = Fields(value, where)
            turn = _read_message(message, contents)
            above = text_field(message, "parent_message_uuid")
        except DamagedFile as error:
            contents.note_damage(f"“{conversation.title}”: {error}")
            continue
        # All zeros, except for the UUID's version, stand for none; older exports name none.
        is_first = above.startswith("00000000-0000-")
        nodes.append(Node(text_field(message, "uuid"), "" if is_first else above or None, turn))
    known = fill_versions(conversation, nodes, contents)
    set_model(conversation, text_field(part, "model"))
    if leaf := known.get(text_field(part, "current_leaf_message_uuid")):
        conversation.tree.show(leaf)


def read_project(part: Fields, contents: FileContents) -> None:
    """Read a project as a folder; its instructions are those of new conversations in it."""
    identity = origin_of(CLAUDE, part.take("uuid", str))
    name, prompt = title_from_file(text_field(part, "name")), text_field(part, "prompt_template")
    contents.folders = [folder for folder in contents.folders if folder.id != identity]
    contents.folders.append(ConversationFolder(name, prompt, id=identity))
    if count := len(part.items("docs")):
        contents.left_out["project document"] += count


def _project(part: Fields, contents: FileContents) -> str:
    """Return the folder for the project of a conversation."""
    project = part.raw("project")
    named = Fields(project) if isinstance(project, dict) else Fields({})
    own = text_field(part, "project_uuid") or text_field(named, "uuid")
    name = text_field(named, "name") or "Claude project"
    return add_folder(CLAUDE, own, name, contents) if own else ""


def _read_message(message: Fields, contents: FileContents) -> Turn | None:
    sender = message.take("sender", str)
    if sender not in ("human", "assistant"):
        contents.left_out["unknown message"] += 1
        return None
    texts: list[str] = []
    thoughts: list[str] = []
    calls: dict[str, ToolCall] = {}
    results: list[CallResult] = []
    for number, block in enumerate(message.items("content")):
        kind = text_field(block, "type")
        if kind == "text" and isinstance(text := block.raw("text"), str):
            texts.append(valid_text(text) + _sources(block))
        elif kind == "thinking" and isinstance(text := block.raw("thinking"), str):
            summaries = [text_field(item, "summary") for item in block.items("summaries")]
            thoughts += [valid_text(text)] if text.strip() else summaries
        elif kind == "tool_use":
            own = text_field(block, "id") or f"call_{number}"
            calls[own] = make_call(own, text_field(block, "name"), block.raw("input") or {})
        elif kind == "tool_result" and calls:
            own = text_field(block, "tool_use_id")
            call = calls.get(own) or list(calls.values())[-1]
            is_error = block.raw("is_error") is True
            shown: list[Attachment] = []
            returned = tool_text(block.raw("content") or "", shown, contents)
            results.append(make_result(call, returned, shown, is_error=is_error))
        elif kind == "voice_note":
            spoken = (text_field(block, name) for name in ("title", "text"))
            texts.append("\n\n".join(filter(None, spoken)))
        elif kind == "tool_result":
            contents.left_out["tool message"] += 1
        elif kind not in ("token_budget", "flag"):  # marks without content
            contents.note_unknown()
    body = "\n\n".join(text for text in texts if text.strip())
    if not body and isinstance(plain := message.raw("text"), str):
        body = valid_text(plain)
    files = tuple(_files(message, contents))
    when = seconds(message.raw("created_at"))
    if sender == "human":
        made = Turn("user", body, when, files=files)
    else:
        body, kept = with_pictures(body, files)
        end = _end(message.raw("stop_reason"), message.raw("stop_sequence"))
        made = Turn(
            "assistant", body, when, thinking="\n\n".join(thoughts), calls=tuple(calls.values()),
            results=tuple(results), end=end, pictures=kept,
        )  # fmt: skip
    return None if made.is_empty else made


def _end(named: Any, sequence: Any) -> Finished | None:
    kind = _ENDS.get(named) if isinstance(named, str) else None
    is_named = kind is StopKind.STOP_STRING and isinstance(sequence, str) and bool(sequence)
    return None if kind is None else ended(kind, valid_text(sequence) if is_named else None)


def _sources(block: Fields) -> str:
    """Return the links to the sources of a text."""
    links: dict[str, str] = {}
    for citation in block.items("citations"):
        details = citation.inner("details") if citation.has("details") else citation
        if isinstance(url := details.raw("url"), str) and url:
            links.setdefault(url, text_field(citation, "title") or url)
    listed = (f"[{name}]({url})" for url, name in links.items())
    return f"\n\n{' · '.join(listed)}" if links else ""


def _files(message: Fields, contents: FileContents) -> list[Attachment]:
    files = []
    for item in message.items("attachments"):
        name = file_name(text_field(item, "file_name") or "attachment.txt")
        if isinstance(text := item.raw("extracted_content"), str) and text:
            files.append(Attachment(name, valid_text(text)))
        else:
            files.append(missing_file(name, contents))
    read = {file.name for file in files}
    for item in message.items("files"):
        name = file_name(text_field(item, "file_name"))
        if name in read:
            continue
        names = (item.raw("file_uuid"), item.raw("file_name"))
        kept = (contents.pictures.file_of(name) for name in names if isinstance(name, str) and name)
        if file := next(filter(None, kept), ""):
            files.append(picture(name, contents, file))
        else:
            files.append(missing_file(name, contents))
    return files
