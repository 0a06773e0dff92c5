"""How a command fails: a message for a person and an exit code.

Pure values, any thread.
"""

import difflib
import os
import sys
from collections.abc import Iterable

OK = 0
FAILURE = 1
USAGE = 2
INCOMPLETE = 3
UNREACHABLE = 4
INTERRUPTED = 130
READER_GONE = 141


def leave_reader() -> int:
    """Keep Python from reporting at its exit that nobody reads the output; return the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return READER_GONE


def did_you_mean(typed: str, known: Iterable[str]) -> str:
    """Return `` Did you mean X?`` with the known word that is nearest to a typed one; else nothing.

    A model is known by its name with and without its owner.
    """
    by_spelling: dict[str, str] = {}
    for word in known:
        for spelling in (word, word.rpartition("/")[2]):
            by_spelling.setdefault(spelling.casefold(), word)
    near = difflib.get_close_matches(typed.casefold(), by_spelling, 1)
    return f" Did you mean {by_spelling[near[0]]}?" if near else ""


class CommandError(Exception):
    """A command cannot go on; ``cli.main`` prints the message and returns the code.

    Attributes:
        exit_code: ``USAGE`` if the command line is wrong, else ``FAILURE``.
    """

    def __init__(self, message: str, exit_code: int = FAILURE) -> None:
        super().__init__(message)
        self.exit_code = exit_code
