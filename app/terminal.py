"""What commands show in a terminal: streamed answers, a chat, downloads, a server's status."""

import asyncio
import contextlib
import dataclasses
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from app import exits
from app.composition import load, open_engine
from app.printer import Printer, columns_of, takes_controls
from app.process import Interrupts
from app.settings.options import AnswerOptions, ChatOptions
from engine import (
    Answer,
    Engine,
    EngineError,
    EngineStatus,
    Finished,
    GenerationRequest,
    InvalidRequest,
    Limits,
    Message,
    ModelInfo,
    StopKind,
    TextDelta,
    ThinkingDelta,
    TraceLevel,
    checked_strings,
    counted,
    escaped,
    figures,
    quoted,
    sentence,
    size_in_words,
)
from engine.library.downloads import download
from engine.library.hub import DownloadCancelled, DownloadProgress
from engine.recording.replay import Recording
from engine.recording.run_trace import Recorder
from ui.models.model_words import download_words, percent
from ui.words import failure_words, unescaped

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

    from api.transport.config import ServerConfig
    from api.transport.metrics import Metrics

# Shows one answer as it is generated, and lets Ctrl-C end it.
#
# Used by the commands that answer in the terminal. Main thread, on its event loop.


class AnswerSink(Protocol):
    """Where an answer is shown."""

    def text(self, text: str) -> None:
        """Show more of the answer."""

    def thinking(self, text: str) -> None:
        """Show more of the reasoning."""


class Discard:
    """A sink that shows nothing."""

    def text(self, text: str) -> None:
        """Ignore the text."""

    def thinking(self, text: str) -> None:
        """Ignore the reasoning."""


async def answer(
    engine: Engine,
    request: GenerationRequest,
    sink: AnswerSink,
    interrupts: Interrupts,
    keep: Callable[[Recording], None] | None = None,
) -> Answer:
    """Generate an answer, show it as it arrives, and return all of it.

    Ctrl-C ends it within a step; it is then returned with kind ``cancelled``. If the sink
    raises, the generation is cancelled.

    Args:
        engine: The engine.
        request: The request.
        sink: Where the answer is shown.
        interrupts: Delivers Ctrl-C; must be open.
        keep: Receives the recording of the run, which is then traced.

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
    recorder = Recorder(generation)
    text: list[str] = []
    thinking: list[str] = []
    finished: Finished | None = None
    with interrupts.calling(generation.cancel):
        try:
            async for event in generation.events():
                recorder.take(event)
                match event:
                    case TextDelta():
                        text.append(event.text)
                        sink.text(event.text)
                    case ThinkingDelta():
                        thinking.append(event.text)
                        sink.thinking(event.text)
                    case Finished():
                        finished = event
        finally:
            generation.cancel()
    assert finished is not None, "every generation ends in Finished"
    if keep is not None:
        keep(recorder.recording())
    return Answer("".join(text), "".join(thinking), (), finished)


# Downloads a model in the terminal, with a progress bar; Ctrl-C keeps the partial download.
#
# Main thread; the download itself runs on a thread of its own.

_SHOWN_EACH_S = 0.2
_BAR_CHARS = 24
# A stalled transfer does not notice that it was cancelled.
_CANCELLING_LIMIT_S = 2.0


def fetch(repository: str, cache: Path, printer: Printer) -> Path:
    """Download a model and show its progress; return its folder.

    Args:
        repository: ``owner/name``.
        cache: The folder of Hugging Face's cache.
        printer: Shows the progress on a terminal; otherwise only a line at the beginning.

    Raises:
        DownloadCancelled: Ctrl-C was typed; the partial download is kept.
        DownloadFailed: The message says why and gives a remedy.
    """
    latest, gives_up = [DownloadProgress("asking")], threading.Event()
    outcome: Future[Path] = Future()

    def work() -> None:
        try:
            folder = download(
                repository,
                cache,
                on_progress=lambda progress: latest.__setitem__(0, progress),
                gives_up=gives_up,
                endpoint=os.environ.get("HF_ENDPOINT"),
            )
        except BaseException as error:
            outcome.set_exception(error)
        else:
            outcome.set_result(folder)

    if not takes_controls(sys.stderr):
        printer.remark(f"downloading {repository} …")
    meter = _Meter()
    threading.Thread(target=work, name=f"download {repository}", daemon=True).start()
    try:
        while not outcome.done():
            printer.status(meter.line(latest[0]))
            wait([outcome], _SHOWN_EACH_S)
    except KeyboardInterrupt:
        gives_up.set()
        wait([outcome], _CANCELLING_LIMIT_S)
        raise DownloadCancelled from None
    finally:
        printer.status("")
    return outcome.result()


class _Meter:
    """Makes the progress line; the rate is the average since the transfer began."""

    def __init__(self) -> None:
        self._begun: tuple[float, int] | None = None

    def line(self, progress: DownloadProgress) -> str:
        rate, left = 0.0, None
        if progress.phase == "fetching":
            if self._begun is None:
                self._begun = time.monotonic(), progress.done_bytes
            passed_s = time.monotonic() - self._begun[0]
            arrived = progress.done_bytes - self._begun[1]
            if passed_s >= 1 and arrived > 0:
                rate = arrived / passed_s
                left = (progress.total_bytes - progress.done_bytes) / rate
        words = download_words(progress, rate, left)
        if progress.total_bytes:
            done = percent(progress.done_bytes, progress.total_bytes)
            full = _BAR_CHARS * done // 100
            words = f"[{'#' * full}{'.' * (_BAR_CHARS - full)}] {done:3} %  {words}"
        return words[: columns_of(sys.stderr) - 1]


# The output of ``fullstop serve`` for the person who started it: the addresses and the load.

_EACH_S = 1.0
_CLEAR_LINE = "\r\x1b[K"


def server_banner(url: str, model: ModelInfo | None, config: "ServerConfig") -> list[str]:
    """Return what a person needs to use a server that has started."""
    key = "required" if config.api_key is not None else "none; programs may send any"
    return [
        f"  model    {_model_words(model)}",
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


def load_words(status: EngineStatus, metrics: "Metrics | None") -> str:
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


# The state of a conversation in the terminal, and its slash commands.

HELP = """\
/stop add S        end answers before S, taken as typed; in double quotes \\n, \\t … are read
/stop remove N     remove stop number N
/stop list         show the stops
/system S          set the system prompt; nothing after it removes it
/thinking on|off   let the model reason before it answers
/new               forget the conversation, keep the settings
/help              show this
/quit              leave (also Ctrl-D)
Ctrl-C ends an answer. A message that begins with a slash is typed with two."""


class ChatSession:
    """A conversation: its turns, and how the next answer is generated."""

    def __init__(self, options: AnswerOptions) -> None:
        self.has_ended = False
        self._options = options
        self._turns: tuple[Message, ...] = ()

    @property
    def options(self) -> AnswerOptions:
        """How the next answer is generated."""
        return self._options

    @property
    def turns(self) -> tuple[Message, ...]:
        return self._turns

    def question(self, line: str) -> str | None:
        """Return the question in a typed line; None if it is a command or blank."""
        if not line.strip():
            return None
        if line.startswith("/"):
            return line[1:] if line.startswith("//") else None
        return line

    def request(self, question: str) -> GenerationRequest:
        """Return the request that answers a question after the turns so far."""
        return self._options.request((*self._turns, Message("user", question)))

    def record(self, question: str, answer: Answer) -> None:
        """Keep a turn as the person saw it; failed and empty turns are dropped."""
        if answer.finished.stop.kind is StopKind.ERROR or not (answer.text or answer.thinking):
            return
        said = Message("assistant", answer.text, thinking=answer.thinking)
        self._turns = (*self._turns, Message("user", question), said)

    def obey(self, line: str) -> str:
        """Carry out a slash command and return what to tell the person, possibly nothing."""
        if not line.strip():
            return ""
        word, _, rest = line.partition(" ")
        commands: dict[str, Callable[[str], str]] = {
            "/stop": self._stop,
            "/system": self._system,
            "/thinking": self._thinking,
            "/new": self._new,
            "/help": lambda _: HELP,
            "/quit": self._quit,
        }
        command = commands.get(word.strip())
        return command(rest) if command else f"{word} is not a command; /help lists the commands"

    def _stop(self, rest: str) -> str:
        action, _, value = rest.partition(" ")
        stops = self._options.stops
        match action.strip():
            case "add":
                return self._add_stop(value)
            case "remove":
                return self._remove_stop(value)
            case "" | "list":
                # As they are typed: what is listed here can be added again.
                typed = (escaped(stop).replace('"', '\\"') for stop in stops)
                lines = [f'{number}. "{stop}"' for number, stop in enumerate(typed, 1)]
                return "\n".join(lines) if lines else "no stops; /stop add S adds one"
            case unknown:
                return f"/stop {unknown} is not a command; use add, remove or list"

    def _add_stop(self, value: str) -> str:
        try:
            if len(value) >= 2 and value[0] == value[-1] == '"':
                value = unescaped(value[1:-1])
            stops = checked_strings([*self._options.stops, value], "stop")
        except InvalidRequest as error:
            return f"not added: {error.reason}"
        except ValueError as error:
            return f"not added: {error}"
        self._set(stops=stops)
        return f"answers end before {quoted(value)}"

    def _remove_stop(self, value: str) -> str:
        stops = self._options.stops
        if not value.strip().isdecimal() or not 1 <= int(value) <= len(stops):
            return f"/stop remove takes the number of a stop; there are {len(stops)} (/stop list)"
        index = int(value) - 1
        self._set(stops=stops[:index] + stops[index + 1 :])
        return f"removed {quoted(stops[index])}"

    def _system(self, rest: str) -> str:
        self._talk(system_prompt=rest)
        return "system prompt set" if rest else "system prompt removed"

    def _thinking(self, rest: str) -> str:
        match rest.strip():
            case "":
                self._talk(is_thinking=not self._options.conversation.is_thinking)
            case "on" | "off" as state:
                self._talk(is_thinking=state == "on")
            case unknown:
                return f"/thinking takes on or off, not {unknown}"
        return f"thinking is {'on' if self._options.conversation.is_thinking else 'off'}"

    def _new(self, _rest: str) -> str:
        forgotten = counted(len(self._turns), "turn")
        self._turns = ()
        return f"a new conversation ({forgotten} forgotten)"

    def _quit(self, _rest: str) -> str:
        self.has_ended = True
        return ""

    def _talk(self, **changes: Any) -> None:
        self._set(conversation=dataclasses.replace(self._options.conversation, **changes))

    def _set(self, **changes: object) -> None:
        self._options = dataclasses.replace(self._options, **changes)  # type: ignore[arg-type]


# A conversation in the terminal, for machines without a display: same engine, same reasons.
#
# Main thread, on one event loop for the whole conversation.

_PROMPT = "you> "


class _Interrupted(Exception):
    """Ctrl-C was typed as a key. Not ``KeyboardInterrupt``, which asyncio treats specially."""


def chat(options: ChatOptions) -> int:
    """Chat until the person leaves; return the exit code.

    Raises:
        CommandError: The model cannot be loaded.
    """
    return asyncio.run(_chat(options))


async def _chat(options: ChatOptions) -> int:
    printer = Printer()
    async with open_engine(Limits(plain_decoding=options.is_plain)) as engine:
        printer.status(f"loading {options.model.name} …")
        try:
            await load(engine, options.model, options.draft)
        finally:
            printer.status("")
        printer.remark(f"{options.model.name} is ready. /help lists commands, Ctrl-D ends.")
        with Interrupts() as interrupts:
            await _converse(engine, ChatSession(options.answer), printer, interrupts)
    return exits.OK


async def _converse(
    engine: Engine, session: ChatSession, printer: Printer, interrupts: Interrupts
) -> None:
    from prompt_toolkit import PromptSession  # needed for a chat alone

    prompt: PromptSession[str] = PromptSession(interrupt_exception=_Interrupted)
    while not session.has_ended:
        try:
            line = await _read(prompt, interrupts)
        except EOFError:
            return
        if line is None:
            printer.remark("Ctrl-D or /quit leaves")
            continue
        question = session.question(line)
        if question is None:
            if told := session.obey(line):
                printer.remark(told)
            continue
        try:
            given = await answer(engine, session.request(question), printer, interrupts)
        except EngineError as error:
            printer.remark(f"not answered: {failure_words(error)}")
            continue
        session.record(question, given)
        printer.end_line()
        printer.remark(f"[{' · '.join((sentence(given.finished), *figures(given.finished)))}]")


async def _read(prompt: "PromptSession[str]", interrupts: Interrupts) -> str | None:
    """Return the line that the person types; None after Ctrl-C."""
    # While a line is edited, Ctrl-C is a key; just before and after that, it is a signal.
    reading = asyncio.ensure_future(prompt.prompt_async(_PROMPT, handle_sigint=False))
    with interrupts.calling(reading.cancel):
        await asyncio.wait([reading])
    if reading.cancelled():
        return None
    try:
        return reading.result()
    except _Interrupted:
        return None
