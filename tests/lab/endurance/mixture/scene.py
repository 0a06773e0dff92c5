"""Scenes with many clients in one engine that has everything, judged by a plain engine."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.inference.backend import BatchLimits, OnLoadProgress, Prompt
from engine.inference.batch import RunningBatch
from engine.inference.cache.folder import DiskCache
from engine.inference.mlx_backend import MlxBackend
from engine.inference.mlx_loading import load
from engine.inference.speculation.sources import DraftSource, PredictionDrafts, PromptLookup
from engine.scheduling.service import Engine
from engine.stopping.record import StopKind
from engine.values.events import Event, Finished, TokenTrace
from engine.values.request import GenerationRequest, Limits
from tests.lab.endurance.mixture.asked import OWNERS, Asked, MixedDraws
from tests.lab.endurance.mixture.judging import fault, leftovers, text_of
from tests.support.models.guessing import Eager, Foreseen
from tests.support.several.draft_models import write_draft

DEMO = Path(__file__).parents[4] / "assets" / "demo-model"
_SCENES_OF_AN_ENGINE = 12
_LOOK_S = 0.002
_PATIENCE_S = 120.0
_MOST_FAULTS = 20


@dataclass
class Outcome:
    """The outcome."""

    answers: int = 0
    faults: list[str] = field(default_factory=list)
    cancelled: int = 0
    failed: int = 0
    passes: int = 0
    accepted: int = 0
    forced: int = 0
    cached: int = 0
    from_disk: int = 0
    tokens: int = 0


class _Widths(Eager):
    """Passes of ever other widths, some of them plain."""

    def __init__(self, draws: MixedDraws) -> None:
        super().__init__()
        self._random = draws.random

    def choose(self, rows: int, guesses: Sequence[tuple[float, int]], extra: float = 0.0) -> int:
        return self._random.choice((1, 2, 3, 4, 6, 8, 16, 32)) if guesses else 1


class Mixed:
    """The loader of an engine with everything."""

    def __init__(self, draws: MixedDraws) -> None:
        self._draws = draws
        self.backend: MlxBackend | None = None
        self.answers: dict[tuple[int, ...], Sequence[int]] = {}
        self.fails_in = -1

    def load(
        self,
        folder: Path,
        *,
        limits: BatchLimits,
        on_progress: OnLoadProgress,
        draft: Path | None = None,
    ) -> MlxBackend:
        """Load the model; called on the engine thread."""
        self.backend = load(
            folder, limits=limits, on_progress=on_progress, batch_of=self._batch, draft=draft
        )
        self.backend.sources = self._sources  # type: ignore[method-assign]
        return self.backend

    def _batch(self, model: Any, limits: BatchLimits) -> RunningBatch:
        kind, mixed = type(model), self

        class Failing(kind):  # type: ignore[misc, valid-type]
            def __call__(self, *args: Any, **options: Any) -> Any:
                found = super().__call__(*args, **options)
                mixed.fails_in -= 1
                if mixed.fails_in == 0:
                    raise RuntimeError("this pass fails on purpose")
                return found

        model.__class__ = Failing
        return RunningBatch(model, limits, lambda: _Widths(self._draws))

    def _sources(self, prompt: Prompt, request: GenerationRequest) -> list[DraftSource]:
        sources: list[DraftSource] = [PromptLookup(prompt.tokens)]
        if prompt.prediction is not None:
            sources.append(PredictionDrafts(prompt.prediction))
        if (known := self.answers.get(tuple(prompt.tokens))) is not None:
            wrong = [place for place in range(80) if self._draws.random.random() < 0.1]
            sources.append(Foreseen(known, wrong))
        return sources


async def _expected(plain: Engine, choices: Sequence[GenerationRequest]) -> list[list[Event]]:
    """Return what each choice is answered; choices without chance are answered alike."""
    found: list[list[Event]] = []
    for place, one in enumerate(choices):
        if place and one is choices[place - 1]:
            found.append(found[-1])
        else:
            found.append([event async for event in (await plain.generate(one)).events()])
    return found


async def _client(engine: Engine, asked: Asked) -> list[list[Event]]:
    await asyncio.sleep(asked.begins_after * _LOOK_S)
    generations = await engine.generate_together(asked.choices)

    async def taken(generation: Any) -> list[Event]:
        found: list[Event] = []
        async for event in generation.events():
            found.append(event)
            if asked.leaves_after is not None and len(found) > asked.leaves_after:
                generation.cancel()
        return found

    return list(await asyncio.gather(*map(taken, generations)))


@contextlib.asynccontextmanager
async def _engines(draws: MixedDraws, folder: Path) -> AsyncIterator[tuple[Engine, Engine, Mixed]]:
    """Yield a plain engine, and one with everything, of random limits."""
    pick = draws.random.choice
    mixed = Mixed(draws)
    disk = DiskCache(folder / "caches", pick((1 << 30, 1 << 30, 3 << 20)))
    limits = Limits(
        max_rows=pick((2, 4, 8, 32)),
        prefill_chunk=pick((16, 64, 512)),
        prompt_cache_bytes=pick((0, 1 << 21, 1 << 28)),
    )
    plain = Engine(Limits(plain_decoding=True, prompt_cache_bytes=0))
    full = Engine(limits, loader=mixed.load, disk=pick((None, disk, disk)))
    try:
        await plain.load(DEMO)
        await full.load(DEMO, draft=pick((None, folder / "poor", folder / "perfect")))
        yield plain, full, mixed
    finally:
        await plain.aclose()
        await full.aclose()
        await asyncio.to_thread(disk.close)


async def _disturb(draws: MixedDraws, engine: Engine, mixed: Mixed) -> bool:
    """Do something else meanwhile, now and then; return whether the model stays in memory."""
    await asyncio.sleep(draws.random.choice((0, 4, 15)) * _LOOK_S)
    kind = draws.random.random()
    if kind < 0.15:
        engine.forget(draws.random.choice(OWNERS))
    elif kind < 0.3:
        engine.unload_when_idle()
    elif kind < 0.45:
        mixed.fails_in = draws.random.randint(1, 60)
    return not 0.15 <= kind < 0.3


async def _scene(
    draws: MixedDraws, plain: Engine, full: Engine, mixed: Mixed, outcome: Outcome
) -> list[str]:
    """Play one scene; return its faults."""
    clients = [draws.asked() for _ in range(draws.random.choice((1, 2, 4, 7)))]
    expected = [await _expected(plain, one.choices) for one in clients]
    mixed.answers = {}
    for number, (one, answers) in enumerate(zip(clients, expected, strict=True)):
        tokens = [event.token_id for event in answers[0] if isinstance(event, TokenTrace)]
        if tokens and draws.random.random() < 0.5:
            pieces = await plain.prompt_pieces(one.choices[0])
            mixed.answers[tuple(token_id for token_id, _ in pieces)] = tokens
        texts = list(map(text_of, answers))
        clients[number] = draws.predicted(one, texts)
        draws.note(one.choices[0], texts[0])
    disturbing = asyncio.create_task(_disturb(draws, full, mixed))
    try:
        async with asyncio.timeout(_PATIENCE_S):
            found = await asyncio.gather(*(_client(full, one) for one in clients))
            stays = await disturbing
    except TimeoutError:
        return ["the scene does not end"]
    may_fail, mixed.fails_in = mixed.fails_in, -1
    faults = []
    for one, wanted, got in zip(clients, expected, found, strict=True):
        for request, right, events in zip(one.choices, wanted, got, strict=True):
            wrong = fault(right, events, leaves=one.leaves_after is not None)
            last = events[-1]
            assert isinstance(last, Finished)
            if last.error and "on purpose" not in last.error:
                plain_last = right[-1]
                assert isinstance(plain_last, Finished)
                wrong = wrong or (f"it failed: {last.error}" if not plain_last.error else None)
            if wrong is not None:
                faults.append(f"{wrong}; {may_fail=}; asked: {replace(request, messages=())!r}")
            _count(outcome, last)
    await full.tokenize("nothing")  # the thread has finished the earlier commands
    if stays and mixed.backend is not None:
        faults += [f"left over: {one}" for one in leftovers(mixed.backend)]
    return faults


def _count(outcome: Outcome, last: Finished) -> None:
    outcome.answers += 1
    outcome.cancelled += last.stop.kind is StopKind.CANCELLED
    outcome.failed += last.stop.kind is StopKind.ERROR
    outcome.passes += last.speculation.passes
    outcome.accepted += last.speculation.accepted
    outcome.forced += last.speculation.forced
    outcome.cached += last.usage.cached_tokens
    outcome.from_disk += last.usage.disk_tokens
    outcome.tokens += last.usage.output_tokens


async def play(
    answers: int, seed: int, on_progress: Callable[[Outcome], None] = lambda _: None
) -> Outcome:
    """Play scenes until so many answers were compared."""
    outcome, draws, scene = Outcome(), MixedDraws(seed), 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_draft(folder / "poor", DEMO, layers=1)
        write_draft(folder / "perfect", DEMO)
        while outcome.answers < answers:
            async with _engines(draws, folder) as (plain, full, mixed):
                for _ in range(_SCENES_OF_AN_ENGINE):
                    scene += 1
                    for one in await _scene(draws, plain, full, mixed, outcome):
                        outcome.faults.append(f"scene {scene}: {one}")
                    if outcome.answers >= answers or len(outcome.faults) > _MOST_FAULTS:
                        break
            on_progress(outcome)
            if len(outcome.faults) > _MOST_FAULTS:
                break
    return outcome
