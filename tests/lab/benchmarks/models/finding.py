"""Measures the view that finds models, against a hub in another process of this machine.

    python -m tests.lab.benchmarks.models.finding [--models 500] [--searches 9]

Offscreen. What is measured is the time until suggestions are listed, which includes the import of
the hub's library on another thread; the time from the last key, and from Enter, until the first
results are listed; and how late the main thread is meanwhile. The hub answers at once, so that the
figures are those of the program. Nothing here passes or fails.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import qasync
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from engine.library.local_models import ModelFolders
from engine.scheduling.service import Engine
from tests.lab.benchmarks.inspector import Beats
from tests.lab.benchmarks.measuring import report
from tests.support.shown import main_window
from tests.ui.driving import eventually
from ui.kit.theme import Theme
from ui.models.find_view import FindView

_HUB = """
import sys
from engine.library.hub_models import SUGGESTIONS
from tests.support.hub import hub
config = {"model_type": "qwen3", "num_hidden_layers": 28, "num_attention_heads": 16,
          "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 40960}
card = "\\n\\n".join(f"## Part {n}\\n\\nSome **words** and `code`." for n in range(200))
with hub() as served:
    names = [one.name for one in SUGGESTIONS]
    names += [f"makers/family-{n % 10}-{n}B-4bit" for n in range(int(sys.argv[1]))]
    for number, name in enumerate(names):
        sizes = {"parameters": {"U32": 10_000_000 * (number + 1)}, "total": 1}
        served.add_model(name, config, safetensors=sizes, downloads=number + 1)
        served.files[name]["README.md"] = card.encode()
    print(served.url, flush=True)
    sys.stdin.read()
"""


class BusyBeats(Beats):
    """Counts, too, how long the main thread computes at a stretch: a busy machine adds nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.busy_ms: list[float] = []
        self._spent_s = time.thread_time()

    def _beat(self) -> None:
        spent_s = time.thread_time()
        self.busy_ms.append((spent_s - self._spent_s) * 1e3)
        self._spent_s = spent_s
        super()._beat()


@contextmanager
def hub_process(count: int) -> Iterator[None]:
    """Serve a hub of so many models while the block runs."""
    hub = subprocess.Popen(
        [sys.executable, "-c", _HUB, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert hub.stdout is not None
    os.environ["HF_ENDPOINT"] = hub.stdout.readline().strip()
    try:
        yield
    finally:
        hub.kill()
        hub.wait()


async def searched_ms(finding: FindView, text: str, *, presses_enter: bool) -> float:
    """Type a search and wait until its first results are painted."""
    finding.field.clear()
    QTest.keyClicks(finding.field, text)
    begin = time.perf_counter()
    if presses_enter:
        QTest.keyClick(finding.field, Qt.Key.Key_Return)
    await eventually(lambda: finding.finder.query == text and finding.finder.stage == "listed")
    finding.list.repaint()
    took = (time.perf_counter() - begin) * 1e3
    await eventually(lambda: all(one.is_checked for one in finding.finder.offers))
    return took


def p99(late: list[float]) -> float:
    """Return the 99th percentile of sorted figures."""
    return late[int(len(late) * 0.99)]


async def measure(application: QApplication, folder: Path, searches: int) -> None:
    engine = Engine()
    window = main_window(
        engine,
        Theme(application, "light"),
        model_folders=lambda added: ModelFolders(added=added, hub_cache=folder),
    )
    window.show()
    window.others.show_models()
    models = window.others.models
    assert models is not None
    await asyncio.sleep(0.5)
    beats = BusyBeats()
    beats.start()
    await asyncio.sleep(5)
    beats.stop()
    idle = sorted(beats.late_ms)
    report("main thread with nothing to do: 99th percentile (ms)", f"{p99(idle):.1f}", "none")
    report("  its longest stall, which is the machine's (ms)", f"{idle[-1]:.0f}", "none")
    beats = BusyBeats()
    beats.start()
    begin = time.perf_counter()
    models.show_finding()
    finding = models.finding
    await eventually(lambda: bool(finding.finder.offers))
    shown = (time.perf_counter() - begin) * 1e3
    await eventually(lambda: all(one.model.downloads for one in finding.finder.offers))
    said = (time.perf_counter() - begin) * 1e3
    await eventually(lambda: finding.finder.cards.card.stage == "shown")
    beats.stop()
    report("suggestions listed (ms)", f"{shown:.0f}", "none")
    report("  with what the hub says, its library imported (ms)", f"{said:.0f}", "none")
    report("  the main thread's longest stall meanwhile (ms)", f"{max(beats.late_ms):.0f}", "< 50")
    report("  its longest stretch of computing (ms)", f"{max(beats.busy_ms):.0f}", "< 16")
    beats = BusyBeats()
    beats.start()
    for presses_enter, what in ((False, "the last key"), (True, "Enter")):
        took = [
            await searched_ms(finding, f"family-{n % 10}", presses_enter=presses_enter)
            for n in range(searches)
        ]
        words = f"first results of a search, from {what} (ms)"
        report(words, f"{statistics.median(took):.0f}, worst {max(took):.0f}", "< 500")
    beats.stop()
    late = sorted(beats.late_ms)
    report("  the main thread's 99th percentile (ms)", f"{p99(late):.1f}", "< 16")
    report("  the main thread's longest stall (ms)", f"{late[-1]:.0f}", "< 50")
    report("  its longest stretch of computing (ms)", f"{max(beats.busy_ms):.0f}", "< 16")
    window.quit()
    await window.finish()
    await engine.aclose()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", type=int, default=500)
    parser.add_argument("--searches", type=int, default=9)
    options = parser.parse_args()
    application = QApplication([])
    application.setQuitOnLastWindowClosed(False)
    with (
        hub_process(options.models),
        tempfile.TemporaryDirectory() as name,
        asyncio.Runner(loop_factory=lambda: qasync.QEventLoop(application)) as runner,
    ):
        runner.run(measure(application, Path(name), options.searches))


if __name__ == "__main__":
    main()
