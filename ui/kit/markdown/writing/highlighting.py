"""Colors for code, by Pygments: a line is a list of runs, each with a color.

Main thread; no widgets.

Code is colored in sections of a few dozen lines, which are remembered: code that grows line by line
then costs one section, not the whole code again.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pygments.lexer import Lexer

Runs = tuple[tuple[str, str | None], ...]

_LEAST_LINES, _MOST_LINES = 40, 120


@dataclass(frozen=True, slots=True)
class CodeColors:
    """The colors of code, as ``#rrggbb``."""

    keyword: str
    string: str
    number: str
    comment: str
    name: str


LIGHT_CODE = CodeColors("#8a3fa0", "#2b7245", "#a4540f", "#70695d", "#2458a6")
DARK_CODE = CodeColors("#d3a4ec", "#93cf9f", "#eeb27a", "#908b86", "#90bdf5")


def highlighted_lines(code: str, language: str, colors: CodeColors) -> list[Runs]:
    """Return the lines of the code, each as runs of text with a color; None is the plain color.

    The runs of a line always join to exactly the line.
    """
    lines: list[Runs] = []
    for stretch in _stretches(code.split("\n")):
        lines.extend(_colored(stretch, language, colors))
    return lines


class OpenCode:
    """Colors code that grows; only its last line may be incomplete.

    Complete lines have the colors of ``highlighted_lines``. The last line is colored again with
    each piece, together with only the line above it if that is known to suffice. Its colors are
    exact at the latest when it is complete.
    """

    def __init__(self) -> None:
        self._noted: tuple[str, str, CodeColors] | None = None
        self._kept: list[Runs] = []
        self._restart = 0

    def lines(self, code: str, language: str, colors: CodeColors) -> list[Runs]:
        """Return the lines of the code, each as runs of text with a color."""
        *closed, newest = _stretches(code.split("\n"))
        lines: list[Runs] = []
        for stretch in closed:
            lines.extend(_colored(stretch, language, colors))
        whole = newest[: newest.rfind("\n") + 1]
        if self._noted != (whole, language, colors):
            self._note(whole, language, colors)
        lines.extend(self._kept)
        lines.extend(_lexed(newest[self._restart :], language, colors))
        return lines

    def _note(self, whole: str, language: str, colors: CodeColors) -> None:
        """Note complete lines, and whether the last of them can be colored by itself."""
        self._noted = whole, language, colors
        lines = _colored(whole, language, colors)[:-1]
        text = whole.rstrip("\n")
        begin = text.rfind("\n") + 1
        above = text.count("\n")
        alone = _lexed(whole[begin:], language, colors)[:-1]
        is_alone = alone == lines[above:]
        self._restart = begin if is_alone else 0
        self._kept = list(lines[:above]) if is_alone else []


def _stretches(lines: list[str]) -> list[str]:
    """Split code where a new top-level statement seems to begin."""
    stretches: list[str] = []
    begin = 0
    for number, line in enumerate(lines):
        length = number - begin
        is_top_level = bool(line) and (line[0].isalnum() or line[0] in "_#@/")
        if length >= _MOST_LINES or (length >= _LEAST_LINES and is_top_level):
            stretches.append("\n".join(lines[begin:number]))
            begin = number
    stretches.append("\n".join(lines[begin:]))
    return stretches


@lru_cache(maxsize=512)
def _colored(code: str, language: str, colors: CodeColors) -> tuple[Runs, ...]:
    return _lexed(code, language, colors)


def _lexed(code: str, language: str, colors: CodeColors) -> tuple[Runs, ...]:
    lexer = _lexer(language) if language else None
    if lexer is None:
        return tuple(((line, None),) for line in code.split("\n"))
    runs = [(text, _color_of(kind, colors)) for kind, text in lexer.get_tokens(code)]
    if "".join(text for text, _ in runs) != code:  # the lexer changes the text that it reads
        runs = [(code, None)]
    lines: list[list[tuple[str, str | None]]] = [[]]
    for text, color in runs:
        first, *rest = text.split("\n")
        if first:
            lines[-1].append((first, color))
        for line in rest:
            lines.append([(line, color)] if line else [])
    return tuple(tuple(line) for line in lines)


@lru_cache(maxsize=64)
def _lexer(language: str) -> "Lexer | None":
    # Imported late, because a window without code does not need the lexers.
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        lexer: Lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
    return lexer


@lru_cache(maxsize=512)
def _color_of(kind: Any, colors: CodeColors) -> str | None:
    from pygments.token import Comment, Keyword, Name, Number, Operator, String

    by_kind = (
        (Comment, colors.comment),
        (Keyword, colors.keyword),
        (Operator.Word, colors.keyword),
        (String, colors.string),
        (Number, colors.number),
        (Name.Function, colors.name),
        (Name.Class, colors.name),
        (Name.Tag, colors.name),
        (Name.Builtin, colors.name),
        (Name.Decorator, colors.name),
    )
    family = kind.split()
    return next((color for token, color in by_kind if token in family), None)
