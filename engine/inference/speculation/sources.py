"""Sources of draft tokens without a second model: prompt, prediction, grammar. No MLX."""

from bisect import bisect_left
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from typing import Protocol

from engine.grammar.masks import TokenConstraint
from engine.values.tokens import TokenOrigin

# How often recent guesses were right.

# The default weight of the newest guess.
_HIT_RATE_NEWEST = 0.08


class HitRate:
    """A moving average of hits and misses.

    Args:
        expected: The average before the first guess.
        newest: The weight of the newest guess once many are known; a smaller weight gives a
            steadier average.
        expected_weight: How many guesses ``expected`` counts for. With a small number, the first
            guesses count more than later ones.

    Attributes:
        value: The share of right guesses, from 0 to 1.
    """

    __slots__ = ("_newest", "_weight", "value")

    def __init__(
        self,
        expected: float,
        newest: float = _HIT_RATE_NEWEST,
        expected_weight: float | None = None,
    ) -> None:
        self.value = expected
        self._newest = newest
        self._weight = 1.0 / newest if expected_weight is None else expected_weight

    def note(self, is_hit: bool) -> None:
        """Note whether a guess was right."""
        self._weight += 1.0
        share = max(self._newest, 1.0 / self._weight)
        self.value += ((1.0 if is_hit else 0.0) - self.value) * share


# The interface of a source of guesses. Types only.
#
# One object serves one row of the batch, on the engine thread.


class DraftSource(Protocol):
    """Guesses the next tokens of one answer.

    ``extend`` gives it every token of the answer, in order, as soon as the token is known; its
    constructor gets the prompt. The model checks every guess: a wrong guess costs time and nothing
    else.

    Attributes:
        origin: The origin of its guesses.
    """

    origin: TokenOrigin

    def extend(self, tokens: Sequence[int]) -> None:
        """Take the next tokens of the answer: usually one, or those of an accepted run.

        Its own guesses may or may not be among them. The last token may be one that was not sent to
        the reader yet.
        """
        ...

    def likelihood(self) -> float:
        """Return how likely the next guess is right, from 0 to 1; 0 where there is none.

        Called before each token, so it must cost next to nothing. A source learns it from the
        tokens of the answer: how often its recent guesses were right, or would have been. It
        decides whether a pass over several tokens pays.
        """
        ...

    def propose(self, most: int) -> Sequence[int]:
        """Return up to ``most`` tokens that may follow; the result may be empty.

        The time of this call is measured and counts against the time that the guesses save.
        """
        ...


# Prompt lookup: guesses that the answer repeats a passage of the prompt or of itself.
#
# An answer that copies code, names or sentences follows an earlier passage token by token. The
# last tokens are looked up by a hash; each new token costs a few operations, whatever the length
# of the prompt.

# A passage is found by this many last tokens of the answer; fewer agree by chance too often.
_LOOKUP_KEY_TOKENS = 3
# Bits of one token id in a key, which stays below 2 ** 63.
_ID_BITS = 21
_KEY_MASK = (1 << _ID_BITS * _LOOKUP_KEY_TOKENS) - 1
# How far a passage is compared backwards, to see how many tokens agree.
_LOOKUP_LONGEST = 32
# The most tokens that are indexed; of a longer prompt, the last ones.
MOST_INDEXED = 1 << 16
# How many tokens of the prompt are indexed with each token of the answer, so that no step waits.
_SLICE = 512
# Where the answer differs from a passage that agreed for at least ``_LEAST_LEFT`` tokens, as in an
# edited text, the passage is searched again: in its next ``_NEAR`` tokens, for as many tokens of
# the answer.
_LEAST_LEFT = 8
_LOOKUP_NEAR = 12
# The expected rate of right guesses, by the number of tokens that agree: up to the first number,
# the rate beside it.
_LOOKUP_EXPECTED = ((3, 0.4), (5, 0.6), (8, 0.75), (15, 0.85), (_LOOKUP_LONGEST, 0.93))
# The same for a passage that the answer left and came back to: by skipping as many tokens as differ
# (``_SKIPPED``), or where the last token was found a little further on (``_FOUND``). The second
# rate of each is the one after one more token that agrees; after two, the passage is trusted as
# before.
_SKIPPED, _FOUND = len(_LOOKUP_EXPECTED), len(_LOOKUP_EXPECTED) + 2
_EXPECTED_AGAIN = (0.6, 0.85, 0.5, 0.8)
# An answer leaves an edited text every few dozen tokens. An average over fewer tokens would rise in
# between, and passes would become too long.
_LOOKUP_NEWEST = 0.03
_LOOKUP_EXPECTED_WEIGHT = 3.0


def _classes() -> tuple[int, ...]:
    """Return, for each number of tokens that agree, the index of its rate in ``_EXPECTED``."""
    return tuple(
        next(n for n, (most, _) in enumerate(_LOOKUP_EXPECTED) if length <= most)
        for length in range(_LOOKUP_LONGEST + 1)
    )


_LOOKUP_CLASS_OF = _classes()


class PromptLookup:
    """Guesses that the tokens which followed the last few tokens earlier follow them again.

    See ``DraftSource``.

    Args:
        prompt: The tokens of the prompt.
    """

    origin = TokenOrigin.LOOKUP

    def __init__(self, prompt: Sequence[int]) -> None:
        self._tokens = list(prompt[-MOST_INDEXED:])
        expected = [*(rate for _, rate in _LOOKUP_EXPECTED), *_EXPECTED_AGAIN]
        self._rates = tuple(
            HitRate(rate, _LOOKUP_NEWEST, _LOOKUP_EXPECTED_WEIGHT) for rate in expected
        )
        # For each run of key tokens: the place of the token that last followed it.
        self._places: dict[int, int] = {}
        self._room = MOST_INDEXED
        self._key = 0
        for token in self._tokens[-_LOOKUP_KEY_TOKENS:]:
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
            if self._room > 0 and len(known) > _LOOKUP_KEY_TOKENS:
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
        drafts = known[at : at + most]
        period = len(known) - at
        while len(drafts) < most:
            drafts.append(drafts[-period])
        return drafts

    def _agree(self) -> None:
        """Note that the answer's token is the expected one."""
        self._at += 1
        if self._length < _LOOKUP_LONGEST:
            self._length += 1
        if not self._left_at:
            self._trust = _LOOKUP_CLASS_OF[self._length]
        elif self._trust in (_SKIPPED, _FOUND):
            self._trust += 1
        else:
            self._left_at = 0
            self._trust = _LOOKUP_CLASS_OF[self._length]

    def _find_again(self, token: int) -> None:
        """Look for the passage that was left, unless another one agrees with the last tokens."""
        known, left = self._tokens, self._left_at
        differing = len(known) - self._left_by
        if self._at or differing > _LOOKUP_NEAR:
            self._left_at = 0
            return
        near = known[left : min(left + _LOOKUP_NEAR, self._left_by)]
        if token in near:  # tokens were left out, or added
            self._at, self._trust = left + near.index(token) + 1, _FOUND
        elif left + differing < len(known):  # as many were replaced
            self._at, self._trust = left + differing, _SKIPPED

    def _find(self) -> None:
        """Look for a passage that agrees with the last tokens."""
        known = self._tokens
        at = self._places.get(self._key, 0) if len(known) > _LOOKUP_KEY_TOKENS else 0
        self._at = at
        if not at:
            return
        end = len(known)
        length, most = _LOOKUP_KEY_TOKENS, min(_LOOKUP_LONGEST, at)
        while length < most and known[at - length - 1] == known[end - length - 1]:
            length += 1
        self._length = length
        self._trust = _LOOKUP_CLASS_OF[length]

    def _index_prompt(self) -> None:
        """Index the next slice of the prompt, backwards, so that later passages are preferred."""
        end = self._unindexed
        begin = max(_LOOKUP_KEY_TOKENS, end - _SLICE)
        tokens = self._tokens[begin - _LOOKUP_KEY_TOKENS : end]
        keys, key = [], 0
        for token in tokens:
            key = ((key << _ID_BITS) | token) & _KEY_MASK
            keys.append(key)
        # The key before a place is the one that ends with the token before it.
        for place in range(end - 1, begin - 1, -1):
            self._places.setdefault(keys[place - begin + _LOOKUP_KEY_TOKENS - 1], place)
        self._room -= max(0, end - begin)
        self._unindexed = begin if begin > _LOOKUP_KEY_TOKENS else 0


# Guesses that an answer repeats the text that its request predicts.
#
# The prediction is compared with the answer token by token. Where the answer differs, its place
# in the prediction is searched again: wherever its last few tokens occur, or else a little
# further on, where one of the next tokens agrees.

# A passage is found by this many last tokens of the answer.
_PREDICTION_KEY_TOKENS = 3
# The answer's last token is searched in this many of the next tokens.
_PREDICTION_NEAR = 24
# Longer agreements count like this one.
_PREDICTION_LONGEST = 32
# The expected rate of right guesses, by the number of tokens before it that agree: up to the first
# number, the rate beside it. At the very beginning that number is 0.
_PREDICTION_EXPECTED = (
    (0, 0.7),
    (1, 0.4),
    (2, 0.55),
    (4, 0.7),
    (15, 0.85),
    (_PREDICTION_LONGEST, 0.93),
)
# A text that had agreed for ``_LONG`` tokens is trusted as before once ``_ENOUGH`` agree again.
_LONG = 8
_ENOUGH = 3
# An answer leaves an edited text every few dozen tokens. An average over fewer tokens would rise in
# between, and passes would become too long.
_PREDICTION_NEWEST = 0.03
_PREDICTION_EXPECTED_WEIGHT = 8.0
_PREDICTION_CLASS_OF = tuple(
    next(n for n, (most, _) in enumerate(_PREDICTION_EXPECTED) if length <= most)
    for length in range(_PREDICTION_LONGEST + 1)
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
        for end in range(_PREDICTION_KEY_TOKENS, len(self.tokens)):
            self._places[tuple(self.tokens[end - _PREDICTION_KEY_TOKENS : end])].append(end)

    def after(self, last: Sequence[int], begin: int) -> int | None:
        """Return the place that follows the last few tokens; None where they are not in the text.

        Of several places, this is the nearest one from ``begin`` on, or else the last one before
        it.
        """
        places = self._places.get(tuple(last[-_PREDICTION_KEY_TOKENS:]))
        return places[min(bisect_left(places, begin), len(places) - 1)] if places else None


class PredictionDrafts:
    """Guesses from the prediction of one request. See ``DraftSource``.

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
            HitRate(expected, _PREDICTION_NEWEST, _PREDICTION_EXPECTED_WEIGHT)
            for _, expected in _PREDICTION_EXPECTED
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
            if len(self._last) > _PREDICTION_LONGEST:
                del self._last[0]
            if at is not None and at < len(text):
                is_hit = text[at] == token
                self._rates[_PREDICTION_CLASS_OF[self._length]].note(is_hit)
                if is_hit:
                    self._at = at + 1
                    self._length = min(_PREDICTION_LONGEST, self._length + 1)
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
        return self._rates[_PREDICTION_CLASS_OF[self._length]].value

    def propose(self, most: int) -> Sequence[int]:
        """Return the tokens of the text that are expected next."""
        return () if self._at is None else self._text[self._at : self._at + most]

    def _find(self, token: int) -> None:
        """Look for the answer in the text, after a token that was not expected."""
        text, begin = self._text, self._left_at
        self._at = self._whole.after(self._last, begin)
        if self._at is None:
            near = range(begin, min(begin + _PREDICTION_NEAR, len(text) - 1))
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


# Guesses the next tokens of a constrained answer from its grammar.
#
# Where a schema or a forced call leaves only one possible text (a key, a constant, the frame of a
# call), the constraint allows one token at a time. All tokens that are known in this way are
# guessed at once. Where a few tokens are allowed, such as the white space around a colon, the
# guess is the token that this answer used last time. The model reads all guesses in one pass,
# each under the mask of its place, so the tokens stay the same and only the time changes.
#
# Engine thread.

# The most tokens that are guessed at once.
_MOST = 64
# Where at most this many tokens are allowed, an answer is expected to repeat its earlier choice.
_FEW = 8
_MOST_HABITS = 64
# A string or a number of JSON ends with one of these.
_STRUCTURE = frozenset('"{}[],:\n')
_GRAMMAR_GUESSES_EXPECTED = 0.97


class GrammarDrafts:
    """Guesses from the grammar of one answer. See ``DraftSource``.

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
        self._hits = HitRate(_GRAMMAR_GUESSES_EXPECTED)

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
