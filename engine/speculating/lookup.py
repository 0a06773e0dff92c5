"""Prompt lookup: guesses that the answer repeats a passage of the prompt or of itself. Pure.

An answer that copies code, names or sentences follows an earlier passage token by token. The last
tokens are looked up by a hash; each new token costs a few operations, whatever the length of the
prompt.
"""

from collections.abc import Sequence

from engine.speculating.hit_rate import HitRate
from engine.values.tokens import TokenOrigin

# A passage is found by this many last tokens of the answer; fewer agree by chance too often.
_KEY_TOKENS = 3
# Bits of one token id in a key, which stays below 2 ** 63.
_ID_BITS = 21
_KEY_MASK = (1 << _ID_BITS * _KEY_TOKENS) - 1
# How far a passage is compared backwards, to see how many tokens agree.
_LONGEST = 32
# The most tokens that are indexed; of a longer prompt, the last ones.
MOST_INDEXED = 1 << 16
# How many tokens of the prompt are indexed with each token of the answer, so that no step waits.
_SLICE = 512
# Where the answer differs from a passage that agreed for at least ``_LEAST_LEFT`` tokens, as in an
# edited text, the passage is searched again: in its next ``_NEAR`` tokens, for as many tokens of
# the answer.
_LEAST_LEFT = 8
_NEAR = 12
# The expected rate of right guesses, by the number of tokens that agree: up to the first number,
# the rate beside it.
_EXPECTED = ((3, 0.4), (5, 0.6), (8, 0.75), (15, 0.85), (_LONGEST, 0.93))
# The same for a passage that the answer left and came back to: by skipping as many tokens as differ
# (``_SKIPPED``), or where the last token was found a little further on (``_FOUND``). The second
# rate of each is the one after one more token that agrees; after two, the passage is trusted as
# before.
_SKIPPED, _FOUND = len(_EXPECTED), len(_EXPECTED) + 2
_EXPECTED_AGAIN = (0.6, 0.85, 0.5, 0.8)
# An answer leaves an edited text every few dozen tokens. An average over fewer tokens would rise in
# between, and passes would become too long.
_NEWEST = 0.03
_EXPECTED_WEIGHT = 3.0


def _classes() -> tuple[int, ...]:
    """Return, for each number of tokens that agree, the index of its rate in ``_EXPECTED``."""
    return tuple(
        next(n for n, (most, _) in enumerate(_EXPECTED) if length <= most)
        for length in range(_LONGEST + 1)
    )


_CLASS_OF = _classes()


class PromptLookup:
    """Guesses that the tokens which followed the last few tokens earlier follow them again.

    See ``engine.speculating.sources.GuessSource``.

    Args:
        prompt: The tokens of the prompt.
    """

    origin = TokenOrigin.LOOKUP

    def __init__(self, prompt: Sequence[int]) -> None:
        self._tokens = list(prompt[-MOST_INDEXED:])
        expected = [*(rate for _, rate in _EXPECTED), *_EXPECTED_AGAIN]
        self._rates = tuple(HitRate(one, _NEWEST, _EXPECTED_WEIGHT) for one in expected)
        # For each run of key tokens: the place of the token that last followed it.
        self._places: dict[int, int] = {}
        self._room = MOST_INDEXED
        self._key = 0
        for token in self._tokens[-_KEY_TOKENS:]:
            self._key = (self._key << _ID_BITS) | token
        # The prompt is indexed up to here, from its end to its beginning.
        self._unindexed = len(self._tokens)
        self._at = 0  # the token that follows the passage; 0 for none
        self._length = 0  # how many tokens of the passage agree
        self._trust = 0  # the index of its rate
        # Where the answer left a passage and has not found it again: the places of the expected
        # token and of the token of the answer; 0 for none.
        self._left_at = self._left_by = 0
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
                self._rates[self._trust].note(is_hit)
                if is_hit:
                    self._agree()
                    continue
                if not self._left_at and self._length >= _LEAST_LEFT:
                    self._left_at, self._left_by = at, len(known) - 1
            self._key = key
            self._find()
            if self._left_at:
                self._find_again(token)
        self._key = key

    def likelihood(self) -> float:
        """Return how likely the next guess is right."""
        return self._rates[self._trust].value if self._at else 0.0

    def propose(self, most: int) -> Sequence[int]:
        """Return the tokens that followed the passage, repeated if it ends at the newest token."""
        at, known = self._at, self._tokens
        if not at:
            return ()
        found = known[at : at + most]
        period = len(known) - at
        while len(found) < most:
            found.append(found[-period])
        return found

    def _agree(self) -> None:
        """Note that the answer's token is the expected one."""
        self._at += 1
        if self._length < _LONGEST:
            self._length += 1
        if not self._left_at:
            self._trust = _CLASS_OF[self._length]
        elif self._trust in (_SKIPPED, _FOUND):
            self._trust += 1
        else:
            self._left_at = 0
            self._trust = _CLASS_OF[self._length]

    def _find_again(self, token: int) -> None:
        """Look for the passage that was left, unless another one agrees with the last tokens."""
        known, left = self._tokens, self._left_at
        differing = len(known) - self._left_by
        if self._at or differing > _NEAR:
            self._left_at = 0
            return
        near = known[left : min(left + _NEAR, self._left_by)]
        if token in near:  # tokens were left out, or added
            self._at, self._trust = left + near.index(token) + 1, _FOUND
        elif left + differing < len(known):  # as many were replaced
            self._at, self._trust = left + differing, _SKIPPED

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
        self._trust = _CLASS_OF[length]

    def _index_prompt(self) -> None:
        """Index the next slice of the prompt, backwards, so that later passages are preferred."""
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
