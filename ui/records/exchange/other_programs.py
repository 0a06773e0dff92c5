"""Shared by the readers of other programs' exports: messages, times and texts.

Pure; any thread.
"""

import contextlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from engine.errors import InvalidRequest
from engine.files.json_fields import Fields
from engine.stopping.record import StopInfo, StopKind
from engine.stopping.rules import StopRules, checked_strings
from engine.values.events import Finished, Timing, Usage
from engine.values.request import ToolCall
from engine.wording import counted
from ui.records.attachments import Attachment, kept_as
from ui.records.codec import moment
from ui.records.conversations import Conversation, ConversationFolder
from ui.records.exchange.contents import FileContents, origin_of
from ui.records.messages import ConversationMessage, Role, question
from ui.records.runs import Run
from ui.records.stop_entries import StopEntry
from ui.records.titles import UNTITLED, title_from_file, title_of
from ui.records.tool_calls import CallResult, CallState

# Each takes a few KB of memory.
MAX_MESSAGES = 50_000
TOO_LARGE = (
    f"it is too large: a conversation may have up to {counted(MAX_MESSAGES, 'message')}, of 16 MB"
)
# Models that write their reasoning into the answer, and programs that do not take it apart.
_THOUGHT = re.compile(r"\A\s*<think(?:ing)?>(.*?)(?:</think(?:ing)?>|\Z)\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of another program."""

    role: Role
    text: str
    when: float = 0.0
    model: str = ""
    thinking: str = ""
    files: tuple[Attachment, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    results: tuple[CallResult, ...] = ()
    stops: tuple[str, ...] = ()
    max_tokens: int | None = None
    pictures: tuple[Attachment, ...] = ()
    end: Finished | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it."""
        parts = (self.text.strip(), self.thinking.strip(), self.files, self.calls, self.pictures)
        return not any(parts)

    def message(self, parent: ConversationMessage | None, rank: int = 1) -> ConversationMessage:
        """Return it as a message of ours that follows another one."""
        if self.role == "user":
            made = question(self.text, self.files)
        else:
            run = Run(
                text=self.text,
                thinking=self.thinking,
                model_id=self.model,
                state="unrecorded",
                is_imported=True,
                started_at=self.when,
                rules=StopRules.of(*self.stops),
                max_tokens=self.max_tokens,
                tool_calls=list(self.calls),
                results=list(self.results),
                pictures=self.pictures,
            )
            _end(run, self.end)
            made = ConversationMessage("assistant", self.text, run)
        made.parent, made.shown_rank, made.created_at = parent, rank, self.when
        return made


class Node(NamedTuple):
    """A turn, its id and that of the one before it: empty for the first, None if not recorded."""

    own: str
    above: str | None
    turn: Turn | None  # None for a message without content


def append_turn(message: ConversationMessage, turn: Turn) -> None:
    """Append the next text of the same author to a message."""
    message.text = "\n\n".join(text for text in (message.text, turn.text) if text)
    if message.run is not None:
        run = message.run
        run.text = message.text
        run.model_id = run.model_id or turn.model
        run.thinking = "\n\n".join(part for part in (run.thinking, turn.thinking) if part)
        run.tool_calls += turn.calls
        run.results += turn.results
        run.pictures += turn.pictures
        run.rules = run.rules if run.stops else StopRules.of(*turn.stops)
        run.max_tokens = run.max_tokens or turn.max_tokens
        _end(run, turn.end)


def _end(run: Run, end: Finished | None) -> None:
    """Give a run the end that its last part has, at the end of its text."""
    run.finished = end and replace(end, stop=replace(end.stop, text_offset=len(run.text)))
    run.state = "unrecorded" if end is None else "finished"


def ended(kind: StopKind, value: str | None = None, error: str = "") -> Finished:
    """Return the end of an answer as its file names it, without figures."""
    return Finished(StopInfo(kind, value), Usage(0, 0, 0), Timing(), error=error or None)


def new_conversation(
    program: str, name: str, title: str, began: float, ended: float
) -> Conversation:
    """Return an empty conversation of another program."""
    made = Conversation(
        title_from_file(title), created_at=began or ended, updated_at=ended or began
    )
    made.origin = origin_of(program, name)
    return made


def fill(
    conversation: Conversation, messages: Iterable[ConversationMessage], contents: FileContents
) -> None:
    """Set a conversation's messages, parents first, and add it to the contents."""
    conversation.tree.fill(messages)
    if not len(conversation.tree):
        contents.left_out["empty conversation"] += 1
        return
    contents.conversations.append(conversation)
    shown = conversation.messages
    if conversation.title == UNTITLED and shown:
        conversation.title = title_from_file(title_of(shown[0].content))
    if not conversation.updated_at:
        conversation.updated_at = max(
            (message.created_at for message in conversation.tree), default=0.0
        )
    conversation.created_at = conversation.created_at or conversation.updated_at


def fill_versions(
    conversation: Conversation,
    nodes: Iterable[Node],
    contents: FileContents,
    chosen: Collection[str] = (),
) -> dict[str, ConversationMessage | None]:
    """Set a conversation's messages: turns after the same one are its versions.

    Returns the message of each id; of a turn without content, the message before it.
    """
    known: dict[str, ConversationMessage | None] = {}
    versions = Counter[str | None]()
    made: list[ConversationMessage] = []
    for own, above, turn in nodes:
        before = made[-1] if made and above != "" else None
        parent = known.get(above, before) if above else before
        if turn is not None:
            key = parent.id if parent else None
            versions[key] += 1
            rank = versions[key] + MAX_MESSAGES * (own in chosen)
            parent = turn.message(parent, rank)
            made.append(parent)
        if own:
            known[own] = parent
    fill(conversation, made, contents)
    if made and not chosen:
        conversation.tree.show(made[-1])
    return known


def set_model(conversation: Conversation, model: str) -> None:
    """Note the model of a conversation in its answers: a hosted one cannot answer here."""
    for message in conversation.tree:
        if message.run is not None:
            message.run.model_id = message.run.model_id or model


def seconds(value: Any) -> float:
    """Return a time given in seconds, milliseconds or ISO 8601 as Unix seconds; 0 for none."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError, OverflowError):
            return moment(datetime.fromisoformat(value).timestamp())
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    with contextlib.suppress(OverflowError):
        # As seconds, larger times would be thousands of years away.
        return moment(float(value) / (1000 if value >= 1e11 else 1))
    return 0.0


def split_thinking(text: str) -> tuple[str, str]:
    """Return an answer without the reasoning at its beginning, and that reasoning."""
    match = _THOUGHT.match(text)
    return (text, "") if match is None else (text[match.end() :], match[1].strip())


def file_name(name: str) -> str:
    """Return the name of a file as one line of limited length."""
    return " ".join(valid_text(name).split())[:200] or "file"


def picture(name: str, contents: FileContents, file: str = "") -> Attachment:
    """Return a picture of a message, or count and name a picture that is not kept."""
    if file:
        return kept_as(file_name(name), file)
    contents.left_out["picture"] += 1
    return Attachment(file_name(name), "(a picture, which is not kept here)")


def with_pictures(text: str, files: Sequence[Attachment]) -> tuple[str, tuple[Attachment, ...]]:
    """Return a text that names the files that are not kept, and the pictures beside it."""
    pictures = tuple(file for file in files if file.kept_file)
    named = [f"({file.name}: {file.text.strip('()')})" for file in files if not file.kept_file]
    return "\n\n".join([text, *named]).strip() if named else text, pictures


def missing_file(name: str, contents: FileContents, kind: str = "attached file") -> Attachment:
    """Count a file that an export only names."""
    contents.left_out[kind] += 1
    return Attachment(file_name(name), "(the file is not kept here)")


def add_folder(program: str, own: str, name: str, contents: FileContents) -> str:
    """Return the id of the folder for a project, which is the same at each import."""
    identity = origin_of(program, own)
    if all(folder.id != identity for folder in contents.folders):
        contents.folders.append(ConversationFolder(title_from_file(name), id=identity))
    return identity


def tool_text(content: Any, files: list[Attachment], contents: FileContents) -> str:
    """Return the text that a tool returned: text, parts, or any other value as JSON.

    Its pictures are added to the files. Parts are those of Claude and of the Model Context
    Protocol.
    """
    if isinstance(content, str):
        return valid_text(content)
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        return valid_text(json.dumps(content, ensure_ascii=False))
    texts: list[str] = []
    for part in map(Fields, content):
        name = text_field(part, "file_name") or text_field(part, "name")
        lines = [part.raw(name) for name in ("title", "url", "text")]
        if part.raw("type") == "image":
            files.append(_tool_picture(part, name or f"picture {len(files) + 1}", contents))
        elif shown := [line for line in lines if isinstance(line, str) and line]:
            texts.append(valid_text("\n".join(shown)))
        elif part.raw("type") == "local_resource":
            file = missing_file(name or text_field(part, "file_path"), contents, "created file")
            texts.append(f"({file.name}: {file.text.strip('()')})")
        elif not isinstance(lines[-1], str):
            contents.note_unknown()
    return "\n\n".join(texts)


def _tool_picture(part: Fields, name: str, contents: FileContents) -> Attachment:
    """Return a picture that is in the part itself, or is a file of the export."""
    source = part.inner("source") if part.has("source") else part
    kind = source.raw("media_type") or source.raw("mimeType")
    if isinstance(data := source.raw("data"), str):
        return picture(name, contents, contents.pictures.file_from(f"data:{kind};base64,{data}"))
    own = part.raw("file_uuid")
    return picture(name, contents, contents.pictures.file_of(own) if isinstance(own, str) else "")


def make_call(call_id: str, name: str, arguments: Any, *, field: str = "input") -> ToolCall:
    """Return a call of another program."""
    if isinstance(arguments, str):
        with contextlib.suppress(ValueError, RecursionError):
            if isinstance(json.loads(arguments), dict):
                return ToolCall(call_id, valid_text(name), valid_text(arguments))
    value = arguments if isinstance(arguments, Mapping) else {field: arguments}
    return ToolCall(call_id, valid_text(name), valid_text(json.dumps(value, ensure_ascii=False)))


def make_result(
    call: ToolCall, text: str, files: Sequence[Attachment] = (), *, is_error: bool = False
) -> CallResult:
    """Return the result of a call, with the pictures among its files."""
    state: CallState = "failed" if is_error else "done"
    text, pictures = with_pictures(text, files)
    return CallResult(call.id, state, valid_text(text), tool=call.name, pictures=pictures)


def stop_entries(values: Iterable[Any], where: str, contents: FileContents) -> list[StopEntry]:
    """Return the stop list of a conversation; sequences that cannot be used are listed."""
    entries: dict[str, StopEntry] = {}
    for number, value in enumerate(values):
        try:
            checked_strings([*entries, value], where)
        except InvalidRequest as error:
            contents.note_damage(f"{where}[{number}]: {error.reason}")
        else:
            entries[value] = StopEntry.of(value)
    return list(entries.values())


def valid_text(text: str) -> str:
    """Return a text with a replacement for lone surrogates, which cannot be written to a file."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def text_field(fields: Fields, name: str) -> str:
    """Return a text field; empty if it is missing."""
    value = fields.raw(name)
    if value is not None and not isinstance(value, str):
        raise fields.wrong(name, "must be text")
    return valid_text(value or "")


def list_items(fields: Fields, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the items of a list, of any type, each with its place."""
    values = fields.maybe(name, list) or []
    if len(values) > MAX_MESSAGES:
        raise fields.wrong(name, TOO_LARGE)
    for number, value in enumerate(values):
        yield f"{name}[{number}]", value
