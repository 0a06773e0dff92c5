"""Prompts that take too much, or never end, harm no other request."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from engine.errors import (
    EngineError,
    PromptTooLong,
    QueueFull,
)
from engine.stopping.record import StopKind
from engine.values.limits import Limits
from engine.values.request import GenerationRequest, Message
from tests.engine.scheduling.stages import HeldRendering, stage_of
from tests.support.asking import ask, loaded_engine, request


class Panic(BaseException):
    """As the libraries that are written in Rust raise it."""


@pytest.mark.parametrize(
    "asked",
    [
        request("x" * 8_000_000),
        GenerationRequest(prompt="x" * 31_000_000),
        GenerationRequest(prompt=(5,) * 8_000_000),
        GenerationRequest(messages=(Message("user", "a"),) * 100_001),
        request("word and " * 300_000),
    ],
    ids=["8 MB", "31 MB raw", "8 million ids", "100,001 messages", "2.7 MB"],
)
async def test_too_long_prompt_is_refused_before_tokenising(
    tmp_path: Path, asked: GenerationRequest
) -> None:
    stage = stage_of(tmp_path)

    async with loaded_engine(tmp_path, loader=stage.load) as engine:
        tokenised: list[int] = []
        inner = stage.wrapper._tokenizer
        real = inner._tokenizer

        class Counting:
            def encode_batch_fast(self, texts: list[str], **options: Any) -> Any:
                tokenised.extend(map(len, texts))
                return real.encode_batch_fast(texts, **options)

            def __getattr__(self, name: str) -> Any:
                return getattr(real, name)

        inner._tokenizer = Counting()
        with pytest.raises(PromptTooLong) as caught:
            await engine.generate(asked)
        with pytest.raises(PromptTooLong):
            await engine.count_tokens(asked)
        assert caught.value.prompt_tokens >= caught.value.context_length == 4096
        assert sum(tokenised) <= 200_000
        inner._tokenizer = real
        assert (await ask(engine, "short")).text == "yes"


async def test_a_flood_of_counting_is_bounded_and_starves_no_answer(tmp_path: Path) -> None:
    held = HeldRendering(
        stage_of(tmp_path),
        lambda _: threading.current_thread().name.startswith("fullstop-counting"),
    )

    async with loaded_engine(tmp_path, Limits(max_waiting=20), loader=held.load) as engine:
        counts = [asyncio.ensure_future(engine.count_tokens(request("a"))) for _ in range(100)]
        await asyncio.sleep(0)
        assert (await ask(engine, "short")).text == "yes"
        held.goes_on.set()
        found = await asyncio.gather(*counts, return_exceptions=True)
        refused = [one for one in found if isinstance(one, QueueFull)]
        assert 0 < len(refused) < 100
        assert len(refused) + sum(isinstance(one, int) for one in found) == 100


@pytest.mark.parametrize("place", ["render", "answer_format", "join", "step"])
async def test_a_panic_of_a_native_library_ends_only_its_request(
    tmp_path: Path, place: str
) -> None:
    stage = stage_of(tmp_path)

    def load(folder: Path, **options: Any) -> Any:
        backend = stage.load(folder, **options)
        owner: Any = backend.batch if place == "step" else backend
        real, left = getattr(owner, place), [1]

        def broken(*given: Any, **named: Any) -> Any:
            if left:
                left.pop()
                raise Panic("index out of bounds")
            return real(*given, **named)

        setattr(owner, place, broken)
        return backend

    async with loaded_engine(tmp_path, loader=load) as engine:
        if place in ("render", "answer_format"):
            with pytest.raises(EngineError, match="index out of bounds"):
                await engine.generate(request("short"))
        else:
            answer = await ask(engine, "short")
            assert answer.finished.stop.kind is StopKind.ERROR
            assert "index out of bounds" in (answer.finished.error or "")
        assert engine.status.state == "ready"
        assert (await ask(engine, "short")).text == "yes"
