"""The command line: its grammar, its options as values, and the command that gets them.

Imports a command only when it is called, so that help and version are fast. Main thread.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from app import __version__, exits, paths
from app.exits import CommandError, OneLineParser
from app.printer import run_cli
from app.settings import probe_options
from app.settings.options import COMMANDS, LOCAL_MODEL, WINDOW, Command
from app.settings.serve import ServeOptions, resolve_serve_options
from engine import STOP_OPTIONS, InvalidRequest, StopOption, StopOptions, checked_strings
from engine.processes import collector_paused
from ui.preferences import Declaration, Declared, declared
from ui.words import unescaped

RUN_ENDING = ".fullstop-run"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    Args:
        argv: Arguments without the program's name; None reads them from the process.
    """
    words = _with_opened_file(list(sys.argv[1:] if argv is None else argv))
    return run_cli("fullstop", lambda: _run(words))


def _with_opened_file(words: list[str]) -> list[str]:
    """Read ``fullstop FILE`` as ``fullstop --open FILE``, as file managers open saved runs.

    A word with a dot or a slash is not a command.
    """
    first = words[0] if words else ""
    is_path = not first.startswith("-") and ("." in first or os.sep in first)
    if is_path and (Path(first).is_file() or first.endswith(RUN_ENDING)):
        return ["--open", *words]
    return words


def _run(words: list[str]) -> int:
    given = parsed(words)
    if given.self_test:
        if len(words) > 1:
            raise CommandError(
                "--self-test takes no other options: fullstop --self-test", exits.USAGE
            )
        return _work("app.commands.self_test:run")()
    outer: Command = given.command
    refuse_options_before(outer, given)
    command: Command = getattr(given, "action", outer)
    options: Any = given
    if command.options is ServeOptions:
        options = resolve_serve_options(vars(given), os.environ)
    elif command.options is not None:
        prefix = WINDOW_PREFIX if command is WINDOW else ""
        options = options_of(command.options, vars(given), prefix)
    code = _work(command.work)(options)
    if (composition := sys.modules.get("app.composition")) is not None:
        composition.end_if_stuck(code)
    return code


def _work(place: str) -> Callable[..., int]:
    """Import the function of a command, named with its module."""
    module, _, function = place.partition(":")
    with collector_paused():
        work: Callable[..., int] = getattr(importlib.import_module(module), function)
    return work


# -- the grammar -------------------------------------------------------------------------------
# Made from the declared commands.


T = TypeVar("T")
N = TypeVar("N", int, float)

# Options of the window are stored under separate names, and only when they are given, to detect an
# option before a command, where it would have no effect.
WINDOW_PREFIX = "window_"

# Values of these options are taken literally: a mark before them, which ``_verbatim`` removes,
# keeps argparse from interpreting them.
_VERBATIM = frozenset({"--stop", "--system"})
_VERBATIM_MARK = "="

# Names on the command line, for stop options whose own name would say too little there.
_FLAGS = {"scope": "stop-scope"}
_MIN_TOKENS = Declaration(least=0, most=2**31 - 1)

_PROGRAM = "fullstop"

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


def parser() -> OneLineParser:
    """Return the parser; its result has the chosen command as ``command``."""
    root = OneLineParser(
        prog=_PROGRAM,
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
    assert WINDOW.options is not None
    _add_options(root, WINDOW.options, WINDOW_PREFIX)
    root.set_defaults(command=WINDOW, grammar=root)
    _add_commands(root.add_subparsers(title="commands", metavar="COMMAND"), COMMANDS)
    return root


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """Parse the words of a command line; those after ``launch … --`` are the agent's."""
    ours, for_agent = list(words), []
    if words[:1] == ["launch"] and "--" in words:
        place = words.index("--")
        ours, for_agent = list(words[:place]), list(words[place + 1 :])
    root, first = parser(), "".join(ours[:1]).partition("=")[0]
    if len(first) > 2 and first.startswith("-") and first not in root.options():
        root.refuse(ours)  # the next word is perhaps its value, and no command
    given, unknown = root.parse_known_args(_marked(ours))
    if unknown:
        given.grammar.refuse(unknown)
    if for_agent:
        given.arguments = [*getattr(given, "arguments", ()), *for_agent]
    return given


def options_of(kind: type[T], values: Mapping[str, Any], prefix: str = "") -> T:
    """Return the options of a command, of the values in a namespace."""
    given: dict[str, Any] = {}
    hints = get_type_hints(kind)
    for option in declared_here(kind):
        name = _dest(option, prefix)
        if option.kind is StopOptions:
            given[option.name] = _stop_options(values, prefix)
        elif is_dataclass(option.kind):
            given[option.name] = options_of(hints[option.name], values, prefix)
        elif name in values:
            given[option.name] = _value(option, values[name], values.get(f"{prefix}escapes", False))
    return kind(**given)


def refuse_options_before(command: Command, given: argparse.Namespace) -> None:
    """Raise ``CommandError`` for an option of the window before a command."""
    for name in vars(given):
        if command is not WINDOW and name.startswith(WINDOW_PREFIX):
            option = "--" + name.removeprefix(WINDOW_PREFIX).replace("_", "-")
            raise CommandError(
                f"{option} must come after {command.name}: fullstop {command.name} … {option}",
                exits.USAGE,
            )


# -- commands ----------------------------------------------------------------------------------


def _add_commands(place: Any, commands: Sequence[Command], *, is_inner: bool = False) -> None:
    for command in commands:
        added: argparse.ArgumentParser = place.add_parser(
            command.name,
            help=command.help,
            description=command.description or f"{command.help[:1].upper()}{command.help[1:]}.",
            epilog=command.examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if command.options is None:
            probe_options.add_options(added)
        elif command.options is ServeOptions:
            _add_serve(added)
        else:
            _add_options(added, command.options)
        added.set_defaults(grammar=added, **{"action" if is_inner else "command": command})
        if command.actions:
            names = ",".join(action.name for action in command.actions)
            inner = added.add_subparsers(title="commands", metavar=f"{{{names}}}")
            _add_commands(inner, command.actions, is_inner=True)


def _add_serve(serve: argparse.ArgumentParser) -> None:
    """Add the settings; those that are not given may come from the environment or the file."""
    serve.add_argument(
        "--settings",
        type=Path,
        default=argparse.SUPPRESS,
        metavar="FILE",
        help="a TOML file of settings (default: serve.toml in the folder of settings, if any)",
    )
    groups: dict[str, argparse._ActionsContainer] = {"": serve}
    for option in declared(ServeOptions):
        place = option.setting.place
        if place not in groups:
            groups[place] = serve.add_argument_group(place)
        _add_option(groups[place], option)


# -- options -----------------------------------------------------------------------------------


def declared_here(kind: type) -> list[Declared]:
    """Return the fields of a dataclass; a dataclass within it is one of them."""
    hints = get_type_hints(kind)
    said = {option.path: option for option in declared(kind)}
    return [
        said.get(field_.name) or Declared(field_.name, hints[field_.name], None, Declaration())
        for field_ in fields(kind)
    ]


def _add_options(place: argparse._ActionsContainer, kind: type, prefix: str = "") -> None:
    for field in declared_here(kind):
        if field.kind is StopOptions:
            for option in STOP_OPTIONS:
                place.add_argument(
                    f"--{_flag(option)}",
                    dest=prefix + _flag(option).replace("-", "_"),
                    default=argparse.SUPPRESS,
                    help=option.help,
                    **_kind_of_stop_option(option),
                )
        elif isinstance(field.kind, type) and is_dataclass(field.kind):
            _add_options(place, field.kind, prefix)
        else:
            _add_option(place, field, prefix, is_model_found=True)


def _add_option(
    place: argparse._ActionsContainer,
    option: Declared,
    prefix: str = "",
    *,
    is_model_found: bool = False,
) -> None:
    """Add the option of a setting; the result lacks it unless it is given."""
    said, flag, kind = option.setting, _option(option), _kind(option.kind)
    is_place = not flag.startswith("--") or flag.startswith("-- ")
    text = _verbatim if flag in _VERBATIM else str
    reading: dict[str, Any] = {"action": "store_true"}
    if kind is not bool:
        path: Callable[[str], Path] = Path
        if is_model_found and said.metavar == LOCAL_MODEL:
            path = paths.model_folder
        elif flag == "--open":
            path = _absolute  # another process of ours may have to open it
        types: dict[Any, Any] = {int: whole_number(said), float: _number(said), str: text}
        reading = {"type": types.get(kind, path), "metavar": said.metavar or None}
    if get_origin(option.kind) is tuple:
        places = {"nargs": "*", "default": argparse.SUPPRESS}  # or argparse calls it required
        reading |= {"type": text} | places if is_place else {"type": text, "action": "append"}
    if get_origin(option.kind) is Literal:
        reading = {"choices": get_args(option.kind)}
    if is_place:
        reading["metavar"] = flag
        place.add_argument(_dest(option, prefix), help=said.help, **reading)
        return
    place.add_argument(
        flag, dest=_dest(option, prefix), default=argparse.SUPPRESS, help=_help(option), **reading
    )
    if flag == "--stop":
        place.add_argument(
            "--escapes",
            dest=f"{prefix}escapes",
            default=argparse.SUPPRESS,
            action="store_true",
            help=r"read \n, \t, \\, \xHH and \uHHHH in --stop as the characters they mean",
        )


def _option(option: Declared) -> str:
    return option.setting.option or f"--{option.name.replace('_', '-')}"


def _dest(option: Declared, prefix: str) -> str:
    """Return the name of an option in the namespace."""
    flag = _option(option)
    is_named = flag.startswith("--") and not flag.startswith("-- ")
    return prefix + (flag.removeprefix("--").replace("-", "_") if is_named else option.name)


def _help(option: Declared) -> str:
    """Return the help, with the default if there is one."""
    words, default = option.setting.help, option.default
    if isinstance(default, bool) or not isinstance(default, int | float | str) or not default:
        return words
    if "(default" in words:
        return words
    return f"{words} (default {f'{default:g}' if isinstance(default, float) else default})"


def _kind(kind: Any) -> Any:
    """Return the type of a value that is not None."""
    return get_args(kind)[0] if isinstance(kind, UnionType) else kind


def _flag(option: StopOption) -> str:
    return _FLAGS.get(option.name, option.name.replace("_", "-"))


def _kind_of_stop_option(option: StopOption) -> dict[str, Any]:
    match option.default:
        case bool():
            return {"action": "store_true"}
        case Enum():
            return {"choices": [choice.value for choice in type(option.default)]}
        case _:
            return {"type": whole_number(_MIN_TOKENS), "metavar": "N"}


# -- values ------------------------------------------------------------------------------------


def _marked(words: list[str]) -> list[str]:
    """Rewrite ``--stop X`` as ``--stop=`` and a marked X, which argparse takes as a value.

    Otherwise argparse takes a value such as ``---`` for an option, and drops ``--``.
    """
    marked: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            return [*marked, word, *rest]
        name, separator, joined = word.partition("=")
        if name in _VERBATIM:
            value = joined if separator else next(rest, None)
            word = name if value is None else f"{name}={_VERBATIM_MARK}{value}"
        marked.append(word)
    return marked


def _absolute(typed: str) -> Path:
    return Path(typed).expanduser().absolute()


def _verbatim(marked: str) -> str:
    return marked.removeprefix(_VERBATIM_MARK)


def _value(option: Declared, given: Any, are_escaped: bool) -> Any:
    flag = _option(option)
    try:
        if flag == "--stop":
            stops = [unescaped(stop) for stop in given] if are_escaped else given
            return checked_strings(stops, "--stop")
        if flag == "--system":
            given.encode()  # bytes that are not UTF-8 arrive as lone surrogates
    except UnicodeEncodeError as error:
        raise CommandError(f"{flag} is not valid UTF-8", exits.USAGE) from error
    except ValueError as error:
        raise CommandError(f"--stop: {error}", exits.USAGE) from error
    except InvalidRequest as error:
        raise CommandError(str(error), exits.USAGE) from error
    if isinstance(given, Path) and option.setting.metavar == LOCAL_MODEL:
        return given.expanduser()
    return tuple(given) if isinstance(given, list) else given


def _stop_options(values: Mapping[str, Any], prefix: str) -> StopOptions:
    given = ((option, prefix + _flag(option).replace("-", "_")) for option in STOP_OPTIONS)
    return StopOptions(
        **{
            option.name: type(option.default)(values[dest])
            for option, dest in given
            if dest in values
        }
    )


def whole_number(said: Declaration) -> Callable[[str], int]:
    """Return a parser of whole numbers within limits."""
    return partial(_read, int, "a whole number", said)


def _number(said: Declaration) -> Callable[[str], float]:
    return partial(_read, float, "a number", said)


def _read(kind: Callable[[str], N], called: str, said: Declaration, typed: str) -> N:
    try:
        value = kind(typed)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{typed!r} is not {called}") from None
    least, most = said.least, said.most
    if least is None or most is None:
        return value
    # Written so that NaN, which is neither less nor greater, does not pass.
    if said.excludes_least and not least < value <= most:
        raise argparse.ArgumentTypeError(
            f"{typed} is not greater than {least:.17g} and at most {most:.17g}"
        )
    if not least <= value <= most:
        raise argparse.ArgumentTypeError(f"{typed} is not between {least:.17g} and {most:.17g}")
    return value
