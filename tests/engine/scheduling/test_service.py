"""The engine as its callers use it: acceptance, queueing, faults, models."""

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from engine.engine import Engine
from engine.errors import (
    EngineClosed,
    InvalidRequest,
    QueueFull,
)
from engine.stopping.record import StopKind
from engine.stopping.rules import StopRules
from engine.values.limits import Limits
from engine.values.request import LOCAL_OWNER, GenerationRequest
from tests.engine.scheduling.stages import stage_of
from tests.support.asking import ask, loaded_engine, request

COUNT = "Count from 1 to 10, one number per line"


async def test_bad_requests_never_reach_the_model_and_name_the_field(engine: Engine) -> None:
    async def refused(asked: GenerationRequest) -> InvalidRequest:
        with pytest.raises(InvalidRequest) as caught:
            await engine.generate(asked)
        return caught.value

    assert (await refused(GenerationRequest())).field == "messages"
    assert (await refused(request("x", max_tokens=-1))).field == "max_tokens"
    ids = StopRules(token_ids=(1, 10**6))
    assert (await refused(request("x", rules=ids))).field == "stops.token_ids[1]"
    long = await refused(request("word " * 40_000))
    assert "context" in long.reason
    assert (await ask(engine, COUNT, "6")).finished.stop.value == "6"


async def test_queue_full_refuses_and_others_are_answered(tmp_path: Path) -> None:
    stage, is_refused = stage_of(tmp_path), threading.Event()
    stage.slow_until(is_refused)

    async with loaded_engine(
        tmp_path, Limits(max_rows=2, max_waiting=3), loader=stage.load
    ) as engine:
        taken = [await engine.generate(request("long", max_tokens=200)) for _ in range(5)]
        with pytest.raises(QueueFull):
            await engine.generate(request("short"))
        is_refused.set()
        answers = await asyncio.gather(*(generation.collect() for generation in taken))
        assert {answer.finished.stop.kind for answer in answers} == {StopKind.MAX_TOKENS}
        assert len({answer.text for answer in answers}) == 1


@pytest.mark.parametrize(
    "fault",
    [
        RuntimeError("no memory left"),
        pytest.param(SystemExit("killed"), marks=pytest.mark.engine_dies),
    ],
)
async def test_failed_step_or_thread_ends_answers_and_engine_continues(
    tmp_path: Path, fault: BaseException
) -> None:
    stage = stage_of(tmp_path)

    def break_at_ten(number: int) -> None:
        if number == 10:
            raise fault

    stage.model.fault = break_at_ten

    async with loaded_engine(tmp_path, loader=stage.load) as engine:
        answer = await ask(engine, "long")
        assert answer.finished.stop.kind is StopKind.ERROR
        assert answer.finished.error is not None
        assert str(fault) in answer.finished.error
        assert answer.text.startswith("w0 w1 ")
        assert await engine.forget_prompts(LOCAL_OWNER) == (0, 0)
        assert (await ask(engine, "short")).text == "yes"


async def test_closing_ends_running_answers_and_refuses_new_requests(tmp_path: Path) -> None:
    stage = stage_of(tmp_path, step_s=0.01)

    engine = Engine(loader=stage.load)
    await engine.load(tmp_path)
    generation = await engine.generate(request("long"))
    await engine.aclose()
    assert (await generation.collect()).finished.stop.kind is StopKind.CANCELLED
    with pytest.raises(EngineClosed):
        await engine.generate(request("short"))


_FORGETFUL = """
import asyncio, sys
from pathlib import Path
from engine.engine import Engine
from engine.values.request import GenerationRequest, Message


async def main() -> None:
    engine = Engine()
    await engine.load(Path(sys.argv[1]))
    endless = GenerationRequest((Message("user", "Hi"),))
    generation = await engine.generate(endless)
    if sys.argv[2] == "raises":
        raise SystemExit(3)
    await generation.collect()


asyncio.run(main())
"""


@pytest.mark.parametrize(("how", "code"), [("ends", 0), ("raises", 3)])
def test_program_exits_normally_without_closing_engine(
    demo_model_path: Path, how: str, code: int
) -> None:
    program = [sys.executable, "-c", _FORGETFUL, str(demo_model_path), how]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stderr) == (code, "")
