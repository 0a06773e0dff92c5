"""Prompt lookup: guesses that the answer repeats a passage of the prompt or of itself. Pure.

An answer that copies code, names or sentences follows an earlier passage token by token. The last
tokens are looked up by a hash; each new token costs a few operations, whatever the length of the
prompt.
"""

from collections.abc import Sequence

from engine.speculating.hit_rate import HitRate
from engine.values.events import TokenOrigin

# A passage is found by so many tokens; fewer agree by chance too often.
_KEY_TOKENS = 3
# Bits of one token id in a key, which stays below 2 ** 63.
_ID_BITS = 21
_KEY_MASK = (1 << _ID_BITS * _KEY_TOKENS) - 1
# No passage is followed back further than this to see how long it agrees.
_LONGEST = 32
# So many tokens are indexed at most; of a longer prompt, the last ones.
MOST_INDEXED = 1 << 16
# So many tokens of the prompt are indexed with each token of the answer, for no step may wait.
_SLICE = 512
# A passage of so many tokens is followed on behind one that differs, as in an edited text. It is
# trusted from then on like one of fewer tokens.
_LEAST_RESUMED = 8
_RESUMED = 5
# How often a guess is right at first, by the number of tokens that agree: up to the first number,
# the rate beside it.
_EXPECTED = ((3, 0.4), (5, 0.6), (8, 0.75), (15, 0.85), (_LONGEST, 0.93))


def _classes() -> tuple[int, ...]:
    """Return, by the number of tokens that agree, the place of its expectation in the table."""
    return tuple(
        next(n for n, (most, _) in enumerate(_EXPECTED) if length <= most)
        for length in range(_LONGEST + 1)
    )


_CLASS_OF = _classes()


class PromptLookup:
    """Guesses that what followed the last tokens before follows them again.

    See ``engine.speculating.sources.GuessSource``.

    Args:
        prompt: The tokens of the prompt.
    """

    origin = TokenOrigin.LOOKUP

    def __init__(self, prompt: Sequence[int]) -> None:
        self._tokens = list(prompt[-MOST_INDEXED:])
        self._rates = tuple(HitRate(expected) for _, expected in _EXPECTED)
        # Where each run of key tokens was last followed by another token.
        self._places: dict[int, int] = {}
        self._room = MOST_INDEXED
        self._key = 0
        for token in self._tokens[-_KEY_TOKENS:]:
            self._key = (self._key << _ID_BITS) | token
        # The prompt is indexed up to here, from its end to its beginning.
        self._unindexed = len(self._tokens)
        self._at = 0  # the token that follows the passage; 0 for none
        self._length = 0  # how many tokens of the passage agree
        self._index_prompt()
        self._find()

    def extend(self, tokens: Sequence[int]) -> None:
        """Take the next tokens of the answer."""
        if self._unindexed:
            self._index_prompt()
        known, places, key = self._tokens, self._places, self._key
        for token in tokens:
            at = self._at
            known.append(token)
            # The key before this token now has a token that follows it.
            if self._room > 0 and len(known) > _KEY_TOKENS:
                places[key] = len(known) - 1
                self._room -= 1
            key = ((key << _ID_BITS) | token) & _KEY_MASK
            if at:
                is_hit = known[at] == token
                self._rates[_CLASS_OF[self._length]].note(is_hit)
                if is_hit:
                    self._at = at + 1
                    if self._length < _LONGEST:
                        self._length += 1
                    continue
            self._key = key
            self._find()
            if at and not self._at and self._length >= _LEAST_RESUMED:
                self._at, self._length = at + 1, _RESUMED
        self._key = key

    def likelihood(self) -> float:
        """Return how likely the next guess is right."""
        return self._rates[_CLASS_OF[self._length]].value if self._at else 0.0

    def propose(self, most: int) -> Sequence[int]:
        """Return the tokens that followed the passage; a passage that ends here is repeated."""
        at, known = self._at, self._tokens
        if not at:
            return ()
        found = known[at : at + most]
        period = len(known) - at
        while len(found) < most:
            found.append(found[-period])
        return found

    def _find(self) -> None:
        """Look for a passage that agrees with the last tokens."""
        known = self._tokens
        at = self._places.get(self._key, 0) if len(known) > _KEY_TOKENS else 0
        self._at = at
        if not at:
            return
        end = len(known)
        length, most = _KEY_TOKENS, min(_LONGEST, at)
        while length < most and known[at - length - 1] == known[end - length - 1]:
            length += 1
        self._length = length

    def _index_prompt(self) -> None:
        """Index the next slice of the prompt, backwards, so that later passages come first."""
        end = self._unindexed
        begin = max(_KEY_TOKENS, end - _SLICE)
        tokens = self._tokens[begin - _KEY_TOKENS : end]
        keys, key = [], 0
        for token in tokens:
            key = ((key << _ID_BITS) | token) & _KEY_MASK
            keys.append(key)
        # The key before a place is the one that ends with the token before it.
        for place in range(end - 1, begin - 1, -1):
            self._places.setdefault(keys[place - begin + _KEY_TOKENS - 1], place)
        self._room -= max(0, end - begin)
        self._unindexed = begin if begin > _KEY_TOKENS else 0
