"""Measures the window: start, a long conversation, text zoom, a long answer, search, API load.

    python -m tests.lab.benchmarks.window [--tokens 2000] [--messages 1000]

Offscreen, the program that ``fullstop`` starts: its application, its composition, its settings and
store in temporary folders. Only the model is a script that writes at a pace. A beat that is due
every 5 ms tells how long the main thread was busy; processor time is that thread's. The
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
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import mlx.core as mx
import psutil
import qasync
from mlx import nn
from mlx_lm.models.cache import KVCache

import app.desktop.window
from api.server.server import ServerThread
from api.transport.config import ServerConfig
from app import paths
from app.composition import open_engine
from app.desktop.application import Application
from app.process import EndingSignals
from app.settings.options import ChatOptions
from app.store.conversation_store import SqliteConversationStore, open_store
from engine.scheduling.service import Engine
from tests.lab.benchmarks.inspector import Beats
from tests.lab.benchmarks.measuring import report
from tests.lab.benchmarks.startup import show_window
from tests.support.answers.said import finished_run
from tests.support.scripted import GO, Stage
from tests.ui.driving import eventually
from ui.records.conversations import Conversation, ConversationSettings
from ui.records.messages import ConversationMessage
from ui.window.main_window import MainWindow

STREAMS = 16
ROUNDS = 4  # the first one warms up
TITLES = ("Long", "Longer", "Large", "Empty")
STEP_S = 0.008
VOCABULARY = ("stop", "sequence", "token", "model", "answer", "prompt", "cache", "engine", "window")

# Asks again and again for the long answer until it is told to end, sixteen at a time.
_CLIENT = """
import http.client, json, sys, threading
port, streams = int(sys.argv[1]), int(sys.argv[2])
body = json.dumps({"model": sys.argv[3], "stream": True, "max_tokens": 4000,
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
    [model] = [one.id for one in engine.models if one.is_default]
    client = subprocess.Popen(
        [sys.executable, "-c", _CLIENT, str(address.port), str(STREAMS), model],
        stdin=subprocess.PIPE,
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
    report(f"{what}: longest stall (ms)", f"{figures.longest_ms:.1f}", "< 50")
    report(f"{what}: 99th percentile (ms)", f"{figures.p99_ms:.1f}", "< 16")
    pace = f"< 0.25   ({figures.tokens_per_s:.0f} tok/s)"
    report(f"{what}: share of a core", f"{figures.core:.2f}", pace)


@dataclass(frozen=True)
class Cost:
    """What one change of the window cost the main thread, until it is at rest."""

    stall_ms: float
    core_ms: float


async def cost_of(change: Callable[[], object], is_done: Callable[[], bool]) -> Cost:
    """Measure a change until the main thread has been at rest for a while."""
    beats = Beats()
    beats.start()
    await asyncio.sleep(0.02)
    used_s = time.thread_time()
    change()
    await eventually(is_done, 600)
    seen = -1
    while seen < 0 or max(beats.late_ms[seen:], default=0.0) > 15:
        seen = len(beats.late_ms)
        await asyncio.sleep(0.1)
    beats.stop()
    return Cost(max(beats.late_ms), (time.thread_time() - used_s) * 1e3)


async def opening(window: MainWindow, kept: dict[str, Conversation], messages: int) -> None:
    """Open conversations in turn, change the size of text, and scroll through a long one."""

    async def opened(title: str) -> Cost:
        return await cost_of(
            lambda: window.workspace.open(kept[title]),
            lambda: window.workspace.current.conversation is kept[title],
        )

    def sized(percent: int) -> None:
        window.preferences.change(text_percent=percent)

    before = memory_mb()
    await opened("Long")
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
    rounds = [{title: await opened(title) for title in kept} for _ in range(ROUNDS)][1:]
    costs = {
        title: Cost(
            statistics.median(one[title].stall_ms for one in rounds),
            statistics.median(one[title].core_ms for one in rounds),
        )
        for title in kept
    }
    say_cost(f"opening {messages:,} messages", costs["Long"])
    ratio = costs["Longer"].core_ms / costs["Long"].core_ms
    report(f"  {5 * messages:,} messages, of that (processor)", f"{ratio:.2f}", "< 1.20")
    say_cost("opening an answer of 90,000 characters", costs["Large"])
    say_cost("opening an empty conversation", costs["Empty"])
    await opened("Long")
    zooms = [await cost_of(partial(sized, n), lambda: True) for n in (110, 120, 110, 100)]
    stall = statistics.median(one.stall_ms for one in zooms)
    say_cost("a step of text zoom", Cost(stall, statistics.median(o.core_ms for o in zooms)))


def say_cost(what: str, cost: Cost) -> None:
    report(f"{what}: longest stall (ms)", f"{cost.stall_ms:.0f}", "< 300")
    report("  processor time (ms)", f"{cost.core_ms:.0f}", "none")


async def searching(store: SqliteConversationStore) -> None:
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


async def kept_conversations(messages: int) -> None:
    """Write conversations into the store that the program opens."""
    large = "\n\n".join(text(number) for number in range(300))[:90_000]
    answered = finished_run(large, thinking="", tool_calls=[])
    written = {
        "Long": conversation("Long", messages),
        "Longer": conversation("Longer", 5 * messages),
        "Large": Conversation(
            "Large",
            [ConversationMessage("user", "All"), ConversationMessage("assistant", run=answered)],
        ),
        "Empty": Conversation("Empty"),
    }
    store = await open_store(paths.conversations_file())
    for number, one in enumerate(written.values(), 1):
        one.updated_at = number  # the empty one is the newest, which is shown first
        store.save(one)
        store.save_messages(one, list(one.tree))
    await store.close()


def window_of(application: Application) -> MainWindow | None:
    """Return the program's window, once there is one."""
    shown = [one for one in application.topLevelWidgets() if isinstance(one, MainWindow)]
    return shown[0] if shown else None


async def measure(
    application: Application, folder: Path, tokens: int, messages: int, signals: EndingSignals
) -> None:
    """Start the program, and measure everything that needs its window."""
    paths.data_folder().mkdir(parents=True)
    await kept_conversations(messages)
    engines: list[Engine] = []

    def loader(model: Path, *rest: Any, **named: Any) -> Any:
        return staged(folder).load(model, *rest, **named)

    # Words that come again are not guessed, so that the answer keeps its pace.
    with patch.object(
        app.desktop.window, "open_engine", partial(noted_engine, engines, loader=loader)
    ):
        options = ChatOptions(folder, is_plain=True)
        session = asyncio.create_task(app.desktop.window.session(application, options, signals))
        await eventually(lambda: window_of(application) is not None, 60)
    window = window_of(application)
    assert window is not None
    window.resize(1280, 820)
    await eventually(lambda: window.workspace.model.stage == "ready", 60)
    await asyncio.sleep(0.5)
    listed = window.workspace.conversations
    kept = {one.title: one for one in map(listed.at, range(listed.rowCount()))}
    await opening(window, {title: kept[title] for title in TITLES}, messages)
    window.workspace.settings.change(ConversationSettings(max_tokens=tokens))
    what = f"{tokens:,} tokens in {messages:,} messages"
    alone = await answer(window)
    say(what, alone)
    [engine] = engines
    with api_load(engine):
        await eventually(lambda: engine.status.running >= STREAMS)
        loaded = await answer(window)
    say(f"the same, {STREAMS} API streams", loaded)
    report("  99th percentile, of that alone", f"{loaded.p99_ms / alone.p99_ms:.2f}", "< 1.20")
    report("  share of a core, of that alone", f"{loaded.core / alone.core:.2f}", "< 1.20")
    store = window.workspace.store
    assert isinstance(store, SqliteConversationStore)
    await searching(store)
    window.quit(asks=False)
    await session


@asynccontextmanager
async def noted_engine(engines: list[Engine], *words: Any, **named: Any) -> AsyncIterator[Engine]:
    """Open the program's engine with another loader, and note it."""
    async with open_engine(*words, **named) as engine:
        engines.append(engine)
        yield engine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--messages", type=int, default=1000)
    options = parser.parse_args()
    show_window()
    shown = statistics.median(show_window() for _ in range(5))
    report("window shown, from process start (s)", f"{shown:.2f}", "< 1.50")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for variable in ("FULLSTOP_DATA_DIR", "FULLSTOP_CONFIG_DIR", "HF_HUB_CACHE"):
            os.environ[variable] = str(folder / variable)
        os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"
        application = Application()
        with (
            closing(EndingSignals()) as signals,
            asyncio.Runner(loop_factory=lambda: qasync.QEventLoop(application)) as runner,
        ):
            runner.run(measure(application, folder, options.tokens, options.messages, signals))


if __name__ == "__main__":
    main()
