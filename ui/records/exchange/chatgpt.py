"""Reads ChatGPT's export: ``conversations.json``, each conversation a tree of nodes.

https://help.openai.com/en/articles/7260999-how-do-i-export-my-chatgpt-history-and-data describes
the export; its format has no reference. Edits and regenerated answers are branches of the tree, and
become our versions; ``current_node`` says which of them are shown. Code that the model ran becomes
a call with its result. Pure; any thread.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from engine.files.json_fields import DamagedFile, Fields
from engine.stopping.record import StopKind
from engine.values.events import Finished
from engine.wording import counted
from ui.records.attachments import Attachment
from ui.records.conversations import Placement
from ui.records.exchange.contents import FileContents
from ui.records.exchange.other_programs import (
    MAX_MESSAGES,
    TOO_LARGE,
    Turn,
    add_folder,
    append_turn,
    ended,
    file_name,
    fill,
    make_call,
    missing_file,
    new_conversation,
    picture,
    seconds,
    set_model,
    text_field,
    valid_text,
    with_pictures,
)
from ui.records.messages import ConversationMessage
from ui.records.tool_calls import CallResult, CallState

CHATGPT = "ChatGPT"
# Marks of sources; they stand for links that are not in the export.
_CITATION = re.compile("\ue200.*?\ue201", re.DOTALL)
_INSTRUCTIONS = (
    "user_profile", "user_instructions", "about_user_message", "about_model_message",
)  # fmt: skip
_SCHEME = re.compile(r"[\w.-]+://")
_REMEMBERED = "Memories of earlier conversations:"
# What other kinds of content are called in "Left out: …".
_NOT_KEPT_KINDS = {
    "reasoning_recap": "reasoning recap",
    "user_editable_context": "custom instructions note",
}
_MEDIA = {
    "image_asset_pointer": "picture",
    "audio_asset_pointer": "sound recording",
    "real_time_user_audio_video_asset_pointer": "sound recording",
}
_ENDS = {
    "stop": StopKind.EOS,
    "max_tokens": StopKind.MAX_TOKENS,
    "interrupted": StopKind.CANCELLED,
}


def read_chatgpt(part: Fields, contents: FileContents) -> None:
    """Read one conversation; damaged nodes are listed, and the others are read."""
    title = text_field(part, "title")
    nodes = part.take("mapping", dict)
    if len(nodes) > MAX_MESSAGES:
        raise part.wrong("mapping", TOO_LARGE)
    name = text_field(part, "conversation_id") or text_field(part, "id")
    if not name:
        raise part.wrong("conversation_id", "is missing")
    conversation = new_conversation(
        CHATGPT,
        name,
        title,
        seconds(part.raw("create_time")),
        seconds(part.raw("update_time")),
    )
    conversation.placement = Placement(
        _project(part, contents), is_archived=part.raw("is_archived") is True
    )
    conversation.is_pinned = part.raw("is_starred") is True
    tree = _Tree(nodes, contents, f"“{conversation.title}”: ")
    messages = tree.messages()
    prompts = [*tree.instructions, *([f"{_REMEMBERED}\n\n{tree.memory}"] if tree.memory else [])]
    if prompts:
        settings = conversation.settings
        conversation.settings = replace(settings, system_prompt="\n\n".join(prompts))
    fill(conversation, messages, contents)
    set_model(conversation, text_field(part, "default_model_slug"))
    if current := tree.message_of(part.raw("current_node")):
        conversation.tree.show(current)


def _project(part: Fields, contents: FileContents) -> str:
    """Return the folder for the project that a conversation is in; the export has no names."""
    names = (part.raw("conversation_template_id"), part.raw("gizmo_id"))
    own = next((name for name in names if isinstance(name, str) and name.startswith("g-p-")), "")
    if not own:
        if any(isinstance(name, str) and name for name in names):
            contents.left_out["custom GPT"] += 1
        return ""
    return add_folder(CHATGPT, own, f"ChatGPT project {1 + len(contents.folders)}", contents)


class _Tree:
    """The nodes of one conversation."""

    def __init__(self, nodes: Mapping[str, Any], contents: FileContents, where: str) -> None:
        self.instructions: dict[str, None] = {}
        self.memory = ""
        self._contents = contents
        self._where = where
        self._nodes = nodes
        self._made: list[ConversationMessage] = []
        self._ranks: dict[str | None, int] = {}
        self._message_of: dict[str, ConversationMessage | None] = {}
        self._following: dict[str | None, list[str]] = {}
        for key, node in nodes.items():
            parent = node.get("parent") if isinstance(node, dict) else None
            known = parent if isinstance(parent, str) and parent in nodes else None
            self._following.setdefault(known, []).append(key)

    def message_of(self, key: Any) -> ConversationMessage | None:
        """Return the message made from a node; for a node without one, the message before it."""
        return self._message_of.get(key) if isinstance(key, str) else None

    def messages(self) -> list[ConversationMessage]:
        """Return all messages, parents first."""
        # A node; the message before it; reasoning without an answer so far; and whether the node
        # is the only one after that message.
        waiting: list[tuple[str, ConversationMessage | None, Turn | None, bool]] = [
            (key, None, None, True) for key in reversed(self._following.get(None, []))
        ]
        while waiting:
            key, parent, thought, is_only = waiting.pop()
            read = self._read(key)
            message, following = parent, self._following.get(key, [])
            if isinstance(read, CallResult):
                read = self._return(parent, read)
            if read is not None and thought is not None and read.role == "assistant":
                both = filter(None, (thought.thinking, read.thinking))
                read, thought = replace(read, thinking="\n\n".join(both)), None
            if thought is not None and (read is not None or not following):
                message, is_only = self._add(thought, message, is_only=is_only)
                thought = None
            is_thought = read is not None and not (read.text.strip() or read.calls or read.pictures)
            if is_thought and following:
                thought = read
            elif read is not None:
                message, is_only = self._add(read, message, is_only=is_only)
            self._message_of[key] = message
            is_only = is_only and len(following) == 1
            waiting += [(child, message, thought, is_only) for child in reversed(following)]
        if lost := len(self._nodes) - len(self._message_of):
            self._contents.note_damage(
                f"{self._where}mapping: the parents of {counted(lost, 'message')} form a circle"
            )
        return self._made

    def _add(
        self, turn: Turn, parent: ConversationMessage | None, *, is_only: bool
    ) -> tuple[ConversationMessage, bool]:
        """Return the message with a turn, and whether nothing else follows it yet."""
        is_more = parent is not None and parent.role == turn.role and is_only
        # What follows a result is another step of the answer.
        if is_more and parent is not None and not (parent.run is not None and parent.run.results):
            append_turn(parent, turn)
            return parent, is_only
        above = parent.id if parent else None
        self._ranks[above] = self._ranks.get(above, 0) + 1
        message = turn.message(parent, self._ranks[above])
        self._made.append(message)
        return message, True

    def _return(self, parent: ConversationMessage | None, result: CallResult) -> Turn | None:
        """Give the last call of an answer its result; pictures without a call are an answer."""
        run = None if parent is None else parent.run
        if run is None or not run.tool_calls:
            if result.pictures:
                return Turn("assistant", result.text, pictures=result.pictures)
            self._contents.left_out["tool message"] += 1
            return None
        run.pictures += result.pictures
        call, text = run.tool_calls[-1], result.text
        known = run.result_of(call.id)
        if known is not None:  # a tool may report several times
            run.results.remove(known)
            text = "\n\n".join(filter(None, (known.text, text)))
        run.results.append(replace(result, call_id=call.id, tool=call.name, text=text, pictures=()))
        return None

    def _read(self, key: str) -> Turn | CallResult | None:
        node = self._nodes[key]
        try:
            if not isinstance(node, dict):
                raise DamagedFile(f"mapping.{key[:40]}: must be an object")
            if node.get("message") is None:
                return None
            return self._read_message(key, Fields(node["message"], f"mapping.{key[:40]}.message"))
        except DamagedFile as error:
            self._contents.note_damage(f"{self._where}{error}")
            return None

    def _read_message(self, key: str, message: Fields) -> Turn | CallResult | None:
        role = text_field(message.inner("author"), "role")
        details = message.inner("metadata") if message.has("metadata") else Fields({})
        if details.has("user_context_message_data"):
            self._take_instructions(details.inner("user_context_message_data"))
        if not message.has("content"):
            return None
        content = message.inner("content")
        kind = text_field(content, "content_type")
        if role == "tool":
            return _returned(content, kind, details, self._contents)
        if kind == "user_editable_context" and self._take_instructions(content):
            return None
        if kind == "model_editable_context":
            # What the model read before it answered; the newest holds the earlier ones.
            self.memory = text_field(content, "model_set_context").strip() or self.memory
            return None
        files: list[Attachment] = []
        raw = _text(content, files, _names(details), self._contents)
        text = valid_text(_CITATION.sub("", _with_sources(raw, details)))
        is_hidden = details.raw("is_visually_hidden_from_conversation") is True
        if is_hidden or kind in _NOT_KEPT_KINDS or role not in ("user", "assistant"):
            if text.strip() or kind in _NOT_KEPT_KINDS:
                noun = "hidden message" if is_hidden else "system message"
                self._contents.left_out[_NOT_KEPT_KINDS.get(kind, noun)] += 1
            return None
        when, model = seconds(message.raw("create_time")), text_field(details, "model_slug")
        if role == "user":
            files += _other_files(details, files, self._contents)
            if replied := text_field(details, "targeted_reply").strip():
                text = "\n".join([*(f"> {line}" for line in replied.splitlines()), "", text])
            return Turn("user", text, when, files=tuple(files)) if text.strip() or files else None
        made = Turn("assistant", text, when, model, end=_end(details))
        if kind == "thoughts":
            thoughts = [
                text_field(item, name)
                for item in content.items("thoughts")
                for name in ("summary", "content")
            ]
            made = replace(made, text="", thinking="\n\n".join(filter(None, thoughts)))
        recipient = text_field(message, "recipient")
        if kind == "code" or recipient not in ("", "all"):
            name = recipient if recipient not in ("", "all") else text_field(content, "language")
            field = "code" if kind == "code" else "input"
            call = make_call(key, name or "code", text, field=field)
            # A call is the reason, unless the file has another one than the model's own end.
            is_ended = made.end is not None and made.end.stop.kind is not StopKind.EOS
            end = made.end if is_ended else ended(StopKind.TOOL_CALL)
            made = replace(made, text="", calls=(call,), end=end)
        text, pictures = with_pictures(made.text, files)
        made = replace(made, text=text, pictures=pictures)
        return None if made.is_empty else made

    def _take_instructions(self, content: Fields) -> bool:
        """Note the user's custom instructions, which many conversations repeat."""
        parts = [text_field(content, name) for name in _INSTRUCTIONS if content.has(name)]
        text = valid_text("\n\n".join(part for part in parts if part.strip()))
        if text:
            self.instructions[text] = None
        return bool(text)


def _with_sources(text: str, details: Fields) -> str:
    """Return a text with links in the places of its marks of sources."""
    references = details.raw("content_references")
    for reference in references if isinstance(references, list) else ():
        if not isinstance(reference, dict):
            continue
        mark, link = reference.get("matched_text"), reference.get("alt")
        if isinstance(mark, str) and isinstance(link, str) and mark.strip() and link:
            text = text.replace(mark, link)
    return text


def _end(details: Fields) -> Finished | None:
    values = details.raw("finish_details")
    kind = values.get("type") if isinstance(values, dict) else None
    return ended(_ENDS[kind]) if isinstance(kind, str) and kind in _ENDS else None


def _returned(content: Fields, kind: str, details: Fields, contents: FileContents) -> CallResult:
    """Return the result of a call that is not known yet; drawn pictures are beside the content."""
    files: list[Attachment] = []
    text = _text(content, files, _names(details), contents)
    # A page that was read has more than its text.
    names = ("title", "url", "result", "summary", "snippet", "output_str")
    values = (content.raw(name) for name in names)
    beside = [value for value in values if isinstance(value, str) and value]
    seen = content.raw("assets")
    for asset in [*(seen if isinstance(seen, list) else []), content.raw("screenshot")]:
        if isinstance(asset, dict) and "asset_pointer" in asset:
            files.append(_picture(asset["asset_pointer"], {}, contents))
    text = "\n\n".join(filter(None, [*beside, text]))
    outcome = details.raw("aggregate_result")
    status = outcome.get("status") if isinstance(outcome, dict) else None
    drawn = outcome.get("messages") if isinstance(outcome, dict) else None
    for item in drawn if isinstance(drawn, list) else []:
        if isinstance(item, dict) and item.get("message_type") == "image":
            files.append(_picture(item.get("image_url"), {}, contents))
    is_error = kind == "system_error" or (isinstance(status, str) and "failed" in status)
    text, pictures = with_pictures(text, files)
    state: CallState = "failed" if is_error else "done"
    return CallResult("", state, valid_text(text), pictures=pictures)


def _text(
    content: Fields,
    files: list[Attachment],
    names: Mapping[str, str],
    contents: FileContents,
) -> str:
    """Return the text of a message; pictures are added to the files."""
    parts = content.raw("parts")
    if parts is None:
        text = content.raw("text")
        return text if isinstance(text, str) else ""
    if not isinstance(parts, list):
        raise content.wrong("parts", "must be a list")
    texts = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and isinstance(text := part.get("text"), str):
            texts.append(text)  # the transcript of spoken words
        elif isinstance(part, dict):
            kind = part.get("content_type")
            noun = _MEDIA.get(kind) if isinstance(kind, str) else None
            if noun == "picture":
                files.append(_picture(part.get("asset_pointer"), names, contents))
            elif noun is not None:
                contents.left_out[noun] += 1
            else:
                contents.note_unknown()
        elif part is not None:
            contents.note_unknown()
    return "\n\n".join(filter(None, texts))


def _picture(pointer: Any, names: Mapping[str, str], contents: FileContents) -> Attachment:
    """Return the picture that a pointer names: a file of the export."""
    own = _SCHEME.sub("", pointer) if isinstance(pointer, str) else ""
    return picture(names.get(own) or own or "picture", contents, contents.pictures.file_of(own))


def _names(details: Fields) -> dict[str, str]:
    """Return the names of a message's files by their ids."""
    values = details.raw("attachments")
    listed = (
        [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []
    )
    pairs = ((entry.get("id"), entry.get("name")) for entry in listed)
    return {own: name for own, name in pairs if isinstance(own, str) and isinstance(name, str)}


def _other_files(
    details: Fields, pictures: list[Attachment], contents: FileContents
) -> list[Attachment]:
    """Return the files of a question, whose content is not in the list of conversations."""
    shown = {picture.name for picture in pictures}
    named = [file_name(name) for name in _names(details).values()]
    others = [name for name in named if name and name not in shown]
    return [missing_file(name, contents) for name in others]
