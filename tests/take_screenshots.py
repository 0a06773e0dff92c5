"""Take the README's pictures: the window with a real run on the demo model, light and dark.

Run it in the repository's folder with ``python -m tests.take_screenshots [FOLDER]``; it needs no
screen. The folder is ``assets/screenshots`` unless another one is given. With the fonts Inter and
JetBrains Mono installed the pictures look the same everywhere.
"""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import qasync
from PySide6.QtGui import QFont, QFontDatabase
from PySide6.QtWidgets import QApplication

from engine.service import Engine
from ui.main_window import MainWindow
from ui.theme import Theme

ROOT = Path(__file__).parents[1]
SIZE = 1280, 900
POINTS = 10.5
ALPHABET = "Output the whole alphabet from A to Z, without spaces, then immediately output END"
# Conversations with the stop list that each question is asked with; the last one is shown.
CONVERSATIONS: tuple[tuple[tuple[str, tuple[str, ...]], ...], ...] = (
    (("Repeat exactly: 1 2 3 hello world 4 5", ("hello world",)),),
    (("What is a stop sequence?", ()),),
    (("Count from 1 to 10, one number per line", ("6",)), (ALPHABET, ("6", "END", "\n\nUser:"))),
)


class _Server:
    """Stands in for the local server: a picture needs no port."""

    async def start(self) -> str:
        return "http://127.0.0.1:8017"

    async def stop(self) -> None:
        pass


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110 - what is awaited is the window's look
            await asyncio.sleep(0.02)


async def _take(application: QApplication, folder: Path) -> None:
    engine = Engine()
    theme = Theme(application, "light")
    window = MainWindow(engine, theme, server=_Server())
    window.resize(*SIZE)
    window.show()
    window.start(ROOT / "assets" / "demo-model")
    await _until(lambda: window.workspace.model.stage != "loading")
    await _save(window, folder / "welcome-light.png")
    for questions in CONVERSATIONS:
        window.workspace.new_conversation()
        current = window.workspace.current
        for question, stops in questions:
            for stop in stops:
                current.stops.ensure(stop)
            window.workspace.send(question)
            await _until(lambda: not window.workspace.current.session.is_running)
    window.workspace.current.stops.row_changed.emit(1)
    for mode in ("light", "dark"):
        theme.set_mode(mode)
        await _save(window, folder / f"window-{mode}.png")
    window.close()
    await window.finish()
    engine.close()


async def _save(window: MainWindow, path: Path) -> None:
    await asyncio.sleep(0.4)  # let layouts and the stop panel settle
    picture = window.grab()
    if not picture.save(str(path)):
        raise OSError(f"{path} could not be written")
    print(path)


def main() -> None:
    """Take all pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "assets" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    os.environ.setdefault("QT_SCALE_FACTOR", "2")  # sharp on a doubled screen
    application = QApplication(sys.argv[:1])
    application.setQuitOnLastWindowClosed(False)
    wanted = "Inter" if "Inter" in QFontDatabase.families() else application.font().family()
    font = QFont(wanted)
    font.setPointSizeF(POINTS)
    application.setFont(font)
    with asyncio.Runner(loop_factory=lambda: qasync.QEventLoop(application)) as runner:
        runner.run(_take(application, folder))


if __name__ == "__main__":
    main()
