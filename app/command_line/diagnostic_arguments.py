"""The grammar of ``fullstop inspect`` and ``fullstop probe``: their options and their help.

Must not run anything. Pure; main thread.
"""

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

Command = Callable[[argparse.Namespace], int]

PROBE_KEY_VARIABLE = "FULLSTOP_PROBE_KEY"

# As ``api.conformance.captures.values.WireDialect`` has them; a test compares.
DIALECTS = ("messages", "chat", "completions", "responses", "generate", "ollama")

_INSPECT_EXAMPLES = """\
examples:
  curl -i http://127.0.0.1:8080/v1/chat/completions -d @request.json > answer.txt
  fullstop inspect answer.txt --stop END
  pbpaste | fullstop inspect -

Reads answers of Messages, Chat, Completions, Responses, /generate, Ollama, llama.cpp, TGI, Gemini
and Converse, streamed or not: as text, with heads, quoted, indented, fenced or behind times; HAR
files; what programs dump as JSON; curl --trace-ascii; dumps of mitmproxy; packed by gzip; UTF-16.
exit codes: 0 nothing is wrong, 1 something is, 2 wrong usage, 3 a part was not read, 4 no answer
"""

_PROBE_EXAMPLES = f"""\
examples:
  fullstop probe http://127.0.0.1:8080
  fullstop probe http://127.0.0.1:11434 --dialect ollama --model some-model --html report.html
  {PROBE_KEY_VARIABLE}=secret fullstop probe https://example.org --model some-model

Asks without stops, chooses stops from the answers, asks again with them, and compares; ends in a
table for a bug report. The last checks send invalid requests; some servers crash on them.
exit codes: 0 all checks passed, 1 a check failed, 2 wrong usage or no server
"""


def add_inspect(commands: Any, run: Command, add_stops: Callable[..., None]) -> None:
    """Add the command to a parser's subcommands; ``add_stops`` adds the options for stops."""
    inspect = commands.add_parser(
        "inspect",
        help="say what is wrong with an answer that any server gave",
        description="Say what is wrong with an answer that any server gave.",
        epilog=_INSPECT_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    inspect.add_argument(
        "file", metavar="FILE", help="the answer, saved or pasted; - reads standard input"
    )
    add_stops(inspect, "", "a stop of the request, taken exactly as given; repeatable")
    inspect.add_argument("--json", action="store_true", help="print one JSON object")
    inspect.set_defaults(command=run)


def add_probe(commands: Any, run: Command) -> None:
    """Add the command to a parser's subcommands."""
    probe = commands.add_parser(
        "probe",
        help="find out what any server does with stops",
        description="Find out what any server does with stops.",
        epilog=_PROBE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    probe.add_argument("url", metavar="URL", help="address of the server, or of one endpoint")
    probe.add_argument("--dialect", choices=DIALECTS, help="API of the server (default: detected)")
    probe.add_argument(
        "--model", metavar="NAME", help="name of the model (default: the first one listed)"
    )
    probe.add_argument(
        "--api-key",
        metavar="KEY",
        help=f"default: the environment's {PROBE_KEY_VARIABLE}, which other users cannot read",
    )
    probe.add_argument("--json", action="store_true", help="print one JSON object, not the table")
    probe.add_argument(
        "--html", type=Path, metavar="FILE", help="write the report as a page to this file too"
    )
    probe.add_argument(
        "--timeout",
        type=_seconds,
        default=60.0,
        metavar="S",
        help="longest wait for one answer, in seconds (default 60)",
    )
    probe.add_argument(
        "--time-limit",
        type=_seconds,
        default=900.0,
        metavar="S",
        help="end after so many seconds, whatever is left (default 900)",
    )
    probe.set_defaults(command=run)


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not (number > 0 and math.isfinite(number)):
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds greater than 0")
    return number
