"""The grammar of the command line: commands, options, their checks and their help.

Must not run anything. Pure; main thread.
"""

import argparse
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from app import __version__, paths
from app.command_line.inspect_arguments import add_inspect
from app.command_line.launch_arguments import add_launch
from app.command_line.model_arguments import add_completion, add_models
from app.command_line.probe_arguments import add_probe
from app.command_line.serve_arguments import add_serve
from app.command_line.setting_arguments import add_setting, whole_number
from app.settings.serve import DRAFT_HELP, MODEL_HELP, PLAIN_HELP
from engine import STOP_OPTIONS, StopOption, StopOptions
from ui.preferences.preferences import Declaration, NewConversation, declared

Command = Callable[[argparse.Namespace], int]

# Options of the window are stored under separate names, and only when they are given, to detect an
# option before a command, where it would have no effect.
WINDOW_PREFIX = "window_"

# Values of these options are taken literally: a mark before them, which ``_verbatim`` removes,
# keeps argparse from interpreting them.
VERBATIM = frozenset({"--stop", "--system"})
VERBATIM_MARK = "="

_DESCRIPTION = """\
Chat with MLX language models, serve them to other apps, and see why a model stopped.
Without a command: the window, or a chat in the terminal where there is no display."""

_EXAMPLES = """\
examples:
  fullstop
  fullstop ask "Count from 1 to 10, one number per line" --stop 6
  fullstop serve --port 8642
  fullstop models search
"""

_ASK_EXAMPLES = r"""examples:
  fullstop ask "Count from 1 to 10, one number per line" --stop 6
  fullstop ask "Count from 1 to 10, one number per line" --stop '3\n4' --escapes
  fullstop ask "Output the whole alphabet from A to Z, then immediately output END" \
      --stop END --json
  git diff | fullstop ask - --system "Describe this change." --model ~/models/some-mlx-model

The answer goes to standard output; thinking and the reason go to standard error.
exit codes: 0 answered, 1 failed, 2 wrong usage, 130 cancelled with Ctrl-C
"""

_REPLAY_EXAMPLES = """\
examples:
  fullstop ask "Count from 1 to 10, one number per line" --save-run run.json
  fullstop replay run.json --stop 7

exit codes: 0 played, 1 failed, 2 wrong usage
"""


def parser(
    window: Command,
    ask: Command,
    serve: Command,
    replay: Command,
    inspect: Command,
    probe: Command,
    models: Command,
    launch: Command,
    completion: Command,
) -> argparse.ArgumentParser:
    """Return the parser; its result has the chosen command as ``command``."""
    root = argparse.ArgumentParser(
        prog="fullstop",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    root.add_argument("--version", action="version", version=f"fullstop {__version__}")
    root.add_argument(
        "--self-test",
        action="store_true",
        help="check that this installation works, print a line for each part, and end",
    )
    root.add_argument(
        "--open",
        dest=f"{WINDOW_PREFIX}open",
        default=argparse.SUPPRESS,
        type=Path,
        metavar="FILE",
        help="show a saved run in the Stop Inspector; fullstop FILE does the same",
    )
    _add_answer_options(root, WINDOW_PREFIX)
    root.set_defaults(command=window)
    commands = root.add_subparsers(title="commands", metavar="COMMAND")
    _add_ask(commands, ask)
    add_serve(commands, serve)
    add_launch(commands, launch)
    add_models(commands, models)
    _add_replay(commands, replay)
    add_inspect(commands, inspect, _add_stops)
    add_probe(commands, probe)
    add_completion(commands, completion)
    return root


def _add_ask(commands: Any, run: Command) -> None:
    ask = commands.add_parser(
        "ask",
        help="answer one prompt and say why the answer ended",
        description="Answer one prompt and say why the answer ended.",
        epilog=_ASK_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    ask.add_argument(
        "prompt",
        metavar="PROMPT",
        help="the prompt; text piped in comes before it; - reads the prompt itself",
    )
    _add_answer_options(ask)
    ask.add_argument(
        "--json", action="store_true", help="print one JSON object instead of streaming text"
    )
    ask.add_argument(
        "--save-run",
        type=Path,
        metavar="FILE",
        help="save the run, so that fullstop replay can try other stops on it",
    )
    ask.set_defaults(command=run)


def _add_replay(commands: Any, run: Command) -> None:
    replay = commands.add_parser(
        "replay",
        help="play a saved run again, with the same stops or with others",
        description="Replay a saved run through the real matcher; no model is needed.",
        epilog=_REPLAY_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    replay.add_argument("file", type=Path, metavar="FILE", help="a run saved by --save-run")
    _add_stops(replay, "", "stop before this text, in place of the run's own stops; repeatable")
    replay.add_argument("--no-stop", action="store_true", help="play it without any stop strings")
    replay.add_argument("--json", action="store_true", help="print one JSON object")
    replay.set_defaults(command=run)


def _add_models(parser: argparse.ArgumentParser, prefix: str = "") -> None:
    for name, words in (("model", MODEL_HELP), ("draft_model", DRAFT_HELP)):
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            dest=f"{prefix}{name}",
            default=argparse.SUPPRESS,
            type=paths.model_folder,
            metavar="MODEL",
            help=words,
        )


def _add_answer_options(parser: argparse.ArgumentParser, prefix: str = "") -> None:
    def add(name: str, **settings: Any) -> None:
        dest = prefix + name.removeprefix("--").replace("-", "_")
        parser.add_argument(name, dest=dest, default=argparse.SUPPRESS, **settings)

    _add_models(parser, prefix)
    add("--plain-decoding", action="store_true", help=PLAIN_HELP)
    stop_help = "end the answer before this text, taken exactly as given; repeatable"
    _add_stops(parser, prefix, stop_help)
    for one in declared(NewConversation):
        add_setting(parser, one, prefix=prefix, text=_verbatim)
    add("--seed", type=whole_number(_SEED), metavar="N", help="make random draws repeatable")
    for option in STOP_OPTIONS:
        add(f"--{_flag(option)}", **_kind(option), help=option.help)


# Names on the command line, for options whose own name would say too little there.
_FLAGS = {"scope": "stop-scope"}


def _flag(option: StopOption) -> str:
    return _FLAGS.get(option.name, option.name.replace("_", "-"))


def _kind(option: StopOption) -> dict[str, Any]:
    """Return how the value of a stop option is parsed."""
    match option.default:
        case bool():
            return {"action": "store_true"}
        case Enum():
            return {"choices": [one.value for one in type(option.default)]}
        case _:
            return {"type": whole_number(_MIN_TOKENS), "metavar": "N"}


def stop_options_of(values: Mapping[str, Any]) -> StopOptions:
    """Return the stop options from the given options, by their names in a namespace."""
    given = ((option, _flag(option).replace("-", "_")) for option in STOP_OPTIONS)
    return StopOptions(
        **{one.name: type(one.default)(values[dest]) for one, dest in given if dest in values}
    )


def _add_stops(parser: argparse.ArgumentParser, prefix: str, stop_help: str) -> None:
    parser.add_argument(
        "--stop",
        dest=f"{prefix}stop",
        default=argparse.SUPPRESS,
        type=_verbatim,
        metavar="S",
        action="append",
        help=stop_help,
    )
    parser.add_argument(
        "--escapes",
        dest=f"{prefix}escapes",
        default=argparse.SUPPRESS,
        action="store_true",
        help=r"read \n, \t, \\, \xHH and \uHHHH in --stop as the characters they mean",
    )


def _verbatim(marked: str) -> str:
    return marked.removeprefix(VERBATIM_MARK)


_MIN_TOKENS = Declaration(least=0, most=2**31 - 1)
_SEED = Declaration(least=0, most=2**63 - 1)
