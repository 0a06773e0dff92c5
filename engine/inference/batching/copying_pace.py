"""How many prompts may begin to answer in one step, judged by measured time.

Rows of a batch are dense: a prompt that has been read is copied into the batch, and every running
answer waits for that. Pure but for its own state; knows no clock and no model.
"""

# A reader does not notice a gap of this length.
_MOST_S = 0.05
# Seconds per token before anything was measured: a small model on a CPU whose memory is fresh from
# the system, which makes copying four times slower than memory that was used before. So it may be
# again for more tokens than have ever joined at once.
_FIRST_S = 8e-6
# How much the newest step counts, if so many tokens were copied; short prompts say less.
_QUICKER, _SLOWER = 0.25, 0.75
_TELLING_TOKENS = 2_000
# No step counts as slower than so many times what was expected: something else held it up.
_MOST_SLOWER = 4


class CopyingPace:
    """Says how many prompts may join the running rows at once."""

    def __init__(self) -> None:
        self._token_s = _FIRST_S
        self._most_tokens = 0

    def together(self, longest: int) -> int:
        """Return how many prompts may join in one step, at least one.

        Args:
            longest: Tokens of the longest of them, at least one.
        """
        tokens = _MOST_S / self._token_s
        if tokens > self._most_tokens:
            rest_s = _MOST_S - self._token_s * self._most_tokens
            tokens = self._most_tokens + rest_s / max(_FIRST_S, self._token_s)
        return max(1, int(tokens / longest))

    def joined(self, tokens: int, took_s: float) -> None:
        """Note a step in which prompts joined.

        Args:
            tokens: Of all these prompts.
            took_s: How much longer it took than a step that only decodes.
        """
        token_s = min(max(0.0, took_s) / tokens, _MOST_SLOWER * self._token_s)
        weight = _SLOWER if token_s > self._token_s else _QUICKER
        weight *= min(1.0, tokens / _TELLING_TOKENS)
        self._token_s += (token_s - self._token_s) * weight
        self._most_tokens = max(self._most_tokens, tokens)
