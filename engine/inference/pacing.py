"""How much of the waiting prompts one step of a batch may read, judged by measured time.

Running streams keep at least half of their pace while prompts are read: a step reads no more than
a short while, and after reading, the batch only decodes until decoding has had as long. Pure but
for its own state; knows no clock and no model.
"""

# How long one step may read while answers are being decoded: a reader does not notice such a gap.
_BESIDE_S = 0.03
# The same where nothing is decoded: a cancel, or a short prompt behind, waits that long.
_ALONE_S = 0.2
# So many tokens before anything was measured.
_FIRST = 64
# Reading fewer at once takes hardly less time.
_LEAST = 16
_GROWTH = 4.0
# Decoding has so much more time than reading, because it is slower right after that.
_MARGIN = 1.5
# How much the newest decoding step counts in the time that one is taken to last.
_NEWEST = 0.2


class ReadingPace:
    """Says, step by step, how many tokens of each waiting prompt are read.

    Args:
        most: Most tokens of a prompt read in one step, however fast that is.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._rate: float | None = None
        self._decode_s = 0.0
        self._debt_s = 0.0

    def chunk(self, decoding: int, reading: int) -> int:
        """Return how many tokens of each prompt the next step reads; 0 for decoding alone.

        Args:
            decoding: Rows that decode.
            reading: Rows whose prompts are read together.
        """
        if not decoding:
            self._debt_s = 0.0
        elif self._debt_s > 0:
            return 0
        if self._rate is None:
            fitting = float(_FIRST)
        else:
            share_s = max(_BESIDE_S, self._decode_s) if decoding else _ALONE_S
            fitting = self._rate * share_s / max(1, reading)
        return min(self._most, max(_LEAST, int(fitting)))

    def decoded(self, took_s: float) -> None:
        """Note a step that only decoded."""
        self._debt_s -= took_s
        newest = _NEWEST if self._decode_s else 1.0
        self._decode_s += (took_s - self._decode_s) * newest

    def read(self, took_s: float, tokens: int, *, is_whole: bool, decoding: int) -> None:
        """Note a step that read.

        Args:
            took_s: How long it took, its decoding included.
            tokens: What it read of all prompts.
            is_whole: Whether a prompt had as much left as it was allowed: the rest of a prompt
                takes too long for its few tokens to say how fast reading is.
            decoding: Rows that decoded in it.
        """
        reading_s = max(took_s - self._decode_s, took_s / 10) if decoding else took_s
        if tokens and reading_s > 0:
            rate = tokens / reading_s
            if self._rate is None:
                if is_whole:
                    self._rate = rate
            elif is_whole or reading_s > (_BESIDE_S if decoding else _ALONE_S):
                self._rate = min(rate, self._rate * _GROWTH)
        if decoding:
            self._debt_s = reading_s * _MARGIN - self._decode_s
