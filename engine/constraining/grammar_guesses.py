"""Guesses the next tokens of a constrained answer from its grammar.

Where a schema or a forced call leaves one text (a key, a constant, the frame of a call), that text
is guessed in the tokens that the tokenizer would write it with. Where only a few tokens are
allowed, such as the white space around a colon, the one is guessed that the answer used the last
time. The model checks each guess under the mask of its place, so that the answer is the one that
the mask alone would give: a text may have several tokenisations, and it is the model that chooses
among them.

Knows no MLX. Engine thread.
"""

import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from engine.constraining.compiling import is_panic
from engine.constraining.token_constraint import TokenConstraint
from engine.values.events import TokenOrigin

# No pass checks more tokens.
_MOST = 64
# Where at most so many tokens are allowed, an answer is expected to keep to its habits.
_FEW = 8
_MOST_HABITS = 64
# How the library writes a special token among bytes.
_SPECIAL = re.compile(rb"\xff\[(\d+)\]")


class GrammarGuesses:
    """What the grammar of one answer leaves to be written next.

    Args:
        constraint: The state of the answer at its beginning, for this object alone.
        tokenizer: The library's form of the model's vocabulary.

    Attributes:
        origin: What its tokens are marked with.
        guess_s: How long one guess takes: next to nothing.
    """

    origin = TokenOrigin.FORCED
    guess_s = 0.0

    def __init__(self, constraint: TokenConstraint, tokenizer: Any) -> None:
        self._constraint = constraint
        self._tokenizer = tokenizer
        # What followed the last time under a mask that allows few tokens.
        self._habits: OrderedDict[bytes, int] = OrderedDict()
        self._guesses: list[int] | None = None

    def extend(self, tokens: Sequence[int]) -> None:
        """Take the next tokens of the answer."""
        for token_id in tokens:
            self._take(token_id)

    def _take(self, token_id: int) -> None:
        guesses = self._guesses
        if guesses and guesses[0] == token_id:
            del guesses[0]
        else:
            self._guesses = None
        try:
            matcher = self._constraint.matcher
            if matcher is not None and not matcher.compute_ff_bytes():
                self._learn(matcher.compute_bitmask(), token_id)
        except BaseException as error:
            _raise_unless_panic(error)
        self._constraint.advance(token_id)

    def _learn(self, mask: bytes, token_id: int) -> None:
        if int.from_bytes(mask).bit_count() > _FEW:
            return
        self._habits[mask] = token_id
        self._habits.move_to_end(mask)
        if len(self._habits) > _MOST_HABITS:
            self._habits.popitem(last=False)

    def strength(self) -> int:
        """Return how many tokens can be guessed."""
        return len(self._looked_ahead())

    def propose(self, most: int) -> Sequence[int]:
        """Return up to ``most`` tokens that are expected to follow."""
        return self._looked_ahead()[:most]

    def _looked_ahead(self) -> list[int]:
        """Return what is expected to follow."""
        if not self._guesses:  # those that are left are what another look would find
            self._guesses = []
            matcher = self._constraint.matcher
            if matcher is not None:
                try:
                    self._look_ahead(matcher.deep_copy(), self._guesses)
                except BaseException as error:
                    _raise_unless_panic(error)
        return self._guesses

    def _look_ahead(self, matcher: Any, found: list[int]) -> None:
        while len(found) < _MOST:
            run = self._forced(matcher) or self._habit(matcher)
            fitting = matcher.try_consume_tokens(run) if run else 0
            found += run[:fitting]
            if not run or fitting < len(run):
                return

    def _forced(self, matcher: Any) -> list[int]:
        """Return the tokens of the one text that can follow; none where there are several."""
        run: list[int] = []
        forced: bytes = matcher.compute_ff_bytes()
        # Text and the ids of special tokens alternate.
        for place, part in enumerate(_SPECIAL.split(forced)):
            if place % 2:
                run.append(int(part))
            elif part:
                run += self._tokenizer.tokenize_bytes(part)
        return run

    def _habit(self, matcher: Any) -> list[int]:
        """Return the token that the answer used where the same few were allowed."""
        if not self._habits:
            return []
        habit = self._habits.get(matcher.compute_bitmask())
        return [] if habit is None else [habit]


def _raise_unless_panic(error: BaseException) -> None:
    if isinstance(error, Exception) or not is_panic(error):
        raise error
