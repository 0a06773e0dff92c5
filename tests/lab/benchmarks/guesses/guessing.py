"""Measures what guessed tokens save: answers that copy, and answers that never repeat.

The demo model copies no long text. So a model is measured that does all of its work and then says
what a script wants: passes cost what they cost, and what is copied is known. The other side is
mlx-lm's bare ``BatchGenerator`` with the same model.
"""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx

from engine.engine import Engine
from engine.inference.backend import BatchLimits, OnLoadProgress
from engine.inference.batch import RunningBatch
from engine.inference.mlx_backend import MlxBackend
from engine.inference.mlx_loading import load
from engine.stopping.rules import StopRules
from engine.values.events import Finished
from engine.values.limits import Limits
from engine.values.request import GenerationRequest, Sampling
from tests.lab.benchmarks.measuring import MODEL, bare_loop

_CERTAIN = 1e4


class Saying:
    """A model that computes everything and then says a script, whatever it computed."""

    def __init__(self, model: Any, prompt_tokens: int, script: Sequence[int]) -> None:
        self._model = model
        # The last token of the prompt is followed by the first of the script.
        self._begin = prompt_tokens - 1
        self._script = mx.array(script)

    def __getattr__(self, name: str) -> Any:
        """Return other attributes of the model, such as its layers."""
        return getattr(self._model, name)

    def __call__(self, inputs: mx.array, cache: Any = None) -> mx.array:
        """Return the logits of shape (rows, tokens, vocabulary)."""
        read = mx.array(cache[0].offset).reshape(-1, 1)
        logits: mx.array = self._model(inputs, cache=cache)
        place = mx.clip(read + mx.arange(inputs.shape[1]) - self._begin, 0, self._script.size - 1)
        chosen = self._script[mx.broadcast_to(place, inputs.shape)][..., None]
        return mx.put_along_axis(logits, chosen, mx.array(_CERTAIN), axis=-1)


class Sides:
    """The engine and the bare loop, with one model that says one script."""

    def __init__(
        self, prompt: Sequence[int], script: Sequence[int], limits: Limits | None = None
    ) -> None:
        self._prompt = list(prompt)
        self._count = len(script)
        self._script = script
        self.loop = asyncio.new_event_loop()
        self.engine = Engine(limits, loader=self._load)
        self.loop.run_until_complete(self.engine.load(MODEL))
        self.last: Finished | None = None

    def _load(
        self, folder: Path, *, limits: BatchLimits, on_progress: OnLoadProgress
    ) -> MlxBackend:
        return load(
            folder,
            limits=limits,
            on_progress=on_progress,
            batch_of=lambda model, limits: RunningBatch(self._saying(model), limits),
        )

    def _saying(self, model: Any) -> Saying:
        return Saying(model, len(self._prompt), self._script)

    def ours(self, rows: int = 1) -> float:
        return self.loop.run_until_complete(self._ours(rows))

    async def _ours(self, rows: int) -> float:
        asked = GenerationRequest(
            prompt=tuple(self._prompt),
            sampling=Sampling(temperature=0),
            stops=StopRules(ignore_eos=True),
            max_tokens=self._count,
        )
        begin, end = [], []

        async def one() -> None:
            submitted = time.perf_counter()
            answer = await (await self.engine.generate(asked)).collect()
            timing = answer.finished.timing
            begin.append(submitted + (timing.first_token_s or 0.0))
            end.append(begin[-1] + timing.decode_s)
            self.last = answer.finished

        await asyncio.gather(*(one() for _ in range(rows)))
        return rows * (self._count - 1) / (max(end) - min(begin))

    def bare(self) -> Callable[..., float]:
        """Return a function that runs the bare loop and returns its tokens per second."""
        from mlx_lm import load as load_model

        model = self._saying(load_model(str(MODEL))[0])
        return lambda rows=1: bare_loop(model, self._prompt, rows, self._count)

    def close(self) -> None:
        self.engine.close()
        self.loop.close()


def page(tokens: int, seed: int = 1) -> list[int]:
    """Return random tokens without repetitions worth mentioning."""
    draws = random.Random(seed)
    return [draws.randrange(300, 700) for _ in range(tokens)]


def edited(text: Sequence[int], every: int) -> list[int]:
    """Return a text with one token changed every so often."""
    return [token + 1 if n % every == every - 1 else token for n, token in enumerate(text)]


def one_word_edited(text: Sequence[int]) -> list[int]:
    """Return a text in the middle of which a word of two tokens became one of three."""
    middle = len(text) // 2
    return [*text[:middle], 701, 702, 703, *text[middle + 2 :]]


def chatter(tokens: int, seed: int = 2) -> list[int]:
    """Return tokens in which the same few follow each other again and again, and never the same."""
    draws = random.Random(seed)
    return [300 + draws.randrange(6) for _ in range(tokens)]


# What is measured, by its name: what it says, the prompt, the script, and the target.
CASES: dict[str, list[tuple[str, list[int], list[int], str]]] = {
    "copy": [
        ("repeat 320 tokens", page(320), page(320), ">= 2.0"),
        ("320 tokens, one in 40 edited", page(320), edited(page(320), 40), ">= 2.0"),
    ],
    "page": [
        ("one word of 400 tokens edited", page(400), one_word_edited(page(400)), ">= 2.0"),
    ],
    "plain": [
        ("never repeats", page(320), page(256, seed=9), ">= 0.98"),
        ("repeats by chance all the time", page(320), chatter(256), ">= 0.98"),
    ],
}
