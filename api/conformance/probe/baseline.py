"""A server's answers without stops, and their parts that never change. Pure values; any thread."""

from dataclasses import dataclass

from api.conformance.captures.values import CapturedEnding
from api.conformance.probe.asking.exchange import Exchange
from api.conformance.probe.dialects.asks import Ask
from api.conformance.probe.values import Fault

_LEAST_CHARACTERS = 12


@dataclass(frozen=True, slots=True)
class Baseline:
    """The answer to one prompt without stops.

    Attributes:
        ask: The request.
        text: The answer.
        stable: The part of the text that all runs share.
        thinking: The thinking before it, if any.
        bounds: Offsets at which the server's pieces end; () if it streams no pieces.
        tokens: Tokens of the answer; None if the server does not count them.
        ending: How it ended.
        is_repeatable: Whether all runs were the same.
        total_s: How long the whole answer took.
        output_ids: The ids of its tokens, if the dialect has them.
        streamed_text: The text of streams, if it always differs; None if it is the same.
        streamed_tokens: Tokens of the streamed answer; None if the server does not count them.
    """

    ask: Ask
    text: str
    stable: str
    thinking: str = ""
    bounds: tuple[int, ...] = ()
    tokens: int | None = None
    ending: CapturedEnding | None = None
    is_repeatable: bool = True
    total_s: float = 0.0
    output_ids: tuple[int, ...] = ()
    streamed_text: str | None = None
    streamed_tokens: int | None = None

    def text_in(self, *, is_streamed: bool) -> str:
        """Return the answer in one mode."""
        if is_streamed and self.streamed_text is not None:
            return self.streamed_text
        return self.text

    def tokens_in(self, *, is_streamed: bool) -> int | None:
        """Return the token count of the answer in one mode."""
        return self.streamed_tokens if is_streamed else self.tokens

    @property
    def inline_thinking(self) -> str:
        """The text of streams before the answer, if they include the thinking in their text."""
        streamed, answer = self.streamed_text, self.text.strip()
        if streamed is None or not streamed.rstrip().endswith(answer):
            return ""
        return streamed[: streamed.rindex(answer)]

    @property
    def is_usable(self) -> bool:
        """Whether there is enough text to choose stops from."""
        return len(self.stable.strip()) >= _LEAST_CHARACTERS


@dataclass(frozen=True, slots=True)
class Baselines:
    """The answers without stops.

    Attributes:
        usable: Answers from which stops can be chosen, in the order of the prompts.
        runs: All exchanges.
        faults: Faults found by comparing whole and streamed answers.
        conclusions: Conclusions about the server, as sentences.
    """

    usable: tuple[Baseline, ...]
    runs: tuple[Exchange, ...]
    faults: tuple[Fault, ...]
    conclusions: tuple[str, ...] = ()

    @property
    def is_deterministic(self) -> bool:
        """Whether every prompt got the same answer each time."""
        return all(one.is_repeatable for one in self.usable)
