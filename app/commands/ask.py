"""``fullstop ask``: answers one prompt in the terminal and says why the answer ended.

Imports neither the window nor the server. Main thread, on an event loop of its own.
"""

import asyncio
import codecs
import os
import stat
import sys
from collections.abc import Sequence
from dataclasses import fields

from app import exits
from app.engines import folder_and_base, load, open_engine, read_user_template
from app.exits import CommandError
from app.printer import Printer
from app.settings.options import AskOptions, ModelOptions, RunOptions
from app.terminal.answers import read_files, show_answer
from app.terminal.status_line import LoadMeter, live_line
from engine.values.limits import Limits
from engine.values.request import PICTURE_MARK, GenerationRequest
from ui.records.messages import ConversationMessage, question
from ui.records.prompt_fit import MakeRequest, TokenCounter
from ui.records.requests import turns_of

_MAX_CHARS = 16_000_000


def run(options: AskOptions) -> int:
    """Answer the prompt and return the exit code."""
    if options.saved_run is not None and not options.saved_run.parent.is_dir():
        raise CommandError(
            f"--save-run: there is no folder {options.saved_run.parent}", exits.USAGE
        )
    if options.from_run is not None:
        from app.commands.fork import fork

        return fork(options)
    if options.at is not None or options.choices:
        raise CommandError("--at, --with, --token and --end need --from-run", exits.USAGE)
    prompt = whole_prompt(options.prompt or "")
    files, pictures = read_files(options.files)
    asked = question(prompt, files)

    def make(messages: Sequence[ConversationMessage], _first: str = "") -> GenerationRequest:
        return options.request(turns_of(messages, pictures)[0])

    request = make([asked])
    if options.times is not None:
        from app.commands.ends import repeat

        return repeat(options, request, asked, make)
    if options.versus_stops or options.versus_temperature is not None:
        raise CommandError("--versus-stop and --versus-temperature need --times", exits.USAGE)
    return asyncio.run(_ask(options, request, asked, make))


def run_model(options: RunOptions) -> int:
    """Answer the prompt or piped text; chat without either. Return the exit code."""
    prompt = " ".join(options.prompt)
    of_model = {field.name: getattr(options, field.name) for field in fields(ModelOptions)}
    if not prompt and sys.stdin is not None and sys.stdin.isatty():
        from app.terminal.chat import chat

        return chat(ModelOptions(**of_model), options.files)
    return run(AskOptions(**of_model, prompt=prompt or "-", files=options.files))


async def _ask(
    options: AskOptions, request: GenerationRequest, asked: ConversationMessage, make: MakeRequest
) -> int:
    prompt = request.messages[-1].content.replace(PICTURE_MARK, "(a picture)\n")
    printer = Printer()
    folder, base = folder_and_base(options)
    template = read_user_template(options.template, folder, base)
    async with open_engine(Limits(plain_decoding=options.is_plain)) as engine:
        async with live_line(LoadMeter(engine).text, sys.stderr):
            model = await load(engine, folder, options.draft, template, base)
        if asked.attached_chars:
            from app.terminal.documents import read_documents  # with the store

            request = await read_documents(asked, make, TokenCounter(engine, model), printer)
        return await show_answer(options, engine, request, prompt, printer)


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
