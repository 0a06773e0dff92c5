"""A program that is meant to be ended: the whole window, answering a question for ever.

``python -m tests.support.streaming.streaming_window`` shows the window as ``fullstop`` does, on the
data folder of the environment. Only the engine is a scripted one, so that the answer has no end.
Prints ``NUMBER SECONDS`` (of the monotonic clock) before each number is said.
"""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.desktop import window as program
from app.paths import CLONED_DEMO_MODEL
from app.settings.options import ChatOptions
from engine.stopping.record import StopInfo, StopKind
from engine.values.events import Finished, PromptProgress, TextDelta, Timing, Usage
from tests.ui.driving import ScriptedEngine, eventually
from ui.window.main_window import MainWindow

PIECES_PER_S = 100


class EndlessEngine(ScriptedEngine):
    """A scripted engine as the whole window needs one."""

    def unload_after(self, idle_s: float | None) -> None:
        """Never unload anything."""

    async def aclose(self) -> None:
        """Nothing to close: the answer ends when it is cancelled."""


async def talk(window: MainWindow, engine: EndlessEngine) -> None:
    """Ask by keyboard, and answer until the process is killed or the answer cancelled."""
    await eventually(window.isVisible)
    QTest.keyClicks(window.chat.composer.input, "Count for ever")
    QTest.keyClick(window.chat.composer.input, Qt.Key.Key_Return)
    await eventually(lambda: bool(engine.generations))
    engine.say(PromptProgress(1, 1, 0))
    number = 0
    while not engine.cancelled:
        number += 1
        print(number, time.monotonic(), flush=True)
        engine.say(TextDelta(f"{number} "))
        await asyncio.sleep(1 / PIECES_PER_S)
    engine.say(Finished(StopInfo(StopKind.CANCELLED), Usage(), Timing()))


def main() -> int:
    engine = EndlessEngine()
    talking: list[asyncio.Task[None]] = []

    @asynccontextmanager
    async def scripted(*_: Any, **__: Any) -> AsyncIterator[EndlessEngine]:
        yield engine

    class Talking(MainWindow):
        def start(self, model_path: Path | None = None, draft: Path | None = None) -> None:
            talking.append(asyncio.get_running_loop().create_task(talk(self, engine)))

    program.open_engine = scripted  # type: ignore[assignment]
    program.MainWindow = Talking  # type: ignore[misc]
    return program.run(ChatOptions(CLONED_DEMO_MODEL))


if __name__ == "__main__":
    sys.exit(main())
