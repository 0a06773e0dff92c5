"""Scores the model on held-out pictures, through the engine: ``PYTHONPATH=. python PATH`` of this.

An answer is right if it is the expected one to the character. Main thread.
"""

from __future__ import annotations

import argparse
import asyncio
import io
from collections import Counter
from pathlib import Path
from random import Random

from questions import ask_about, talk
from scenes import draw_scene

from engine.engine import Engine
from engine.values.request import PICTURE_MARK, GenerationRequest, Message, Picture, Sampling

MODEL_FOLDER = Path(__file__).resolve().parents[1]
SEED = 4242


def held_out(count: int, seed: int = SEED) -> list[tuple[Message, str]]:
    """Return questions about pictures of sizes that training never has, and their answers."""
    rng, asked = Random(seed), []
    for _ in range(count):
        scene = draw_scene(rng, is_held_out=True)
        file = io.BytesIO()
        scene.image.save(file, rng.choice(("PNG", "PNG", "JPEG")))
        question, answer = ask_about(rng, scene)
        message = Message("user", PICTURE_MARK + question, pictures=(Picture(file.getvalue()),))
        asked.append((message, answer))
    return asked


async def answer_all(engine: Engine, messages: list[Message]) -> list[str]:
    """Return the answers to messages, of which eight are in work at a time."""
    room = asyncio.Semaphore(8)

    async def answer(message: Message) -> str:
        request = GenerationRequest(
            messages=(message,), max_tokens=40, sampling=Sampling(temperature=0)
        )
        async with room:
            return (await (await engine.generate(request)).collect()).text

    return await asyncio.gather(*map(answer, messages))


async def evaluate(folder: Path, count: int) -> None:
    """Print the wrong answers, and the share of right ones for each kind of answer."""
    engine, rng = Engine(), Random(SEED)
    await engine.load(folder)
    asked = held_out(count)
    talks = [talk(rng) for _ in range(count // 10)]
    asked += [(Message("user", question), answer) for question, answer in talks]
    answers = await answer_all(engine, [message for message, _ in asked])
    await engine.aclose()
    total: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for (message, expected), answer in zip(asked, answers, strict=True):
        question = message.content.removeprefix(PICTURE_MARK)
        kind = " ".join(question.split()[:2]) if message.pictures else "without a picture"
        for name in (kind, "with a picture" if message.pictures else ""):
            total[name] += 1
            right[name] += answer == expected
        if answer != expected:
            print(f"{question!r}: {answer!r}, not {expected!r}")
    for name in sorted(filter(None, total)):
        print(f"{right[name] / total[name]:6.1%} of {total[name]:4d}  {name}")


def main() -> None:
    """Evaluate the shipped model, or another folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=MODEL_FOLDER)
    parser.add_argument("--count", type=int, default=500)
    chosen = parser.parse_args()
    asyncio.run(evaluate(chosen.folder, chosen.count))


if __name__ == "__main__":
    main()
