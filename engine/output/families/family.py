"""The interface of a family of models. Types only; pure; any thread."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.output.channels import Beginning, Splitter
from engine.output.vocabulary import Vocabulary
from engine.values.request import GenerationRequest


@dataclass(frozen=True, slots=True)
class OptionalMarks:
    """Marks that the model may leave out."""

    parts: tuple[int | str, ...]


Marks = tuple[int | str | OptionalMarks, ...]
"""The marks that a model writes, in order: ids of tokens, plain text, and optional parts."""


@dataclass(frozen=True, slots=True)
class OutputFrame:
    """The marks that a family writes before and after free text."""

    before: Marks = ()
    after: Marks = ()


class Family(Protocol):
    """How the models of one family mark the channels of their output. Immutable."""

    @property
    def tags(self) -> Mapping[int, str]:
        """Tokens that are structure by themselves, with their text."""
        ...

    @property
    def has_headers(self) -> bool:
        """Whether every message has a header, which names its channel."""
        ...

    @property
    def think_start(self) -> str | None:
        """The tag that opens reasoning inside an answer; None where there is none."""
        ...

    @property
    def think_end(self) -> str | None:
        """The tag that closes reasoning."""
        ...

    @property
    def think_start_id(self) -> int | None:
        """The token that is exactly the tag which opens reasoning."""
        ...

    @property
    def think_end_id(self) -> int | None:
        """The token that is exactly the tag which closes reasoning."""
        ...

    @property
    def call_start_id(self) -> int | None:
        """The token that is exactly the tag which opens a tool call."""
        ...

    @property
    def call_style(self) -> str:
        """mlx-lm's name of the format of tool calls; empty where it has none."""
        ...

    @property
    def answer_frame(self) -> OutputFrame:
        """The marks around an answer that a grammar constrains."""
        ...

    @property
    def reasoning_frame(self) -> OutputFrame | None:
        """The marks around reasoning that is a message of its own; None where it is not."""
        ...

    def reasoning_edges(self, *, leaves_choice: bool, is_held: bool) -> tuple[Marks, Marks]:
        """Return the marks that end reasoning and begin what follows, and those that open it.

        Both are empty where the model has no reasoning.

        Args:
            leaves_choice: Whether something other than the answer may follow, such as a call.
            is_held: Whether a grammar constrains what follows.
        """
        ...

    def splitter(self, beginning: Beginning) -> Splitter:
        """Return a fresh splitter for an answer that begins there."""
        ...

    def beginning(
        self, request: GenerationRequest, tokens: Sequence[int], vocabulary: Vocabulary
    ) -> Beginning:
        """Return where the answer to a request begins.

        Args:
            request: The request, which has messages.
            tokens: Its prompt.
            vocabulary: The model's token ids.
        """
        ...

    def narrowed(self, *, thinks: bool, calls: bool) -> "Family":
        """Return the family without the tags that cannot occur in an answer.

        Args:
            thinks: Whether the answer may open reasoning.
            calls: Whether it may call a tool.
        """
        ...

    def call_frame(self, name: str) -> OutputFrame | None:
        """Return the marks around the arguments of a call; None if calls cannot be forced.

        Raises:
            ValueError: A tool of this name cannot be called.
        """
        ...

    def saved(self) -> dict[str, object]:
        """Return the fields of a saved run from which the family can be made again."""
        ...
