"""The output of ``fullstop serve`` for the person who started it: the addresses and the load.

Knows no socket. Runs on the server's loop.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TextIO

from api.transport.config import ServerConfig
from api.transport.metrics.counting import Metrics
from app.process.terminals import columns_of, takes_controls
from engine import EngineStatus, ModelInfo, counted, size_in_words

_EACH_S = 1.0
_CLEAR_LINE = "\r\x1b[K"


def banner(url: str, model: ModelInfo | None, config: ServerConfig) -> list[str]:
    """Return what a person needs to use a server that has started."""
    key = "required" if config.api_key is not None else "none; programs may send any"
    return [
        f"  model    {_model_words(model)}",
        f"  API key  {key}",
        f"  OpenAI   {url}/v1",
        f"  others   {url} (Anthropic, Ollama, /generate; GET {url}/openapi.json lists all routes)",
        "Ctrl-C ends it.",
    ]


def facts(url: str, model: ModelInfo | None, config: ServerConfig) -> dict[str, object]:
    """Return the same for a JSON log; see ``banner``."""
    return {
        "url": url,
        "model": None if model is None else model.id,
        "context": None if model is None else model.context_length,
        "requires_key": config.api_key is not None,
    }


def load_words(status: EngineStatus, metrics: Metrics | None) -> str:
    """Return the current load in one line."""
    parts = [f"{status.running:,} answering", f"{status.waiting:,} waiting"]
    if status.state == "loading":
        parts.append("loading the model")
    elif status.is_unloaded:
        parts.append("the model is unloaded until the next request")
    if metrics is not None:
        done = sum(metrics.requests.values())
        parts += [counted(done, "request"), counted(metrics.tokens["output"], "output token")]
    return " · ".join(parts)


@contextlib.asynccontextmanager
async def live_line(words: Callable[[], str], terminal: TextIO) -> AsyncIterator[None]:
    """Show the load in a line on a terminal during the block; nothing in a pipe."""
    if not takes_controls(terminal):
        yield
        return
    showing = asyncio.create_task(_show(words, terminal))
    try:
        yield
    finally:
        showing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await showing
        _write(terminal, "")


async def _show(words: Callable[[], str], terminal: TextIO) -> None:
    while True:
        # Written again each time, because a log line may have replaced it.
        _write(terminal, words())
        await asyncio.sleep(_EACH_S)


def _write(terminal: TextIO, line: str) -> None:
    # A line that is wider than the terminal would wrap, and the part above would stay.
    terminal.write(f"{_CLEAR_LINE}{line[: columns_of(terminal) - 1]}")
    terminal.flush()


def _model_words(model: ModelInfo | None) -> str:
    if model is None:
        return "none"
    draft = "" if model.draft is None else f", draft {model.draft.id}"
    context = counted(model.context_length, "token")
    return f"{model.id} (context {context}, {size_in_words(model.weights_bytes)}{draft})"
