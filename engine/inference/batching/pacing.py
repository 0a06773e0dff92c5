"""How much of the waiting prompts one step of a batch may read, from measured times.

Running streams keep about two thirds of the pace that they have, guesses included, while prompts
are read: one step reads only for a short time, and then the batch only decodes until the streams
have caught up. Pure but for its own state; knows no clock and no model.
"""

from engine.inference.batching.reading_rates import ReadingRates

# How long one step may read while answers are being decoded. On a busy machine it takes up to three
# times as long, and no stream should pause for a tenth of a second. Longer steps read no faster.
_BESIDE_S = 0.02
# A step that decodes and reads should take no longer than ``_GAP_S``, for the same reason. It may
# always read for ``_LEAST_BESIDE_S``.
_GAP_S = 0.04
_LEAST_BESIDE_S = 0.015
# Where decoding alone takes longer than this, that limit cannot be kept.
_LONG_S = 0.07
# How long one step may read while nothing is decoded: a cancel or the next short prompt waits that
# long.
_ALONE_S = 0.2
# How many tokens are read before anything was measured, where nothing is decoded.
_FIRST = 64
# Many prompts together read at least as many tokens in one step as this many prompts.
_FEW_PROMPTS = 4
# Streams are to keep this share of their pace. It leaves a reserve above the half that is promised.
_KEPT_PACE = 0.75
# A step that only decodes gives waiting prompts credit for at least this share of its time, however
# slow decoding has become: the prompts must be read in the end, too.
_LEAST_CREDIT = 0.15
# The weight of the newest decoding step in the average. It is smaller while prompts are read, and
# smallest right after reading, when decoding is slower than it would be alone.
_NEWEST = 0.2
_NEWEST_BESIDE = 0.05
_NEWEST_AFTER_READING = 0.005


class ReadingPace:
    """Says, step by step, how many tokens of each waiting prompt are read."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rates = ReadingRates()
        self.decode_s = 0.0
        # The same for all steps that read nothing, guesses included, and the tokens that such a
        # step gives each row: together they are the pace that streams have.
        self._step_s = self._step_tokens = 0.0
        self._decoding = 0
        # How far the streams are behind their pace, in seconds.
        self._debt_s = 0.0
        self._has_just_read = False

    def chunk(self, decoding: int, reading: int, lane: int = 0, depth: int = 0) -> int:
        """Return how many tokens of each prompt the next step reads; 0 for decoding alone."""
        share_s = self.free_s(decoding)
        if not share_s:
            return 0
        rate = self._rates.expected(lane, depth)
        least = self._rates.least(lane, depth)
        if rate is None:
            fitting = float(least if decoding else _FIRST)
        else:
            fitting = rate * share_s / max(1, reading)
        least = least * _FEW_PROMPTS // max(_FEW_PROMPTS, reading)
        return min(self._most, max(1, least, int(fitting)))

    def free_s(self, decoding: int) -> float:
        """Return how long the next step may read; 0 while the streams are behind their pace."""
        if not decoding:
            self._debt_s = 0.0
        return 0.0 if self._debt_s > 0 else self._share_s(decoding)

    def _share_s(self, decoding: int) -> float:
        if not decoding:
            # Where one token takes longer, many of them hardly take longer than one.
            return max(_ALONE_S, 2 * self.decode_s)
        share_s = max(_BESIDE_S, self.decode_s)
        if self.decode_s < _LONG_S:
            share_s = min(share_s, max(_LEAST_BESIDE_S, _GAP_S - self.decode_s))
        return share_s

    def decoded(
        self, took_s: float, decoding: int = 1, *, tokens: float = 1, is_beside: bool = False
    ) -> None:
        """Note a step that only decoded."""
        behind_s = took_s - tokens * self._token_s / _KEPT_PACE
        self._debt_s = max(0.0, self._debt_s + min(behind_s, -_LEAST_CREDIT * took_s))
        if not is_beside or decoding != self._decoding:
            newest = _NEWEST
        else:
            newest = _NEWEST_AFTER_READING if self._has_just_read else _NEWEST_BESIDE
        self._has_just_read = False
        self._decoding = decoding
        self._step_s = _averaged(self._step_s, took_s, newest)
        self._step_tokens = _averaged(self._step_tokens, tokens, newest)
        if tokens == 1:
            self.decode_s = _averaged(self.decode_s, took_s, newest)

    @property
    def _token_s(self) -> float:
        """How long the streams take for a token each; 0 before anything was measured."""
        return self._step_s / self._step_tokens if self._step_tokens else 0.0

    def waited(self, took_s: float, decoding: int) -> None:
        """Note that the streams waited for something else that a prompt needs."""
        if decoding:
            self._debt_s += took_s

    def read(
        self,
        took_s: float,
        tokens: int,
        *,
        is_whole: bool,
        decoding: int,
        reading: int = 1,
        lane: int = 0,
        depth: int = 0,
    ) -> None:
        """Note a step that read."""
        reading_s = max(took_s - self.decode_s, took_s / 10) if decoding else took_s
        if tokens and reading_s > 0:
            self._rates.note(
                lane,
                depth,
                tokens=tokens,
                prompts=max(1, reading),
                took_s=reading_s,
                share_s=self._share_s(decoding),
                is_whole=is_whole,
            )
        if decoding:
            self._debt_s = max(0.0, took_s - self._token_s / _KEPT_PACE)
            self._has_just_read = True


def _averaged(known: float, new: float, newest: float) -> float:
    """Return an average with a new value in it; that value alone where nothing is known."""
    return known + (new - known) * newest if known else new
