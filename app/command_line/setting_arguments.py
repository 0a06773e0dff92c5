"""Options made from declared settings: their names, types, limits and help. Pure."""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin

from ui.preferences.preferences import Declaration, Declared

T = TypeVar("T", int, float)


def add_setting(
    parser: argparse._ActionsContainer,
    one: Declared,
    *,
    prefix: str = "",
    text: Callable[[str], str] = str,
) -> None:
    """Add the option of a setting; the result lacks it unless it is given."""
    said = one.setting
    option = said.option or f"--{one.name.replace('_', '-')}"
    kind = _kind(one.kind)
    reading: dict[str, Any] = {"action": "store_true"}
    if kind is not bool:
        types: dict[Any, Any] = {int: whole_number(said), float: number(said), str: text}
        reading = {"type": types.get(kind, Path), "metavar": said.metavar or None}
    if get_origin(one.kind) is tuple:
        reading |= {"type": text, "action": "append"}
    if get_origin(one.kind) is Literal:
        reading = {"choices": get_args(one.kind)}
    parser.add_argument(
        option,
        dest=prefix + option.removeprefix("--").replace("-", "_"),
        default=argparse.SUPPRESS,
        help=_help(one),
        **reading,
    )


def whole_number(said: Declaration) -> Callable[[str], int]:
    """Return a parser of whole numbers within limits."""
    return partial(_read, int, "a whole number", said)


def number(said: Declaration) -> Callable[[str], float]:
    """Return a parser of numbers within limits."""
    return partial(_read, float, "a number", said)


def _read(kind: Callable[[str], T], called: str, said: Declaration, typed: str) -> T:
    try:
        value = kind(typed)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{typed!r} is not {called}") from None
    _check(typed, value, said)
    return value


def _check(typed: str, value: float, said: Declaration) -> None:
    least, most = said.least, said.most
    if least is None or most is None:
        return
    # Written so that NaN, which is neither less nor greater, does not pass.
    if said.excludes_least and not least < value <= most:
        raise argparse.ArgumentTypeError(
            f"{typed} is not greater than {least:.17g} and at most {most:.17g}"
        )
    if not least <= value <= most:
        raise argparse.ArgumentTypeError(f"{typed} is not between {least:.17g} and {most:.17g}")


def _kind(kind: Any) -> Any:
    """Return the type of a value that is not None."""
    return get_args(kind)[0] if isinstance(kind, UnionType) else kind


def _help(one: Declared) -> str:
    """Return the help, with the default if there is one."""
    words, default = one.setting.help, one.default
    if isinstance(default, bool) or not isinstance(default, int | float | str) or not default:
        return words
    return f"{words} (default {f'{default:g}' if isinstance(default, float) else default})"
