"""Sources of draft tokens: their base class, earlier text, and grammars. No MLX."""

from array import array
from collections.abc import Sequence

from engine.grammar.masks import TokenConstraint
from engine.values.tokens import TokenOrigin

WIDTHS = (4, 16)
"""Tokens of each row in a verification pass, the pending token included."""
MAX_CHAIN = WIDTHS[0] - 1
"""The length of a chain by a head or a draft model, each drafted from the one before."""

# A passage is found by this many tokens; fewer agree by chance too often.
_NGRAM = 3
# The longest text that is searched; of a longer prompt, its end.
MAX_SEARCHED = 1 << 16
_TOKEN_BYTES = array("I").itemsize
# The weights of the newest draft in an average of hits, and of a token without a draft.
_NEWEST, _RECOVERY = 0.08, 0.003


class HitRate:
    """A moving average of hits, 0 to 1; ``expected`` counts for ``expected_weight`` drafts."""

    def __init__(self, expected: float, expected_weight: float = 3.0) -> None:
        self.value = self._expected = expected
        self._weight = expected_weight

    def add(self, is_hit: bool) -> None:
        self._weight += 1.0
        self.value += (float(is_hit) - self.value) * max(_NEWEST, 1.0 / self._weight)

    def recover(self) -> None:
        """Move back towards the expectation, so that a source without drafts is tried again."""
        self.value += (self._expected - self.value) * _RECOVERY


class DraftSource:
    """Drafts the next tokens of one answer. Engine thread.

    The model verifies every draft: a wrong one costs time and nothing else.

    Attributes:
        is_computed: Whether a head or another model computes its drafts.
    """

    def __init__(self, origin: TokenOrigin, hits: HitRate) -> None:
        self.origin = origin
        self.is_computed = origin in (TokenOrigin.HEAD, TokenOrigin.DRAFT)
        self.max_drafts = MAX_CHAIN if self.is_computed else WIDTHS[-1] - 1
        self._hits = hits
        # The drafts that the answer has not reached yet.
        self._drafts: list[int] = []

    def extend(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            self._judge(token)

    def likelihood(self) -> float:
        """Return how likely the next draft is right; 0 where there is none."""
        return self._hits.value

    def propose(self, max_drafts: int) -> Sequence[int]:
        return self._drafts[:max_drafts]

    def expected_hits(self, drafts: int) -> float:
        """Return how many of ``drafts`` drafts are expected to be right."""
        likelihood = min(self.likelihood(), 0.99)
        return likelihood * (1 - likelihood ** min(drafts, self.max_drafts)) / (1 - likelihood)

    def _judge(self, token: int) -> None:
        """Learn from the next token how good the drafts are."""
        if self._drafts:
            is_hit = self._drafts[0] == token
            self._hits.add(is_hit)
            del self._drafts[: 1 if is_hit else None]
        elif self.is_computed:
            self._hits.recover()


class NgramDrafts(DraftSource):
    """Drafts that the answer repeats a text: what followed its last few tokens there.

    The text is the prompt, which the answer continues (prompt lookup), or what the request
    predicts as the answer (``origin`` is ``PREDICTION``).
    """

    def __init__(self, text: Sequence[int], origin: TokenOrigin = TokenOrigin.LOOKUP) -> None:
        self._is_prompt = origin is TokenOrigin.LOOKUP
        # An answer is expected to repeat what the request predicts.
        super().__init__(origin, HitRate(0.5 if self._is_prompt else 0.7))
        self._text = array("I", text[-MAX_SEARCHED:] if self._is_prompt else text[:MAX_SEARCHED])
        self._bytes = bytearray(self._text.tobytes())
        self._last = self._text[-_NGRAM:] if self._is_prompt else array("I")
        # The index of the expected token; None where nothing was found.
        self._next: int | None = None if self._is_prompt else 0
        # The expected index where the answer left the text.
        self._left_at: int | None = None
        self._is_searched = not self._is_prompt

    def extend(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            if self._next is not None and self._next < len(self._text):
                is_hit = self._text[self._next] == token
                self._hits.add(is_hit)
                if is_hit:
                    self._next += 1
                else:
                    self._next, self._left_at = None, self._next
            if self._is_prompt:
                self._text.append(token)
        added = array("I", tokens)
        if self._is_prompt:
            self._bytes += added.tobytes()
        self._last = (self._last + added)[-_NGRAM:]
        self._is_searched = self._next is not None

    def likelihood(self) -> float:
        if not self._is_searched:
            self._next = self._find()
            self._is_searched = True
        return 0.0 if self._next is None or self._next >= len(self._text) else self._hits.value

    def propose(self, max_drafts: int) -> Sequence[int]:
        """Return the tokens that are expected next, repeated where they reach the prompt's end."""
        if self._next is None:
            return ()
        drafts = self._text[self._next : self._next + max_drafts].tolist()
        while self._is_prompt and len(drafts) < max_drafts:
            drafts += drafts[: max_drafts - len(drafts)]
        return drafts

    def _find(self) -> int | None:
        """Return the index after the last tokens: the next one on, or the last one in the text."""
        if len(self._last) < _NGRAM:
            return None
        # A token has to follow.
        end = len(self._bytes) - _TOKEN_BYTES
        tokens = self._last.tobytes()
        if self._left_at is not None:
            begin = max(0, self._left_at - _NGRAM) * _TOKEN_BYTES
            while (at := self._bytes.find(tokens, begin, end)) >= 0:
                if at % _TOKEN_BYTES == 0:
                    return at // _TOKEN_BYTES + _NGRAM
                begin = at + 1
        while (at := self._bytes.rfind(tokens, 0, end)) >= 0:
            if at % _TOKEN_BYTES == 0:
                return at // _TOKEN_BYTES + _NGRAM
            end = at + len(tokens) - 1
        return None


class GrammarDrafts(DraftSource):
    """Drafts from the grammar of a constrained answer: the tokens of the only text that can follow.

    No other object may use its ``constraint``.
    """

    def __init__(self, constraint: TokenConstraint) -> None:
        # Drafts that a grammar forces are right, so that a few wrong ones do not end them.
        super().__init__(TokenOrigin.FORCED, HitRate(0.97, expected_weight=1 / _NEWEST))
        # None once the grammar has become slow to follow: then it is not followed twice.
        self._constraint: TokenConstraint | None = constraint

    def extend(self, tokens: Sequence[int]) -> None:
        for token_id in tokens:
            self._judge(token_id)
            if self._constraint is not None:
                self._constraint.advance(token_id)
                if self._constraint.is_costly:
                    self._constraint, self._drafts = None, []

    def likelihood(self) -> float:
        if self._constraint is not None and not self._drafts:
            self._drafts = self._constraint.forced()
        return self._hits.value if self._drafts else 0.0
