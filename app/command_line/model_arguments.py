"""The grammar of ``fullstop models`` and ``fullstop completion``: their options and their help.

Must not run anything. Pure; main thread.
"""

import argparse
from collections.abc import Callable
from typing import Any

from app.command_line.setting_arguments import whole_number
from ui.preferences.preferences import Declaration

Command = Callable[[argparse.Namespace], int]

SHELLS = ("bash", "zsh", "fish")
LOCAL_MODEL, REMOTE_MODEL = "MODEL", "OWNER/NAME"
"""Placeholders in help for a model on this computer and on the hub; completion knows both."""

# The same as in ``engine.library.hub.searching``; a test compares them.
USUAL_RESULTS, MOST_RESULTS = 20, 200

_MODELS_EXAMPLES = """\
examples:
  fullstop models
  fullstop models search
  fullstop models search qwen3 4bit --limit 50
  fullstop models download mlx-community/Qwen3-4B-Instruct-2507-4bit
  fullstop ask "Hello" --model mlx-community/Qwen3-4B-Instruct-2507-4bit
  fullstop models remove mlx-community/Qwen3-4B-Instruct-2507-4bit

search without words suggests models that fit this computer's memory. Only search and download
connect to the internet: to huggingface.co, or to the hub that HF_ENDPOINT names.
exit codes: 0 done, 1 failed, 2 wrong usage, 130 cancelled with Ctrl-C
"""

_COMPLETION_EXAMPLES = """\
examples:
  echo 'source <(fullstop completion bash)' >> ~/.bashrc
  echo 'source <(fullstop completion zsh)' >> ~/.zshrc
  fullstop completion fish > ~/.config/fish/completions/fullstop.fish
"""


def add_models(commands: Any, run: Command) -> None:
    """Add ``models`` with its own commands to a parser's subcommands."""
    models = _parser(
        commands,
        "models",
        "list, search, download and remove models",
        epilog=_MODELS_EXAMPLES,
    )
    _add_json(models)
    models.set_defaults(command=run, action="list")
    actions = models.add_subparsers(title="commands", metavar="{list,search,download,remove}")

    listing = _parser(actions, "list", "list the models on this computer")
    _add_json(listing)
    listing.add_argument(
        "--names", action="store_true", default=argparse.SUPPRESS, help="print names only"
    )
    listing.set_defaults(action="list")

    search = _parser(actions, "search", "search the Hugging Face hub for MLX models")
    search.add_argument(
        "words",
        metavar="WORDS",
        nargs="*",
        help="parts of the name; without any, models that fit this computer are suggested",
    )
    search.add_argument(
        "--limit",
        type=whole_number(Declaration(least=1, most=MOST_RESULTS)),
        default=USUAL_RESULTS,
        metavar="N",
        help=f"show N models at most (default {USUAL_RESULTS}, most {MOST_RESULTS})",
    )
    _add_json(search)
    search.set_defaults(action="search")

    download = _parser(
        actions, "download", "download a model, or resume a partial download, and verify it"
    )
    download.add_argument(
        "name", metavar=REMOTE_MODEL, help="the model on the hub, or the address of its page"
    )
    _add_json(download)
    download.set_defaults(action="download")

    remove = _parser(actions, "remove", "delete a downloaded model from this computer")
    remove.add_argument("name", metavar=LOCAL_MODEL, help="its name, as fullstop models lists it")
    remove.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    _add_json(remove)
    remove.set_defaults(action="remove")


def add_completion(commands: Any, run: Command) -> None:
    """Add ``completion`` to a parser's subcommands."""
    completion = _parser(
        commands,
        "completion",
        "print a script that completes commands, options and models in a shell",
        epilog=_COMPLETION_EXAMPLES,
    )
    completion.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    # The words of the line from the shell's script; the last one is completed.
    completion.add_argument("line", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    completion.set_defaults(command=run)


def _parser(commands: Any, name: str, words: str, epilog: str = "") -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=words,
        description=f"{words[:1].upper()}{words[1:]}.",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    return parser


def _add_json(parser: argparse.ArgumentParser) -> None:
    # Absent unless given: otherwise a default would override it in ``models --json list``.
    parser.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON object"
    )
