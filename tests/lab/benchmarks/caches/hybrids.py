"""Measures what snapshots spare a hybrid model; prints ratios of this one run.

    python -m tests.lab.benchmarks.caches.hybrids [--rounds 5] [--tokens 5000]

The first token of the next turn, of a regenerated answer and of an edit in the middle of a long
conversation, in CPU time, against the same engine without memory for caches; the sides in turn. The
model has random weights: three layers of four have states, the others attention.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from engine.engine import Engine
from engine.stopping.rules import StopRules
from engine.values.events import Usage
from engine.values.limits import Limits
from engine.values.request import GenerationRequest, Message, Sampling
from tests.lab.benchmarks.measuring import prepare, report
from tests.support.models.hybrid_model import write_hybrid_model

TARGETS = {
    "first": "<= 1.05",
    "next turn": "<= 0.2",
    "regenerated": "<= 0.1",
    "edit in the middle": "<= 0.75",
}
WORDS = "the quick brown fox jumps over the lazy dog and says hello. "


def conversation(turns: int, edited: int | None = None) -> list[Message]:
    """Return a conversation of some turns and a last question; one question may be another one."""
    messages = []
    for turn in range(turns):
        question = "Something else" if turn == edited else f"{turn} {WORDS * 4}"
        messages += [Message("user", question), Message("assistant", f"{turn} {WORDS * 4}")]
    return [*messages, Message("user", "Go on")]


async def first_token(engine: Engine, messages: Sequence[Message]) -> tuple[float, str, Usage]:
    """Return the CPU seconds of an answer of two tokens, its text and its usage."""
    request = GenerationRequest(
        tuple(messages),
        sampling=Sampling(temperature=0),
        stops=StopRules(ignore_eos=True),
        max_tokens=2,
        thinking=False,
    )
    began_s = time.process_time()
    answer = await (await engine.generate(request)).collect()
    return time.process_time() - began_s, answer.text, answer.finished.usage


async def once(model: Path, tokens: int, cache_bytes: int) -> dict[str, tuple[float, str, Usage]]:
    """Hold a conversation with a fresh engine."""
    engine = Engine(Limits(prompt_cache_bytes=cache_bytes))
    await engine.load(model)
    await first_token(engine, [Message("user", "Hi")])
    [one, two] = [
        (await first_token(engine, conversation(turns)))[2].prompt_tokens for turns in (1, 2)
    ]
    turns = max(4, tokens // (two - one))
    first = await first_token(engine, conversation(turns))
    answered = [*conversation(turns), Message("assistant", first[1]), Message("user", "And now?")]
    found = {
        "first": first,
        "next turn": await first_token(engine, answered),
        "regenerated": await first_token(engine, answered),
        "edit in the middle": await first_token(engine, conversation(turns, turns // 2)),
    }
    await engine.aclose()
    return found


async def measure(rounds: int, tokens: int) -> None:
    ratios: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        model = write_hybrid_model(Path(folder) / "hybrid", hidden_size=128, layers=8)
        for number in range(rounds):
            both = [await once(model, tokens, size) for size in (1 << 30, 0)]
            for name, (took_s, text, usage) in both[0].items():
                anew_s, same, _ = both[1][name]
                assert text == same, f"a cache changed the answer: {name}"
                ratios.setdefault(name, []).append(took_s / anew_s)
                if number == 0:
                    read = usage.prompt_tokens - usage.cached_tokens
                    print(f"{name}: {read} of {usage.prompt_tokens} tokens read", flush=True)
    for name, found in ratios.items():
        what = f"a hybrid's {name} with caches / without, CPU time"
        report(what, f"{statistics.median(found):.3f}", TARGETS[name])


def main() -> None:
    prepare()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=5_000)
    given = parser.parse_args()
    asyncio.run(measure(given.rounds, given.tokens))


if __name__ == "__main__":
    main()
