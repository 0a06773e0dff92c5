"""``fullstop probe``: tests how a server handles stops and prints a report.

Needs no model of its own, and neither Qt nor MLX: ``fullstop-probe`` is this command by itself.
Main thread, on an event loop of its own.
"""

import argparse
import asyncio
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from api.conformance.captures.frames import parse_json
from api.conformance.captures.values import WireDialect
from api.conformance.probe.catalogue import Level
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
    read_expected,
    suite_as_markdown,
    suite_as_text,
    unknown_patterns,
)
from api.conformance.probe.run import Probing
from api.conformance.probe.values import OnProgress, ProbeOptions, Progress, Verdict
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
    probing = Probing(options, on_progress)
    asyncio.run(probing.run(is_all=is_all))
    reports = probing.reports
    return ProbeSuite(
        options.url,
        reports,
        tuple(probing.problems),
        "" if reports or probing.is_interrupted else probing.problem,
        probing.is_interrupted,
        expected,
    )


_ALL = "all"
_MOST_REPORT_BYTES = 256 * 1024 * 1024
_CODES = {
    Verdict.HELD: exits.OK,
    Verdict.FAILED: exits.FAILURE,
    Verdict.INCOMPLETE: exits.INCOMPLETE,
    Verdict.NOT_JUDGED: exits.INCOMPLETE,
    Verdict.UNREACHABLE: exits.UNREACHABLE,
    Verdict.INTERRUPTED: exits.INTERRUPTED,
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
        catalogue = harmless_json(catalogue_as_data()) + "\n" if given.json else catalogue_as_text()
        print(catalogue, end="", flush=True)
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
    report = suite_as_text(suite)
    if command.is_json:
        report = harmless_json(suite_as_data(suite)) + "\n"
    print(report, end="", flush=True)
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
        prompts=tuple(given.prompt),
        is_quick=given.quick,
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
    reports = []
    for path in (old, new):
        try:
            with path.open("rb") as file:
                content = file.read(_MOST_REPORT_BYTES + 1)
            if len(content) > _MOST_REPORT_BYTES:
                raise CommandError(f"--diff: {path} is too large", exits.USAGE)
            reports.append(parse_json(content.decode("utf-8")))
        except OSError as error:
            said = f"--diff: {path} cannot be read: {os_cause(error)}"
            raise CommandError(said, exits.USAGE) from error
        except ValueError as error:
            raise CommandError(f"--diff: {path} is not JSON", exits.USAGE) from error
    try:
        differences = changes(*reports)
    except NotAReport as error:
        raise CommandError(f"--diff: {error}", exits.USAGE) from error
    data = harmless_json(changes_as_data(differences)) + "\n"
    print(data if is_json else changes_as_text(differences), end="", flush=True)
    is_worse = any(difference.is_new_failure for difference in differences)
    return exits.FAILURE if is_worse else exits.OK


def _show(printer: Printer, progress: Progress) -> None:
    count = f"{progress.done}/{progress.total} " if progress.total else ""
    left = "" if progress.remaining_s is None else f" {_in_words(progress.remaining_s)} left"
    printer.status(f"{count}{progress.title} …{left}")


def _in_words(seconds: float) -> str:
    """Return a time as a person says it."""
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    return f"about {round(seconds / 60)} min"


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
