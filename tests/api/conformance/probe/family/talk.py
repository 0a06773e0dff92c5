"""Requests to the family and its answers, independent of dialects."""

import re
from dataclasses import dataclass, field
from typing import Any

PIECE = 3
TOKEN = rf"(?s).{{1,{PIECE}}}"


@dataclass(frozen=True)
class Query:
    """A request: what the user says, and what else it wants; tokens and pieces are patterns."""

    prompt: str
    stops: tuple[str, ...]
    limit: int
    is_streamed: bool
    choices: int = 1
    has_tool: bool = False
    has_schema: bool = False
    has_logprobs: bool = False
    token_ids: tuple[int, ...] = ()
    is_thinking: bool | None = None
    body: dict[str, Any] = field(default_factory=dict)
    token: str = TOKEN
    piece: str = TOKEN

    def tokens(self, text: str) -> list[str]:
        return re.findall(self.token, text)

    def pieces(self, text: str) -> list[str]:
        return re.findall(self.piece, text)


@dataclass(frozen=True)
class Said:
    """One answer: it ends ``natural``, or with a ``stop``, the ``limit`` or a ``tool``."""

    text: str
    ending: str = "natural"
    matched: str | None = None
    tokens: int = 0
    thinking: str = ""
    call: str | None = None
    logged: tuple[str, ...] | None = None  # None lists no tokens
    prompt_tokens: int = 5
    total: int | None = None

    @property
    def all_tokens(self) -> int:
        return self.prompt_tokens + self.tokens if self.total is None else self.total


class Refused(Exception):
    """The request is wrong; the message says how."""


def pieces(text: str) -> list[str]:
    return re.findall(TOKEN, text)
