"""The command line: reads arguments into options and passes them to one command.

Imports a command only when it is called, so that help and version are fast. Main thread.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from api.terminal_text import harmless
from app import exits
from app.command_line import WINDOW_PREFIX, options_of, parsed, refuse_options_before
from app.exits import CommandError
from app.settings.options import WINDOW, Command
from app.settings.serve import ServeOptions, resolve_serve_options
from engine.processes import collector_paused

RUN_ENDING = ".fullstop-run"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    Args:
        argv: Arguments without the program's name; None reads them from the process.
    """
    words = _with_opened_file(list(sys.argv[1:] if argv is None else argv))
    try:
        given = parsed(words)
        if given.self_test:
            return _self_test(words)
        code = _run(given)
        if (composition := sys.modules.get("app.composition")) is not None:
            composition.end_if_stuck(code)
        return code
    except SystemExit as ended:  # argparse has printed help, version or the error
        return ended.code if isinstance(ended.code, int) else exits.USAGE
    except CommandError as failed:
        print(f"fullstop: {harmless(str(failed))}", file=sys.stderr)
        return failed.exit_code
    except BrokenPipeError:
        return exits.leave_reader()
    except KeyboardInterrupt:
        print("fullstop: interrupted", file=sys.stderr)
        return exits.INTERRUPTED


def _with_opened_file(words: list[str]) -> list[str]:
    """Read ``fullstop FILE`` as ``fullstop --open FILE``, as file managers open saved runs.

    A word with a dot or a slash is not a command.
    """
    first = words[0] if words else ""
    is_path = not first.startswith("-") and ("." in first or os.sep in first)
    if is_path and (Path(first).is_file() or first.endswith(RUN_ENDING)):
        return ["--open", *words]
    return words


def _run(given: argparse.Namespace) -> int:
    outer: Command = given.command
    refuse_options_before(outer, given)
    command: Command = getattr(given, "action", outer)
    options: Any = given
    if command.options is ServeOptions:
        from app.process import end_before_start

        end_before_start()
        options = resolve_serve_options(vars(given), os.environ)
    elif command.options is not None:
        prefix = WINDOW_PREFIX if command is WINDOW else ""
        options = options_of(command.options, vars(given), prefix)
    module, _, function = command.work.partition(":")
    with collector_paused():
        work = importlib.import_module(module)
    code: int = getattr(work, function)(options)
    return code


def _self_test(words: list[str]) -> int:
    if len(words) > 1:
        raise CommandError("--self-test takes no other options: fullstop --self-test", exits.USAGE)
    from app.self_test import run

    return run()
