"""Chunked prefill: how many tokens of prompts each step of a batch reads.

A step reads for about a quarter of a second where nothing decodes. Beside running answers it
reads for about as long as a decode step takes, and then decodes alone until it has made up for
that: running streams keep at least half of their pace.
"""

# The duration of a read, alone and beside running answers.
_ALONE_S = 0.25
_BESIDE_S = 0.02
# On most devices, reading fewer tokens in one pass takes hardly less time.
_MIN_TOKENS = 16
# The first read measures the speed: on a slow processor, a whole chunk takes minutes.
_FIRST_TOKENS = 64
_NEWEST = 0.3


class PrefillPacer:
    """Plans how much one batch reads, step by step: up to ``max_tokens`` tokens of prompts."""

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        # The average times of a decode step and of a prompt token; 0 before the first.
        self._decode_s = self._token_s = 0.0
        # How long the answers must decode alone before the next read.
        self._debt_s = 0.0

    def tokens(self, decoding: int) -> int:
        """Return how many tokens the next step reads beside ``decoding`` rows; 0 for none."""
        if decoding and self._debt_s > 0:
            return 0
        if not self._token_s:
            return min(self._max_tokens, _MIN_TOKENS if decoding else _FIRST_TOKENS)
        fitting = int(self.read_s(decoding) / self._token_s)
        return min(self._max_tokens, max(_MIN_TOKENS, fitting))

    def read_s(self, decoding: int) -> float:
        """Return how long one read may take beside ``decoding`` rows."""
        return max(_BESIDE_S, self._decode_s) if decoding else _ALONE_S

    def record_decode(self, took_s: float) -> None:
        self._debt_s = max(0.0, self._debt_s - took_s)
        self._decode_s = _average(self._decode_s, took_s)

    def record_read(self, took_s: float, tokens: int, decoding: int) -> None:
        read_s = max(took_s - self._decode_s, took_s / 10) if decoding else took_s
        self.record_pause(read_s, decoding, tokens)

    def record_pause(self, took_s: float, decoding: int, tokens: int = 0) -> None:
        """Record work for which ``decoding`` rows waited, and that read ``tokens`` tokens."""
        if tokens:
            self._token_s = _average(self._token_s, took_s / tokens)
        self._debt_s = self._debt_s + took_s if decoding else 0.0


def _average(known: float, new: float) -> float:
    return known + (new - known) * _NEWEST if known else new
