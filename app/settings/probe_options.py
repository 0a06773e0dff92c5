"""The options of the probe, and its help; the small distribution of the probe has them, too."""

import argparse
import math
from pathlib import Path

from app.arguments import argument

PROBE_KEY_VARIABLE = "FULLSTOP_PROBE_KEY"

# The same as in ``api.conformance``; a test compares them.
DIALECTS = ("messages", "chat", "completions", "responses", "generate", "ollama")
ALL_DIALECTS = "all"
LEVELS = ("specification", "extension", "opinion")

_EXAMPLES = f"""\
examples:
  {{program}} http://127.0.0.1:8080
  {{program}} http://127.0.0.1:11434 --dialect ollama --model some-model --html report.html
  {{program}} http://127.0.0.1:8080 --dialect all --expected-failures known.txt --junit probe.xml
  {{program}} --diff before.json after.json
  {PROBE_KEY_VARIABLE}=secret {{program}} https://example.org --model some-model

Asks without stops, chooses stops from the answers, asks again with them, and compares; ends in a
table for a bug report. The last checks send invalid requests; some servers crash on them.
exit codes: 0 all checks passed, 1 a check failed (or passed unexpectedly), 2 wrong
usage, 3 incomplete or not judged, 4 no server that can be judged, 130 ended with Ctrl-C
"""


def examples(program: str) -> str:
    """Return the end of the help."""
    return _EXAMPLES.format(program=program)


def _patterns(text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise argparse.ArgumentTypeError(f"{text!r} has an empty id")
    return parts


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip() or not (name + value).isprintable():
        raise argparse.ArgumentTypeError(f"{text!r} is not a header, such as X-Team: probes")
    return name.strip(), value.strip()


def _count(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of tokens from 1 on")
    return int(text)


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not (number > 0 and math.isfinite(number)):
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds greater than 0")
    return number


ARGUMENTS = (
    argument("url", metavar="URL", nargs="?", help="address of the server, or of one endpoint"),
    argument(
        "--dialect",
        choices=(*DIALECTS, ALL_DIALECTS),
        help="API of the server (default: detected); all probes each that is detected",
    ),
    argument("--model", metavar="NAME", help="name of the model (default: the first one listed)"),
    argument(
        "--api-key",
        metavar="KEY",
        help=f"default: the environment's {PROBE_KEY_VARIABLE}, which other users cannot read",
    ),
    argument(
        "--header",
        type=_header,
        action="append",
        default=[],
        metavar="NAME:VALUE",
        help="send this header with every request; repeatable",
    ),
    argument("--base-path", metavar="PATH", help="path to use instead of /v1"),
    argument(
        "--max-tokens",
        type=_count,
        metavar="N",
        help="limit of ordinary answers (default: the probe chooses)",
    ),
    argument(
        "--prompt",
        action="append",
        default=[],
        metavar="TEXT",
        help="ask this before the probe's own questions; repeatable",
    ),
    argument("--ca", type=Path, metavar="FILE", help="certificates to trust, in PEM format"),
    argument("--insecure", action="store_true", help="accept untrusted certificates"),
    argument(
        "--timeout",
        type=_seconds,
        default=60.0,
        metavar="S",
        help="longest wait for one answer, in seconds (default 60)",
    ),
    argument(
        "--time-limit",
        type=_seconds,
        default=900.0,
        metavar="S",
        help="end after this many seconds, even if checks are left (default 900)",
    ),
    argument(
        "--list", action="store_true", help="print the catalogue of checks instead of probing"
    ),
    argument(
        "--quick",
        action="store_true",
        help="run the most telling checks only, with short answers: 2 minutes at 8 tokens/s",
    ),
    *(
        argument(
            option,
            type=_patterns,
            action="extend",
            default=[],
            metavar="ID",
            help=f"{purpose}: ids, or patterns such as stop.*; repeatable, or separated by commas",
        )
        for option, purpose in (
            ("--only", "run only these checks"),
            ("--skip", "skip these checks"),
        )
    ),
    argument(
        "--level",
        choices=LEVELS,
        default=LEVELS[1],
        help="the least binding level whose failures count (default extension)",
    ),
    argument(
        "--expected-failures",
        type=Path,
        metavar="FILE",
        help="ids of checks that are known to fail, one per line, with the word flaky and the "
        "issue's address if you like; new failures and unexpected passes fail",
    ),
    argument(
        "--json",
        action="store_true",
        help="print one JSON object instead of the table, even if the probe cannot begin",
    ),
    *(
        argument(
            f"--{name}",
            type=Path,
            metavar="FILE",
            help=f"write the report {purpose} to this file too",
        )
        for name, purpose in (
            ("html", "as a page"),
            ("markdown", "as Markdown, with the raw answers folded"),
            ("junit", "as JUnit's XML"),
            ("sarif", "as SARIF 2.1.0"),
        )
    ),
    argument(
        "--diff",
        nargs=2,
        type=Path,
        metavar=("OLD", "NEW"),
        help="compare two reports of --json instead of probing; exit code 1 if a check newly fails",
    ),
)
