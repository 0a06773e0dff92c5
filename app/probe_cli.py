"""``fullstop-probe``: the probe and ``inspect`` as a separate program, without the application.

The small distribution contains this module and its imports, without Qt and MLX. Main thread.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from app import __version__
from app.arguments import OneLineParser
from app.printer import run_cli
from app.settings.probe_options import ARGUMENTS, examples


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return the exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    return run_cli("fullstop-probe", lambda: _run(arguments))


def _run(arguments: list[str]) -> int:
    if arguments[:1] == ["inspect"]:
        options: Any = _inspect_parser().parsed(arguments[1:])
        from app.commands import inspect

        return inspect.run(options)
    given = _parser().parsed(arguments)
    from app.commands import probe

    return probe.run(given)


def _inspect_parser() -> OneLineParser:
    parser = OneLineParser(
        prog="fullstop-probe inspect",
        description="Say what is wrong with an answer that any server gave.",
        allow_abbrev=False,
    )
    parser.add_argument("file", metavar="FILE", help="the answer; - reads standard input")
    parser.add_argument(
        "--stop",
        dest="stops",
        action="append",
        default=[],
        metavar="TEXT",
        help="a stop of the request, taken exactly as given; repeatable",
    )
    parser.add_argument("--json", dest="is_json", action="store_true", help="print one JSON object")
    return parser


def _parser() -> OneLineParser:
    parser = OneLineParser(
        prog="fullstop-probe",
        description="Test how any server handles stops. fullstop-probe inspect FILE reads answers.",
        epilog=examples("fullstop-probe"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"fullstop-probe {__version__}")
    parser.add_arguments(ARGUMENTS)
    return parser
