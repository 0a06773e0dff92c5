"""A fault in one answer ends that answer and no other."""

import asyncio
import json
import pkgutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx_lm.tool_parsers
import pytest

from engine.engine import Engine
from engine.errors import EngineClosed
from engine.generation import Answer
from engine.inference.mlx_backend import MlxBackend
from engine.output.tool_calls.call_text import (
    CallReader,
    CallWriter,
    StreamBuffer,
    Waiting,
)
from engine.output.tool_calls.formats import CALL_FORMATS
from engine.stopping.record import StopKind
from engine.values.request import GenerationRequest, OutputConstraint, Tool
from tests.engine.scheduling.stages import HeldRendering
from tests.support.asking import ask, loaded_engine, request, run, scripted_answer
from tests.support.models.formats import HARMONY
from tests.support.scripted import TEMPLATE, Stage

LONG = [f"w{n} " for n in range(60)]
TAGS = ["<tool_call>", "</tool_call>"]
JSON_CALLS = TEMPLATE + "{# <tool_call> tool_call.name #}"


def together(
    stage: Stage, spoil: Callable[[MlxBackend], None], *asked: GenerationRequest
) -> list[Answer]:
    """Answer requests in one batch of a backend that ``spoil`` has changed, and one afterwards."""

    def load(folder: Path, **options: Any) -> MlxBackend:
        backend = stage.load(folder, **options)
        spoil(backend)
        return backend

    async def play() -> list[Answer]:
        engine = Engine(loader=load)
        try:
            await engine.load(Path("scripted"))
            running = [await engine.generate(one) for one in asked]
            answers = await asyncio.gather(*(one.collect() for one in running))
            return [*answers, await ask(engine, "long")]
        finally:
            await engine.aclose()

    return run(play())


def test_a_parser_that_breaks_ends_its_answer_and_no_other(tmp_path: Path) -> None:
    script = ["Look. ", "<tool_call>", "{}", "</tool_call>", "more"]
    stage = Stage(tmp_path, {"call": script, "long": LONG}, special=TAGS, template=JSON_CALLS)

    def broken(text: StreamBuffer, out: CallWriter) -> Waiting[None]:
        yield
        raise RecursionError("maximum recursion depth exceeded")

    def spoil(backend: Any) -> None:
        backend.call_readers = lambda _: lambda name: CallReader(broken)

    failed, beside, after = together(
        stage, spoil, request("call", tools=(Tool("f", "", {}),)), request("long")
    )
    assert failed.text == "Look. "
    assert failed.finished.stop.kind is StopKind.ERROR
    assert "maximum recursion depth" in (failed.finished.error or "")
    assert beside.text == after.text == "".join(LONG)
    assert beside.finished.stop.kind is StopKind.EOS


# -- a thread that is given up --------------------------------------------------------------------


@pytest.mark.parametrize("place", ["step", "parser"])
async def test_abandoned_thread_sends_nothing_after_end(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = ["Look. ", "<tool_call>", "{}", "</tool_call>", *LONG]
    stage = Stage(tmp_path, {"go": script}, special=TAGS, template=JSON_CALLS)
    goes_on, is_stuck = threading.Event(), threading.Event()

    def wait() -> None:
        is_stuck.set()
        goes_on.wait(60)

    def read(text: StreamBuffer, out: CallWriter) -> Waiting[None]:
        yield
        wait()

    def load(folder: Path, **options: Any) -> MlxBackend:
        backend = stage.load(folder, **options)
        if place == "parser":
            reader = CallReader(read)
            backend.call_readers = lambda _: lambda name: reader  # type: ignore[method-assign]
        else:
            stage.model.fault = lambda number: wait() if number == 8 else None
        return backend

    engine = Engine(loader=load)
    await engine.load(Path("scripted"))
    thread = next(t for t in threading.enumerate() if t.name == "fullstop-engine"
                  and t is engine._thread._thread)  # type: ignore[union-attr]  # fmt: skip
    join = thread.join
    monkeypatch.setattr(thread, "join", lambda timeout_s: join(0.1))
    running = await engine.generate(request("go", tools=(Tool("f", "", {}),)))
    assert await asyncio.to_thread(is_stuck.wait, 60)
    await engine.aclose()
    answer = await running.collect()
    assert answer.finished.stop.kind is StopKind.CANCELLED
    goes_on.set()
    await asyncio.to_thread(join, 60)
    assert not thread.is_alive()
    assert running._pending == []
    assert engine.status.state == "failed"


async def test_requests_after_the_end_are_refused(tmp_path: Path) -> None:
    held = HeldRendering(Stage(tmp_path, {"go": LONG}), lambda _: True)
    engine = Engine(loader=held.load)
    await engine.load(Path("scripted"))
    rendered = asyncio.create_task(engine.generate(request("go")))
    await asyncio.to_thread(held.begun.wait, 60)
    await engine.aclose()
    with pytest.raises(EngineClosed, match="shut down"):
        await asyncio.wait_for(rendered, 60)
    held.goes_on.set()
    late = (request("go"), request("go", constraint=OutputConstraint({"const": 1})))
    for one in late:
        with pytest.raises(EngineClosed, match="shut down"):
            await engine.generate(one)


# -- arguments ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments", ["[1]", '"text"', "7", "null", "true", '{"a": NaN}', '{"a": 1e999}', "{"]
)
@pytest.mark.parametrize("is_harmony", [True, False])
def test_a_call_whose_arguments_are_not_an_object_is_text(
    tmp_path: Path, arguments: str, is_harmony: bool
) -> None:
    if is_harmony:
        raw, header = arguments, ["<|channel|>", "commentary", " to=functions.f ", "<|message|>"]
        stage = Stage(tmp_path, {"go": [*header, arguments, "<|call|>"]}, **HARMONY)
        stage.wrapper.eos_token_ids = {stage.id("<|return|>"), stage.id("<|call|>")}
    else:
        raw = json.dumps({"name": "f", "arguments": arguments})  # the text of it, as many write
        script = ["<tool_call>", raw, "</tool_call>"]
        stage = Stage(tmp_path, {"go": script}, special=TAGS, template=JSON_CALLS)
    answer = scripted_answer(stage, "go", tools=(Tool("f", "", {}),))
    assert answer.tool_calls == ()
    assert answer.text == raw
    assert answer.finished.stop.kind is StopKind.EOS


async def test_calls_of_a_parser_unknown_to_us_are_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delitem(CALL_FORMATS, "qwen3_coder")
    script = ["<tool_call>", '{"name": "f", "arguments": {}}', "</tool_call>"]
    stage = Stage(
        tmp_path,
        {"call": script},
        special=TAGS,
        template=TEMPLATE + "{# <tool_call>\n<function= #}",
    )
    async with loaded_engine(tmp_path, loader=stage.load) as engine:
        assert engine.model is not None
        assert not engine.model.can_call_tools
        answer = await ask(engine, "call", tools=[Tool("f")])
        assert answer.tool_calls == ()
        assert answer.text == script[1]  # the tags are special tokens
    assert "parser qwen3_coder" in caplog.text


def test_every_parser_of_mlx_lm_is_known() -> None:
    names = {module.name for module in pkgutil.iter_modules(mlx_lm.tool_parsers.__path__)}
    assert names <= CALL_FORMATS.keys()
