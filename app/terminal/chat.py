"""The chat in the terminal: reads messages and commands, and shows the answers.

Main thread, on one event loop for the whole conversation.
"""

import asyncio
import re
import sys
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from app import exits, paths
from app.engines import base_of, folder_and_base, load, open_engine, read_user_template
from app.exits import CommandError
from app.printer import Printer
from app.process.signals import Interrupts, ending_in_order
from app.settings.options import ModelOptions
from app.settings.settings_file import StoredPreferences
from app.terminal.answers import stream_answer
from app.terminal.chat_session import (
    FILE_COMMANDS,
    HELP,
    PROMPT,
    SETTINGS,
    ChatSession,
    is_quote_open,
)
from app.terminal.documents import print_excerpts
from app.terminal.status_line import LoadMeter, live_line
from app.terminal.tools import ChatTools
from engine import Engine
from engine.errors import EngineError
from engine.library.model_info import ModelInfo
from engine.stopping.record import StopKind
from engine.values.figures import figures
from engine.values.limits import Limits
from engine.values.verdict import sentence
from ui.records.conversations import ChosenModel
from ui.records.prompt_fit import last_left_out
from ui.records.requests import request_for
from ui.records.tool_servers import ToolsRefused
from ui.words import describe_error

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.key_binding import KeyBindings

_NEXT_LINE = "...> "


class _Interrupted(Exception):
    """Ctrl-C was typed as a key. Not ``KeyboardInterrupt``, which asyncio treats specially."""


def chat(options: ModelOptions, files: Iterable[str] = ()) -> int:
    """Chat until the user leaves; return the exit code."""
    with ending_in_order():
        return asyncio.run(_chat(options, files))


async def _chat(options: ModelOptions, files: Iterable[str]) -> int:
    printer = Printer()
    session = ChatSession(options.answer)
    session.attach(files, printer)
    folder, base = folder_and_base(options)
    template = read_user_template(options.template, folder, base)
    async with open_engine(Limits(plain_decoding=options.is_plain)) as engine:
        session.model = await _loaded(engine, folder, base, options.draft, template)
        printer.remark(f"{session.model.id} is ready. /help lists commands, Ctrl-D ends.")
        for file in session.conversation.attachments:
            printer.remark(session.remark_on(file, "first"))
        with Interrupts() as interrupts:
            await _converse(engine, session, printer, interrupts)
    return exits.OK


async def _loaded(
    engine: Engine,
    folder: Path,
    base: Path | None,
    draft: Path | None = None,
    user_template: str | None = None,
) -> ModelInfo:
    async with live_line(LoadMeter(engine).text, sys.stderr):
        return await load(engine, folder, draft, user_template, base)


async def _converse(
    engine: Engine, session: ChatSession, printer: Printer, interrupts: Interrupts
) -> None:
    from prompt_toolkit import PromptSession  # needed for a chat alone

    prompt: PromptSession[str] = PromptSession(
        interrupt_exception=_Interrupted,
        completer=completer(),
        complete_while_typing=False,
        key_bindings=_line_keys(),
        prompt_continuation=_NEXT_LINE,
    )
    asking: PromptSession[str] = PromptSession(interrupt_exception=_Interrupted)
    stored = StoredPreferences(paths.config_folder())
    if stored.notice:
        printer.remark(stored.notice)
    ask = partial(_read, asking, interrupts)
    tools = ChatTools(printer, ask, stored.preferences().tools, session.pictures)
    try:
        while not session.has_ended:
            try:
                line = await _read(prompt, interrupts, PROMPT)
            except EOFError:
                return
            if line is None:
                printer.remark("Ctrl-D or /quit leaves")
                continue
            question = session.question(line)
            if question is not None:
                await _answer(engine, session, question, printer, interrupts, tools)
            elif reply := await asyncio.to_thread(session.obey, line):
                printer.remark(reply)
            if session.requested_tools is not None:
                name, session.requested_tools = session.requested_tools, None
                try:
                    printer.remark(await tools.switch(session.conversation, name))
                except ToolsRefused as error:
                    printer.remark(str(error))
            if session.requested_model is not None:
                await _change_model(engine, session, printer, interrupts)
    finally:
        await tools.finish()


def _line_keys() -> "KeyBindings":
    """Return the keys that begin another line of a message."""
    from prompt_toolkit.application import get_app
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    keys = KeyBindings()

    @keys.add("enter", filter=Condition(lambda: is_quote_open(get_app().current_buffer.text)))
    @keys.add("escape", "enter")
    def _begin_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys


async def _answer(
    engine: Engine,
    session: ChatSession,
    question: str,
    printer: Printer,
    interrupts: Interrupts,
    tools: ChatTools,
) -> None:
    """Answer a question; as long as the model calls tools, run them and let it go on."""
    turn, request = session.ask(question)
    allowed_calls = tools.preferences.most_calls
    while True:
        try:
            if session.model is not None and session.model.can_call_tools:
                request = replace(request, tools=await tools.offered(session.conversation))
            before = last_left_out(session.conversation.tree.path_to(turn))
            request, left_out = await session.fitted(turn, request, engine)
            if left_out is not None and left_out != before:
                printer.remark(left_out.sentence)
            print_excerpts(turn.excerpts, printer)
            given, _ = await stream_answer(engine, request, printer, interrupts)
        except EngineError as error:
            session.withdraw(turn)
            printer.remark(f"not answered: {describe_error(error)}")
            return
        answered = session.record(turn, request, given, left_out)
        printer.end_line()
        printer.remark(f"[{' · '.join((sentence(given.finished), *figures(given.finished)))}]")
        run = None if answered is None else answered.run
        if answered is None or run is None or given.finished.stop.kind is not StopKind.TOOL_CALL:
            return
        if not await tools.carry_out(session.conversation, run, interrupts, allowed_calls):
            return
        allowed_calls -= len(run.results)
        turn = answered
        request = request_for(session.conversation, session.model, answered)


async def _change_model(
    engine: Engine, session: ChatSession, printer: Printer, interrupts: Interrupts
) -> None:
    """Load the model that the user chose; the present one remains if that fails."""
    assert session.requested_model is not None
    folder, session.requested_model = session.requested_model, None
    base = await asyncio.to_thread(base_of, folder)
    loading = asyncio.ensure_future(_loaded(engine, folder, base))
    with interrupts.calling(loading.cancel):
        await asyncio.wait([loading])
    if loading.cancelled():
        printer.remark("not loaded: cancelled")
        return
    try:
        session.model = loading.result()
    except CommandError as error:
        printer.remark(f"not loaded: {error}")
        return
    session.conversation.model = ChosenModel.of(folder)
    printer.remark(f"{session.model.id} answers from here on")


def completer() -> "Completer":
    """Return the completer of slash commands and their arguments."""
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
    from prompt_toolkit.document import Document

    files = PathCompleter(expanduser=True)
    arguments: dict[str, Iterable[str]] = {
        "/stop": ("add", "remove", "list"),
        "/set": SETTINGS,
        "/thinking": ("on", "off"),
        "/model": paths.model_names(),
    }

    class Commands(Completer):
        def get_completions(
            self, document: Document, complete_event: CompleteEvent
        ) -> Iterable[Completion]:
            word, has_more, rest = document.text_before_cursor.partition(" ")
            if has_more and word in FILE_COMMANDS:
                yield from files.get_completions(Document(rest), complete_event)
                return
            if not word.startswith("/"):
                return
            typed = rest if has_more else word
            commands = dict.fromkeys(re.findall(r"^/\w+", HELP, re.MULTILINE))
            for completion in arguments.get(word, ()) if has_more else commands:
                if completion.startswith(typed):
                    yield Completion(completion, -len(typed))

    return Commands()


async def _read(prompt: "PromptSession[str]", interrupts: Interrupts, shown: str) -> str | None:
    """Return the line that the user types; None after Ctrl-C."""
    # While a line is edited, Ctrl-C is a key; just before and after that, it is a signal.
    reading = asyncio.ensure_future(prompt.prompt_async(shown, handle_sigint=False))
    with interrupts.calling(reading.cancel):
        await asyncio.wait([reading])
    if reading.cancelled():
        return None
    try:
        return reading.result()
    except _Interrupted:
        return None
