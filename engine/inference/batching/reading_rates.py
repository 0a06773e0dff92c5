"""How fast prompts are read, as far as it was measured: by lane, and by how much was read before.

The more of a prompt is in its cache, the longer each further token takes: every token is compared
with all before it. Pure but for its own state; knows no clock and no model.
"""

from dataclasses import dataclass

# Reading fewer tokens in one step takes hardly less time, on most devices.
_LEAST = 16
# So few are read where the speed is only a guess.
_CAREFUL = 4
# Beyond so many tokens, nothing is known of how fast a first prompt is read.
_SHALLOW = 4096
_GROWTH = 1.5
# Fewer tokens a step are kept to where they are read at this share of the speed at least.
_WORTH = 0.7
# How much longer a step must take before fewer tokens are tried again.
_LONGER = 1.5


@dataclass(slots=True)
class _Measured:
    """What was measured of the prompts of one lane, at one stage.

    Attributes:
        rate: Tokens per second.
        least: So many tokens of a prompt are read in one step at least.
        before: ``least`` and ``rate`` before ``least`` was changed; None once it is known what the
            change did.
        in_vain_s: How long a step took when a change was of no use.
    """

    rate: float
    least: int
    before: tuple[int, float] | None = None
    in_vain_s: float = 0.0


class ReadingRates:
    """The measured speeds of one model."""

    def __init__(self) -> None:
        self._measured: dict[tuple[int, int], _Measured] = {}

    def expected(self, lane: int, depth: int) -> float | None:
        """Return how many tokens per second a prompt is read at least; None for not known.

        Args:
            lane: The prompt's lane.
            depth: How many of its tokens have been read.
        """
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
        """Return how many tokens of a prompt a step reads at least, beside answers.

        Args:
            lane: The prompt's lane.
            depth: How many of its tokens have been read.
        """
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
        """Note what a step has read.

        Args:
            lane: The lane of the prompts.
            depth: How many tokens of the longest had been read.
            tokens: What it read of all prompts.
            prompts: How many were read together.
            took_s: How long that took.
            share_s: How long it was to take.
            is_whole: Whether a prompt had as much left as it was allowed: the rest of a prompt
                takes too long for its few tokens to say how fast reading is.
        """
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
    """Look for the fewest tokens a step that are read about as fast as more.

    Args:
        known: What was measured before.
        rate: What the step has measured.
        took_s: How long it took.
        share_s: How long the tokens of one prompt were to take.
        fewest: So many are read at least.
    """
    if known.before is not None:
        (least, rate_before), known.before = known.before, None
        # Fewer are to be read nearly as fast; and more, so much faster that it is worth the time.
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
