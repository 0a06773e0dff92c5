"""What a model's own draft head saves: the demo model and a small hybrid, whose heads are trained.

Both sides are one engine with one model: requests that the head may draft for, and the same without
drafts. A head of so small a model costs a large part of a pass, and passes over several tokens cost
more here than on a GPU. So the models are measured once more with passes that last as long as those
which wait for weights to be read from memory.
"""

import asyncio
import contextlib
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm import load
from mlx_lm.models import qwen3, qwen3_5
from mlx_lm.models.cache import make_prompt_cache

from engine.engine import Engine
from engine.stopping.rules import StopRules
from engine.values.events import Finished
from engine.values.request import GenerationRequest, Message, Sampling
from engine.values.tokens import TokenOrigin
from tests.lab.benchmarks.measuring import MODEL
from tests.support.models.hybrid_model import write_trained_hybrid

_QUESTIONS = (
    "Count from 2 to 21.",
    "Count from 30 to 49, with spaces.",
    "Count from 61 to 80, one per line.",
    "Count from 7 to 26.",
)
_TOKENS = 60
_WARM_UP = 4
PASS_S = 0.025
# A head is one of some thirty to sixty layers.
_HEAD_SHARE = 1 / 30


class HeadSides:
    """Answers with the head's drafts and without."""

    def __init__(self, engine: Engine, loop: asyncio.AbstractEventLoop) -> None:
        self._engine, self._loop = engine, loop
        self._last: list[Finished] = []

    def warm_up(self, rows: int) -> None:
        """Let the engine learn what passes cost."""
        for _ in range(_WARM_UP):
            self.rate(rows, has_head=True)

    def rate(self, rows: int, *, has_head: bool) -> float:
        """Return the tokens per second of so many answers at once."""
        drafts = frozenset({TokenOrigin.HEAD} if has_head else ())
        began_s = time.perf_counter()
        self._last = self._loop.run_until_complete(self._answers(rows, drafts))
        took_s = time.perf_counter() - began_s
        return sum(end.usage.output_tokens for end in self._last) / took_s

    def counts(self) -> str:
        tokens = sum(end.usage.output_tokens for end in self._last)
        done = [end.speculation for end in self._last]
        accepted = sum(each.accepted for each in done)
        guessed = sum(each.guessed for each in done)
        return f"{1 - accepted / tokens:.2f} passes a token, {accepted} of {guessed} right"

    async def _answers(self, rows: int, drafts: frozenset[TokenOrigin]) -> list[Finished]:
        async def answer(question: str) -> Finished:
            request = GenerationRequest(
                (Message("user", question),),
                sampling=Sampling(temperature=0),
                stops=StopRules(ignore_eos=True),
                max_tokens=_TOKENS,
                drafts=drafts,
            )
            return (await (await self._engine.generate(request)).collect()).finished

        return list(await asyncio.gather(*map(answer, _QUESTIONS[:rows])))


@contextlib.contextmanager
def patient() -> Iterator[None]:
    """Let passes of these architectures last at least ``PASS_S``, and a head's a part of it."""
    kinds: list[Any] = [qwen3.Qwen3Model, qwen3_5.Qwen3_5TextModel]
    calls = [kind.__call__ for kind in kinds]

    def waiting(call: Any) -> Any:
        def wait(model: Any, *given: Any, **named: Any) -> Any:
            time.sleep(PASS_S if len(model.layers) > 1 else PASS_S * _HEAD_SHARE)
            return call(model, *given, **named)

        return wait

    try:
        for kind, call in zip(kinds, calls, strict=True):
            kind.__call__ = waiting(call)
        yield
    finally:
        for kind, call in zip(kinds, calls, strict=True):
            kind.__call__ = call


def pass_ratio(folder: Path, rows: int) -> float:
    """Return what a pass over two tokens of each row costs, against one over one, by CPU time."""
    model: Any = load(str(folder))[0]
    cache = make_prompt_cache(model)
    mx.eval(model(mx.arange(300, 340)[None], cache=cache))
    cache = [part.merge([part] * rows) for part in cache]
    took: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(30):
        for width, times in took.items():
            began_s = time.process_time()
            mx.eval(model(mx.full((rows, width), 300), cache=cache))
            times.append(time.process_time() - began_s)
    return statistics.median(took[2]) / statistics.median(took[1])


def folders(place: Path) -> dict[str, Path]:
    """Return the models that are measured, by what they are; one is written to ``place``."""
    return {"demo model": MODEL, "hybrid": write_trained_hybrid(place / "hybrid")}
