"""``fullstop probe``: tests how a server handles stops and prints a report.

Needs no model of its own, and neither Qt nor MLX: ``fullstop-probe`` is this command by itself.
Main thread, on an event loop of its own.
"""

import argparse
import asyncio
import json
import os
from pathlib import Path
from typing import Any

from api.conformance.captures.frames import parse_json
from api.conformance.captures.values import WireDialect
from api.conformance.probe.catalogue import Level
from api.conformance.probe.ci_files import as_junit, as_sarif
from api.conformance.probe.html_page import suite_as_html
from api.conformance.probe.json_files import (
    catalogue_as_text,
    changes,
    changes_as_text,
    suite_as_data,
)
from api.conformance.probe.markdown import suite_as_markdown
from api.conformance.probe.run import Probing
from api.conformance.probe.suite import (
    Expectation,
    ProbeSuite,
    read_expected,
    unknown_patterns,
)
from api.conformance.probe.values import ProbeOptions, Progress, Verdict
from api.terminal_text import harmless_json
from app import exits
from app.exits import CommandError
from app.printer import Printer
from app.settings.probe_options import ALL_DIALECTS, PROBE_KEY_VARIABLE
from engine.files.causes import os_cause
from engine.files.safe_files import WholeFile, write_whole

_CODES = {
    Verdict.HELD: exits.OK,
    Verdict.FAILED: exits.FAILURE,
    Verdict.INCOMPLETE: exits.INCOMPLETE,
    Verdict.NOT_JUDGED: exits.INCOMPLETE,
    Verdict.UNREACHABLE: exits.UNREACHABLE,
    Verdict.INTERRUPTED: exits.INTERRUPTED,
}
# The files that can be written in addition to the output, by the names of their options.
_FILES = ("html", "markdown", "junit", "sarif")


def run(given: argparse.Namespace) -> int:
    """Probe, print the report, and return the exit code; Ctrl-C keeps the results so far."""
    if given.json and (given.list or given.diff is not None):
        raise CommandError("--json goes with neither --list nor --diff", exits.USAGE)
    if given.list:
        _print(catalogue_as_text())
        return exits.OK
    if given.diff is not None:
        return _compare(*given.diff)
    files = {name: path for name in _FILES if (path := getattr(given, name)) is not None}
    options = _options_of(given)
    expected = _read_expected(given.expected_failures)
    for name, path in files.items():
        _check_writable(name, path)  # fail before the probe takes minutes
    printer = Printer()

    def show(progress: Progress) -> None:
        count = f"{progress.done}/{progress.total} " if progress.total else ""
        remaining = ""
        if progress.remaining_s is not None:
            remaining = f" {_duration_text(progress.remaining_s)} left"
        printer.status(f"{count}{progress.title} …{remaining}")

    probing = Probing(options, show)
    try:
        asyncio.run(probing.run(is_all=given.dialect == ALL_DIALECTS))
    finally:
        printer.status("")
    reports = probing.reports
    problem = "" if reports or probing.is_interrupted else probing.problem
    suite = ProbeSuite(
        options.url,
        reports,
        tuple(probing.problems),
        problem,
        probing.is_interrupted,
        expected,
    )
    for name, path in files.items():
        try:
            write_whole(path, _file_text(name, suite))
        except OSError as error:
            raise _not_written(name, path, error) from error
    if suite.problem and not given.json:
        raise CommandError(suite.problem, _CODES[suite.verdict])
    _print(suite_as_data(suite) if given.json else suite_as_markdown(suite, has_raw=False))
    return _CODES[suite.verdict]


def _print(content: str | dict[str, Any]) -> None:
    text = content if isinstance(content, str) else harmless_json(content) + "\n"
    print(text, end="", flush=True)


def _file_text(name: str, suite: ProbeSuite) -> str:
    match name:
        case "html":
            return suite_as_html(suite)
        case "markdown":
            return suite_as_markdown(suite)
        case "junit":
            return as_junit(suite)
        case _:
            return json.dumps(as_sarif(suite), ensure_ascii=True, indent=1) + "\n"


def _options_of(given: argparse.Namespace) -> ProbeOptions:
    if given.url is None:
        raise CommandError("give the URL of a server, or --list, or --diff OLD NEW", exits.USAGE)
    for option, patterns in (("--only", given.only), ("--skip", given.skip)):
        if unknown := unknown_patterns(patterns):
            raise CommandError(
                f"{option}: no check has the id {unknown[0]!r}; --list prints all", exits.USAGE
            )
    if given.ca is not None and not given.ca.is_file():
        raise CommandError(f"--ca: {given.ca} cannot be read", exits.USAGE)
    levels = list(Level)
    return ProbeOptions(
        given.url,
        dialect=None if given.dialect in (None, ALL_DIALECTS) else WireDialect(given.dialect),
        model=given.model,
        api_key=given.api_key or os.environ.get(PROBE_KEY_VARIABLE) or None,
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
        levels=frozenset(levels[: levels.index(Level(given.level)) + 1]),
    )


def _read_expected(path: Path | None) -> tuple[Expectation, ...]:
    if path is None:
        return ()
    option = f"--expected-failures: {path}"
    try:
        return read_expected(path.read_text(encoding="utf-8"))
    except OSError as error:
        message = f"{option} cannot be read: {os_cause(error)}"
        raise CommandError(message, exits.USAGE) from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{option} is not UTF-8", exits.USAGE) from error
    except ValueError as error:
        raise CommandError(f"{option}, {error}", exits.USAGE) from error


def _compare(old: Path, new: Path) -> int:
    reports = []
    for path in (old, new):
        try:
            reports.append(parse_json(path.read_text(encoding="utf-8")))
        except OSError as error:
            message = f"--diff: {path} cannot be read: {os_cause(error)}"
            raise CommandError(message, exits.USAGE) from error
        except ValueError as error:
            raise CommandError(f"--diff: {path} is not JSON", exits.USAGE) from error
    try:
        differences = changes(*reports)
    except ValueError as error:
        raise CommandError(f"--diff: {error}", exits.USAGE) from error
    _print(changes_as_text(differences))
    is_worse = any(difference.is_new_failure for difference in differences)
    return exits.FAILURE if is_worse else exits.OK


def _duration_text(seconds: float) -> str:
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    return f"about {round(seconds / 60)} min"


def _check_writable(name: str, path: Path) -> None:
    """Check that a file can be written at a path, without changing an existing one."""
    try:
        if path.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        if not path.exists() or path.is_file():
            WholeFile(path).forget()
    except OSError as error:
        raise _not_written(name, path, error) from error


def _not_written(name: str, path: Path, error: OSError) -> CommandError:
    return CommandError(f"--{name}: {path} cannot be written: {os_cause(error)}", exits.USAGE)
