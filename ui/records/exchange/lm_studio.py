"""Reads LM Studio's conversations: a ``*.conversation.json`` for each, in folders; and its presets.

The format has no reference; this reads what LM Studio 0.3 writes. Each message has versions, one of
which is selected; all versions share the messages that follow. Settings are a list of keys and
values, as in https://github.com/lmstudio-ai/lmstudio-js. Pure; any thread.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from engine.files.json_fields import DamagedFile, Fields, parsed_json
from engine.stopping.record import StopKind
from engine.values.events import Finished
from engine.values.request import ToolCall
from ui.records.attachments import Attachment
from ui.records.codec import Preset
from ui.records.conversations import ChosenModel, ConversationSettings
from ui.records.exchange.contents import FileContents
from ui.records.exchange.other_programs import (
    Turn,
    ended,
    fill,
    list_items,
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
from ui.records.messages import ConversationMessage
from ui.records.stop_entries import StopEntry
from ui.records.titles import title_from_file
from ui.records.tool_calls import CallResult

LM_STUDIO = "LM Studio"
SUFFIX = ".conversation.json"
PRESET_SUFFIX = ".preset.json"
_KEY = "llm.prediction."
_STOPS = "stopStrings"
_SAMPLING: dict[str, tuple[str, type[float] | type[int]]] = {
    "temperature": ("temperature", float),
    "topPSampling": ("top_p", float),
    "topKSampling": ("top_k", int),
    "minPSampling": ("min_p", float),
    "repeatPenalty": ("repetition_penalty", float),
    "maxPredictedTokens": ("max_tokens", int),
}
# https://lmstudio.ai/docs/typescript/api-reference/llm-prediction-stats
_ENDS = {
    "eosFound": StopKind.EOS,
    "stopStringFound": StopKind.STOP_STRING,
    "maxPredictedTokensReached": StopKind.MAX_TOKENS,
    "contextLengthReached": StopKind.CONTEXT_FULL,
    "toolCalls": StopKind.TOOL_CALL,
    "userStopped": StopKind.CANCELLED,
    "modelUnloaded": StopKind.ERROR,
    "failed": StopKind.ERROR,
}
_CAUSES = {"modelUnloaded": "The model was unloaded."}
# Steps about how the answer was made.
_REMARKS = ("debugInfoBlock", "toolStatus", "status")


def read_lm_studio(values_of_file: Any, name: str, contents: FileContents) -> None:
    """Read a conversation; damaged messages are listed, and the others are read."""
    part = Fields(values_of_file)
    began = seconds(part.raw("createdAt"))
    own = PurePosixPath(name).name.removesuffix(SUFFIX)
    conversation = new_conversation(LM_STUDIO, own, text_field(part, "name"), began, 0.0)
    conversation.is_pinned = part.raw("pinned") is True
    conversation.draft = text_field(part, "clientInput")
    if part.has("lastUsedModel"):
        last = part.inner("lastUsedModel")
        if model := text_field(last, "indexedModelIdentifier") or text_field(last, "identifier"):
            conversation.model = ChosenModel(title_from_file(model))
    values = _values(part, "perChatPredictionConfig")
    conversation.settings, conversation.stops = _settings(values, name, contents)
    if prompt := text_field(part, "systemPrompt"):
        conversation.settings = replace(conversation.settings, system_prompt=prompt)
    made: list[ConversationMessage] = []
    parent: ConversationMessage | None = None
    for where, value in list_items(part, "messages"):
        try:
            turns, selected = _versions(Fields(value, where), contents)
        except DamagedFile as error:
            contents.note_damage(f"{name}: {error}")
            continue
        versions = [
            version.message(parent, 2 if number == selected else 1) for number, version in turns
        ]
        made += versions
        shown = next((m for m in versions if m.shown_rank == 2), None)
        parent = shown or (versions[-1] if versions else parent)
    # Few messages have times: each is at least as new as the one before, or the conversation.
    for message in made:
        above = message.parent.created_at if message.parent else began
        message.created_at = max(message.created_at, above)
    last_times = (part.raw(f"{who}LastMessagedAt") for who in ("user", "assistant"))
    conversation.updated_at = max(map(seconds, last_times))
    fill(conversation, made, contents)
    if notes := part.raw("notes"):
        contents.left_out["note"] += len(notes) if isinstance(notes, list) else 1


def read_preset(part: Fields, name: str, contents: FileContents) -> None:
    """Read a preset: its prompt, sampling, limit and stops."""
    own = PurePosixPath(name).name.removesuffix(PRESET_SUFFIX)
    settings, stops = _settings(_values(part, "operation"), name, contents)
    called = text_field(part, "name").strip() or own
    contents.presets.append(Preset(called, settings, tuple(stops)))


def _values(part: Fields, name: str) -> dict[str, Any]:
    """Return the enabled settings of a list of keys and values."""
    values: dict[str, Any] = {}
    holder = part.raw(name)
    listed = holder.get("fields") if isinstance(holder, dict) else None
    for field in listed if isinstance(listed, list) else []:
        key, value = (
            (field.get("key"), field.get("value")) if isinstance(field, dict) else (None, None)
        )
        if not isinstance(key, str) or not key.startswith(_KEY):
            continue
        if isinstance(value, dict) and "checked" in value:
            value = value.get("value") if value.get("checked") is True else None
        if value is not None:
            values[key.removeprefix(_KEY)] = value
    return values


def _settings(
    values: Mapping[str, Any], where: str, contents: FileContents
) -> tuple[ConversationSettings, list[StopEntry]]:
    options: dict[str, Any] = {}
    for key, (name, kind) in _SAMPLING.items():
        try:
            if (value := Fields(values).maybe(key, kind)) is not None:
                options[name] = value
        except DamagedFile as error:
            contents.note_damage(f"{where}: {_KEY}{error}")
    if options.get("max_tokens", 1) < 1:  # it writes -1 for no limit
        del options["max_tokens"]
    prompt = values.get("systemPrompt")
    options["system_prompt"] = valid_text(prompt) if isinstance(prompt, str) else ""
    stops = stop_entries(_texts(values.get(_STOPS)), f"{where}: {_KEY}{_STOPS}", contents)
    return ConversationSettings(**options), stops


def _texts(value: Any) -> list[Any]:
    return [item for item in value if item != ""] if isinstance(value, list) else []


def _versions(message: Fields, contents: FileContents) -> tuple[list[tuple[int, Turn]], int]:
    """Return the versions of a message with their numbers, and the number of the selected one."""
    read = [_read_version(version, contents) for version in message.items("versions")]
    turns = [(n, turn) for n, turn in enumerate(read) if turn is not None and not turn.is_empty]
    return turns, message.maybe("currentlySelected", int) or 0


def _read_version(version: Fields, contents: FileContents) -> Turn | None:
    role = version.take("role", str)
    if role not in ("user", "assistant"):
        contents.left_out["system message"] += 1
        return None
    answer = _Answer(contents)
    if version.has("steps"):
        for step in version.items("steps"):
            answer.take_step(step)
    else:
        answer.take_content(version, is_thinking=False)
    text = "".join(answer.texts)
    if role == "user":
        return Turn("user", text, answer.when, files=tuple(answer.files))
    text, thought = split_thinking(text)
    text, pictures = with_pictures(text, answer.files)
    sender = version.inner("senderInfo") if version.has("senderInfo") else None
    model = text_field(sender, "senderName") if sender is not None else ""
    thinking = "\n\n".join(filter(None, ["".join(answer.thoughts).strip(), thought]))
    return Turn(
        "assistant", text, answer.when, model=answer.model or model, thinking=thinking,
        calls=tuple(answer.calls.values()), results=tuple(answer.results), stops=answer.stops,
        max_tokens=answer.max_tokens, pictures=pictures, end=answer.end,
    )  # fmt: skip


class _Answer:
    """The parts of a message, collected from its steps."""

    def __init__(self, contents: FileContents) -> None:
        self.texts: list[str] = []
        self.thoughts: list[str] = []
        self.files: list[Attachment] = []
        self.calls: dict[str, ToolCall] = {}
        self.results: list[CallResult] = []
        self.model = ""
        self.stops: tuple[str, ...] = ()
        self.max_tokens: int | None = None
        self.end: Finished | None = None
        self.when = 0.0
        self._contents = contents

    def take_step(self, step: Fields) -> None:
        began = text_field(step, "stepIdentifier").partition("-")[0]  # a time, and a random number
        if began.isdigit() and not self.when:
            self.when = seconds(int(began))
        if (kind := text_field(step, "type")) != "contentBlock":
            if kind == "citationBlock":
                self.texts.append(_citation(step))
            elif kind not in _REMARKS:
                self._contents.note_unknown()
            return
        style = step.inner("style") if step.has("style") else None
        self.take_content(step, is_thinking=style is not None and _is_thinking(style))
        if step.has("genInfo"):
            self._take_info(step.inner("genInfo"))

    def take_content(self, holder: Fields, *, is_thinking: bool) -> None:
        """Add a list of pieces; tags that only mark structure are left out."""
        for piece in holder.items("content"):
            kind = text_field(piece, "type")
            if kind == "text":
                if piece.raw("isStructural") is not True:
                    text = text_field(piece, "text")
                    (self.thoughts if is_thinking else self.texts).append(text)
            elif kind == "file":
                self._take_file(piece)
            elif kind == "toolCallRequest":
                own = self._call_id(piece)
                name = text_field(piece, "name")
                given = piece.raw("parameters") or piece.raw("arguments")
                self.calls[own] = make_call(own, name, given or {})
            elif kind == "toolCallResult" and self._call_id(piece) in self.calls:
                made: list[Attachment] = []
                text = self._returned(piece.raw("content"), made)
                self.results.append(make_result(self.calls[self._call_id(piece)], text, made))
            else:
                self._contents.note_unknown()

    def _call_id(self, piece: Fields) -> str:
        """Return the id that a call and its result have in common."""
        for name in ("callId", "toolCallRequestId", "toolCallId"):
            if isinstance(value := piece.raw(name), str | int):
                return valid_text(str(value))
        return next(reversed(self.calls), "call")

    def _returned(self, content: Any, files: list[Attachment]) -> str:
        """Return the text that a tool returned; its pictures are added to the files."""
        if isinstance(content, str) and '"image"' in content:
            with contextlib.suppress(DamagedFile):
                parts = parsed_json(content)
                content = parts if isinstance(parts, list) else content
        return tool_text(content or "", files, self._contents)

    def _take_file(self, piece: Fields) -> None:
        own = text_field(piece, "fileIdentifier") or text_field(piece, "identifier") or "file"
        name = text_field(piece, "name") or own
        if text_field(piece, "fileType") == "image":
            self.files.append(picture(name, self._contents, self._contents.pictures.file_of(own)))
        else:
            self.files.append(missing_file(name, self._contents))

    def _take_info(self, info: Fields) -> None:
        """Add the end of a step: the model, the stops that it ran with, the reason."""
        named = text_field(info, "indexedModelIdentifier") or text_field(info, "identifier")
        self.model = self.model or named
        values = _values(info, "predictionConfig")
        known = tuple(
            valid_text(text) for text in _texts(values.get(_STOPS)) if isinstance(text, str)
        )
        self.stops = known or self.stops
        limit = values.get("maxPredictedTokens")
        if type(limit) is int and 0 < limit < 1 << 31:
            self.max_tokens = limit
        if not info.has("stats"):
            return
        stats = info.inner("stats")
        kind = _ENDS.get(named := text_field(stats, "stopReason"))
        if kind is None:
            return
        # Older versions do not say which of several it was.
        value = text_field(stats, "stopString") or (self.stops[0] if len(self.stops) == 1 else None)
        value = value if kind is StopKind.STOP_STRING else None
        self.end = ended(kind, value, _CAUSES.get(named, ""))


def _citation(step: Fields) -> str:
    """Return a passage of a file, as a quotation that names the file."""
    quoted = "\n> ".join(text_field(step, "citedText").splitlines())
    sources = [text_field(step, "fileName")]
    for name, word in (("pageNumber", "page"), ("lineNumber", "line")):
        if (at := step.raw(name)) is not None:
            sources.append(f"{word} {'–'.join(map(str, at)) if isinstance(at, list) else at}")
    return f"\n\n> {quoted}\n>\n> ({', '.join(filter(None, sources))})\n\n"


def _is_thinking(style: Fields) -> bool:
    return text_field(style, "type") == "thinking"
