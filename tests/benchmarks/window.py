"""Measures the window: start, a long conversation, a long answer, search, memory, API load.

    python -m tests.benchmarks.window [--tokens 2000] [--messages 1000]

Offscreen, with the real store in a temporary folder and the real engine on a scripted model that
writes at a pace. A beat that should come every 5 ms tells how long the main thread was busy; the
same answer is measured alone and while 16 API streams are served. Nothing here passes or fails.
"""

import argparse
import asyncio
import gc
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import mlx.core as mx
import psutil
import qasync
from mlx import nn
from mlx_lm.models.cache import KVCache
from PySide6.QtWidgets import QApplication

from api.server.thread import ServerThread
from api.transport.config import ServerConfig
from app.desktop.garbage_collection import collected_on
from app.store.conversation_store import SqliteConversationStore, open_store
from engine.scheduling.limits import Limits
from engine.scheduling.service import Engine
from tests.benchmarks.inspector import Beats
from tests.benchmarks.measuring import report
from tests.benchmarks.startup import show_window
from tests.support.answers.said import finished_run
from tests.support.scripted import GO, Stage
from tests.support.shown import main_window
from tests.ui.driving import eventually
from ui.kit.look.theme import Theme
from ui.records.conversations import Conversation, ConversationSettings
from ui.records.messages import ConversationMessage
from ui.window.main_window import MainWindow

STREAMS = 16
STEP_S = 0.008
VOCABULARY = ("stop", "sequence", "token", "model", "answer", "prompt", "cache", "engine", "window")

# Asks again and again for the long answer until it is told to end, sixteen at a time.
_CLIENT = """
import http.client, json, sys, threading
port, streams = int(sys.argv[1]), int(sys.argv[2])
body = json.dumps({"model": "any", "stream": True, "max_tokens": 4000,
                   "messages": [{"role": "user", "content": "api"}]})
def ask():
    while True:
        try:
            link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            link.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
            answer = link.getresponse()
            assert answer.status == 200, answer.read()
            while answer.read1(65536):
                pass
        except OSError:
            return
for _ in range(streams):
    threading.Thread(target=ask, daemon=True).start()
sys.stdin.read()
"""


@dataclass(frozen=True)
class Figures:
    """What one answer cost the main thread."""

    p99_ms: float
    longest_ms: float
    core: float
    tokens_per_s: float


class CycleModel(nn.Module):
    """Writes the same words for ever, at a pace; what was said before costs it nothing."""

    def __init__(self, following: list[int]) -> None:
        super().__init__()
        self.layers = [nn.Module()]
        self._following = mx.array(following)

    def make_cache(self) -> list[KVCache]:
        """Return a cache as long as the prompt."""
        return [KVCache()]

    def __call__(self, inputs: mx.array, cache: Any = None) -> mx.array:
        """Return logits that leave one word possible after each."""
        time.sleep(STEP_S)
        keys = inputs.astype(mx.float32)[:, None, :, None]
        cache[0].update_and_fetch(keys, keys)
        chosen = self._following[inputs][:, :, None] == mx.arange(self._following.size)
        return mx.where(chosen, 20.0, 0.0)


def staged(folder: Path) -> Stage:
    """Return a stage whose model writes words of the vocabulary, a paragraph each forty."""
    words = [f"{VOCABULARY[n % 9]}{'' if n < 9 else n} " for n in range(39)] + ["end.\n\n"]
    stage = Stage(folder, {"go": words}, context=1 << 22)
    ids = [stage.id(word) for word in words]
    following = list(range(len(stage.wrapper)))
    for here, there in zip([stage.id(GO), *ids], [*ids, ids[0]], strict=True):
        following[here] = there
    stage.model = CycleModel(following)  # type: ignore[assignment]
    return stage


def text(number: int) -> str:
    """Return a message of a few lines with the usual marks."""
    words = [VOCABULARY[(number * k + k) % len(VOCABULARY)] for k in range(1, 14)]
    return f"Message {number}: **{words[0]}** and `{words[1]}`.\n\n" + " ".join(words) * (
        1 + number % 12
    )


def conversation(title: str, messages: int) -> Conversation:
    """Return a conversation of so many messages."""
    said: list[ConversationMessage] = []
    for number in range(messages // 2):
        said.append(ConversationMessage("user", f"Question {number}"))
        said.append(
            ConversationMessage(
                "assistant", run=finished_run(text(number), thinking="", tool_calls=[])
            )
        )
    return Conversation(title, said)


def memory_mb() -> float:
    """Return the memory of this process that is its own, in MB."""
    gc.collect()
    return float(psutil.Process().memory_full_info().uss) / 1e6


@contextmanager
def api_load(engine: Engine) -> Iterator[None]:
    """Serve so many streams to another process while the block runs."""
    thread = ServerThread(engine, ServerConfig())
    address = thread.start()
    client = subprocess.Popen(
        [sys.executable, "-c", _CLIENT, str(address.port), str(STREAMS)], stdin=subprocess.PIPE
    )
    try:
        yield
    finally:
        client.kill()
        client.wait()
        thread.stop()


async def answer(window: MainWindow) -> Figures:
    """Measure the main thread while an answer is written."""
    assert window.workspace.send("go")
    written = window.workspace.current.conversation.messages[-1].run
    assert written is not None
    await eventually(lambda: bool(written.text), 600)
    beats = Beats()
    beats.start()
    begin, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_THREAD)
    await eventually(lambda: not window.workspace.current.session.is_running, 600)
    wall, spent = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_THREAD)
    beats.stop()
    late = sorted(beats.late_ms)
    run = window.workspace.current.conversation.messages[-1].run
    assert run is not None
    assert run.finished is not None
    return Figures(
        p99_ms=late[int(len(late) * 0.99)],
        longest_ms=late[-1],
        core=(spent.ru_utime + spent.ru_stime - used.ru_utime - used.ru_stime) / wall,
        tokens_per_s=run.finished.usage.output_tokens / wall,
    )


def say(what: str, figures: Figures) -> None:
    """Print what an answer cost."""
    report(f"{what}: longest stall (ms)", f"{figures.longest_ms:.1f}", "< 50")
    report(f"{what}: 99th percentile (ms)", f"{figures.p99_ms:.1f}", "< 16")
    pace = f"< 0.25   ({figures.tokens_per_s:.0f} tok/s)"
    report(f"{what}: share of a core", f"{figures.core:.2f}", pace)


async def opening(window: MainWindow, application: QApplication, long: Conversation) -> None:
    """Time from the click to the first paint, and what it costs in memory."""
    before = memory_mb()
    begin = time.perf_counter()
    window.workspace.open(long)
    await eventually(lambda: window.workspace.current.conversation is long)
    application.processEvents()
    window.repaint()
    took = (time.perf_counter() - begin) * 1e3
    report(f"opening {len(long.messages):,} messages to first paint (ms)", f"{took:.0f}", "< 300")
    await asyncio.sleep(0.5)
    report("memory for them (MB)", f"{memory_mb() - before:.0f}", "< 40")
    column = window.chat.column
    bar = column.verticalScrollBar()
    for step in range(40):
        bar.setValue(bar.maximum() * (40 - step) // 40)
        await asyncio.sleep(0.01)
    bar.setValue(bar.maximum())
    await asyncio.sleep(0.2)
    # Views that were made and given up leave holes in the heap, which glibc keeps.
    report("  once scrolled through (MB)", f"{memory_mb() - before:.0f}", "none")


async def searching(store: SqliteConversationStore) -> None:
    """Search in twenty thousand messages."""
    for number in range(20):
        written = conversation(f"Conversation {number}", 1000)
        store.save(written)
        store.save_messages(written, list(written.tree))
    await store.settled()
    slowest = 0.0
    for query in ("stop", "model answer", "message 47", "Question 3", "prompt engine window"):
        took = []
        for _ in range(5):
            begin = time.perf_counter()
            hits = await store.search(query)
            took.append((time.perf_counter() - begin) * 1e3)
            assert hits, query
        slowest = max(slowest, statistics.median(took))
    report("search in 20,000 messages, slowest of five (ms)", f"{slowest:.0f}", "< 50")


async def measure(application: QApplication, folder: Path, tokens: int, messages: int) -> None:
    """Measure everything that needs a window."""
    # Words that come again are not guessed, so that the answer keeps its pace.
    engine = Engine(loader=staged(folder).load, limits=Limits(plain_decoding=True))
    store = await open_store(folder / "conversations.db")
    long = conversation("Long", messages)
    long.updated_at = 1
    store.save(long)
    store.save_messages(long, list(long.tree))
    store.save(Conversation("Empty", updated_at=9e9))
    await store.close()
    # Opened again, so that what is shown has to be read.
    store = await open_store(folder / "conversations.db")
    window = main_window(engine, Theme(application, "light"), store=store)
    window.resize(1280, 820)
    window.show()
    window.start(folder)
    await eventually(lambda: window.workspace.model.stage == "ready")
    await asyncio.sleep(0.5)
    kept = window.workspace.conversations
    every = [kept.at(row) for row in range(kept.rowCount())]
    await opening(window, application, next(one for one in every if one.title == "Long"))
    window.workspace.settings.change(ConversationSettings(max_tokens=tokens))
    what = f"{tokens:,} tokens in {messages:,} messages"
    alone = await answer(window)
    say(what, alone)
    with api_load(engine):
        await eventually(lambda: engine.status.running >= STREAMS)
        loaded = await answer(window)
    say(f"the same, {STREAMS} API streams", loaded)
    report("  99th percentile, of that alone", f"{loaded.p99_ms / alone.p99_ms:.2f}", "< 1.20")
    report("  share of a core, of that alone", f"{loaded.core / alone.core:.2f}", "< 1.20")
    await searching(store)
    window.quit()
    await window.finish()
    await store.close()
    await engine.aclose()


async def collected(work: Coroutine[Any, Any, None]) -> None:
    """Do work with garbage collected as the program has it."""
    with collected_on(asyncio.get_running_loop()):
        await work


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--messages", type=int, default=1000)
    options = parser.parse_args()
    show_window()
    shown = statistics.median(show_window() for _ in range(5))
    report("window shown, from process start (s)", f"{shown:.2f}", "< 1.50")
    application = QApplication([])
    application.setQuitOnLastWindowClosed(False)
    with (
        tempfile.TemporaryDirectory() as name,
        asyncio.Runner(loop_factory=lambda: qasync.QEventLoop(application)) as runner,
    ):
        runner.run(collected(measure(application, Path(name), options.tokens, options.messages)))


if __name__ == "__main__":
    main()
