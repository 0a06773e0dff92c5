"""A conversation in the terminal, for where there is no display: the same engine, the same reasons.

Knows no window. Main thread; its event loop runs while an answer is generated, the terminal's own
line editing while the person types.
"""

import asyncio
import contextlib

from app import exits
from app.answering import answer
from app.chat_session import ChatSession
from app.composition import load, new_engine
from app.options import ChatOptions
from app.terminal import Printer
from engine.errors import EngineError
from engine.service import Engine
from engine.verdict import figures, sentence

_PROMPT = "you> "


def run(options: ChatOptions) -> int:
    """Chat until the person leaves; return the exit code.

    Raises:
        CommandError: The model cannot be loaded.
    """
    with contextlib.suppress(ImportError):  # some builds of Python have no line editing
        import readline  # noqa: F401
    printer = Printer()
    engine = new_engine()
    with asyncio.Runner() as runner:
        try:
            printer.status(f"loading {options.model.name} …")
            runner.run(load(engine, options.model))
            printer.status("")
            printer.remark(f"{options.model.name} is ready. /help lists commands, Ctrl-D ends.")
            _converse(runner, engine, ChatSession(options.answer), printer)
        finally:
            runner.run(engine.aclose())
    return exits.OK


def _converse(
    runner: asyncio.Runner, engine: Engine, session: ChatSession, printer: Printer
) -> None:
    while not session.has_ended:
        try:
            line = input(_PROMPT)
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            print()
            printer.remark("Ctrl-D or /quit leaves")
            continue
        question = session.question(line)
        if question is None:
            if told := session.obey(line):
                printer.remark(told)
            continue
        try:
            given = runner.run(answer(engine, session.request(question), printer))
        except EngineError as error:
            printer.remark(f"not answered: {error}")
            continue
        except KeyboardInterrupt:  # before the engine had accepted the question
            printer.remark("cancelled")
            continue
        session.record(question, given)
        printer.end_line()
        printer.remark(f"[{' · '.join((sentence(given.finished), *figures(given.finished)))}]")
