"""Answers that are counted by their ends: Ctrl-C keeps those that have ended."""

import asyncio
import signal
import threading
from pathlib import Path

from app.commands.ends import answer_side, report
from app.process.signals import Interrupts
from engine.recording.ends import SeededAnswer, Side
from engine.stopping.record import StopInfo, StopKind
from engine.values.events import Finished, Timing, Usage
from tests.support.asking import loaded_engine, request
from tests.support.scripted import Stage


def ended(seed: int, kind: StopKind, tokens: int) -> SeededAnswer:
    usage = Usage(output_tokens=tokens)
    return SeededAnswer(seed, finished=Finished(StopInfo(kind), usage, Timing()))


def test_cancelled_answers_do_not_count() -> None:
    answers = [ended(1, StopKind.EOS, 4), ended(2, StopKind.CANCELLED, 9), SeededAnswer(3)]
    side = Side("no stops", request("go"), answers)
    assert side.counts.answers == 1
    text = report([side])
    assert text.startswith("1 of 3 answers; the others were cancelled and do not count\n")
    assert "1        end of answer  4" in text


async def test_ctrl_c_ends_running_answers(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["a"] * 2_000})
    stage.slow_until(threading.Event(), 0.02)
    side = Side("", request("go"), [SeededAnswer(1), SeededAnswer(2)])
    async with loaded_engine(tmp_path, loader=stage.load) as engine:
        with Interrupts() as interrupts:
            asyncio.get_running_loop().call_later(0.3, signal.raise_signal, signal.SIGINT)
            assert await answer_side(engine, side, interrupts)
    assert all(answer.finished is not None for answer in side.answers)
    assert side.whole == []
