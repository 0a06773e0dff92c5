"""How much of the waiting prompts each step of a batch reads, from measured times. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

# The measured speed of reading prompts, by lane and by how much was read before.
#
# The more tokens of a prompt its cache holds, the longer each further token takes: the model
# compares every token with all tokens before it.

# On most devices, reading fewer tokens than this in one step takes hardly less time.
_LEAST = 16
# How many tokens are read where the speed is not known.
_CAREFUL = 4
# Beyond this depth, the speed of the first prompt cannot be estimated.
_SHALLOW = 4096
_GROWTH = 1.5
# A smaller step is kept if it reads at this share of the speed at least.
_WORTH = 0.7
# How much longer a step must take before fewer tokens are tried again.
_LONGER = 1.5


@dataclass(slots=True)
class _Measured:
    """What was measured of the prompts of one lane, at one stage."""

    rate: float
    least: int
    before: tuple[int, float] | None = None
    in_vain_s: float = 0.0


class ReadingRates:
    """The measured speeds of one model."""

    def __init__(self) -> None:
        self._measured: dict[tuple[int, int], _Measured] = {}

    def expected(self, lane: int, depth: int) -> float | None:
        """Return the least expected speed in tokens per second; None where it is not known."""
        found = self._in_lane(lane, depth)
        if found is None:  # another lane's speed may be too high for this one
            lanes = {other for other, _ in self._measured}
            rates = [self._in_lane(other, depth) for other in lanes]
            found = min((rate for rate in rates if rate is not None), default=None)
        return found

    def _in_lane(self, lane: int, depth: int) -> float | None:
        wanted = _stage(depth)
        known = [(stage, one.rate) for (of, stage), one in self._measured.items() if of == lane]
        # Deeper, it is slower; and at twice the depth, at most twice as slow.
        return max((rate / 2 ** max(0, wanted - stage) for stage, rate in known), default=None)

    def least(self, lane: int, depth: int) -> int:
        """Return the fewest tokens of a prompt that one step reads while answers are decoded."""
        wanted = _stage(depth)
        if (measured := self._measured.get((lane, wanted))) is not None:
            return measured.least
        if not self._measured:
            return _LEAST if depth < _SHALLOW else _CAREFUL
        near = (
            one.least for (_, stage), one in self._measured.items() if wanted - 1 <= stage <= wanted
        )
        return min(near, default=_CAREFUL)

    def note(
        self,
        lane: int,
        depth: int,
        *,
        tokens: int,
        prompts: int,
        took_s: float,
        share_s: float,
        is_whole: bool,
    ) -> None:
        """Note how many tokens a step has read, and how long that took."""
        rate, key = tokens / took_s, (lane, _stage(depth))
        known = self._measured.get(key)
        if known is None:
            if is_whole:
                self._measured[key] = _Measured(rate, self.least(lane, depth))
        elif is_whole or took_s > share_s:
            known.rate = min(rate, known.rate * _GROWTH)
            if is_whole:
                _adjust(known, rate, took_s, share_s / prompts, max(1, _CAREFUL // prompts))


def _adjust(known: _Measured, rate: float, took_s: float, share_s: float, fewest: int) -> None:
    """Look for the smallest number of tokens per step that is read about as fast as larger ones."""
    if known.before is not None:
        (least, rate_before), known.before = known.before, None
        # A smaller step must be nearly as fast; a larger one so much faster that it is worth the
        # time.
        is_worth = rate * (_WORTH if known.least > least else 1 / _WORTH) > rate_before
        if not is_worth:
            known.least, known.in_vain_s = least, took_s
    elif rate * share_s < known.least / 2 and took_s > known.in_vain_s * _LONGER:
        known.before = known.least, rate
        if known.least > fewest:
            known.least //= 2
        else:
            known.least *= 2


def _stage(depth: int) -> int:
    """Return a number that rises by one each time that the depth doubles."""
    return (depth // 512).bit_length()


# Which prompts are read next: short ones first, long ones at least every fourth time.
#
# Prompts wait in lanes according to how many tokens they still have to read.

# The most tokens left to read for prompts in the first and in the second lane; longer ones are in
# the last.
LANE_TOKENS = (512, 4096)
LANES = len(LANE_TOKENS) + 1
# How often a lane with prompts may be passed over in a row.
_MOST_PASSED = 3


def lane_of(tokens: int) -> int:
    """Return the lane of a prompt that has this many tokens left to read."""
    return sum(tokens > most for most in LANE_TOKENS)


class ReadingTurns:
    """Gives turns to the lanes."""

    def __init__(self) -> None:
        self._passed = [0] * LANES

    def due(self, waiting: Sequence[int]) -> int:
        """Return the lane whose turn it is; the first where nothing waits."""
        busy = [lane for lane in range(LANES) if waiting[lane]]
        late = [lane for lane in busy if self._passed[lane] >= _MOST_PASSED]
        if late:
            return max(late, key=lambda lane: self._passed[lane])
        return busy[0] if busy else 0

    def note(self, taken: int, waiting: Sequence[int]) -> None:
        """Note that a lane had a turn."""
        for lane in range(LANES):
            is_passed = waiting[lane] > 0 and lane != taken
            self._passed[lane] = self._passed[lane] + 1 if is_passed else 0


# How many prompts may begin to answer in one step, from measured times.
#
# Rows of a batch are dense: a prompt that has been read is copied into the batch, and every
# running answer waits for that.

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


# How much of the waiting prompts one step of a batch may read, from measured times.
#
# Running streams keep about two thirds of the pace that they have, guesses included, while
# prompts are read: one step reads only for a short time, and then the batch only decodes until
# the streams have caught up.

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
