"""What a terminal needs: streams of text that cannot move its cursor, and a line of status.

Knows no engine. Main thread.
"""

import sys
from typing import TextIO

# A model's output must not steer the terminal: every control character but newline and tab is
# shown as an escape.
_CONTROLS = {
    code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"
}
_DIM, _PLAIN, _CLEAR_LINE = "\x1b[2m", "\x1b[0m", "\r\x1b[K"


def harmless(text: str) -> str:
    """Return text with control characters, newline and tab apart, shown as escapes."""
    return text.translate(_CONTROLS)


class Printer:
    """Writes an answer to standard output and everything else to standard error.

    Thinking and remarks go to standard error, so that a pipe receives the answer alone; on a
    terminal they are dim, and control characters in the model's text are shown, not obeyed.
    """

    def __init__(self, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self._out = sys.stdout if out is None else out
        self._err = sys.stderr if err is None else err
        self._out_is_terminal = self._out.isatty()
        self._err_is_terminal = self._err.isatty()
        self._last_out = "\n"
        self._last_err = "\n"

    def text(self, text: str) -> None:
        """Write more of the answer; it appears at once."""
        self._finish_line_of_thinking()
        self._out.write(harmless(text) if self._out_is_terminal else text)
        self._out.flush()
        self._last_out = text[-1:] or self._last_out

    def thinking(self, text: str) -> None:
        """Write more of the reasoning; it appears at once."""
        shown = f"{_DIM}{harmless(text)}{_PLAIN}" if self._err_is_terminal else text
        self._err.write(shown)
        self._err.flush()
        self._last_err = text[-1:] or self._last_err

    def remark(self, line: str) -> None:
        """Write a line about what happened."""
        self._finish_line_of_thinking()
        shown = f"{_DIM}{harmless(line)}{_PLAIN}" if self._err_is_terminal else line
        print(shown, file=self._err, flush=True)

    def end_line(self) -> None:
        """End the answer's last line if it is open."""
        if self._last_out != "\n":
            self._out.write("\n")
            self._out.flush()
            self._last_out = "\n"

    def status(self, line: str) -> None:
        """Show a passing line where a person watches; an empty one removes it."""
        if self._err_is_terminal:
            self._err.write(f"{_CLEAR_LINE}{_DIM}{line}{_PLAIN}" if line else _CLEAR_LINE)
            self._err.flush()

    def _finish_line_of_thinking(self) -> None:
        if self._last_err != "\n":
            self._err.write("\n")
            self._err.flush()
            self._last_err = "\n"
