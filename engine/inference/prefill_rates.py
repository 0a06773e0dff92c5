"""The measured speed of prefill, by lane and by how much was read before. Pure.

The more tokens of a prompt its cache holds, the longer each further token takes: the model compares
every token with all tokens before it.
"""

from dataclasses import dataclass

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


class PrefillRates:
    """The measured speeds of one model."""

    def __init__(self) -> None:
        self._measured: dict[tuple[int, int], _Measured] = {}

    def expected(self, lane: int, depth: int) -> float | None:
        """Return the least expected speed in tokens per second; None where it is not known."""
        rate = self._in_lane(lane, depth)
        if rate is None:  # another lane's speed may be too high for this one
            lanes = {other for other, _ in self._measured}
            rates = [self._in_lane(other, depth) for other in lanes]
            rate = min((known for known in rates if known is not None), default=None)
        return rate

    def _in_lane(self, lane: int, depth: int) -> float | None:
        wanted = _stage(depth)
        known = [
            (stage, measured.rate) for (of, stage), measured in self._measured.items() if of == lane
        ]
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
                _adjust(known, rate, took_s, share_s / prompts)


def _adjust(known: _Measured, rate: float, took_s: float, share_s: float) -> None:
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
        if known.least > 1:
            known.least //= 2
        else:
            known.least *= 2


def _stage(depth: int) -> int:
    """Return a number that rises by one each time that the depth doubles."""
    return (depth // 512).bit_length()
