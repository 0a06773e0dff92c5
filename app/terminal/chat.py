"""A conversation in the terminal, for machines without a display: same engine, same reasons.

Knows no window. Main thread, on one event loop for the whole conversation.
"""

import asyncio

from prompt_toolkit import PromptSession

from app.composition.engines import load, open_engine
from app.process import exits
from app.process.interrupts import Interrupts
from app.settings.options import ChatOptions
from app.terminal.chat_session import ChatSession
from app.terminal.printer import Printer
from app.terminal.streamed_answer import answer
from engine import Engine, EngineError, Limits, figures, sentence
from ui.words.failures import failure_words

_PROMPT = "you> "


class _Interrupted(Exception):
    """Ctrl-C was typed as a key. Not ``KeyboardInterrupt``, which asyncio treats specially."""


def run(options: ChatOptions) -> int:
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


async def _read(prompt: PromptSession[str], interrupts: Interrupts) -> str | None:
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
