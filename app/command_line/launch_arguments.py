"""The grammar of ``fullstop launch``. Must not run anything. Pure; main thread."""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from app.command_line.model_arguments import LOCAL_MODEL

Command = Callable[[argparse.Namespace], int]

# The same as in ``app.agents``; a test compares them.
AGENTS = ("claude", "codex", "opencode", "aider", "goose", "qwen")

_EXAMPLES = """\
examples:
  fullstop launch claude
  fullstop launch codex --model mlx-community/Qwen3-Coder-30B-A3B-Instruct-4bit
  fullstop launch claude -- -p "What does this project do?"
  fullstop launch opencode --print

The server of the window, or of fullstop serve, is used if it runs; otherwise one is started, which
ends with the agent. Variables and options configure the agent; its own files are not changed.
exit codes: that of the agent; 1 not installed, no server or model; 2 wrong usage
"""


def add_launch(commands: Any, run: Command) -> None:
    """Add the command to a parser's subcommands."""
    launch = commands.add_parser(
        "launch",
        help="start a coding agent (Claude Code, Codex, …) that uses your models",
        description="Start a coding agent that uses your models.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    launch.add_argument(
        "agent", choices=AGENTS, metavar="AGENT", help=f"the agent: {', '.join(AGENTS)}"
    )
    launch.add_argument(
        "--model",
        metavar=LOCAL_MODEL,
        help="model to use, by folder or name (default: the one that the server uses)",
    )
    launch.add_argument(
        "--url", metavar="URL", help="server to use (default: a running one, or a new one)"
    )
    launch.add_argument(
        "--print",
        action="store_true",
        dest="is_printed",
        help="print the equivalent shell commands, and start nothing",
    )
    launch.add_argument(
        "--anyway",
        action="store_true",
        help="start the agent even if the model is too small for it",
    )
    launch.add_argument(
        "arguments", nargs="*", metavar="-- ARGS", help="arguments for the agent itself"
    )
    launch.set_defaults(command=run)


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words of a command line for us, and those after ``--`` for the agent."""
    if words[:1] != ["launch"] or "--" not in words:
        return list(words), []
    place = words.index("--")
    return list(words[:place]), list(words[place + 1 :])
