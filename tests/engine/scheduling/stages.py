"""Models for tests: their answers, and how they load and render slowly or not at all."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.inference.backend import LoadProgress, OnLoadProgress, Prompt
from engine.inference.mlx_backend import MlxBackend
from engine.values.request import GenerationRequest
from tests.support.scripted import Stage

LONG = [f"w{n} " for n in range(400)]


def stage_of(folder: Path, **options: Any) -> Stage:
    scripts = {"long": LONG, "short": ["yes"], "{}": ["{", "}"]}
    return Stage(folder, scripts, **options)


def rendering(stage: Stage, before: Callable[[GenerationRequest], None]) -> Callable[..., Any]:
    """Return a loader whose backend calls ``before`` when it renders."""

    def load(folder: Path, **options: Any) -> Any:
        backend = stage.load(folder, **options)
        real = backend.render

        def render(asked: GenerationRequest) -> Prompt:
            before(asked)
            return real(asked)

        backend.render = render  # type: ignore[method-assign,assignment]
        return backend

    return load


def text_of(asked: GenerationRequest) -> str:
    return asked.messages[-1].content


def is_long(asked: GenerationRequest) -> bool:
    return text_of(asked) == "long"


class HeldRendering:
    """Holds the rendering of prompts until ``goes_on`` is set; ``begun`` tells that one is held."""

    def __init__(self, stage: Stage, holds: Callable[[GenerationRequest], bool] = is_long) -> None:
        self.begun, self.goes_on = threading.Event(), threading.Event()
        self._holds = holds
        self.load = rendering(stage, self._hold)

    def _hold(self, asked: GenerationRequest) -> None:
        if self._holds(asked):
            self.begun.set()
            self.goes_on.wait(60)


class SlowLoading:
    """Loads a stage's model in parts, and counts what was loaded."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.loaded = 0
        self.goes_on = threading.Event()
        self.goes_on.set()

    def __call__(self, folder: Path, *, on_progress: OnLoadProgress, **options: Any) -> MlxBackend:
        for done in range(0, 101, 10):
            on_progress(LoadProgress("weights", done, 100))
            while done == 50 and not self.goes_on.wait(0.005):
                on_progress(LoadProgress("weights", done, 100))
        self.loaded += 1
        return self.stage.load(folder, **options)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - what changes is another thread's
            await asyncio.sleep(0.005)


class Failing:
    """Loads a stage's model, unless there is something to fail with."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.failures: list[BaseException] = []
        self.loaded = 0

    def __call__(self, folder: Path, **options: Any) -> MlxBackend:
        self.loaded += 1
        if self.failures:
            raise self.failures.pop()
        return self.stage.load(folder, **options)
