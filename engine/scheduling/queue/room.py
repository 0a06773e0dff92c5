"""Whether the caches of answers fit into memory: alone, and beside the ones under way. Pure.

A batch gives each of its rows as much memory as the longest of them takes. An answer without
``max_tokens`` is reckoned with a usual length, because few come near the end of the context.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from engine.errors import InvalidRequest
from engine.library.cache_size import CacheSize

# What an answer without ``max_tokens`` is expected to take at most.
USUAL_ANSWER = 2048
_UNITS = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"))


@dataclass(frozen=True, slots=True)
class Wanted:
    """The choices of one request, as far as memory is concerned.

    Attributes:
        choices: Of each, the tokens of its prompt, as far as they are known, and ``max_tokens``.
        choices_field: The field that asks for several.
        prompt_field: The field that holds the prompt.
    """

    choices: Sequence[tuple[int, int | None]]
    choices_field: str
    prompt_field: str


class CacheRoom:
    """The memory for the caches of one model's answers.

    Args:
        size: What one answer's cache takes.
        context: Tokens that the model's context holds.
        size_bytes: What all of them may take together.
    """

    def __init__(self, size: CacheSize, context: int, size_bytes: int) -> None:
        self._size = size
        self._context = context
        self._room = size_bytes

    def check(self, wanted: Wanted) -> None:
        """Make sure that the choices of a request fit where nothing else runs.

        Raises:
            InvalidRequest: They do not; the message names the field, with the figures.
        """
        count = len(wanted.choices)
        tokens, prompt = max(
            (min(self._context, prompt + (most or 1)), prompt) for prompt, most in wanted.choices
        )
        one = self._size.allocated_bytes(tokens)
        if count * one <= self._room:
            return
        if one <= self._room:
            fewer = self._room // one
            shorter = self._size.tokens_in(self._room // count, self._context) - prompt
            or_shorter = f", or for answers of {_at_most(shorter, prompt)}" if shorter > 1 else ""
            raise InvalidRequest(
                wanted.choices_field,
                f"{count:,} answers of {tokens:,} tokens each, their prompt included, take "
                f"{_figure(count * one)} of memory for their context, and {self._free}; ask for "
                f"at most {fewer:,} at once{or_shorter}",
            )
        left = self._size.tokens_in(self._room, self._context) - prompt
        if left > 1:
            raise InvalidRequest(
                "max_tokens",
                f"a prompt and an answer of {tokens:,} tokens together take {_figure(one)} of "
                f"memory for their context, and {self._free}; set it to {_at_most(left, prompt)}",
            )
        raise InvalidRequest(
            wanted.prompt_field,
            f"a prompt of {prompt:,} tokens and its answer take {_figure(one)} of memory for their "
            f"context, and {self._free}; shorten it",
        )

    def context_of(self, choices: int) -> int:
        """Return how many tokens each of some answers can have where nothing else runs."""
        return self._size.tokens_in(self._room // choices, self._context)

    def holds(self, rows: Collection[int]) -> bool:
        """Whether answers of so many tokens each, their prompts included, fit together."""
        return len(rows) * self._size.allocated_bytes(max(rows, default=0)) <= self._room

    @property
    def _free(self) -> str:
        return f"{_figure(self._room)} are free for that"


def _at_most(tokens: int, prompt: int) -> str:
    """Return a bound in words; before the prompt is rendered, there is less room than is known."""
    return f"at most {tokens:,} tokens" if prompt else f"less than {tokens:,} tokens"


def _figure(size_bytes: int) -> str:
    for unit, name in _UNITS:
        if size_bytes >= unit:
            return f"{size_bytes / unit:.1f} {name}"
    return f"{size_bytes} bytes"
