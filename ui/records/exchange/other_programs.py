"""Shared by the readers of other programs' exports: messages, times, texts. Pure; any thread."""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from engine.files.fields import Fields
from ui.records import codec
from ui.records.attachments import Attachment
from ui.records.conversations import UNTITLED, Conversation, title_from_file, title_of
from ui.records.exchange.found import origin_of
from ui.records.messages import ConversationMessage, Role, question
from ui.records.runs import Run, RunState

# Larger Unix times are in milliseconds: as seconds they would be thousands of years away.
_LEAST_MS = 100_000_000_000


@dataclass(frozen=True, slots=True)
class Said:
    """One message of another program.

    Attributes:
        role: Who wrote it.
        text: Its text.
        when: Unix time, in seconds; 0 if it is not known.
        model: The model that answered; empty if it is not known.
        thinking: The reasoning before an answer.
        files: The texts that were attached to a question.
    """

    role: Role
    text: str
    when: float = 0.0
    model: str = ""
    thinking: str = ""
    files: tuple[Attachment, ...] = ()

    def message(self, parent: ConversationMessage | None, rank: int = 1) -> ConversationMessage:
        """Return it as a message of ours that follows another one."""
        if self.role == "user":
            made = question(self.text, self.files)
        else:
            run = Run(
                text=self.text,
                thinking=self.thinking,
                model_id=self.model,
                state=RunState.UNRECORDED,
                started_at=self.when,
            )
            made = ConversationMessage("assistant", self.text, run)
        made.parent, made.shown_rank, made.created_at = parent, rank, self.when
        return made


def add_text(message: ConversationMessage, said: Said) -> None:
    """Append the next text of the same author to a message."""
    message.text = "\n\n".join(text for text in (message.text, said.text) if text)
    if message.run is not None:
        run = message.run
        run.text = message.text
        run.model_id = run.model_id or said.model
        run.thinking = "\n\n".join(part for part in (run.thinking, said.thinking) if part)


def conversation_of(
    program: str, name: str, title: str, began: float, ended: float
) -> Conversation:
    """Return an empty conversation of another program.

    Args:
        program: The program.
        name: Its id in that program.
        title: Its title; empty for none.
        began: Unix time of its beginning, in seconds.
        ended: Unix time of its newest message, in seconds.
    """
    made = Conversation(
        title_from_file(title), created_at=began or ended, updated_at=ended or began
    )
    made.origin = origin_of(program, name)
    return made


def fill(conversation: Conversation, messages: Iterable[ConversationMessage]) -> None:
    """Set a conversation's messages, parents first, and the values that depend on them."""
    conversation.tree.fill(messages)
    shown = conversation.messages
    if conversation.title == UNTITLED and shown:
        conversation.title = title_from_file(title_of(shown[0].said))
    if not conversation.updated_at:
        conversation.updated_at = max((one.created_at for one in conversation.tree), default=0.0)
    conversation.created_at = conversation.created_at or conversation.updated_at


def seconds(value: Any) -> float:
    """Return a time given in seconds, milliseconds or ISO 8601 as Unix seconds; 0 for none."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError, OverflowError):
            return codec.moment(datetime.fromisoformat(value).timestamp())
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    with contextlib.suppress(OverflowError):
        return codec.moment(float(value) / (1000 if value >= _LEAST_MS else 1))
    return 0.0


def whole(text: str) -> str:
    """Return a text with a replacement for lone surrogates, which cannot be written to a file."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def text_in(fields: Fields, name: str) -> str:
    """Return a text field; empty if it is missing."""
    value = fields.raw(name)
    if value is not None and not isinstance(value, str):
        raise fields.wrong(name, "must be text")
    return whole(value or "")


def parts_of(fields: Fields, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the items of a list, of any type, each with its place."""
    for number, value in enumerate(fields.maybe(name, list) or []):
        yield f"{name}[{number}]", value
