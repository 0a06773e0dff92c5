"""Guesses that an answer repeats the text that its request predicts. Pure.

The prediction is compared with the answer token by token. Where the answer differs, its place in
the prediction is searched again: wherever its last few tokens occur, or else a little further on,
where one of the next tokens agrees.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence

from engine.speculating.hit_rate import HitRate
from engine.values.tokens import TokenOrigin

# A passage is found by this many last tokens of the answer.
_KEY_TOKENS = 3
# The answer's last token is searched in this many of the next tokens.
_NEAR = 24
# Longer agreements count like this one.
_LONGEST = 32
# The expected rate of right guesses, by the number of tokens before it that agree: up to the first
# number, the rate beside it. At the very beginning that number is 0.
_EXPECTED = ((0, 0.7), (1, 0.4), (2, 0.55), (4, 0.7), (15, 0.85), (_LONGEST, 0.93))
# A text that had agreed for ``_LONG`` tokens is trusted as before once ``_ENOUGH`` agree again.
_LONG = 8
_ENOUGH = 3
# An answer leaves an edited text every few dozen tokens. An average over fewer tokens would rise in
# between, and passes would become too long.
_NEWEST = 0.03
_EXPECTED_WEIGHT = 8.0
_CLASS_OF = tuple(
    next(n for n, (most, _) in enumerate(_EXPECTED) if length <= most)
    for length in range(_LONGEST + 1)
)


class PredictedText:
    """The text that a request predicts, with an index of its passages. Any thread.

    Args:
        tokens: The tokens of the text.

    Attributes:
        tokens: The tokens of the text.
    """

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = list(tokens)
        # For each run of key tokens: the places of the tokens that follow it.
        self._places: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
        for end in range(_KEY_TOKENS, len(self.tokens)):
            self._places[tuple(self.tokens[end - _KEY_TOKENS : end])].append(end)

    def after(self, last: Sequence[int], begin: int) -> int | None:
        """Return the place that follows the last few tokens; None where they are not in the text.

        Of several places, this is the nearest one from ``begin`` on, or else the last one before
        it.
        """
        found = self._places.get(tuple(last[-_KEY_TOKENS:]))
        return found[min(bisect_left(found, begin), len(found) - 1)] if found else None


class PredictionGuesses:
    """Guesses from the prediction of one request. See ``engine.speculating.sources.GuessSource``.

    Args:
        text: The predicted text.

    Attributes:
        origin: The origin of its guesses.
    """

    origin = TokenOrigin.PREDICTION

    def __init__(self, text: PredictedText) -> None:
        self._whole = text
        self._text = text.tokens
        self._rates = tuple(
            HitRate(expected, _NEWEST, _EXPECTED_WEIGHT) for _, expected in _EXPECTED
        )
        self._last: list[int] = []
        # The place of the token that is expected next; None where the answer has left the text.
        self._at: int | None = 0
        # Its place when it left the text.
        self._left_at = 0
        self._length = 0  # how many tokens agree before it
        self._length_before = 0  # how many agreed before it left; 0 once trusted again

    def extend(self, tokens: Sequence[int]) -> None:
        """Take the next tokens of the answer."""
        text = self._text
        for token in tokens:
            at = self._at
            self._last.append(token)
            if len(self._last) > _LONGEST:
                del self._last[0]
            if at is not None and at < len(text):
                is_hit = text[at] == token
                self._rates[_CLASS_OF[self._length]].note(is_hit)
                if is_hit:
                    self._at = at + 1
                    self._length = min(_LONGEST, self._length + 1)
                    if self._length_before and self._length >= _ENOUGH:
                        self._length = max(self._length, self._length_before)
                        self._length_before = 0
                    continue
            if at is not None:
                self._left_at = at
                if self._length >= _LONG:
                    self._length_before = self._length
            self._find(token)

    def likelihood(self) -> float:
        """Return how likely the next guess is right."""
        if self._at is None or self._at >= len(self._text):
            return 0.0
        return self._rates[_CLASS_OF[self._length]].value

    def propose(self, most: int) -> Sequence[int]:
        """Return the tokens of the text that are expected next."""
        return () if self._at is None else self._text[self._at : self._at + most]

    def _find(self, token: int) -> None:
        """Look for the answer in the text, after a token that was not expected."""
        text, begin = self._text, self._left_at
        self._at = self._whole.after(self._last, begin)
        if self._at is None:
            near = range(begin, min(begin + _NEAR, len(text) - 1))
            self._at = next((place + 1 for place in near if text[place] == token), None)
        if self._at is not None:
            self._length = self._agreeing(self._at)

    def _agreeing(self, at: int) -> int:
        """Return how many of the last tokens the text has before a place."""
        last, text = self._last, self._text
        length, most = 0, min(at, len(last))
        while length < most and text[at - length - 1] == last[-length - 1]:
            length += 1
        return length
