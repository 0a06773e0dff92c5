"""Guesses that a test controls, on the real pipeline: always checked, right or wrong on demand."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.inference.backend import BatchLimits, OnLoadProgress, Prompt, unobserved
from engine.inference.batch import RunningBatch
from engine.inference.mlx_backend import MlxBackend
from engine.inference.speculation.cost import PassCosts
from engine.inference.speculation.sources import DraftSource, HitRate
from engine.values.events import (
    Event,
    Finished,
    PromptProgress,
    Speculation,
    TextDelta,
    ThinkingDelta,
    Timing,
    TokenTrace,
    ToolCallAbandoned,
    ToolCallArguments,
    ToolCallCompleted,
    ToolCallStarted,
)
from engine.values.request import GenerationRequest
from engine.values.tokens import TokenOrigin
from tests.support.scripted import Stage


def timeless(events: Iterable[Event]) -> list[Event]:
    """Return events without the facts that guesses may change: times, and the origin of tokens.

    In how many parts a prompt is read also depends on times: of several reports the last is kept.
    """
    found: list[Event] = []
    for event in events:
        if isinstance(event, TokenTrace):
            event = replace(event, time_s=0.0, origin=TokenOrigin.SAMPLED)
        elif isinstance(event, (ToolCallStarted, ToolCallArguments, ToolCallAbandoned)):
            event = replace(event, call_id="")
        elif isinstance(event, ToolCallCompleted):
            event = replace(event, call=replace(event.call, id=""))
        elif isinstance(event, Finished):
            event = replace(event, timing=Timing(), speculation=Speculation())
        if found and isinstance(event, PromptProgress) and isinstance(found[-1], PromptProgress):
            found[-1] = event
            continue
        if (
            found
            and isinstance(event, (TextDelta, ThinkingDelta, ToolCallArguments))
            and type(found[-1]) is type(event)
        ):
            found[-1] = replace(event, text=found[-1].text + event.text)  # type: ignore[union-attr]
            continue
        found.append(event)
    return found


class Eager(PassCosts):
    """Lets all drafts be verified in passes over ``width`` tokens, whatever they cost."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.width = width

    def choose(
        self, rows: int, sources: Sequence[DraftSource], groups: int = 1
    ) -> tuple[int, float]:
        """Return the width."""
        return (self.width, 2.0) if sources else (0, 0.0)


def verify_all_drafts(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """Let passes over ``width`` tokens verify all drafts, whatever they cost."""
    eager = Eager(width)
    monkeypatch.setattr(PassCosts, "choose", lambda _, *asked: eager.choose(*asked))


class Foreseen(DraftSource):
    """Guesses a known answer, with wrong guesses for some tokens.

    Args:
        answer: All tokens of the answer.
        wrong: Places in it at which it guesses another token.
        origin: What the guesses are marked with.
    """

    def __init__(
        self,
        answer: Sequence[int],
        wrong: Sequence[int] = (),
        origin: TokenOrigin = TokenOrigin.LOOKUP,
    ) -> None:
        super().__init__(origin, HitRate(0.99))
        self.told: list[int] = []
        self._guesses = [
            token + 1 if place in wrong else token for place, token in enumerate(answer)
        ]

    def extend(self, tokens: Sequence[int]) -> None:
        self.told += tokens

    def likelihood(self) -> float:
        """Return certainty until the end of the answer."""
        return 0.99 if len(self.told) < len(self._guesses) else 0.0

    def propose(self, most: int) -> Sequence[int]:
        return self.proposed_at(len(self.told), most)

    def proposed_at(self, place: int, most: int) -> Sequence[int]:
        """Return what it proposes after so many tokens."""
        return self._guesses[place : place + most]


class GuessingBackend(MlxBackend):
    """A backend whose guesses a test makes."""

    make_sources: Callable[[Prompt, GenerationRequest], list[DraftSource]] | None = None

    def sources(self, prompt: Prompt, request: GenerationRequest) -> list[DraftSource]:
        if self.make_sources is None:
            return super().sources(prompt, request)
        return self.make_sources(prompt, request)


class GuessingStage(Stage):
    """A stage on which guesses are always checked.

    Args:
        folder: As for ``Stage``, and so are the other arguments.
        scripts: See there.
        wrong: Places of each answer at which the guess is wrong.
        width: Tokens of each row in a pass.
        options: For ``Stage``.

    Attributes:
        guesses: Whether the test's next engine is to guess.
        batch: The batch of the model that was loaded last.
    """

    batch: RunningBatch

    def __init__(
        self,
        folder: Path,
        scripts: dict[str, Sequence[str | int]],
        *,
        wrong: Sequence[int] = (),
        width: int = 8,
        **options: Any,
    ) -> None:
        super().__init__(folder, {"warm up": ["warm"] * 12, **scripts}, **options)
        self.guesses = True
        self.wrong = wrong
        self.width = width
        self.sources: list[Foreseen] = []

    def load(
        self,
        folder: Path,
        *,
        limits: BatchLimits,
        on_progress: OnLoadProgress = unobserved,
        **_: Any,
    ) -> MlxBackend:
        """Make the backend; called on the engine thread."""
        plain = super().load(folder, limits=limits, on_progress=on_progress)
        self.batch = RunningBatch(self.model, limits, Eager(self.width))
        backend = GuessingBackend(self.wrapper, plain.info, plain.vocabulary, self.batch)
        backend.make_sources = self._foreseen
        return backend

    def _foreseen(self, prompt: Prompt, request: GenerationRequest) -> list[DraftSource]:
        end = self.wrapper.eos_token_id
        answer = [*self._script_of(prompt.tokens), *[end] * (2 * self.width)]
        source = Foreseen(answer, self.wrong)
        self.sources.append(source)
        return [source]
