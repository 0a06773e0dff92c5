"""The lines of ``serve``: address, model, key and load."""

import asyncio
import io
import logging
import re
import threading
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from api.service.config import ServerConfig
from api.service.metrics import Metrics
from app.commands.serve import server_banner
from app.terminal.status_line import LoadMeter, live_line
from engine.engine import Engine
from engine.inference.backend import LoadProgress, OnLoadProgress
from engine.library.model_info import EosToken, ModelInfo
from engine.scheduling.model_list import ModelStatus
from engine.stopping.record import StopInfo, StopKind
from engine.values.events import Finished, Timing, Usage
from tests.engine.scheduling.stages import until
from tests.support.scripted import Stage

URL = "http://127.0.0.1:1"
MODEL = ModelInfo(
    "small", Path("/m"), "llama", 4096, 10, (EosToken(0, "</s>", "x"),), False, False, 3_900_000, 0
)


class Terminal(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.has_shown = asyncio.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if "1 answering" in text:
            self.has_shown.set()
        return super().write(text)


def meter(statuses: Sequence[ModelStatus]) -> LoadMeter:
    return LoadMeter(cast(Engine, SimpleNamespace(models=statuses)))


@pytest.fixture(autouse=True)
def usual_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


def test_the_banner_names_model_context_address_and_key() -> None:
    text = "\n".join(server_banner(URL, MODEL, ServerConfig()))
    assert "small (context 4,096 tokens, 3.9 MB)" in text
    assert f"{URL}/v1" in text
    assert "API key  none" in text
    assert "API key  required" in "\n".join(
        server_banner(URL, MODEL, ServerConfig(api_key="secret"))
    )
    assert "secret" not in "\n".join(server_banner(URL, MODEL, ServerConfig(api_key="secret")))


def test_the_live_line_counts_the_answers_of_all_models_and_totals() -> None:
    metrics = Metrics()
    metrics.request_began()
    metrics.request_ended("Chat", "POST /x", 200, 0.1)
    usage = Usage(prompt_tokens=3, output_tokens=1234)
    metrics.answer_ended(Finished(StopInfo(StopKind.EOS), usage, Timing()), "small")
    statuses = [
        ModelStatus(id="small", state="ready", running=2, waiting=1),
        ModelStatus(id="other", state="ready", running=3),
    ]
    text = meter(statuses).server_text(metrics)
    assert text == "5 answering · 1 waiting · 1 request · 1,234 output tokens"
    assert "unloaded" in meter([ModelStatus(info=MODEL)]).server_text(None)
    assert "unloaded" not in meter([*statuses, ModelStatus(info=MODEL)]).server_text(None)


def test_every_model_that_loads_is_shown() -> None:
    progress = LoadProgress("weights", 1 << 30, 1 << 32)
    loading = [
        ModelStatus(id=name, state="loading", message=name, loading=progress) for name in "ab"
    ]
    text = meter(loading).text()
    assert text.count("loading: ") == 2
    assert text.endswith("b")


def test_a_load_that_reads_nothing_for_long_shows_on_a_terminal_that_it_goes_on(
    tmp_path: Path,
) -> None:
    goes_on = threading.Event()

    def stalled(folder: Path, *, on_progress: OnLoadProgress, **options: Any) -> Any:
        on_progress(LoadProgress("weights", 1 << 30, 1 << 32))
        goes_on.wait(120)
        return Stage(folder, {}).load(folder, on_progress=on_progress, **options)

    async def lines_of_load() -> list[str]:
        """Return the lines of a load while it reads nothing, until they have changed twice."""
        engine, terminal = Engine(loader=stalled), Terminal()
        shown: dict[str, None] = {}
        async with (
            asyncio.timeout(60),
            aclosing(engine),
            live_line(LoadMeter(engine).text, terminal),
        ):
            loading = asyncio.create_task(engine.load(tmp_path))
            while len(shown) < 3:
                shown |= dict.fromkeys(re.findall(r"loading: [^\r\n]*", terminal.getvalue()))
                await asyncio.sleep(0.01)
            goes_on.set()
            await loading
        return [*shown]

    shown = asyncio.run(lines_of_load())
    assert all("Reading the weights, 1.1 of 4.3 GB" in line for line in shown[-2:]), shown


@pytest.mark.parametrize(
    ("ended", "said", "fields"),
    [
        (
            ModelStatus(state="ready", info=MODEL, memory_bytes=7),
            "loaded: small",
            {"model": "small", "memory_bytes": 7},
        ),
        (ModelStatus(state="failed", message="it is damaged"), "not loaded: it is damaged", None),
    ],
)
def test_the_log_says_once_how_a_load_has_ended(
    ended: ModelStatus,
    said: str,
    fields: dict[str, object] | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    progress = LoadProgress("weights", 1 << 30, 1 << 32)
    status = [ModelStatus(state="loading", message="small", loading=progress)]

    async def play() -> None:
        logging_loads = asyncio.create_task(meter(status).log(0.001))
        await until(lambda: bool(caplog.records))
        status[0] = ended
        await until(lambda: said in caplog.messages)
        await asyncio.sleep(0.02)
        logging_loads.cancel()

    asyncio.run(play())
    assert caplog.records[0].__dict__["fields"] == {
        "phase": "weights", "done_bytes": 1 << 30, "total_bytes": 1 << 32
    }  # fmt: skip
    assert caplog.messages.count(said) == 1
    assert caplog.records[-1].__dict__.get("fields") == fields


async def test_the_line_is_redrawn_on_a_terminal_and_removed_at_the_end() -> None:
    terminal = Terminal()
    shown = iter(["1 answering", "2 answering"])

    async with live_line(lambda: next(shown, ""), terminal):
        await terminal.has_shown.wait()
    assert terminal.getvalue().endswith("\r\x1b[K")


async def test_a_pipe_gets_no_line() -> None:
    pipe = io.StringIO()

    async with live_line(lambda: "1 answering", pipe):
        await asyncio.sleep(0)
    assert pipe.getvalue() == ""
