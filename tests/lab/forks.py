"""Forks of greedy answers, against the answers that have the same beginning.

    python -m tests.lab.forks [FOLDER] [--forks 500] [--tokens 48]

Each fork of an answer at one of its tokens, with that token, must be the answer again. Each fork
with the likeliest other token must be the answer to a prompt that ends with this beginning. With
neither, the place is printed. ``FOLDER`` is a model, by default the demo model.
"""

import argparse
import asyncio
from dataclasses import replace
from pathlib import Path

from engine.engine import Engine
from engine.recording.fork import fork_request
from engine.recording.run_trace import RunTrace, trace_for
from engine.recording.saved_run import from_json, to_json
from engine.stopping.rules import StopRules
from engine.values.request import GenerationRequest, Message, Sampling, TraceLevel

_QUESTIONS = (
    ("Count from 1 to 10, one number per line", (), False),
    ("Output the whole alphabet from A to Z, then immediately output END", ("END",), False),
    ("Count from 1 to 10, one number per line", (), True),
    ("Repeat exactly: alpha beta gamma", (), True),
    ("List letters A through F, separated by spaces.", ("F",), False),
    ("What is the capital of France?", (), False),
    ("Name three colors.", (".",), True),
    ("Hello", (), False),
    ("Count from 1 to 20", (), True),
    ("Write a short poem about the sea.", (), False),
    ("Explain what a prime number is.", (), False),
    ("Translate 'good morning' into French.", (), False),
    ("List the days of the week.", (), False),
    ("What is 12 times 12?", (), False),
    ("Who wrote Hamlet?", (), False),
)


async def _record(engine: Engine, request: GenerationRequest) -> RunTrace:
    generation = await engine.generate(replace(request, trace=TraceLevel.FULL, top_logprobs=2))
    trace = trace_for(generation)
    async for event in generation.events():
        trace.take(event)
    return trace


def _ids(run: RunTrace) -> list[int]:
    return [token.token_id for token in run.tokens]


async def _compare(engine: Engine, number: int, max_tokens: int) -> tuple[int, int]:
    """Return how many forks were compared, and how many of them differ."""
    question, stops, thinking = _QUESTIONS[number]
    request = GenerationRequest(
        (Message("user", question),),
        Sampling(temperature=0.0),
        StopRules.of(*stops),
        max_tokens=max_tokens,
        thinking=thinking,
    )
    run = await _record(engine, request)
    saved, done, wrong = from_json(to_json(run)), 0, 0
    for index, token in enumerate(run.tokens):
        same = await _record(engine, fork_request(saved, index, (token.token_id,)))
        done += 1
        if (_ids(same), same.stop) != (_ids(run), run.stop):
            wrong += 1
            print(f"{question!r}, token {index}: {same.stop} instead of {run.stop}", flush=True)
        top = () if token.stats is None else token.stats.top
        other = next((token_id for token_id, _ in top if token_id != token.token_id), None)
        if other is None or stops or index + 1 == max_tokens or other in run.setting.eos:
            continue
        forked = await _record(engine, fork_request(saved, index, (other,)))
        beginning = (*_ids(run)[:index], other)
        rest = replace(request, begun=beginning, max_tokens=max_tokens - len(beginning))
        continued = await _record(engine, rest)
        done += 1
        if _ids(forked) != [*beginning, *_ids(continued)]:
            wrong += 1
            print(f"{question!r}, token {index}, {other}: {_ids(forked)[index:]}")
            print(f"  with this beginning: {[other, *_ids(continued)]}")
    return done, wrong


async def main() -> None:
    """Compare forks until there are enough, and print how many differ."""
    parser = argparse.ArgumentParser()
    default = Path(__file__).parents[2] / "assets" / "demo-model"
    parser.add_argument("folder", nargs="?", type=Path, default=default)
    parser.add_argument("--forks", type=int, default=500)
    parser.add_argument("--tokens", type=int, default=48)
    options = parser.parse_args()
    done = wrong = 0
    async with Engine() as engine:
        await engine.load(options.folder)
        for number in range(len(_QUESTIONS)):
            compared, different = await _compare(engine, number, options.tokens)
            done, wrong = done + compared, wrong + different
            print(f"{done:,} forks, {wrong:,} differ", flush=True)
            if done >= options.forks:
                break


if __name__ == "__main__":
    asyncio.run(main())
