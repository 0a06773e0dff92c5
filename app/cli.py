"""The command line: its parser, and the command that gets the parsed options.

Imports a command only when it is called, so that help and version are fast. Main thread.
"""

import argparse
import gc
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from app import __version__, exits, paths
from app.arguments import OneLineParser
from app.exits import CommandError
from app.printer import run_cli
from app.settings.commands import COMMANDS, WINDOW
from app.settings.options import (
    LITERAL_PREFIX,
    LOCAL_MODEL,
    Command,
    absolute_path,
    number_parser,
    stop_arguments,
    strip_literal,
)
from app.settings.serve import ServeOptions
from app.settings.serve_resolution import resolve_serve_options
from engine.errors import InvalidRequest
from engine.stopping.rules import STOP_OPTIONS, StopOptions, checked_strings
from engine.threads import collector_paused
from ui.preferences import TOKENS_MAX, Declaration, declared
from ui.words import unescaped

RUN_ENDING = ".fullstop-run"

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
# Options whose values are taken literally, such as ``---``.
_LITERAL_OPTIONS = ("--stop", "--system", "--versus-stop", "--with")
_FLAGS = {"scope": "stop-scope"}
"""The option names of stop options whose own name is too general."""
_T = TypeVar("_T")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    arguments = _with_opened_file(list(sys.argv[1:] if argv is None else argv))
    code = run_cli("fullstop", lambda: _run(arguments))
    if (engines := sys.modules.get("app.engines")) is not None:
        engines.end_if_stuck(code)
    return code


def _with_opened_file(arguments: list[str]) -> list[str]:
    """Read ``fullstop FILE``, as file managers open saved runs, as ``fullstop --open FILE``."""
    first = arguments[0] if arguments else ""
    is_path = not first.startswith("-") and ("." in first or os.sep in first)
    if is_path and (Path(first).is_file() or first.endswith(RUN_ENDING)):
        return ["--open", *arguments]
    return arguments


def _run(arguments: list[str]) -> int:
    given = parse(arguments)
    if given.self_test:
        if len(arguments) > 1:
            raise CommandError(
                "--self-test takes no other options: fullstop --self-test", exits.USAGE
            )
        return _import("app.commands.self_test:run")()
    command: Command = given.command
    options: Any = given
    if command.options is ServeOptions:
        options = resolve_serve_options(vars(given), os.environ)
    elif command.options is not None:
        try:
            getattr(given, "system_prompt", "").encode()
        except UnicodeEncodeError as error:  # bytes that are not UTF-8 arrive as lone surrogates
            raise CommandError("--system is not valid UTF-8", exits.USAGE) from error
        given.stops = _checked_stops(vars(given))
        given.versus_stops = _checked_stops(vars(given), "versus_stops", "--versus-stop")
        options = build_options(command.options, vars(given))
    else:
        options = argparse.Namespace(**{"is_json": False} | vars(given))  # models --json list
        options.stops = _checked_stops(vars(given))
    return _import(command.work)(options)


def _import(target: str) -> Callable[..., int]:
    module, _, function = target.partition(":")
    with collector_paused():
        work: Callable[..., int] = getattr(importlib.import_module(module), function)
        gc.freeze()  # the next collection would visit everything that was imported
    return work


def parser() -> OneLineParser:
    """Return the parser; its result has the chosen command as ``command``."""
    root = OneLineParser(
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
    assert WINDOW.options is not None
    _add_options(root, WINDOW.options)
    root.set_defaults(command=WINDOW, parser=root)
    _add_commands(root, COMMANDS, "COMMAND")
    return root


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse a command line; the arguments after ``launch … --`` are the agent's."""
    root = parser()
    ours, for_agent = root.with_options_behind_command(_mark_literals(list(arguments))), []
    if ours[:1] == ["launch"] and "--" in ours:
        index = ours.index("--")
        ours, for_agent = ours[:index], ours[index + 1 :]
    first = "".join(ours[:1]).partition("=")[0]
    if len(first) > 2 and first.startswith("-") and first not in root.options():
        root.refuse(ours)  # the next argument is perhaps its value, and no command
    given, unknown = root.parse_known_args(ours)
    if unknown:
        given.parser.refuse(unknown)
    if for_agent:
        given.arguments = [*getattr(given, "arguments", ()), *for_agent]
    return given


def build_options(kind: type[_T], values: Mapping[str, Any]) -> _T:
    """Return the options of a command from the values of a namespace."""
    given: dict[str, Any] = {}
    for option in _own_options(kind):
        if option.kind is StopOptions:
            given[option.name] = StopOptions(
                **{
                    stop_option.name: type(stop_option.default)(values[stop_option.name])
                    for stop_option in STOP_OPTIONS
                    if stop_option.name in values
                }
            )
        elif is_dataclass(option.kind):
            given[option.name] = build_options(option.kind, values)  # type: ignore[arg-type]
        elif option.name in values:
            value = values[option.name]
            given[option.name] = tuple(value) if isinstance(value, list) else value
    return kind(**given)


def _add_commands(root: OneLineParser, commands: Sequence[Command], metavar: str) -> None:
    subparsers = root.add_subparsers(title="commands", metavar=metavar)
    for command in commands:
        added = subparsers.add_parser(
            command.name,
            help=command.help,
            description=command.description or f"{command.help[:1].upper()}{command.help[1:]}.",
            epilog=command.examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if command.options is ServeOptions:
            _add_serve_options(added)
        elif command.options is not None:
            _add_options(added, command.options)
        else:
            added.add_arguments(command.arguments)
        added.set_defaults(parser=added, command=command)
        if command.actions:
            names = ",".join(action.name for action in command.actions)
            _add_commands(added, command.actions, f"{{{names}}}")


def _add_serve_options(serve: argparse.ArgumentParser) -> None:
    serve.add_argument(
        "--settings",
        type=Path,
        default=argparse.SUPPRESS,
        metavar="FILE",
        help="a TOML file of settings (default: serve.toml in the folder of settings, if any)",
    )
    groups: dict[str, argparse._ActionsContainer] = {"": serve}
    for option in declared(ServeOptions):
        title = option.section
        if title not in groups:
            groups[title] = serve.add_argument_group(title)
        _add_option(groups[title], option)


def _own_options(kind: type) -> list[Declaration]:
    """Return the fields of a dataclass; a dataclass within it is one of them."""
    hints = get_type_hints(kind)
    options = {option.path: option for option in declared(kind)}
    return [
        options.get(field.name) or Declaration(path=field.name, kind=hints[field.name])
        for field in fields(kind)
    ]


def _add_options(container: argparse._ActionsContainer, kind: type) -> None:
    for option in _own_options(kind):
        if option.kind is StopOptions:
            _add_stop_options(container)
        elif isinstance(option.kind, type) and is_dataclass(option.kind):
            _add_options(container, option.kind)
        else:
            _add_option(container, option)


def _add_stop_options(container: argparse._ActionsContainer) -> None:
    for option in STOP_OPTIONS:
        match option.default:
            case bool():
                details: dict[str, Any] = {"action": "store_true"}
            case Enum():
                details = {"choices": [choice.value for choice in type(option.default)]}
            case _:
                details = {
                    "type": number_parser(int, Declaration(minimum=0, maximum=TOKENS_MAX)),
                    "metavar": "N",
                }
        flag = _FLAGS.get(option.name, option.name.replace("_", "-"))
        container.add_argument(
            f"--{flag}", dest=option.name, default=argparse.SUPPRESS, help=option.help, **details
        )


def _add_option(container: argparse._ActionsContainer, option: Declaration) -> None:
    flag = option.option or f"--{option.name.replace('_', '-')}"
    if flag == "--stop":
        for names, stop_details in stop_arguments(option.help):
            container.add_argument(*names, **stop_details)
        return
    is_positional = not flag.startswith("--") or flag.startswith("-- ")
    details = _argument_details(option, flag)
    if is_positional:
        if get_origin(option.kind) is tuple:
            details |= {"nargs": "*", "default": argparse.SUPPRESS}  # else it is required
        elif option.default is None:
            details |= {"nargs": "?", "default": argparse.SUPPRESS}
        container.add_argument(option.name, help=option.help, **(details | {"metavar": flag}))
        return
    if get_origin(option.kind) is tuple:
        details["action"] = "append"
    container.add_argument(
        flag, dest=option.name, default=argparse.SUPPRESS, help=_help_text(option), **details
    )


def _argument_details(option: Declaration, flag: str) -> dict[str, Any]:
    kind = get_args(option.kind)[0] if isinstance(option.kind, UnionType) else option.kind
    if kind is bool:
        return {"action": "store_true"}
    if get_origin(kind) is Literal:
        return {"choices": get_args(kind)}
    metavar = option.metavar or None
    if kind in (int, float):
        return {"type": number_parser(kind, option), "metavar": metavar}
    if kind is Path:
        parse_path = paths.model_folder if metavar == LOCAL_MODEL else absolute_path
        return {"type": parse_path, "metavar": metavar}
    return {"type": strip_literal if flag in _LITERAL_OPTIONS else str, "metavar": metavar}


def _help_text(option: Declaration) -> str:
    text, default = option.help, option.default
    is_shown = isinstance(default, int | float | str) and not isinstance(default, bool)
    if not (is_shown and default) or "(default" in text:
        return text
    return f"{text} (default {f'{default:g}' if isinstance(default, float) else default})"


def _mark_literals(arguments: list[str]) -> list[str]:
    """Rewrite ``--stop X`` as ``--stop=`` and a marked X, which argparse takes as a value."""
    marked: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        if argument == "--":
            return [*marked, argument, *remaining]
        name, separator, joined = argument.partition("=")
        if name in _LITERAL_OPTIONS:
            value = joined if separator else next(remaining, None)
            argument = name if value is None else f"{name}={LITERAL_PREFIX}{value}"
        marked.append(argument)
    return marked


def _checked_stops(
    given: Mapping[str, Any], name: str = "stops", option: str = "--stop"
) -> tuple[str, ...]:
    try:
        stops = given.get(name, ())
        if given.get("escapes"):
            stops = [unescaped(stop) for stop in stops]
        return checked_strings(stops, option)
    except ValueError as error:
        raise CommandError(f"{option}: {error}", exits.USAGE) from error
    except InvalidRequest as error:
        raise CommandError(str(error), exits.USAGE) from error
