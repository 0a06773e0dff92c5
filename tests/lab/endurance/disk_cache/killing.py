"""Kills processes that write caches to disk, and checks the files that they leave.

Each time, a process of its own answers turns of conversations and keeps their caches in a folder,
on a disk that is made slow, so that most of the time a file is being written. It is killed at a
random moment. Then a fresh engine starts on the same folder, which no kill ever cleans, and goes on
with two of the conversations: it must start, and each answer must be, token for token, what an
engine without any cache answers.
"""

import asyncio
import logging
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.inference.cache import folder as cache_files
from engine.inference.cache.folder import DiskCache, UnfinishedFile
from engine.scheduling.service import Engine
from engine.values.events import Usage
from engine.values.request import CacheOwner, GenerationRequest, Limits, Message, Sampling

ROOT = Path(__file__).parents[4]
MODEL = ROOT / "assets" / "demo-model"
PATIENCE_S = 120
# Some conversations fit, but not all of them: old caches are deleted, too.
MOST_BYTES = 12_000_000
CONVERSATIONS = 5
FOX = "the quick brown fox jumps over the lazy dog and says hello. "
QUESTIONS = ("Count from 1 to 5", "Say: hello", "Count from 1 to 7", "Repeat exactly: 1 2 3")
# The others are killed at any moment.
MOSTLY = 0.8
_SLOW_BYTES, _SLOW_S = 1 << 15, 0.01


def question(conversation: int, turn: int) -> str:
    """Return a question of a conversation; the first of each is long."""
    text = QUESTIONS[(conversation + turn) % len(QUESTIONS)]
    return f"{conversation} {FOX * (4 + conversation % CONVERSATIONS)}{text}" if turn == 0 else text


async def asked(engine: Engine, conversation: int, turns: list[Message]) -> tuple[str, Usage]:
    """Return the answer to a conversation's last question, at temperature 0."""
    generation = await engine.generate(
        GenerationRequest(
            tuple(turns),
            sampling=Sampling(temperature=0),
            max_tokens=40,
            thinking=False,
            cache_owner=CacheOwner("me", f"conversation {conversation}"),
        )
    )
    answer = await generation.collect()
    return answer.text, answer.finished.usage


async def held(engine: Engine, conversation: int, turns: int) -> list[Message]:
    """Hold a conversation of some turns; return its messages, including the last answer."""
    messages: list[Message] = []
    for turn in range(turns):
        messages.append(Message("user", question(conversation, turn)))
        text, _ = await asked(engine, conversation, messages)
        messages.append(Message("assistant", text))
    return messages


class SlowFile(UnfinishedFile):
    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        for start in range(0, len(view), _SLOW_BYTES):
            super().write(view[start : start + _SLOW_BYTES])
            time.sleep(_SLOW_S)
        return len(view)


async def write_for_ever(folder: Path, seed: int, model: Path) -> None:
    """Hold conversations until the process is killed; print when it begins."""
    cache_files.UnfinishedFile = SlowFile  # type: ignore[misc]
    draws = random.Random(seed)
    engine = Engine(disk=DiskCache(folder, MOST_BYTES))
    await engine.load(model)
    print("begins", flush=True)
    while True:
        await held(engine, draws.randrange(CONVERSATIONS), draws.randint(1, 4))
        # A new conversation, so that there is something to write again.
        await held(engine, draws.randrange(CONVERSATIONS, 1 << 30), 2)


@dataclass(frozen=True, slots=True)
class Kill:
    """The outcome of one kill."""

    unfinished: int
    files: int
    from_disk: int
    faults: tuple[str, ...] = ()


class Right:
    """The answers of an engine without caches."""

    def __init__(self, model: Path) -> None:
        self.model = model
        self._engine = Engine(Limits(prompt_cache_bytes=0))
        self._turns: dict[int, list[Message]] = {}

    async def messages(self, conversation: int) -> list[Message]:
        if self._engine.model is None:
            await self._engine.load(self.model)
        if conversation not in self._turns:
            self._turns[conversation] = await held(self._engine, conversation, 4)
        return self._turns[conversation]

    def close(self) -> None:
        self._engine.close()


class _Heard(logging.Handler):
    """Collects log records of warnings and errors."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def wait_for_a_write(folder: Path) -> None:
    """Wait until another file is being written."""
    before = set(folder.glob("*.tmp"))
    ends_at = time.monotonic() + PATIENCE_S
    while not set(folder.glob("*.tmp")) - before and time.monotonic() < ends_at:
        time.sleep(0.002)


def killed_while_writing(folder: Path, model: Path, draws: random.Random) -> None:
    """Start a process that writes, and kill it at a random moment."""
    program = [sys.executable, "-m", "tests.lab.endurance.disk_cache", "--write", str(folder)]
    process = subprocess.Popen(
        [*program, "--model", str(model), "--seed", str(draws.randrange(1 << 30))],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout:
        begun = process.stdout.readline()
        if draws.random() < MOSTLY:
            wait_for_a_write(folder)
            time.sleep(draws.uniform(0, 0.5))
        else:
            time.sleep(draws.uniform(0, 3))
        process.kill()
        process.wait()
    if begun.strip() != "begins":
        raise RuntimeError("The process that writes did not begin.")


def count(folder: Path, pattern: str) -> int:
    return sum(1 for _ in folder.glob(pattern))


async def left_over(folder: Path, right: Right, draws: random.Random) -> Kill:
    """Start a fresh engine on the files that a kill left, and continue two conversations."""
    unfinished, files = count(folder, "*.tmp"), count(folder, "*.safetensors")
    faults: list[str] = []
    from_disk = 0
    disk = DiskCache(folder, MOST_BYTES)
    engine = Engine(disk=disk)
    heard = _Heard()
    logging.getLogger().addHandler(heard)
    try:
        await engine.load(right.model)
        for conversation in draws.sample(range(CONVERSATIONS), 2):
            messages = await right.messages(conversation)
            turn = draws.randint(1, len(messages) // 2)
            text, usage = await asked(engine, conversation, messages[: 2 * turn - 1])
            from_disk += usage.disk_tokens
            if text != messages[2 * turn - 1].content:
                faults.append(f"wrong tokens in turn {turn} of conversation {conversation}")
    except Exception as error:
        faults.append(f"refused: {type(error).__name__}: {error}")
    finally:
        logging.getLogger().removeHandler(heard)
        await engine.aclose()
        await asyncio.to_thread(disk.close)
    return Kill(unfinished, files, from_disk, (*faults, *heard.said))


async def killed(kills: int, seed: int, folder: Path, model: Path = MODEL) -> list[Kill]:
    """Kill a number of processes on one folder; print and return each result."""
    draws = random.Random(seed)
    right = Right(model)
    results = []
    try:
        for number in range(kills):
            await asyncio.to_thread(killed_while_writing, folder, model, draws)
            result = await left_over(folder, right, draws)
            results.append(result)
            print(
                f"{number + 1:4} {result.files:3} files {result.unfinished} unfinished "
                f"{result.from_disk:5} tokens from disk {'; '.join(result.faults)}",
                flush=True,
            )
    finally:
        right.close()
    return results
