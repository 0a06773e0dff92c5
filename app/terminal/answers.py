"""Streams an answer to a terminal, and reads the files that go with its prompt. Main thread."""

import dataclasses
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from api.terminal_text import harmless_json
from app import exits, paths
from app.exits import CommandError
from app.printer import Printer
from app.process.signals import Interrupts
from app.settings.options import AskOptions
from engine import Answer, Engine
from engine.errors import EngineError, InvalidRequest
from engine.files.causes import os_cause
from engine.files.safe_files import write_whole
from engine.recording.run_trace import RunTrace, trace_for
from engine.recording.saved_run import fork_to_fields, to_json
from engine.stopping.record import StopKind
from engine.values.events import Finished, TextDelta, ThinkingDelta, ToolCallCompleted
from engine.values.figures import figures
from engine.values.request import Fork, GenerationRequest, Picture, ToolCall, TraceLevel
from engine.values.verdict import plain_cause, sentence
from ui.records.attachments import Attachment, kept_as, picture_kind
from ui.records.documents import FileReader
from ui.records.pictures import kept_name
from ui.words import FileRefused

_EXIT_CODES = {StopKind.CANCELLED: exits.INTERRUPTED, StopKind.ERROR: exits.FAILURE}


async def stream_answer(
    engine: Engine, request: GenerationRequest, printer: Printer | None, interrupts: Interrupts
) -> tuple[Answer, RunTrace]:
    """Generate an answer and show it as it arrives; return all of it, and its recording.

    Ctrl-C ends it within a step; it is then returned with kind ``cancelled``. If the printer
    raises, the generation is cancelled.

    Raises:
        EngineError: The request was refused.
    """
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
    return Answer("".join(text), "".join(thinking), tuple(calls), finished), trace


async def show_answer(
    options: AskOptions,
    engine: Engine,
    request: GenerationRequest,
    question: str,
    printer: Printer,
    remark: str = "",
) -> int:
    """Answer a request in the form that the options name, save it, and return the exit code."""
    if options.saved_run is not None:
        request = dataclasses.replace(request, trace=TraceLevel.STOPS)
    try:
        with Interrupts() as interrupts:
            given, trace = await stream_answer(
                engine, request, None if options.is_json else printer, interrupts
            )
    except InvalidRequest as error:
        raise CommandError(str(error), exits.USAGE) from error
    except EngineError as error:
        raise CommandError(plain_cause(str(error))) from error
    if options.saved_run is not None:
        save_run(options.saved_run, trace, question)
    print_end(given, printer, request.fork, remark, is_json=options.is_json)
    return _EXIT_CODES.get(given.finished.stop.kind, exits.OK)


def print_end(
    given: Answer, printer: Printer, fork: Fork | None = None, remark: str = "", *, is_json: bool
) -> None:
    """Print an answer as JSON, or the end of an answer whose text was printed."""
    if is_json:
        print(harmless_json(as_json(given, fork)), flush=True)
        return
    no_effect = given.finished.details.no_effect
    unused = f"no effect: {', '.join(no_effect)}" if no_effect else ""
    facts = (remark, sentence(given.finished), *figures(given.finished), unused)
    printer.end_line()
    printer.remark(f"[{' · '.join(filter(None, facts))}]")


def save_run(path: Path, trace: RunTrace, prompt: str) -> None:
    """Write the file of a run; raises ``CommandError``."""
    try:
        write_whole(path, to_json(trace, prompt))
    except OSError as error:
        raise CommandError(f"--save-run: cannot write {path}: {os_cause(error)}") from error


def as_json(given: Answer, fork: Fork | None = None) -> dict[str, Any]:
    """Return an answer as the object that ``--json`` prints."""
    finished = given.finished
    facts: dict[str, Any] = {
        "text": given.text,
        "thinking": given.thinking,
        "verdict": sentence(finished),
        "stop": dataclasses.asdict(finished.stop),
        "usage": dataclasses.asdict(finished.usage),
        "timing": dataclasses.asdict(finished.timing),
        "speculation": dataclasses.asdict(finished.speculation),
    }
    details = dataclasses.asdict(finished.details)
    facts.update((name, fact) for name, fact in details.items() if fact)
    if finished.error is not None:
        facts["error"] = finished.error
    if fork is not None:
        facts["fork"] = fork_to_fields(fork)
    return facts


def read_files(
    files: Iterable[str], printer: Printer | None = None
) -> tuple[tuple[Attachment, ...], dict[str, Picture]]:
    """Read pictures, text, PDF and Word files, or raise ``CommandError``.

    The pictures' contents are returned beside the files. Remarks go to standard error.
    """
    printer = printer or Printer()
    pictures: dict[str, Picture] = {}

    def store(name: str, data: bytes) -> Attachment:
        if not picture_kind(data):
            raise FileRefused(f"{name} is an image of an unknown kind. Save it as PNG or JPEG.")
        pictures[kept_name(data)] = Picture(data, field=f"--file {name}")
        return kept_as(name, kept_name(data))

    read = []
    for typed in files:
        file_path = paths.typed_path(typed)
        if not os.path.exists(file_path):
            raise CommandError(f"there is no file {file_path}")
        reader = FileReader(file_path, store_picture=store)
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
        read.append(file)
    return tuple(read), pictures
