"""Declares each setting once: its field gives name, type and default; ``Declaration`` the rest.

Files, dialogs, command lines and tables of documentation are made from the declarations. Pure
values; knows no Qt and no file. Any thread.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeVar, get_type_hints

T = TypeVar("T")

_KEY = "setting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """The facts about a setting that its field does not contain.

    Attributes:
        help: Its effect, in one phrase without a full stop.
        least: The smallest number that is allowed.
        most: The greatest number that is allowed.
        excludes_least: Whether the number must be greater than ``least``.
        metavar: The name of the value on the command line; empty for a switch.
        example: A value that shows the notation, if the default does not show it.
        option: Its option on the command line; empty for none, or for one of the field's name.
        place: Where a person changes it in the window, or its group of options.
        label: Its name there.
        says: Its accessible name, if the label alone does not say enough.
        choices: The values that are offered, with their words.
        unset: The words for None.
        step: The difference that one step up or down makes.
        unit: The unit of the number.
    """

    help: str = ""
    least: float | None = None
    most: float | None = None
    excludes_least: bool = False
    metavar: str = ""
    example: Any = None
    option: str = ""
    place: str = ""
    label: str = ""
    says: str = ""
    choices: Mapping[Any, str] = field(default_factory=dict)
    unset: str = ""
    step: float = 1
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Declared:
    """One setting.

    Attributes:
        path: Its name, with those of the sections around it: ``server.port``.
        kind: The type of its value.
        default: Its value if nobody chose one.
        setting: The rest of its declaration.
    """

    path: str
    kind: Any
    default: Any
    setting: Declaration

    @property
    def name(self) -> str:
        """The name of the field alone."""
        return self.path.rpartition(".")[2]


def declare(default: T, **said: Any) -> T:
    """Return a dataclass's field with a default; ``said`` are fields of ``Declaration``."""
    return field(default=default, metadata={_KEY: Declaration(**said)})


def declared(kind: type, prefix: str = "") -> Iterator[Declared]:
    """Return the settings of a dataclass and of the dataclasses inside it, in their order."""
    usual = kind()
    hints = get_type_hints(kind)
    for one in fields(kind):
        inner = hints[one.name]
        if is_dataclass(inner) and isinstance(inner, type):
            yield from declared(inner, f"{prefix}{one.name}.")
        else:
            setting = one.metadata.get(_KEY, Declaration())
            yield Declared(f"{prefix}{one.name}", inner, getattr(usual, one.name), setting)
