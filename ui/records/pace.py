"""The speed at which an answer is written right now. Pure; main thread."""

from collections import deque

from engine import counted, figure

# Long enough to be steady, short enough to follow a slowdown.
_WINDOW_S = 3.0
# A person cannot read figures that change more often than this.
_NEWS_EVERY_S = 0.25


class Pace:
    """The tokens of a running answer, and their rate over the last seconds."""

    def __init__(self) -> None:
        self.tokens = 0
        self.per_s: float | None = None
        self._moments: deque[tuple[float, int]] = deque()
        self._told_at_s = float("-inf")
        self._shown = ""

    @property
    def words(self) -> str:
        """The rate and the number of tokens; empty before the first token."""
        if not self.tokens:
            return ""
        rate = "" if self.per_s is None else f"{figure(self.per_s)} tok/s · "
        return rate + counted(self.tokens, "token")

    def note(self, tokens: int, time_s: float) -> bool:
        """Note the number of tokens at a time; return whether there are new figures to show."""
        if not tokens:
            return False
        moments = self._moments
        if not moments or tokens != self.tokens:
            moments.append((time_s, tokens))
            self.tokens = tokens
        while len(moments) > 1 and moments[1][0] <= time_s - _WINDOW_S:
            moments.popleft()
        if time_s - self._told_at_s < _NEWS_EVERY_S:
            return False
        self._told_at_s = time_s
        before, (since_s, first) = self._shown, moments[0]
        if time_s > since_s and tokens > first:
            self.per_s = (tokens - first) / (time_s - since_s)
        self._shown = self.words
        return self._shown != before
