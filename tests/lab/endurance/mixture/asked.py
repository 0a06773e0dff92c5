"""Draws requests that combine everything: long shared beginnings, choices, predictions, owners."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.values.request import PERSON, CacheOwner, GenerationRequest, Message, TraceLevel
from tests.lab.endurance.speculation import Draws

OWNERS = tuple(CacheOwner("me", f"conversation {number}") for number in range(3))
_TEXT = "the quick brown fox jumps over a lazy dog one two three red blue sea ship"
_WORDS = _TEXT.split(" ")


@dataclass(frozen=True, slots=True)
class Asked:
    """The request of a client."""

    choices: tuple[GenerationRequest, ...]
    begins_after: int
    leaves_after: int | None


class MixedDraws:
    """Draws the requests of clients."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._single = Draws(seed)
        self._beginnings = [self._words(length) for length in (20, 120, 120, 150, 260)]
        # Some differ from another one only near their end.
        self._beginnings.append(f"{self._beginnings[2]} {self._words(20)}")
        self._beginnings.append(f"{self._beginnings[3]} {self._words(130)}")
        self._turns: list[tuple[Message, ...]] = []

    def _words(self, count: int) -> str:
        return " ".join(self.random.choices(_WORDS, k=count))

    def asked(self) -> Asked:
        draws = self.random
        request = replace(
            self._single.request(),
            trace=draws.choice((TraceLevel.FULL, TraceLevel.FULL, TraceLevel.OFF)),
            cache_owner=draws.choice((PERSON, CacheOwner("me"), *OWNERS)),
        )
        kind = draws.random()
        if kind < 0.35:
            system = Message("system", draws.choice(self._beginnings))
            request = replace(request, messages=(system, *request.messages))
        elif kind < 0.6 and self._turns:
            request = replace(request, messages=(*draws.choice(self._turns), *request.messages))
        elif kind < 0.7:
            text = f"{draws.choice(self._beginnings)} {self._words(draws.randint(0, 9))}"
            request = replace(request, messages=(), prompt=text)
        return Asked(
            self._choices(request),
            draws.choice((0, 0, 0, 1, 3, 8, 20)),
            draws.choice((*[None] * 10, 0, 3, 9)),
        )

    def _choices(self, request: GenerationRequest) -> tuple[GenerationRequest, ...]:
        draws = self.random
        count = draws.choice((1, 1, 1, 2, 3))
        if request.sampling.seed is None:
            return (request,) * count
        seeds = (request.sampling.seed + number for number in range(count))
        return tuple(
            replace(request, sampling=replace(request.sampling, seed=seed)) for seed in seeds
        )

    def predicted(self, asked: Asked, texts: Sequence[str]) -> Asked:
        """Return the same with a prediction now and then: the answer, edited or not."""
        draws = self.random
        if draws.random() > 0.3:
            return asked
        words = draws.choice(texts).split(" ")
        for _ in range(draws.choice((0, 0, 1, 3))):
            words[draws.randrange(len(words))] = draws.choice(_WORDS)
        text = " ".join(words) + draws.choice(("", " and more"))
        return replace(asked, choices=tuple(replace(one, prediction=text) for one in asked.choices))

    def note(self, request: GenerationRequest, text: str) -> None:
        """Remember an answer, which later questions may follow."""
        if request.messages and text.strip():
            self._turns.append((*request.messages, Message("assistant", text)))
            if len(self._turns) > 12:
                del self._turns[self.random.randrange(len(self._turns))]
