"""``fullstop probe``: finds out what a server does with stops and prints a report.

Needs no model of its own. Main thread, on an event loop of its own.
"""

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from api.conformance.captures.harmless import harmless_json
from api.conformance.probe.reports.as_data import as_data
from api.conformance.probe.reports.as_html import as_html
from api.conformance.probe.reports.as_text import as_text
from api.conformance.probe.running import probe
from api.conformance.probe.values import ProbeFailed, ProbeOptions, Progress, Report
from app.process import exits
from app.process.exits import CommandError
from app.terminal.printer import Printer
from engine.files.whole_file import write_whole


@dataclass(frozen=True, slots=True)
class ProbeCommand:
    """What to probe and how to report.

    Attributes:
        options: What to probe.
        is_json: Print one JSON object instead of the table.
        html: Where to write the report as a page too; None for nowhere.
    """

    options: ProbeOptions
    is_json: bool = False
    html: Path | None = None


def run(command: ProbeCommand) -> int:
    """Probe, print the report, and return the exit code: whether everything passed.

    Raises:
        CommandError: Nothing answers there, or the page cannot be written.
    """
    if command.html is not None:
        _write(command.html, "")  # a path that will not do is known before minutes have passed
    printer = Printer()
    try:
        report = asyncio.run(probe(command.options, lambda progress: _show(printer, progress)))
    except ProbeFailed as failed:
        raise CommandError(str(failed), exits.USAGE) from failed
    finally:
        printer.status("")
    if command.html is not None:
        _write(command.html, as_html(report))
    try:
        _print(report, command)
    except BrokenPipeError:
        # Whoever read the output has left; keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.READER_GONE
    return exits.OK if report.has_passed else exits.FAILURE


def _print(report: Report, command: ProbeCommand) -> None:
    if command.is_json:
        print(harmless_json(as_data(report)), flush=True)
    else:
        print(as_text(report), end="", flush=True)


def _show(printer: Printer, progress: Progress) -> None:
    count = f"{progress.done}/{progress.total} " if progress.total else ""
    printer.status(f"{count}{progress.title} …")


def _write(path: Path, text: str) -> None:
    try:
        write_whole(path, text)
    except OSError as error:
        raise CommandError(
            f"--html: {path} cannot be written: {error.strerror}", exits.USAGE
        ) from error
