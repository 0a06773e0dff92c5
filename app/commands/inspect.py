"""``fullstop inspect``: reads answers that some server gave and says what is wrong with each.

Needs no model and no network. Main thread.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from api.conformance.captures.diagnosis import as_json, as_text, diagnose, has_faults
from api.conformance.captures.sources import MAX_BYTES, NotReadable, captures_of, is_answer
from api.conformance.captures.values import Capture, Finding
from api.terminal_text import harmless
from app import exits
from app.exits import CommandError
from engine.files.causes import os_cause

if TYPE_CHECKING:
    # The small distribution has a parser of its own.
    from app.settings.options import InspectOptions

_Judged = tuple[Capture, Sequence[Finding]]


def run(options: "InspectOptions") -> int:
    """Print the answers in the file and their findings; return the exit code."""
    tally = _Tally()
    try:
        # The answers are read and written one by one: a file may have many, and large ones.
        judged = tally.counting(_judged(options))
        for piece in as_json(judged) if options.is_json else _texts(judged, options.file):
            sys.stdout.write(piece)
        sys.stdout.flush()
    except NotReadable as error:
        raise CommandError(f"{options.file} cannot be read: {error}", exits.USAGE) from error
    return tally.exit_code


@dataclass(slots=True)
class _Tally:
    """Counts the findings in all answers of a file."""

    has_faults: bool = False
    is_cut: bool = False
    is_empty: bool = True

    def counting(self, judged: Iterable[_Judged]) -> Iterator[_Judged]:
        """Pass on the answers and count their findings."""
        for capture, findings in judged:
            self.is_empty &= not is_answer(capture)
            self.has_faults |= has_faults(findings)
            self.is_cut |= capture.is_cut
            yield capture, findings

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        if self.is_empty:
            return exits.UNREACHABLE
        if self.has_faults:
            return exits.FAILURE
        return exits.INCOMPLETE if self.is_cut else exits.OK


def _judged(options: "InspectOptions") -> Iterator[_Judged]:
    for capture in captures_of(_read(options.file)):
        yield capture, diagnose(capture, options.stops)


def _texts(judged: Iterable[_Judged], name: str) -> Iterator[str]:
    """Yield the answers as text, each with a heading if there are several."""
    waiting: str | None = None
    for number, (capture, findings) in enumerate(judged, 1):
        if not is_answer(capture):
            raise CommandError(f"{name}: {findings[0].sentence}", exits.UNREACHABLE)
        report = harmless(as_text(capture, findings))
        if number == 1:
            waiting = report
            continue
        if waiting is not None:
            yield f"# answer 1\n\n{waiting}"
            waiting = None
        yield f"\n# answer {number}\n\n{report}"
    if waiting is not None:
        yield waiting


def _read(name: str) -> bytes:
    try:
        if name == "-":
            content = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with open(name, "rb") as file:
                content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise CommandError(f"{name} cannot be read: {os_cause(error)}", exits.USAGE) from error
    if len(content) > MAX_BYTES:
        raise CommandError(f"{name} is larger than {MAX_BYTES >> 20} MiB", exits.USAGE)
    return content
