"""``fullstop ask``: answers one prompt in the terminal and says why the answer ended.

Imports neither the window nor the server. Main thread, on an event loop of its own.
"""

import asyncio
import codecs
import dataclasses
import json
import os
import stat
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

from app import exits, paths
from app.engines import load, open_engine
from app.exits import CommandError
from app.printer import Printer
from app.settings.options import AskOptions, ModelOptions, RunOptions
from app.signals import Interrupts
from app.terminal.answers import read_files, stream_answer
from app.terminal.status_line import LoadMeter, live_line
from engine import Answer
from engine.errors import EngineError, InvalidRequest
from engine.files.causes import os_cause
from engine.files.safe_files import write_whole
from engine.recording.run_trace import RunTrace
from engine.recording.saved_run import to_json
from engine.stopping.record import StopKind
from engine.values.figures import figures
from engine.values.limits import Limits
from engine.values.request import Message, TraceLevel
from engine.values.verdict import plain_cause, sentence
from ui.records.attachments import with_attachments

_MAX_CHARS = 16_000_000
_EXIT_CODES = {StopKind.CANCELLED: exits.INTERRUPTED, StopKind.ERROR: exits.FAILURE}


def run(options: AskOptions) -> int:
    """Answer the prompt and return the exit code."""
    prompt = with_attachments(whole_prompt(options.prompt), read_files(options.files))
    if options.saved_run is not None and not options.saved_run.parent.is_dir():
        raise CommandError(
            f"--save-run: there is no folder {options.saved_run.parent}", exits.USAGE
        )
    return asyncio.run(_ask(options, prompt))


def run_model(options: RunOptions) -> int:
    """Answer the prompt or piped text; chat without either. Return the exit code."""
    prompt = " ".join(options.prompt)
    of_model = {field.name: getattr(options, field.name) for field in fields(ModelOptions)}
    if not prompt and sys.stdin is not None and sys.stdin.isatty():
        from app.terminal.chat import chat

        return chat(ModelOptions(**of_model), options.files)
    return run(AskOptions(**of_model, prompt=prompt or "-", files=options.files))


def as_json(given: Answer) -> dict[str, Any]:
    """Return an answer as the object that ``--json`` prints."""
    finished = given.finished
    facts: dict[str, Any] = {
        "text": given.text,
        "thinking": given.thinking,
        "stop": dataclasses.asdict(finished.stop),
        "usage": dataclasses.asdict(finished.usage),
        "timing": dataclasses.asdict(finished.timing),
        "speculation": dataclasses.asdict(finished.speculation),
    }
    if finished.budget_end is not None:
        facts["budget_end"] = dataclasses.asdict(finished.budget_end)
    if finished.error is not None:
        facts["error"] = finished.error
    return facts


async def _ask(options: AskOptions, prompt: str) -> int:
    printer = Printer()
    async with open_engine(Limits(plain_decoding=options.is_plain)) as engine:
        async with live_line(LoadMeter(engine).text, sys.stderr):
            await load(engine, options.model or paths.demo_model(), options.draft)
        request = options.answer.request((Message("user", prompt),))
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
            _save_run(options.saved_run, trace, prompt)
        if options.is_json:
            print(json.dumps(as_json(given), ensure_ascii=False), flush=True)
        else:
            printer.end_line()
            printer.remark(f"[{' · '.join((sentence(given.finished), *figures(given.finished)))}]")
    return _EXIT_CODES.get(given.finished.stop.kind, exits.OK)


def _save_run(path: Path, trace: RunTrace, prompt: str) -> None:
    try:
        write_whole(path, to_json(trace, prompt))
    except OSError as error:
        raise CommandError(f"--save-run: cannot write {path}: {os_cause(error)}") from error


def whole_prompt(given: str) -> str:
    """Return the prompt with the text that is piped into the program; ``-`` is that text alone."""
    if given == "-":
        given = _standard_input()
    elif given and _is_piped() and (piped := _standard_input()).strip():
        # The text comes first, as attached files do in the window.
        given = f"{piped}\n\n{given}"
    if not given:
        raise CommandError("PROMPT is empty: give the text to answer", exits.USAGE)
    try:
        given.encode()
    except UnicodeEncodeError as error:
        raise CommandError("PROMPT is not valid UTF-8", exits.USAGE) from error
    return given


def _standard_input() -> str:
    if sys.stdin is None:
        raise CommandError("PROMPT is - but standard input is closed", exits.USAGE)
    # A character of UTF-8 has at most four bytes.
    raw = sys.stdin.buffer.read(4 * _MAX_CHARS + 1)
    encoding = _encoding(raw)
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise CommandError(
            f"standard input is not {encoding.removesuffix('-sig').upper()} (byte {error.start}); "
            "convert it first: iconv -f ENCODING -t UTF-8",
            exits.USAGE,
        ) from error
    text = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")
    if len(text) > _MAX_CHARS:
        raise CommandError(
            f"standard input has more than {_MAX_CHARS:,} characters, which no model's context "
            "holds: pipe less",
            exits.USAGE,
        )
    return text


def _encoding(raw: bytes) -> str:
    """Return UTF-16 for text that begins with its mark or an ASCII character in it; else UTF-8."""
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if raw[:1] != b"\0" == raw[1:2]:
        return "utf-16-le"
    return "utf-16-be" if raw[:1] == b"\0" != raw[1:2] else "utf-8-sig"


def _is_piped() -> bool:
    """Return whether standard input is a pipe or a file; others may stay open for ever."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # there is none, or it is closed
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)
