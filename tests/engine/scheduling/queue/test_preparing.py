"""Prompts are rendered and tokenised beside the engine thread; judged by threads and counts."""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.errors import (
    EngineError,
    EngineStuck,
    InvalidRequest,
    PromptTooLong,
    QueueFull,
    RequestCancelled,
)
from engine.inference.backend import Prompt
from engine.scheduling.limits import Limits
from engine.scheduling.service import Engine
from engine.stopping.record import StopKind
from engine.values.chat import Message
from engine.values.request import GenerationRequest
from tests.support.asking import ask, request, run
from tests.support.scripted import TEMPLATE, Stage

LONG = [f"w{n} " for n in range(400)]
ENGINE = "fullstop-engine"


class Panic(BaseException):
    """As the libraries that are written in Rust raise it."""


def stage_of(folder: Path, **options: Any) -> Stage:
    return Stage(folder, {"long": LONG, "short": ["yes"]}, **options)


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


def test_no_prompt_is_rendered_counted_or_shown_on_the_engines_thread(tmp_path: Path) -> None:
    threads: set[str] = set()
    load = rendering(stage_of(tmp_path), lambda _: threads.add(threading.current_thread().name))

    async def play() -> None:
        engine = Engine(loader=load)
        await engine.load(tmp_path)
        await ask(engine, "short")
        await engine.count_tokens(request("x" * 50_000))
        await engine.prompt_pieces(request("short"))
        with pytest.raises(PromptTooLong):
            await engine.generate(request("x" * 50_000))
        await engine.aclose()

    run(play())
    assert threads == {"fullstop-prompts", "fullstop-long-prompts", "fullstop-counting"}


def test_a_prompt_that_is_being_rendered_holds_up_nobody(tmp_path: Path) -> None:
    goes_on = threading.Event()

    def before(asked: GenerationRequest) -> None:
        if len(text_of(asked)) > 40_000:
            goes_on.wait(60)

    load = rendering(stage_of(tmp_path, context=100_000), before)

    async def play() -> None:
        engine = Engine(loader=load)
        await engine.load(tmp_path)
        slow = asyncio.ensure_future(engine.generate(request("x" * 50_000, max_tokens=1)))
        counting = [asyncio.ensure_future(engine.count_tokens(request("y" * 50_000)))]
        await asyncio.sleep(0)
        for _ in range(3):
            assert (await ask(engine, "short")).text == "yes"
        assert not slow.done()
        assert engine.status.waiting == 1
        goes_on.set()
        answer = await (await slow).collect()
        assert answer.finished.usage.prompt_tokens > 50_000
        await asyncio.gather(*counting)
        await engine.aclose()

    run(play())


def test_a_cancel_works_while_the_prompt_is_rendered(tmp_path: Path) -> None:
    goes_on, begun = threading.Event(), threading.Event()

    def before(asked: GenerationRequest) -> None:
        if text_of(asked) == "long":
            begun.set()
            goes_on.wait(60)

    stage = stage_of(tmp_path)

    async def play() -> None:
        engine = Engine(loader=rendering(stage, before))
        await engine.load(tmp_path)
        task = asyncio.ensure_future(engine.generate(request("long")))
        await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while engine.status.waiting:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        goes_on.set()
        assert (await ask(engine, "short")).text == "yes"
        # Nothing of the cancelled answer was generated.
        assert all(rows == 1 for rows, _ in stage.model.calls)
        assert len(stage.model.calls) < 20
        await engine.aclose()

    run(play())


def test_a_change_of_model_cancels_a_request_whose_prompt_is_rendered(tmp_path: Path) -> None:
    goes_on, begun = threading.Event(), threading.Event()

    def before(asked: GenerationRequest) -> None:
        begun.set()
        goes_on.wait(60)

    stage = stage_of(tmp_path)

    async def play() -> None:
        engine = Engine(loader=rendering(stage, before))
        await engine.load(tmp_path)
        asked = asyncio.ensure_future(engine.generate(request("long")))
        await asyncio.to_thread(begun.wait, 60)
        loading = asyncio.ensure_future(engine.load(tmp_path, cancels_running=True))
        with pytest.raises(RequestCancelled):
            await asked
        goes_on.set()
        await loading
        await engine.aclose()

    run(play())


def test_requests_are_answered_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    order: list[str] = []
    stage = Stage(tmp_path, {f"q{n}": ["yes"] for n in range(20)})

    async def play() -> None:
        engine = Engine(Limits(max_rows=1), loader=stage.load)
        await engine.load(tmp_path)

        async def one(number: int) -> None:
            answer = await ask(engine, f"q{number}")
            order.append(f"q{number}")
            assert answer.text == "yes"

        await asyncio.gather(*(one(n) for n in range(20)))
        await engine.aclose()

    run(play())
    assert order == [f"q{n}" for n in range(20)]


def test_a_change_of_model_waits_for_the_prompts_that_came_before_it(tmp_path: Path) -> None:
    goes_on = threading.Event()

    def before(asked: GenerationRequest) -> None:
        if text_of(asked) == "long":
            goes_on.wait(60)

    load = rendering(stage_of(tmp_path), before)

    async def play() -> None:
        engine = Engine(loader=load)
        await engine.load(tmp_path)
        asked = asyncio.ensure_future(engine.generate(request("long", max_tokens=3)))
        await asyncio.sleep(0)
        loading = asyncio.ensure_future(engine.load(tmp_path))
        await asyncio.sleep(0.2)
        assert not loading.done()
        goes_on.set()
        answer = await (await asked).collect()
        assert answer.finished.stop.kind is StopKind.MAX_TOKENS
        await loading
        await engine.aclose()

    run(play())


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
def test_what_cannot_fit_is_refused_before_it_is_tokenised(
    tmp_path: Path, asked: GenerationRequest
) -> None:
    stage = stage_of(tmp_path)

    async def play() -> None:
        engine = Engine(loader=stage.load)
        await engine.load(tmp_path)
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
        await engine.aclose()

    run(play())


def test_a_long_text_that_fits_has_the_tokens_of_the_whole(tmp_path: Path) -> None:
    stage = stage_of(tmp_path, context=4_000_000)

    async def play() -> None:
        engine = Engine(loader=stage.load)
        await engine.load(tmp_path)
        assert await engine.count_tokens(request("x" * 1_500_000)) == 1_500_000 + 8
        await engine.aclose()

    run(play())


def test_prompts_in_preparation_are_bounded_together(tmp_path: Path) -> None:
    goes_on = threading.Event()
    stage = stage_of(tmp_path, context=100)

    def before(_: GenerationRequest) -> None:
        goes_on.wait(60)

    load = rendering(stage, before)

    async def play() -> None:
        engine = Engine(loader=load)
        await engine.load(tmp_path)
        text = "x" * 30_000_000
        asked = [asyncio.ensure_future(engine.generate(request(text))) for _ in range(4)]
        done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED, timeout=60)
        assert all(isinstance(one.exception(), QueueFull) for one in done)
        goes_on.set()
        found = await asyncio.gather(*asked, return_exceptions=True)
        kinds = [type(one) for one in found]
        assert kinds.count(QueueFull) == kinds.count(PromptTooLong) == 2
        await engine.aclose()

    run(play())


def test_a_flood_of_counting_is_bounded_and_starves_no_answer(tmp_path: Path) -> None:
    goes_on = threading.Event()

    def before(_: GenerationRequest) -> None:
        if threading.current_thread().name == "fullstop-counting":
            goes_on.wait(60)

    load = rendering(stage_of(tmp_path), before)

    async def play() -> None:
        engine = Engine(Limits(max_waiting=20), loader=load)
        await engine.load(tmp_path)
        counts = [asyncio.ensure_future(engine.count_tokens(request("a"))) for _ in range(100)]
        await asyncio.sleep(0)
        assert (await ask(engine, "short")).text == "yes"
        goes_on.set()
        found = await asyncio.gather(*counts, return_exceptions=True)
        refused = [one for one in found if isinstance(one, QueueFull)]
        assert 0 < len(refused) < 100
        assert len(refused) + sum(isinstance(one, int) for one in found) == 100
        await engine.aclose()

    run(play())


def test_a_template_that_never_ends_is_ended(tmp_path: Path) -> None:
    endless = (
        "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}"
        "{% endfor %}{% endfor %}{% endfor %}"
    )
    stage = stage_of(
        tmp_path,
        template="{% if messages[0].content == 'loop' %}" + endless + "{% endif %}" + TEMPLATE,
    )

    async def play() -> None:
        engine = Engine(Limits(preparing_s=1.0), loader=stage.load)
        await engine.load(tmp_path)
        for asked in (engine.generate, engine.count_tokens):
            with pytest.raises(InvalidRequest, match="template took longer than 1 seconds"):
                await asked(request("loop"))
            assert (await ask(engine, "short")).text == "yes"
        await engine.aclose()

    run(play())


def test_a_prompt_whose_thread_cannot_be_ended_is_answered_nonetheless(tmp_path: Path) -> None:
    stuck = threading.Event()

    def before(asked: GenerationRequest) -> None:
        if text_of(asked) == "stuck":
            stuck.wait(60)  # as in a native library: no exception reaches it

    load = rendering(stage_of(tmp_path), before)

    async def play() -> None:
        engine = Engine(Limits(preparing_s=0.5), loader=load)
        await engine.load(tmp_path)
        with pytest.raises(InvalidRequest, match="took longer"):
            await engine.generate(request("stuck"))
        assert (await ask(engine, "short")).text == "yes"
        stuck.set()
        assert (await ask(engine, "short")).text == "yes"
        await engine.aclose()

    run(play())


@pytest.mark.parametrize("place", ["render", "answer_format", "join", "step"])
def test_the_panic_of_a_native_library_ends_one_request(tmp_path: Path, place: str) -> None:
    stage = stage_of(tmp_path)

    def load(folder: Path, **options: Any) -> Any:
        backend = stage.load(folder, **options)
        real, left = getattr(backend, place), [1]

        def broken(*given: Any, **named: Any) -> Any:
            if left:
                left.pop()
                raise Panic("index out of bounds")
            return real(*given, **named)

        setattr(backend, place, broken)
        return backend

    async def play() -> None:
        engine = Engine(loader=load)
        await engine.load(tmp_path)
        if place in ("render", "answer_format"):
            with pytest.raises(EngineError, match="index out of bounds"):
                await engine.generate(request("short"))
        else:
            answer = await ask(engine, "short")
            assert answer.finished.stop.kind is StopKind.ERROR
            assert "index out of bounds" in (answer.finished.error or "")
        assert engine.status.state == "ready"
        assert (await ask(engine, "short")).text == "yes"
        await engine.aclose()

    run(play())


def test_a_stuck_step_ends_its_answers_and_is_recovered_from(tmp_path: Path) -> None:
    stage = stage_of(tmp_path)
    goes_on = threading.Event()

    def wait_at_six(number: int) -> None:
        if number == 6:
            goes_on.wait(60)

    stage.model.fault = wait_at_six

    async def play() -> None:
        engine = Engine(Limits(stuck_after_s=1.0), loader=stage.load)
        await engine.load(tmp_path)
        answer = await ask(engine, "long")
        assert answer.finished.stop.kind is StopKind.ERROR
        assert "has not completed a step for 1 seconds" in (answer.finished.error or "")
        assert engine.status.state == "failed"
        with pytest.raises(EngineStuck, match="start anew"):
            await engine.generate(request("short"))
        goes_on.set()
        ends_at = time.monotonic() + 60
        while True:
            try:
                assert (await ask(engine, "short")).text == "yes"
                break
            except EngineStuck:
                assert time.monotonic() < ends_at
                await asyncio.sleep(0.05)
        await engine.aclose()

    run(play())
