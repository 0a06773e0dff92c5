"""Prints an answer, the state of work and a failure in a terminal, as far as it can show them."""

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import TextIO

from api.terminal_text import harmless, on_one_line
from app import exits
from app.process.streams import (
    CLEAR_LINE,
    OutputError,
    discard_output,
    drain_streams,
    prepare_streams,
    takes_controls,
)


def run_cli(program: str, work: Callable[[], int]) -> int:
    """Do the work of a command; print a failure as one line. Return the exit code."""
    prepare_streams()
    try:
        try:
            code = work()
        except SystemExit as ended:  # argparse has printed help, version or the error
            code = ended.code if isinstance(ended.code, int) else exits.USAGE
        except exits.CommandError as failed:
            print(f"{program}: {harmless(str(failed))}", file=sys.stderr)
            code = failed.exit_code
        except KeyboardInterrupt:
            print(f"{program}: interrupted", file=sys.stderr)
            code = exits.INTERRUPTED
        drain_streams()
    except OutputError as unwritten:
        print(f"{program}: {unwritten}", file=sys.stderr)
        discard_output()
        return exits.FAILURE
    except BrokenPipeError:
        discard_output()
        return exits.BROKEN_PIPE
    return code


def columns_of(stream: TextIO) -> int:
    """Return how many columns a terminal has: this one, wherever standard output goes."""
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):  # it is none, or no file at all
        columns = 0
    return columns or shutil.get_terminal_size().columns


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return columns of text, as wide as their widest cell."""
    cells = [head, *([on_one_line(cell, 80) for cell in row] for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(head))]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )
    return "".join(f"{line}\n" for line in lines)


_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"


class Printer:
    """Writes an answer to standard output and everything else to standard error.

    Thinking and remarks go to standard error, so that a pipe receives only the answer; on a
    terminal they are dim. Control characters in a model's text must not control the terminal, so
    they are shown as escapes unless a pipe receives the exact answer.
    """

    def __init__(
        self, out: TextIO | None = None, err: TextIO | None = None, *, is_exact: bool = True
    ) -> None:
        self._out = sys.stdout if out is None else out
        self._err = sys.stderr if err is None else err
        self._shows_controls = self._out.isatty() or not is_exact
        self._err_is_terminal = takes_controls(self._err)
        self._last_out = "\n"
        self._last_err = "\n"

    def text(self, text: str) -> None:
        self._finish_line_of_thinking()
        self._out.write(harmless(text) if self._shows_controls else text)
        self._out.flush()
        self._last_out = text[-1:] or self._last_out

    def thinking(self, text: str) -> None:
        line = harmless(text)
        self._err.write(f"{_DIM}{line}{_PLAIN}" if self._err_is_terminal else line)
        self._err.flush()
        self._last_err = text[-1:] or self._last_err

    def remark(self, line: str) -> None:
        self._finish_line_of_thinking()
        text = harmless(line)
        text = f"{_DIM}{text}{_PLAIN}" if self._err_is_terminal else text
        print(text, file=self._err, flush=True)

    def end_line(self) -> None:
        if self._last_out != "\n":
            self._out.write("\n")
            self._out.flush()
            self._last_out = "\n"

    def status(self, line: str) -> None:
        """Show a temporary line on a terminal; an empty one removes it."""
        if self._err_is_terminal:
            # A wider line would wrap, and the part above would remain.
            shown = on_one_line(line)[: columns_of(self._err) - 1]
            text = f"{_DIM}{shown}{_PLAIN}" if line else ""
            self._err.write(f"{CLEAR_LINE}{text}")
            self._err.flush()

    def _finish_line_of_thinking(self) -> None:
        if self._last_err != "\n":
            self._err.write("\n")
            self._err.flush()
            self._last_err = "\n"
