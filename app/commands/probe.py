"""``fullstop probe``: tests how a server handles stops and prints a report.

Needs no model of its own, and neither Qt nor MLX: ``fullstop-probe`` is this command by itself.
Main thread, on an event loop of its own.
"""

import argparse
import asyncio
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from api.conformance.captures.frames import parsed
from api.conformance.captures.values import WireDialect
from api.conformance.probe.report_files import (
    NotAReport,
    as_badge,
    as_junit,
    as_sarif,
    catalogue_as_data,
    catalogue_as_text,
    changes,
    changes_as_data,
    changes_as_text,
    suite_as_data,
    suite_as_html,
)
from api.conformance.probe.reports import (
    Expected,
    ExpectedFileWrong,
    ProbeSuite,
    SuiteVerdict,
    read_expected,
    suite_as_markdown,
    suite_as_text,
    unknown_patterns,
)
from api.conformance.probe.run import ProbeRun
from api.conformance.probe.values import (
    Level,
    OnProgress,
    ProbeFailed,
    ProbeOptions,
    Progress,
    Report,
)
from api.terminal_text import harmless_json
from app import exits
from app.exits import CommandError
from app.printer import Printer
from engine.files.causes import os_cause
from engine.files.safe_files import WholeFile, write_whole

# Probes one dialect of a server, or all that it answers; Ctrl-C keeps the results so far.
#
# Main thread, on an event loop of its own.


def probed(
    options: ProbeOptions, *, is_all: bool, expected: Expected, on_progress: OnProgress
) -> ProbeSuite:
    """Probe a server and return the reports."""
    probing = _Probing(options, on_progress)
    asyncio.run(probing.run(is_all=is_all))
    return ProbeSuite(
        options.url,
        tuple(probing.reports),
        tuple(probing.problems),
        "" if probing.reports or probing.is_interrupted else probing.problem,
        probing.is_interrupted,
        expected,
    )


class _Probing:
    """The results so far."""

    def __init__(self, options: ProbeOptions, on_progress: OnProgress) -> None:
        self.reports: list[Report] = []
        self.problems: list[tuple[str, str]] = []
        self.problem = ""
        self.is_interrupted = False
        self._options = options
        self._on_progress = on_progress
        self._ends_at_s = time.monotonic() + options.time_limit_s

    async def run(self, *, is_all: bool) -> None:
        """Probe the first dialect, and all others that answered if requested."""
        await self._probe(self._options)
        if is_all and self.reports and not self.is_interrupted:
            await self._probe_others(self.reports[0].other_dialects)

    async def _probe_others(self, dialects: Sequence[WireDialect]) -> None:
        first = self.reports[0]
        # Dialects that a report lists as not probed may have a report of their own now.
        self.reports[0] = replace(first, other_dialects=())
        for dialect in dialects:
            left_s = self._ends_at_s - time.monotonic()
            if self.is_interrupted or left_s <= 0:
                why = "Ctrl-C" if self.is_interrupted else "the time limit was reached"
                self.problems.append((dialect, f"not asked: {why}"))
                continue
            await self._probe(replace(self._options, dialect=dialect, time_limit_s=left_s))

    async def _probe(self, options: ProbeOptions) -> None:
        run = ProbeRun(options, self._on_progress)
        try:
            self.reports.append(await run.run())
        except ProbeFailed as failed:
            self.problem = str(failed)
            if options.dialect is not None and self.reports:
                self.problems.append((options.dialect, str(failed)))
        except asyncio.CancelledError:
            # Ctrl-C: the results so far still make a report.
            self.is_interrupted = True
            if (report := run.report()) is not None:
                self.reports.append(report)


_ALL = "all"
_MOST_REPORT_BYTES = 256 * 1024 * 1024
_CODES = {
    SuiteVerdict.HELD: exits.OK,
    SuiteVerdict.FAILED: exits.FAILURE,
    SuiteVerdict.INCOMPLETE: exits.INCOMPLETE,
    SuiteVerdict.UNREACHABLE: exits.UNREACHABLE,
    SuiteVerdict.INTERRUPTED: exits.INTERRUPTED,
}


def _indented(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, indent=1) + "\n"


# The files that can be written in addition to the output, by the names of their options.
_WRITERS: Mapping[str, Callable[[ProbeSuite], str]] = {
    "html": suite_as_html,
    "markdown": suite_as_markdown,
    "junit": as_junit,
    "sarif": lambda suite: _indented(as_sarif(suite)),
    "badge": lambda suite: _indented(as_badge(suite)),
}


@dataclass(frozen=True, slots=True)
class ProbeCommand:
    """What to probe and how to report it."""

    options: ProbeOptions
    is_all: bool = False
    is_json: bool = False
    files: Mapping[str, Path] = field(default_factory=dict)
    expected: Expected = field(default_factory=Expected)


def run_arguments(given: argparse.Namespace) -> int:
    """Run the probe's command line; return the exit code."""
    if given.list:
        shown = harmless_json(catalogue_as_data()) + "\n" if given.json else catalogue_as_text()
        print(shown, end="", flush=True)
        return exits.OK
    if given.diff is not None:
        return _compare(*given.diff, is_json=given.json)
    return run(_command_of(given))


def run(command: ProbeCommand) -> int:
    """Probe, print the report, and return the exit code."""
    for name, path in command.files.items():
        _check_writable(name, path)  # fail before the probe takes minutes
    printer = Printer()
    try:
        suite = probed(
            command.options,
            is_all=command.is_all,
            expected=command.expected,
            on_progress=lambda progress: _show(printer, progress),
        )
    finally:
        printer.status("")
    for name, path in command.files.items():
        _write(name, path, _WRITERS[name](suite))
    if suite.problem and not command.is_json:
        raise CommandError(suite.problem, _CODES[suite.verdict])
    shown = suite_as_text(suite)
    if command.is_json:
        shown = harmless_json(suite_as_data(suite)) + "\n"
    print(shown, end="", flush=True)
    return _CODES[suite.verdict]


def _command_of(given: argparse.Namespace) -> ProbeCommand:
    if given.url is None:
        raise CommandError("give the URL of a server, or --list, or --diff OLD NEW", exits.USAGE)
    for option, patterns in (("--only", given.only), ("--skip", given.skip)):
        if unknown := unknown_patterns(patterns):
            raise CommandError(
                f"{option}: no check has the id {unknown[0]!r}; --list prints all", exits.USAGE
            )
    if given.ca is not None and not given.ca.is_file():
        raise CommandError(f"--ca: {given.ca} cannot be read", exits.USAGE)
    is_all = given.dialect == _ALL
    levels = list(Level)
    counting = levels[: levels.index(Level(given.level)) + 1]
    options = ProbeOptions(
        given.url,
        dialect=WireDialect(given.dialect) if given.dialect and not is_all else None,
        model=given.model,
        api_key=given.api_key or os.environ.get(given.key_variable) or None,
        timeout_s=given.timeout,
        time_limit_s=given.time_limit,
        max_tokens=given.max_tokens,
        headers=tuple(given.header),
        base_path=given.base_path,
        is_insecure=given.insecure,
        ca_file=given.ca,
        only=tuple(given.only),
        skip=tuple(given.skip),
        levels=frozenset(counting),
    )
    files = {name: path for name in _WRITERS if (path := getattr(given, name)) is not None}
    return ProbeCommand(
        options,
        is_all=is_all,
        is_json=given.json,
        files=files,
        expected=_expected(given.expected_failures),
    )


def _expected(path: Path | None) -> Expected:
    if path is None:
        return Expected()
    try:
        return read_expected(path.read_text(encoding="utf-8"))
    except OSError as error:
        said = f"--expected-failures: {path} cannot be read: {os_cause(error)}"
        raise CommandError(said, exits.USAGE) from error
    except ExpectedFileWrong as error:
        raise CommandError(f"--expected-failures: {path}, {error}", exits.USAGE) from error
    except UnicodeDecodeError as error:
        said = f"--expected-failures: {path} is not UTF-8"
        raise CommandError(said, exits.USAGE) from error


def _compare(old: Path, new: Path, *, is_json: bool) -> int:
    found = []
    for path in (old, new):
        try:
            with path.open("rb") as file:
                content = file.read(_MOST_REPORT_BYTES + 1)
            if len(content) > _MOST_REPORT_BYTES:
                raise CommandError(f"--diff: {path} is too large", exits.USAGE)
            found.append(parsed(content.decode("utf-8")))
        except OSError as error:
            said = f"--diff: {path} cannot be read: {os_cause(error)}"
            raise CommandError(said, exits.USAGE) from error
        except ValueError as error:
            raise CommandError(f"--diff: {path} is not JSON", exits.USAGE) from error
    try:
        differences = changes(*found)
    except NotAReport as error:
        raise CommandError(f"--diff: {error}", exits.USAGE) from error
    data = harmless_json(changes_as_data(differences)) + "\n"
    print(data if is_json else changes_as_text(differences), end="", flush=True)
    is_worse = any(difference.is_new_failure for difference in differences)
    return exits.FAILURE if is_worse else exits.OK


def _show(printer: Printer, progress: Progress) -> None:
    count = f"{progress.done}/{progress.total} " if progress.total else ""
    printer.status(f"{count}{progress.title} …")


def _check_writable(name: str, path: Path) -> None:
    """Check that a file can be written at a path, without changing an existing one."""
    file = WholeFile(path)
    try:
        if path.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        if not path.exists() or path.is_file():
            file.open()
    except OSError as error:
        raise _not_written(name, path, error) from error
    finally:
        file.forget()


def _write(name: str, path: Path, text: str) -> None:
    try:
        write_whole(path, text)
    except OSError as error:
        raise _not_written(name, path, error) from error


def _not_written(name: str, path: Path, error: OSError) -> CommandError:
    return CommandError(f"--{name}: {path} cannot be written: {os_cause(error)}", exits.USAGE)
