"""The recent prompts of each owner as tokens and text, to name where the next one differs.

Any thread: prompts are compared on the threads that render them, and added by the batch's.
"""

import threading
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.conversation.prompt_parts import RenderedPrompt, common_chars, differing_part
from engine.inference.cache.index import PICTURE_BIT, TOKEN_BYTES, common_tokens, key_of
from engine.values.events import PromptDifference, PromptPart

# An agent's last prompts; older ones are seldom repeated.
_MAX_BYTES = 32 << 20
# The characters of each text before and after the difference.
_AROUND = 40
# Fewer equal tokens in a row are headers of a template.
_MIN_RUN = 16


@dataclass(frozen=True, slots=True, eq=False)
class _RecentPrompt:
    owner: str
    key: bytes
    rendered: RenderedPrompt
    thinking_tokens: int

    @property
    def size_bytes(self) -> int:
        return len(self.key) + self.rendered.size_bytes


class RecentPrompts:
    """The prompts whose caches were stored last, each with its answer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._prompts: list[_RecentPrompt] = []

    def add(
        self, owner: str, tokens: Sequence[int], rendered: RenderedPrompt, thinking_tokens: int
    ) -> None:
        """Store a prompt with its answer, in place of its own beginnings."""
        added = _RecentPrompt(owner, key_of(tokens), rendered, thinking_tokens)
        with self._lock:
            others = [
                other
                for other in self._prompts
                if other.owner != owner or not added.key.startswith(other.key)
            ]
            self._prompts = [*others, added]
            size = sum(prompt.size_bytes for prompt in self._prompts)
            while size > _MAX_BYTES:
                size -= self._prompts.pop(0).size_bytes

    def clear(self, owner: str | None = None) -> None:
        with self._lock:
            self._prompts = [
                prompt for prompt in self._prompts if owner is not None and prompt.owner != owner
            ]

    def difference(
        self,
        owner: str,
        tokens: list[int],
        rendered: RenderedPrompt,
        decode: Callable[[list[int]], str],
    ) -> PromptDifference | None:
        """Return where a prompt differs from the owner's one with the longest equal beginning.

        None where tokens after the difference are in no earlier prompt, so none is read again.
        """
        key = key_of(tokens)
        with self._lock:
            own = [prompt for prompt in reversed(self._prompts) if prompt.owner == owner]
        if not own:
            return None
        nearest = max(own, key=lambda prompt: common_tokens(prompt.key, key))
        common = common_tokens(nearest.key, key)
        again = _count_repeated(key[common * TOKEN_BYTES :], nearest.key[common * TOKEN_BYTES :])
        if not again:
            return None
        earlier = array("I", nearest.key).tolist()
        if all(part[common] >= PICTURE_BIT for part in (tokens, earlier)):
            part = rendered.part_at(len(decode(tokens[:common])))
            message, role = (0, "") if part is None else (part.message, part.role)
            return PromptDifference(common, PromptPart.PICTURE, "", "", again, message, role)
        here = _text_of(tokens, rendered, decode)
        before = _text_of(earlier, nearest.rendered, decode)
        pair = [decode(part[common : common + _MIN_RUN]) for part in (tokens, earlier)]
        if pair[0].startswith(pair[1]) or pair[1].startswith(pair[0]):
            char = len(decode(tokens[:common]))
            part = rendered.part_at(char)
            message, role = (0, "") if part is None else (part.message, part.role)
            kind = PromptPart.TOKENS
        else:
            char = common_chars(here, before)
            answered = common - nearest.rendered.tokens
            kind, message, role = differing_part(
                rendered,
                nearest.rendered,
                char,
                (here, before),
                in_thinking=bool(nearest.thinking_tokens)
                and answered < nearest.thinking_tokens
                and char >= len(nearest.rendered.text) - _MIN_RUN,
            )
        around = slice(max(0, char - _AROUND), char + _AROUND)
        return PromptDifference(common, kind, here[around], before[around], again, message, role)


def _text_of(
    tokens: list[int], rendered: RenderedPrompt, decode: Callable[[list[int]], str]
) -> str:
    if not rendered.text or len(tokens) < rendered.tokens:
        return decode(tokens)
    return rendered.text + (decode(rest) if (rest := tokens[rendered.tokens :]) else "")


def _count_repeated(key: bytes, other: bytes) -> int:
    """Return how many tokens of a key are in runs of equal tokens that the other has, too."""
    size = _MIN_RUN * TOKEN_BYTES
    runs = {other[at : at + size] for at in range(0, len(other) - size + 1, size)}
    count = at = 0
    while runs and at + size <= len(key):
        if key[at : at + size] in runs:
            count += _MIN_RUN
            at += size
        else:
            at += TOKEN_BYTES
    return count
