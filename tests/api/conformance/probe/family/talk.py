"""Requests to the family and its answers, independent of dialects."""

import re
from dataclasses import dataclass, field
from typing import Any

PIECE = 3
TOKEN = rf"(?s).{{1,{PIECE}}}"


@dataclass(frozen=True)
class Query:
    """A request.

    Attributes:
        prompt: What the user says.
        stops: The stops.
        limit: The largest number of tokens.
        is_streamed: Whether the request wants a stream.
        choices: How many answers.
        has_tool: Whether a tool is offered.
        has_schema: Whether the request wants JSON.
        has_logprobs: Whether the request wants logprobs.
        token_ids: Stop token ids.
        is_thinking: Whether the request wants thinking.
        body: The body itself.
        token: The pattern of a token.
        piece: The pattern of a piece of a stream.
    """

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
    """One answer.

    Attributes:
        text: Its text.
        ending: ``natural``, ``stop``, ``limit`` or ``tool``.
        matched: The stop that ended it.
        tokens: The tokens generated.
        thinking: The thinking before the text.
        call: The arguments of a call of the tool, as JSON.
        logged: The tokens that are listed with logprobs; None lists none.
        prompt_tokens: The tokens of the prompt.
        total: The sum, in dialects that report it; None computes it.
    """

    text: str
    ending: str = "natural"
    matched: str | None = None
    tokens: int = 0
    thinking: str = ""
    call: str | None = None
    logged: tuple[str, ...] | None = None
    prompt_tokens: int = 5
    total: int | None = None

    @property
    def all_tokens(self) -> int:
        return self.prompt_tokens + self.tokens if self.total is None else self.total


class Refused(Exception):
    """The request is wrong; the message says how."""


def pieces(text: str) -> list[str]:
    return re.findall(TOKEN, text)
