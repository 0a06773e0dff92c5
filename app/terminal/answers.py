"""Streams an answer to a terminal, and reads the files that go with its prompt. Main thread."""

import os
from collections.abc import Iterable

from app import paths
from app.exits import CommandError
from app.printer import Printer
from app.signals import Interrupts
from engine import Answer, Engine
from engine.recording.run_trace import RunTrace, trace_for
from engine.values.events import Finished, TextDelta, ThinkingDelta, ToolCallCompleted
from engine.values.request import GenerationRequest, ToolCall
from ui.records.attachments import Attachment
from ui.records.documents import FileReader
from ui.words import FileRefused


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


def read_files(files: Iterable[str], printer: Printer | None = None) -> tuple[Attachment, ...]:
    """Read text, PDF and Word files, or raise ``CommandError``; remarks go to standard error."""
    printer = printer or Printer()
    read = []
    for typed in files:
        file_path = paths.typed_path(typed)
        if not os.path.exists(file_path):
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
        read.append(file)
    return tuple(read)
