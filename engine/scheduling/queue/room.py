"""Checks whether the caches of answers fit into memory, alone or beside running ones. Pure.

A batch gives each of its rows as much memory as its longest row takes. An answer without
``max_tokens`` counts with a usual length, because few answers come near the end of the context.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from engine.errors import InvalidRequest, MemoryShort
from engine.library.cache_size import CacheSize
from engine.wording import counted

# The tokens that an answer without ``max_tokens`` is expected to need.
USUAL_ANSWER = 2048
_UNITS = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"))


@dataclass(frozen=True, slots=True)
class Wanted:
    """The memory that the choices of one request need."""

    choices: Sequence[tuple[int, int | None]]
    choices_field: str
    prompt_field: str


class CacheRoom:
    """The memory for the caches of one model's answers."""

    def __init__(self, size: CacheSize, context: int, size_bytes: int) -> None:
        self._size = size
        self._context = context
        self.size_bytes = size_bytes

    def check(self, wanted: Wanted) -> None:
        """Make sure that the choices of a request fit while nothing else runs."""
        count = len(wanted.choices)
        tokens, prompt, one = self._longest(wanted)
        if count * one <= self.size_bytes:
            return
        if one <= self.size_bytes:
            fewer = self.size_bytes // one
            shorter = self._size.tokens_in(self.size_bytes // count, self._context) - prompt
            or_shorter = f", or for answers of {_at_most(shorter, prompt)}" if shorter > 1 else ""
            raise InvalidRequest(
                wanted.choices_field,
                f"{count:,} answers of {tokens:,} tokens each, their prompt included, take "
                f"{_figure(count * one)} of memory for their context, and {self._free}; ask for "
                f"at most {fewer:,} at once{or_shorter}",
            )
        left = self._size.tokens_in(self.size_bytes, self._context) - prompt
        if left > 1:
            raise InvalidRequest(
                "max_tokens",
                f"a prompt and an answer of {tokens:,} tokens together take {_figure(one)} of "
                f"memory for their context, and {self._free}; set it to {_at_most(left, prompt)}",
            )
        if not prompt:  # it was not counted, because not even the shortest one fits
            raise InvalidRequest(
                wanted.prompt_field,
                f"the shortest prompt and answer take {_figure(one)} of memory for their context, "
                f"and {self._free}; choose a smaller model, or give answers more memory",
            )
        raise InvalidRequest(
            wanted.prompt_field,
            f"a prompt of {prompt:,} tokens and its answer take {_figure(one)} of memory for their "
            f"context, and {self._free}; shorten it",
        )

    def check_now(self, wanted: Wanted) -> None:
        """Make sure that choices, which fit into more memory than this, fit into this."""
        *_, one = self._longest(wanted)
        if (needed := len(wanted.choices) * one) > self.size_bytes:
            raise MemoryShort(_figure(needed), _figure(self.size_bytes))

    def _longest(self, wanted: Wanted) -> tuple[int, int, int]:
        """Return the tokens of the longest choice, those of its prompt, and its bytes."""
        tokens, prompt = max(
            (min(self._context, prompt + (most or 1)), prompt) for prompt, most in wanted.choices
        )
        return tokens, prompt, self._size.allocated_bytes(tokens)

    def context_of(self, choices: int) -> int:
        """Return how many tokens each of ``choices`` answers can have while nothing else runs."""
        return self._size.tokens_in(self.size_bytes // choices, self._context)

    def holds(self, rows: Collection[int]) -> bool:
        """Whether answers of these lengths, in tokens with their prompts, fit together."""
        return len(rows) * self._size.allocated_bytes(max(rows, default=0)) <= self.size_bytes

    @property
    def _free(self) -> str:
        return f"at most {_figure(self.size_bytes)} can be free for that"


def _at_most(tokens: int, prompt: int) -> str:
    """Return a limit in words; "less than" while the length of the prompt is not known yet."""
    return f"at most {tokens:,} tokens" if prompt else f"less than {tokens:,} tokens"


def _figure(size_bytes: int) -> str:
    for unit, name in _UNITS:
        if size_bytes >= unit:
            return f"{size_bytes / unit:.1f} {name}"
    return counted(size_bytes, "byte")
