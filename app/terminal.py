"""What commands show in a terminal: files, streamed answers, downloads, a server's status."""

import asyncio
import contextlib
import dataclasses
import logging
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from app.exits import CommandError
from app.printer import Printer, takes_controls
from app.signals import Interrupts
from engine import (
    Answer,
    Engine,
    Finished,
    GenerationRequest,
    ModelInfo,
    ModelStatus,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolCallCompleted,
    TraceLevel,
    counted,
    format_size,
)
from engine.library.downloads import HubDownload
from engine.library.hub import DownloadProgress, HubCancelled
from engine.recording.run_trace import RunTrace, trace_for
from ui.models.model_words import TransferRate, loading_text, passed, percent
from ui.records.attachments import Attachment
from ui.records.documents import FileReader
from ui.words import FileRefused

if TYPE_CHECKING:
    from api.service.config import ServerConfig
    from api.service.metrics import Metrics


_LOGGED_EACH_S = 1.0
# Loads are logged even by a server that otherwise logs only warnings.
LOADS = logging.getLogger("app.loads")


async def answer(
    engine: Engine,
    request: GenerationRequest,
    printer: Printer | None,
    interrupts: Interrupts,
    keep: Callable[[RunTrace], None] | None = None,
) -> Answer:
    """Generate an answer, show it as it arrives, and return all of it.

    Ctrl-C ends it within a step; it is then returned with kind ``cancelled``. If the printer
    raises, the generation is cancelled.

    Raises:
        EngineError: The request was refused.
    """
    if keep is not None:
        request = dataclasses.replace(request, trace=TraceLevel.STOPS)
    is_interrupted = False

    def note() -> None:
        nonlocal is_interrupted
        is_interrupted = True

    with interrupts.calling(note):
        generation = await engine.generate(request)
    if is_interrupted:
        generation.cancel()
    trace = trace_for(generation)
    text: list[str] = []
    thinking: list[str] = []
    calls: list[ToolCall] = []
    finished: Finished | None = None
    with interrupts.calling(generation.cancel):
        try:
            async for event in generation.events():
                trace.take(event)
                match event:
                    case TextDelta():
                        text.append(event.text)
                        if printer is not None:
                            printer.text(event.text)
                    case ThinkingDelta():
                        thinking.append(event.text)
                        if printer is not None:
                            printer.thinking(event.text)
                    case ToolCallCompleted():
                        calls.append(event.call)
                    case Finished():
                        finished = event
        finally:
            generation.cancel()
    assert finished is not None, "every generation ends in Finished"
    if keep is not None:
        keep(trace)
    return Answer("".join(text), "".join(thinking), tuple(calls), finished)


def files_at(paths: Iterable[str], printer: Printer | None = None) -> tuple[Attachment, ...]:
    """Read text, PDF and Word files, or raise ``CommandError``; remarks go to standard error."""
    printer = printer or Printer()
    files = []
    for path in paths:
        file_path = Path(path).expanduser()
        if not file_path.exists():
            raise CommandError(f"there is no file {file_path}")
        reader = FileReader(file_path)
        printer.status(f"reading {reader.name} …")
        try:
            file = reader.read()
        except FileRefused as error:
            raise CommandError(str(error)) from error
        finally:
            reader.close()
            printer.status("")
        if file.remark:
            printer.remark(f"{file.title}: {file.remark}")
        files.append(file)
    return tuple(files)


def fetch(repository: str, cache: Path, printer: Printer) -> Path:
    """Download a model and show its progress; Ctrl-C raises ``HubCancelled`` and keeps the part."""
    download = HubDownload(repository, cache)
    outcome: Future[Path] = Future()

    def work() -> None:
        try:
            folder = download.run()
        except BaseException as error:
            outcome.set_exception(error)
        else:
            outcome.set_result(folder)

    if not takes_controls(sys.stderr):
        printer.remark(f"downloading {repository} …")
    rate = TransferRate()
    threading.Thread(target=work, name=f"download {repository}", daemon=True).start()
    try:
        while not outcome.done():
            printer.status(_progress_line(rate, download.progress))
            wait([outcome], 0.2)
    except KeyboardInterrupt:
        download.gives_up.set()
        # A stalled transfer does not notice that it was cancelled.
        wait([outcome], 2.0)
        raise HubCancelled("the download was cancelled; the partial download is kept") from None
    finally:
        printer.status("")
    return outcome.result()


def _progress_line(rate: TransferRate, progress: DownloadProgress) -> str:
    text = rate.text(progress)
    if progress.total_bytes:
        text = f"{percent(progress.done_bytes, progress.total_bytes):3}%  {text}"
    return text


def server_banner(url: str, model: ModelInfo | None, config: "ServerConfig") -> list[str]:
    """Return what a person needs to use a server that has started."""
    key = "required" if config.api_key is not None else "none; programs may send any"
    return [
        f"  model    {_model_text(model)}",
        f"  API key  {key}",
        f"  OpenAI   {url}/v1",
        f"  others   {url} (Anthropic, Ollama, /generate; GET {url}/openapi.json lists all routes)",
        "Ctrl-C ends it.",
    ]


def server_facts(url: str, model: ModelInfo | None, config: "ServerConfig") -> dict[str, object]:
    """Return the same for a JSON log; see ``banner``."""
    return {
        "url": url,
        "model": None if model is None else model.id,
        "context": None if model is None else model.context_length,
        "requires_key": config.api_key is not None,
    }


class LoadMeter:
    """Describes how far an engine has loaded its models, and for how long each has been loading."""

    def __init__(self, statuses: Callable[[], Iterable[ModelStatus]]) -> None:
        self._statuses = statuses
        self._began_s: dict[str, float] = {}

    def text(self) -> str:
        """Return the progress in one line; empty while nothing is loaded."""
        return "  ·  ".join(filter(None, map(self._progress, self._statuses())))

    def _progress(self, status: ModelStatus) -> str:
        if status.state != "loading":
            self._began_s.pop(status.id, None)
            return ""
        took_s = time.monotonic() - self._began_s.setdefault(status.id, time.monotonic())
        if status.loading is None:  # it has not begun, or waits for another model
            return f"{passed(took_s)}  ·  {status.message}"
        # The name comes last: it may be longer than the terminal is wide.
        return f"loading: {loading_text(status.loading, took_s, 0)}  ·  {status.message}"

    async def log(self) -> None:
        """Log the progress of each load every second, and how it ended; ends when cancelled."""
        loading: set[str] = set()
        while True:
            await asyncio.sleep(_LOGGED_EACH_S)
            for status in self._statuses():
                if text := self._progress(status):
                    progress = (
                        None if status.loading is None else dataclasses.asdict(status.loading)
                    )
                    LOADS.info("%s", text, extra={"fields": progress or {}})
                    loading.add(status.id)
                elif status.id in loading:
                    loading.discard(status.id)
                    self._log_end(status)

    def _log_end(self, status: ModelStatus) -> None:
        if status.info is not None and status.is_loaded:
            fields = {"model": status.info.id, "memory_bytes": status.memory_bytes}
            LOADS.info("loaded: %s", status.info.id, extra={"fields": fields})
        else:
            LOADS.warning("not loaded: %s", status.message)


def load_text(statuses: Sequence[ModelStatus], metrics: "Metrics | None", loading: str = "") -> str:
    """Return the current load of all models in one line."""
    running = sum(status.running for status in statuses)
    waiting = sum(status.waiting for status in statuses)
    parts = [f"{running:,} answering", f"{waiting:,} waiting"]
    if loading:
        parts.append(loading)
    elif not any(status.is_loaded for status in statuses) and any(
        status.is_unloaded for status in statuses
    ):
        parts.append("the model is unloaded until the next request")
    if metrics is not None:
        parts.append(counted(metrics.answered_requests, "request"))
        parts.append(counted(metrics.output_tokens, "output token"))
    return " · ".join(parts)


@contextlib.asynccontextmanager
async def live_line(text: Callable[[], str], terminal: TextIO) -> AsyncIterator[None]:
    """Show the load in a line on a terminal during the block; nothing in a pipe."""
    if not takes_controls(terminal):
        yield
        return
    printer = Printer(err=terminal)
    showing = asyncio.create_task(_show(text, printer))
    try:
        yield
    finally:
        showing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await showing
        printer.status("")


async def _show(text: Callable[[], str], printer: Printer) -> None:
    while True:
        # Written again each time, because a log line may have replaced it.
        printer.status(text())
        await asyncio.sleep(0.5)


def _model_text(model: ModelInfo | None) -> str:
    if model is None:
        return "none"
    draft = "" if model.draft is None else f", draft {model.draft.id}"
    if model.own_head_problem == "":
        draft += ", own draft head"
    context = counted(model.context_length, "token")
    return f"{model.id} (context {context}, {format_size(model.weights_bytes)}{draft})"
