"""Measures the switcher of models in a window whose library has two hundred.

    python -m tests.lab.benchmarks.models.switching [--models 200]

Offscreen, on real model folders (links to the demo model's files). What is measured is the time
from the shortcut's intent until the list is painted, while the library looks at the disks again on
its own thread; and the longest stall of the main thread while that goes on. Nothing here passes or
fails.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import qasync
from PySide6.QtWidgets import QApplication

from engine.library.local_models import ModelFolders
from engine.scheduling.service import Engine
from tests.lab.benchmarks.inspector import Beats
from tests.lab.benchmarks.measuring import report
from tests.support.shown import main_window
from tests.ui.driving import eventually
from ui.kit.theme import Theme
from ui.window.main_window import MainWindow

DEMO = Path(__file__).parents[4] / "assets" / "demo-model"


def make_models(folder: Path, count: int) -> None:
    """Make model folders that share the demo model's files."""
    for number in range(count):
        one = folder / f"maker-{number % 7}" / f"Model-{number:03}-4bit"
        one.mkdir(parents=True)
        for file in DEMO.iterdir():
            if file.is_file():
                (one / file.name).symlink_to(file)


def opened_ms(window: MainWindow) -> float:
    """Open the list and wait for its first paint; close it again."""
    begin = time.perf_counter()
    window.choosing_model.pop_up()
    window.choosing_model.switcher.repaint()
    took = (time.perf_counter() - begin) * 1e3
    window.choosing_model.switcher.close()
    return took


async def measure(application: QApplication, folder: Path, count: int) -> None:
    make_models(folder, count)
    engine = Engine()
    window = main_window(
        engine,
        Theme(application, "light"),
        model_folders=lambda _added: ModelFolders(added=(folder,)),
    )
    window.resize(1280, 820)
    window.show()
    library = window.model_library
    library.refresh()
    await eventually(lambda: library.has_looked)
    assert len(library.models) == count
    first = opened_ms(window)
    await eventually(lambda: not library.is_looking)
    took = []
    for _ in range(20):
        took.append(opened_ms(window))
        await eventually(lambda: not library.is_looking)
    beats = Beats()
    beats.start()
    window.choosing_model.pop_up()
    await eventually(lambda: not library.is_looking)
    await asyncio.sleep(0.1)
    beats.stop()
    typed = []
    for text in ("m", "mo", "model-1", "model-19", "4bit 17"):
        begin = time.perf_counter()
        window.choosing_model.switcher.field.setText(text)
        window.choosing_model.switcher.repaint()
        typed.append((time.perf_counter() - begin) * 1e3)
    window.choosing_model.switcher.close()
    report(f"switcher with {count} models, first time (ms)", f"{first:.1f}", "< 100")
    report("  again, median (ms)", f"{statistics.median(took):.1f}", "< 100")
    report(
        "  longest stall while the disks are looked at (ms)", f"{max(beats.late_ms):.1f}", "< 50"
    )
    report("  a letter typed, slowest (ms)", f"{max(typed):.1f}", "< 16")
    window.quit()
    await window.finish()
    await engine.aclose()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", type=int, default=200)
    options = parser.parse_args()
    application = QApplication([])
    application.setQuitOnLastWindowClosed(False)
    with (
        tempfile.TemporaryDirectory() as name,
        asyncio.Runner(loop_factory=lambda: qasync.QEventLoop(application)) as runner,
    ):
        runner.run(measure(application, Path(name), options.models))


if __name__ == "__main__":
    main()
