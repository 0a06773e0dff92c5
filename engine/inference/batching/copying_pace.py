"""How many prompts may begin to answer in one step, from measured times.

Rows of a batch are dense: a prompt that has been read is copied into the batch, and every running
answer waits for that. Pure but for its own state; knows no clock and no model.
"""

# A reader does not notice a gap of this length.
_MOST_S = 0.05
# Seconds per token before anything was measured: those of a small model on a CPU. Copying into
# memory that the system has just provided is four times slower than into memory that was used
# before, and this may happen again whenever more tokens join at once than ever before.
_FIRST_S = 8e-6
# The weight of the newest step, if at least ``_TELLING_TOKENS`` were copied; fewer count less. The
# time of fewer than ``_LEAST_TELLING`` is that of other work in the step.
_QUICKER, _SLOWER = 0.25, 0.75
_TELLING_TOKENS = 2_000
_LEAST_TELLING = 256
# A step counts as at most this many times slower than expected: something else may have delayed it.
_MOST_SLOWER = 4


class CopyingPace:
    """Says how many prompts may join the running rows at once."""

    def __init__(self) -> None:
        self._token_s = _FIRST_S
        self._most_tokens = 0

    def together(self, longest: int) -> int:
        """Return how many prompts may join in one step, at least one."""
        tokens = _MOST_S / self._token_s
        if tokens > self._most_tokens:
            rest_s = _MOST_S - self._token_s * self._most_tokens
            tokens = self._most_tokens + rest_s / max(_FIRST_S, self._token_s)
        return max(1, int(tokens / longest))

    def joined(self, tokens: int, took_s: float) -> None:
        """Note a step in which prompts joined."""
        if tokens < _LEAST_TELLING:
            return
        token_s = min(max(0.0, took_s) / tokens, _MOST_SLOWER * self._token_s)
        weight = _SLOWER if token_s > self._token_s else _QUICKER
        weight *= min(1.0, tokens / _TELLING_TOKENS)
        self._token_s += (token_s - self._token_s) * weight
        self._most_tokens = max(self._most_tokens, tokens)
