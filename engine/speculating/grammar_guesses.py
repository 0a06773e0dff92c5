"""Guesses the next tokens of a constrained answer from its grammar.

Where a schema or a forced call leaves only one possible text (a key, a constant, the frame of a
call), the constraint allows one token at a time. All tokens that are known in this way are guessed
at once. Where a few tokens are allowed, such as the white space around a colon, the guess is the
token that this answer used last time. The model reads all guesses in one pass, each under the mask
of its place, so the tokens stay the same and only the time changes.

Knows no MLX. Engine thread.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence

from engine.constraining.token_constraint import TokenConstraint
from engine.speculating.hit_rate import HitRate
from engine.values.tokens import TokenOrigin

# The most tokens that are guessed at once.
_MOST = 64
# Where at most this many tokens are allowed, an answer is expected to repeat its earlier choice.
_FEW = 8
_MOST_HABITS = 64
# A string or a number of JSON ends with one of these.
_STRUCTURE = frozenset('"{}[],:\n')
_EXPECTED = 0.97


class GrammarGuesses:
    """Guesses from the grammar of one answer. See ``engine.speculating.sources.GuessSource``.

    Args:
        constraint: The constraint at the beginning of the answer; no other object may use it.
        text_of: Returns the text of a token.

    Attributes:
        origin: The origin of its guesses.
    """

    origin = TokenOrigin.FORCED

    def __init__(self, constraint: TokenConstraint, text_of: Callable[[int], str]) -> None:
        # None once the grammar has become slow to follow: then it is not followed twice.
        self._constraint: TokenConstraint | None = constraint
        self._text_of = text_of
        # Whether the answer is inside a string or a number, where earlier choices predict nothing.
        self._is_inside = False
        # For each mask that allows few tokens: the token that the answer chose last time.
        self._habits: OrderedDict[bytes, int] = OrderedDict()
        self._guesses: list[int] = []
        self._hits = HitRate(_EXPECTED)

    def extend(self, tokens: Sequence[int]) -> None:
        """Take the next tokens of the answer."""
        for token_id in tokens:
            if self._constraint is not None:
                self._take(token_id, self._constraint)

    def _take(self, token_id: int, constraint: TokenConstraint) -> None:
        if guesses := self._guesses:
            is_hit = guesses[0] == token_id
            self._hits.note(is_hit)
            del guesses[: 1 if is_hit else None]
        if not self._is_inside and (mask := constraint.choice()) is not None:
            self._learn(mask, token_id)
        if self._is_inside and not _STRUCTURE.isdisjoint(self._text_of(token_id)):
            self._is_inside = False
        constraint.advance(token_id)
        if constraint.is_costly:
            self._constraint = None
            self._guesses = []
        constraint.spent_s = 0.0

    def _learn(self, mask: bytes, token_id: int) -> None:
        self._is_inside = int.from_bytes(mask).bit_count() > _FEW
        if self._is_inside:
            return
        self._habits[mask] = token_id
        self._habits.move_to_end(mask)
        if len(self._habits) > _MOST_HABITS:
            self._habits.popitem(last=False)

    def likelihood(self) -> float:
        """Return how likely the next guess is right."""
        return self._hits.value if self._looked_ahead() else 0.0

    def propose(self, most: int) -> Sequence[int]:
        """Return up to ``most`` tokens that are expected to follow."""
        return self._looked_ahead()[:most]

    def _looked_ahead(self) -> list[int]:
        """Return the expected tokens; those that are left from the last look are still right."""
        if self._constraint is None:
            return []
        if self._is_inside and self._constraint.only() is not None:
            self._is_inside = False  # a pattern has reached a constant part
        if not self._guesses and not self._is_inside:
            self._guesses = self._constraint.expected(_MOST, self._habits)
        return self._guesses
