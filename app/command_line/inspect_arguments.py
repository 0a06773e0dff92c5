"""The grammar of ``fullstop inspect``: its options and its help.

Must not run anything. Pure; main thread.
"""

import argparse
from collections.abc import Callable
from typing import Any

Command = Callable[[argparse.Namespace], int]

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
