"""What a terminal can show: control sequences, and how many columns. Any thread."""

import os
import shutil
from typing import TextIO


def takes_controls(stream: TextIO) -> bool:
    """Return whether a stream is a terminal that carries out control sequences.

    One that is ``dumb``, as in some editors, would show them as text.
    """
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def columns_of(stream: TextIO) -> int:
    """Return how many columns a terminal has: this one, wherever standard output goes."""
    try:
        found = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):  # it is none, or no file at all
        found = 0
    return found or shutil.get_terminal_size().columns
