"""What the demo model is taught: one question with its one right answer. Data only; any thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Tool = dict[str, Any]
Message = dict[str, Any]


@dataclass(frozen=True)
class Exchange:
    """A question, its answer, and what the model thinks in between when thinking is on.

    Attributes:
        question: what the user says.
        answer: the model's whole answer, without the end token.
        thought: one short line that mentions the task.
        family: the name under which scores are printed.
        key: the parameters by which the exchange falls on one side of the split.
        tools: the tools offered with the question, as clients send them.
        calls: the tool calls of which the answer consists, or nothing.
    """

    question: str
    answer: str
    thought: str
    family: str
    key: str = ""
    tools: tuple[Tool, ...] = ()
    calls: tuple[Message, ...] = ()


@dataclass(frozen=True)
class Conversation:
    """Messages up to a question, and the exchange that answers it.

    Attributes:
        messages: every message, the last question included.
        last: the exchange that the last message begins.
        tools: the tools offered in this conversation.
        thinks: whether thinking is on.
    """

    messages: list[Message]
    last: Exchange
    tools: tuple[Tool, ...]
    thinks: bool
