"""Proves that guesses change nothing: ``python -m tests.lab.endurance.speculation --count 2000``.

The demo model answers random prompts with random stops and options twice: token by token, and with
guesses, right and wrong ones, that are always checked, alone and in a running batch. Every event
has to be the same: tokens, text, the record of the stop, usage, and likelihoods but for rounding.
At temperature 1 without a seed the tokens must follow the same distribution, by a χ² test. Prints
JSON.
"""

import argparse
import asyncio
import json
import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.engine import Engine
from engine.inference.backend import BatchLimits, OnLoadProgress, Prompt
from engine.inference.batch import RunningBatch
from engine.inference.mlx_backend import MlxBackend
from engine.inference.mlx_loading import load
from engine.inference.speculation.sources import DraftSource, NgramDrafts
from engine.stopping.rules import StopRules, StopScope
from engine.values.events import Event, Finished, TokenTrace
from engine.values.limits import Limits
from engine.values.request import (
    GenerationRequest,
    Message,
    OutputConstraint,
    Sampling,
    Tool,
    ToolChoice,
    TraceLevel,
)
from tests.support.models.guessing import Eager, Foreseen, timeless

DEMO = Path(__file__).parents[3] / "assets" / "demo-model"
AT_ONCE = 4
_SEED = 14
_ROUNDING = 1e-3
_TEXT = (
    "the quick brown fox jumps over a lazy dog and one two three red blue sea ship man went down "
    "END stop ### é 🚀 {} [1, 2] for x in range(9): return"
)
_WORDS = _TEXT.split(" ")
_STOPS = ("END", "stop", "###", "\n\n", "5", " the", "10", "🚀", "e", "fox j", "7\n8")
_SCHEMA = {
    "type": "object",
    "properties": {"name": {"enum": ["fox", "dog"]}, "count": {"type": "integer", "maximum": 99}},
    "required": ["name", "count"],
}
_TOOL = Tool("look", parameters={"type": "object", "properties": {"what": {"type": "string"}}})


class Draws:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def request(self) -> GenerationRequest:
        """Return a request: its answer is certain, because it is greedy or has a seed."""
        draws = self._random
        is_greedy = draws.random() < 0.7
        options: dict[str, Any] = {}
        if draws.random() < 0.1:
            options["constraint"] = OutputConstraint(draws.choice((None, _SCHEMA)))
        elif draws.random() < 0.15:
            mode = draws.choice(("auto", "required", "none"))
            options |= {"tools": (_TOOL,), "tool_choice": ToolChoice(mode)}
        return GenerationRequest(
            (Message("user", self._question()),),
            sampling=Sampling(
                temperature=0 if is_greedy else draws.choice((0.5, 1.0, 1.5)),
                top_p=draws.choice((None, None, 0.9)),
                top_k=draws.choice((None, None, 20)),
                min_p=draws.choice((None, None, 0.05)),
                repetition_penalty=draws.choice((None, None, None, 1.2)),
                presence_penalty=draws.choice((None, None, None, 0.5)),
                frequency_penalty=draws.choice((None, None, None, 0.3)),
                logit_bias=((draws.randrange(300), draws.uniform(-9, 9)),)
                if draws.random() < 0.2
                else (),
                seed=None if is_greedy else draws.randrange(1 << 40),
            ),
            stops=StopRules.of(
                *draws.sample(_STOPS, draws.choice((0, 0, 1, 2, 4))),
                token_ids=(draws.randrange(300),) if draws.random() < 0.1 else (),
                scope=draws.choice(tuple(StopScope)),
                include_stop=draws.random() < 0.2,
                ignore_eos=draws.random() < 0.1,
                min_tokens=draws.choice((0, 0, 0, 5, 20)),
            ),
            max_tokens=draws.choice((1, 2, 5, 17, 40, 40, 64)),
            thinking=draws.choice((False, False, True, None)),
            trace=TraceLevel.FULL,
            top_logprobs=draws.choice((0, 3)),
            **options,
        )

    def _question(self) -> str:
        draws = self._random
        words = " ".join(draws.choices(_WORDS, k=draws.randint(1, 12)))
        return draws.choice(
            (
                f"Repeat exactly: {words}",
                f"Repeat: {words} {words}",
                f"Count from {draws.randint(1, 20)} to {draws.randint(21, 99)}",
                "List the letters of the alphabet",
                f"What is {words}?",
                words,
            )
        )

    def wrong(self) -> list[int]:
        """Return the places at which an answer is guessed wrong."""
        share = self._random.choice((0.0, 0.03, 0.1, 0.5))
        return [place for place in range(80) if self._random.random() < share]

    def width(self) -> int:
        return self._random.choice((2, 3, 4, 8, 16))


@dataclass
class Guesser:
    """Loads the demo model with guesses that are always checked."""

    width: int = 8
    answers: dict[tuple[int, ...], tuple[Sequence[int], Sequence[int]]] = field(
        default_factory=dict
    )

    def load(self, folder: Path, *, limits: BatchLimits, on_progress: OnLoadProgress) -> MlxBackend:
        """Load the model; called on the engine thread."""
        backend = load(
            folder,
            limits=limits,
            on_progress=on_progress,
            batch_of=lambda model, limits: RunningBatch(model, limits, _Widths(self)),
        )
        backend.sources = self._sources  # type: ignore[method-assign]
        return backend

    def _sources(self, prompt: Prompt, request: GenerationRequest) -> list[DraftSource]:
        found = self.answers.get(tuple(prompt.tokens))
        lookup = NgramDrafts(prompt.tokens)
        return [lookup] if found is None else [Foreseen(*found), lookup]


class _Widths(Eager):
    def __init__(self, guesser: Guesser) -> None:
        super().__init__()
        self._guesser = guesser

    def choose(self, rows: int, sources: Sequence[DraftSource]) -> tuple[int, float]:
        return (self._guesser.width, 2.0) if sources else (0, 0.0)


@dataclass
class Outcome:
    """The outcome."""

    answers: int = 0
    different: list[str] = field(default_factory=list)
    passes: int = 0
    guessed: int = 0
    accepted: int = 0
    tokens: int = 0
    p_value: float = 0.0


async def _answers(engine: Engine, asked: Sequence[GenerationRequest]) -> list[list[Event]]:
    async def one(request: GenerationRequest) -> list[Event]:
        return [event async for event in (await engine.generate(request)).events()]

    return list(await asyncio.gather(*map(one, asked)))


async def _prompt(engine: Engine, request: GenerationRequest) -> tuple[int, ...]:
    return tuple(token_id for token_id, _ in await engine.prompt_pieces(request))


def _tokens(events: Sequence[Event]) -> list[int]:
    return [event.token_id for event in events if isinstance(event, TokenTrace)]


async def compare(count: int, seed: int, draws_count: int) -> Outcome:
    """Compare answers with and without guesses."""
    draws, guesser, outcome = Draws(seed), Guesser(), Outcome()
    plain = Engine(Limits(plain_decoding=True))
    guessing = Engine(loader=guesser.load)
    await plain.load(DEMO)
    await guessing.load(DEMO)
    while outcome.answers < count:
        rows = 1 if outcome.answers % 3 else AT_ONCE
        asked = [draws.request() for _ in range(min(rows, count - outcome.answers))]
        expected = [(await _answers(plain, [one]))[0] for one in asked]
        guesser.width = draws.width()
        guesser.answers = {
            await _prompt(plain, request): (_tokens(events), draws.wrong())
            for request, events in zip(asked, expected, strict=True)
        }
        found = await _answers(guessing, asked)
        for request, one, other in zip(asked, expected, found, strict=True):
            outcome.answers += 1
            last = other[-1]
            assert isinstance(last, Finished)
            outcome.passes += last.speculation.passes
            outcome.guessed += last.speculation.guessed
            outcome.accepted += last.speculation.accepted
            outcome.tokens += last.usage.output_tokens
            if not are_equal(_uncached(one), _uncached(other)):
                outcome.different.append(repr(request))
    outcome.p_value = await _distribution(plain, guessing, guesser, draws_count)
    await plain.aclose()
    await guessing.aclose()
    return outcome


def are_equal(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Return whether events are equal, likelihoods but for rounding: batches sum in any order."""
    return len(left) == len(right) and all(map(_agree, left, right))


def _agree(one: Any, other: Any) -> bool:
    if not (isinstance(one, TokenTrace) and isinstance(other, TokenTrace)):
        return bool(one == other)
    if one.stats is None or other.stats is None:
        return bool(one == other)
    if abs(one.stats.logprob - other.stats.logprob) > _ROUNDING:
        return False
    tops = zip(one.stats.top, other.stats.top, strict=False)
    if any(abs(left - right) > _ROUNDING for (_, left), (_, right) in tops):
        return False
    return _without_likelihoods(one) == _without_likelihoods(other)


def _without_likelihoods(token: TokenTrace) -> TokenTrace:
    settled = tuple(replace(span, stats=None) for span in token.settled)
    return replace(token, stats=None, settled=settled)


def _uncached(events: Sequence[Event]) -> list[Any]:
    """Return what has to be equal, as text; the two caches may have kept other prompts."""
    found = []
    for event in timeless(events):
        if isinstance(event, Finished):
            usage = event.usage
            found.append((event.stop, usage.prompt_tokens, usage.output_tokens,
                          usage.thinking_tokens, event.error, event.residue))  # fmt: skip
        elif type(event).__name__ != "PromptProgress":
            found.append(event)  # type: ignore[arg-type]
    return found


async def _distribution(plain: Engine, guessing: Engine, guesser: Guesser, count: int) -> float:
    """Return the p-value of the hypothesis that both sides draw from one distribution."""
    asked = GenerationRequest(
        (Message("user", "What is the sea?"),),
        sampling=Sampling(temperature=1.0),
        max_tokens=4,
        thinking=False,
        trace=TraceLevel.STOPS,
    )
    likeliest = (await _answers(plain, [_greedy(asked)]))[0]
    guesser.width = 4
    guesser.answers = {await _prompt(plain, asked): (_tokens(likeliest), ())}
    seen: list[Counter[tuple[int, ...]]] = []
    for engine in (plain, guessing):
        counts: Counter[tuple[int, ...]] = Counter()
        while counts.total() < count:
            for events in await _answers(engine, [asked] * min(16, count - counts.total())):
                counts[tuple(_tokens(events))] += 1
        seen.append(counts)
    return p_value(*seen)


def _greedy(asked: GenerationRequest) -> GenerationRequest:
    return replace(asked, sampling=Sampling(temperature=0))


def p_value(one: Counter[Any], other: Counter[Any]) -> float:
    """Return the p-value of Pearson's χ² test that two samples have one distribution.

    Outcomes that were seen fewer than ten times in both together are counted as one. The tail of
    the distribution is that of Wilson and Hilferty's approximation.
    """
    rare: Counter[Any] = Counter()
    cells = []
    for outcome in one.keys() | other.keys():
        pair = one[outcome], other[outcome]
        if sum(pair) < 10:
            rare["one"] += pair[0]
            rare["other"] += pair[1]
        else:
            cells.append(pair)
    if rare.total() >= 10:
        cells.append((rare["one"], rare["other"]))
    share = one.total() / (one.total() + other.total())
    distance = 0.0
    for first, second in cells:
        expected = (first + second) * share, (first + second) * (1 - share)
        distance += sum(
            (seen - wanted) ** 2 / wanted
            for seen, wanted in zip((first, second), expected, strict=True)
        )
    degrees = len(cells) - 1
    if degrees < 1:
        return 1.0
    spread = 2 / (9 * degrees)
    score = ((distance / degrees) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)
    return 0.5 * math.erfc(score / math.sqrt(2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--draws", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=_SEED)
    options = parser.parse_args()
    found = asyncio.run(compare(options.count, options.seed, options.draws))
    print(json.dumps(vars(found), indent=1))


if __name__ == "__main__":
    main()
