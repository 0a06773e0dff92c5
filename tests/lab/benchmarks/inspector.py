"""Measures the inspector: what-if replays, and the main thread while a long run is recorded.

    python -m tests.lab.benchmarks.inspector [--tokens 10000]

The run is a scripted one at full trace with the inspector open, offscreen. A beat that should come
every 5 ms tells how long the main thread was busy. Nothing here passes or fails.
"""

import argparse
import asyncio
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import qasync
from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QApplication

from app.desktop.application import collected_on, leave_out_what_is_loaded
from engine.output.answer import RunSetting
from engine.recording.replay import RecordedToken, Recording, replay
from engine.scheduling.service import Engine
from engine.stopping.record import StopInfo, StopKind
from engine.stopping.rules import StopRules
from engine.values.request import Limits, TraceLevel
from tests.lab.benchmarks.measuring import report
from tests.support.scripted import Stage
from tests.support.shown import main_window
from tests.ui.driving import eventually
from ui.kit.theme import Theme

BEAT_MS = 5
WORDS = [
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "the",
    "lazy",
    "dog",
    "and",
    "says",
    "hello.\n\n",
]


def _spaced(word: str) -> str:
    return word if word.endswith("\n") else f"{word} "


def what_if() -> None:
    """A replay of 20,000 tokens with 64 rules, some of whose beginnings occur."""
    ids = {_spaced(word): number for number, word in enumerate(dict.fromkeys(WORDS))}
    words = [_spaced(WORDS[n % len(WORDS)]) for n in range(20_000)]
    tokens = tuple(RecordedToken(ids[w], w.encode(), w) for w in words)
    recording = Recording(
        RunSetting(context_room=1 << 20),
        StopRules(),
        None,
        tokens,
        "",
        {},
        StopInfo(StopKind.MAX_TOKENS),
    )
    rules = StopRules.of(*(f"{w}{n}!" for n, w in enumerate(["the q", "fox", "lazy", "h"] * 16)))
    took = []
    for _ in range(9):
        begin = time.perf_counter()
        replay(recording, rules)
        took.append((time.perf_counter() - begin) * 1e3)
    report("what-if, 20,000 tokens, 64 rules (ms)", f"{statistics.median(took):.1f}", "< 50")


class Beats:
    def __init__(self) -> None:
        self.late_ms: list[float] = []
        self._due = 0.0
        self._timer = QTimer(timerType=Qt.TimerType.PreciseTimer, interval=BEAT_MS)
        self._timer.timeout.connect(self._beat)

    def start(self) -> None:
        self._due = time.perf_counter() + BEAT_MS / 1e3
        self._timer.start()

    def stop(self) -> None:
        self._timer.stop()

    def _beat(self) -> None:
        now = time.perf_counter()
        self.late_ms.append(max(0.0, (now - self._due) * 1e3))
        self._due = now + BEAT_MS / 1e3


async def long_run(application: QApplication, tokens: int, folder: Path) -> None:
    """The window's main thread while the inspector follows a long run."""
    script = [_spaced(WORDS[n % len(WORDS)]) for n in range(tokens)]
    stage = Stage(folder, {"go": script}, context=tokens + 1000)
    # Words that come again are not guessed: an engine that checks many at once has another pace.
    engine = Engine(loader=stage.load, limits=Limits(plain_decoding=True))
    window = main_window(engine, Theme(application, "light"))
    window.workspace.traces.level = TraceLevel.FULL
    window.show()
    window.start(folder)
    window.others.show_inspector()
    await eventually(lambda: window.workspace.model.stage == "ready")
    leave_out_what_is_loaded()
    window.workspace.current.stops.ensure("never there")
    await asyncio.sleep(0.5)
    beats = Beats()
    beats.start()
    begin, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_THREAD)
    window.workspace.send("go")
    await eventually(lambda: not window.workspace.current.session.is_running, 300)
    wall = time.perf_counter() - begin
    spent = resource.getrusage(resource.RUSAGE_THREAD)
    beats.stop()
    busy = (spent.ru_utime + spent.ru_stime - used.ru_utime - used.ru_stime) / wall
    late = sorted(beats.late_ms)
    what = f"{tokens:,} tokens, full trace, inspector open"
    report(f"{what}: 99th percentile (ms)", f"{late[int(len(late) * 0.99)]:.1f}", "< 16")
    report(f"{what}: longest stall (ms)", f"{late[-1]:.1f}", "< 50")
    report(f"{what}: share of a core", f"{busy:.2f}", f"< 0.25   ({tokens / wall:.0f} tok/s)")
    window.close()
    await window.finish()
    engine.close()


async def collected(work: Coroutine[Any, Any, None]) -> None:
    """Do work with garbage collected as the program has it."""
    with collected_on(asyncio.get_running_loop()):
        await work


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=10_000)
    options = parser.parse_args()
    what_if()
    application = QApplication([])
    application.setQuitOnLastWindowClosed(False)
    with (
        tempfile.TemporaryDirectory() as name,
        asyncio.Runner(loop_factory=lambda: qasync.QEventLoop(application)) as runner,
    ):
        runner.run(collected(long_run(application, options.tokens, Path(name))))


if __name__ == "__main__":
    main()
