"""How a command fails: a message of one line and an exit code. Any thread."""

import difflib
from collections.abc import Iterable

OK = 0
FAILURE = 1
USAGE = 2
INCOMPLETE = 3
UNREACHABLE = 4
INTERRUPTED = 130
BROKEN_PIPE = 141


def did_you_mean(typed: str, known: Iterable[str]) -> str:
    """Return `` Did you mean X?`` with the nearest known word, with or without its owner."""
    by_spelling: dict[str, str] = {}
    for word in known:
        for spelling in (word, word.rpartition("/")[2]):
            by_spelling.setdefault(spelling.casefold(), word)
    near = difflib.get_close_matches(typed.casefold(), by_spelling, 1)
    return f" Did you mean {by_spelling[near[0]]}?" if near else ""


class CommandError(Exception):
    """A command cannot go on; ``cli.main`` prints the message and returns the code."""

    def __init__(self, message: str, exit_code: int = FAILURE) -> None:
        super().__init__(message)
        self.exit_code = exit_code
