"""The record of why a generation ended; built once where it is decided, only rendered elsewhere.

Pure values: must not know models, transports or toolkits. Used on every thread.
"""

from dataclasses import dataclass
from enum import StrEnum

TEMPLATE_SOURCE = "template"
"""The source of an end token that the model's files do not name, and its chat template does."""

FORK_SOURCE = "fork"
"""The source of an end token that the user chose in the place of another token."""


class StopKind(StrEnum):
    """Every way in which a generation can end."""

    EOS = "eos"
    STOP_STRING = "stop_string"
    STOP_TOKEN = "stop_token"
    REPETITION = "repetition"
    MAX_TOKENS = "max_tokens"
    CONTEXT_FULL = "context_full"
    MEMORY_FULL = "memory_full"
    TOOL_CALL = "tool_call"
    CANCELLED = "cancelled"
    ERROR = "error"


class Channel(StrEnum):
    """The part of the model's output to which a piece of text belongs."""

    TEXT = "text"
    THINKING = "thinking"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class StopInfo:
    """Why, where and on which token a generation ended.

    Attributes:
        value: The matched string (``STOP_STRING``), the token id (``STOP_TOKEN``), else None.
        token_id: The token on which generation ended, where there was one.
        channel: The channel of the match, or the open channel at the end.
        text_offset: Code points of that channel's text before the match; for other kinds, the
            length of that channel's text. In the tool channel, the text is that of the open call
            alone, counted from its first generated character: 0 once the call is complete.
        token_index: Index, from 0 over the generated tokens, of the token that completed it.
        rule_index: Position in ``StopRules.stops`` of the stop that matched, else None.
        held: Text that was being held back when generation ended otherwise, and was released.
        dropped: The matched stop and the text after it that was thrown away.
        source: Where the end token is named (``EOS`` only): ``tokenizer``, a file of the model,
            ``mlx-lm``, ``template`` or ``fork``; None where that is not known.
    """

    kind: StopKind
    value: str | int | None = None
    token_id: int | None = None
    token_text: str | None = None
    channel: Channel = Channel.TEXT
    text_offset: int = 0
    token_index: int | None = None
    rule_index: int | None = None
    held: str = ""
    dropped: str = ""
    source: str | None = None


def describe_source(source: str) -> str:
    """Return where an end token is named, for a person: a file, or the chat template alone."""
    if source == TEMPLATE_SOURCE:
        return "the chat template, not by the model’s files"
    if source == FORK_SOURCE:
        return "the user, at a fork"
    return f"the {source}" if source == "tokenizer" else source
