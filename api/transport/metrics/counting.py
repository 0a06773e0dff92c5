"""Counts what a server has done. Knows no vendor and no web framework. Server's loop.

The Prometheus library is imported only when metrics are requested.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import accumulate

from engine import Finished, tokens_per_s

_FIRST_TOKEN_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_TOKENS_PER_S = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_REQUEST_S = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800)


class Histogram:
    """Counts values into buckets."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.sum = 0.0
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)

    def observe(self, value: float) -> None:
        """Count a value."""
        self.sum += value
        self._counts[bisect_left(self._bounds, value)] += 1

    def buckets(self) -> Iterator[tuple[float, int]]:
        """Yield each bound with the number of values up to it; the last bound is infinite."""
        return zip((*self._bounds, float("inf")), accumulate(self._counts), strict=True)


class Metrics:
    """The metrics of one server.

    Attributes:
        requests: Answered requests, by dialect, route and HTTP status.
        request_s: Seconds from a request's headers to the end of its answer, by dialect.
        open_requests: Requests that are being answered.
        stops: Answers that ended, by the kind of the stop.
        tokens: Tokens, by kind.
        cache_hits: Answers for which a part of the prompt came from a cache.
        guesses: Counters of speculative decoding: passes, guessed, accepted and forced tokens.
        first_token_s: Seconds from submission to the first sampled token.
        queued_s: Seconds that a request waited in the queue.
        speed: Tokens per second of one answer.
    """

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, str]] = Counter()
        self.request_s: defaultdict[str, Histogram] = defaultdict(lambda: Histogram(_REQUEST_S))
        self.open_requests = 0
        self.stops: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.cache_hits = 0
        self.guesses: Counter[str] = Counter()
        self.first_token_s = Histogram(_FIRST_TOKEN_S)
        self.queued_s = Histogram(_FIRST_TOKEN_S)
        self.speed = Histogram(_TOKENS_PER_S)

    def request_began(self) -> None:
        """Count a request that arrived."""
        self.open_requests += 1

    def request_ended(self, dialect: str, route: str, status: int, took_s: float) -> None:
        """Count a request that has been answered.

        Args:
            dialect: The dialect's name.
            route: Method and path.
            status: The HTTP status; 499 if the client disconnected.
            took_s: Seconds from its headers to the end of its answer.
        """
        self.open_requests -= 1
        self.requests[dialect, route, str(status)] += 1
        self.request_s[dialect].observe(took_s)

    def answer_ended(self, finished: Finished) -> None:
        """Count an answer that has ended, whatever the reason."""
        usage, timing = finished.usage, finished.timing
        self.stops[finished.stop.kind.value] += 1
        self.tokens["prompt"] += usage.prompt_tokens
        self.tokens["cached"] += usage.cached_tokens
        self.cache_hits += bool(usage.cached_tokens)
        self.tokens["disk"] += usage.disk_tokens
        self.tokens["output"] += usage.output_tokens
        self.tokens["thinking"] += usage.thinking_tokens
        guesses = finished.speculation
        self.guesses["passes"] += guesses.passes
        self.guesses["guessed"] += guesses.guessed
        self.guesses["accepted"] += guesses.accepted
        self.guesses["forced"] += guesses.forced
        self.queued_s.observe(timing.queued_s)
        if timing.first_token_s is not None:
            self.first_token_s.observe(timing.first_token_s)
        speed = tokens_per_s(usage, timing)
        if speed is not None:
            self.speed.observe(speed)
