"""Parses only the newest lines of a growing text whose only block is a long table or code.

Pure; knows no Qt. Such a block stays open until another one follows; without this module, each new
piece would cost as much as the whole block before it.
"""

from collections.abc import Iterable

from markdown_it.token import Token

from ui.kit.markdown.parsing.parser import parse

_HEAD_LINES = 2  # the head of a table and the line below it
_NOTE = "[^"


class OpenBlock:
    """Remembers the only block of a text, and parses only the additions.

    The tokens of a row or a line of code do not depend on what follows, so they are kept. The
    parser decides from the first and the newest lines whether the block continues.
    """

    def __init__(self) -> None:
        self._known = ""
        self._tokens: list[Token] = []

    def parse(self, text: str, notes: Iterable[str]) -> list[Token]:
        """Return ``ui.kit.markdown.parsing.parser.parse(text, notes)``."""
        tokens = self._grown(text) if self._known and text.startswith(self._known) else None
        if tokens is None:
            tokens = parse(text, notes)
        self._remember(text, tokens)
        return tokens

    def _remember(self, text: str, tokens: list[Token]) -> None:
        """Note the complete lines, except the last line of a table, which may still change."""
        self._known, self._tokens = "", tokens
        first = tokens[0] if tokens else None
        if first is None or first.map is None or first.map[0] != 0:
            return
        if len(tokens) == 1 and first.type == "fence":
            # The fence is neither indented nor closed: every line below the first is code.
            if _is_content(first, text[text.find("\n") + 1 :]):
                self._known = text[: text.rfind("\n") + 1]
        elif _is_lone_table(tokens) and _NOTE not in text:
            rows = _row_starts(tokens)
            where = tokens[rows[-1]].map
            if len(rows) > _HEAD_LINES and where is not None:
                self._known = _first_lines(text, where[0])

    def _grown(self, text: str) -> list[Token] | None:
        return self._grown_code(text) if len(self._tokens) == 1 else self._grown_table(text)

    def _grown_code(self, text: str) -> list[Token] | None:
        begin, rest = text.index("\n") + 1, text[len(self._known) :]
        tokens = parse(text[:begin] + rest)
        if len(tokens) != 1 or tokens[0].type != "fence" or not _is_content(tokens[0], rest):
            return None
        code = tokens[0]
        code.content = text[begin : len(self._known)] + code.content
        if code.map is not None:
            code.map = [0, code.map[1] + self._known.count("\n") - 1]
        return tokens

    def _grown_table(self, text: str) -> list[Token] | None:
        rest = text[len(self._known) :]
        if _NOTE in rest:
            return None
        newest = parse(_first_lines(text, _HEAD_LINES) + rest)
        if not _is_lone_table(newest) or newest[0].map is None:
            return None
        rows, fresh_rows = _row_starts(self._tokens), _row_starts(newest)
        if len(fresh_rows) < _HEAD_LINES:
            return None
        lines_left_out = self._known.count("\n") - _HEAD_LINES
        fresh = newest[fresh_rows[1] :]
        for token in fresh:
            if token.map is not None:
                token.map = [line + lines_left_out for line in token.map]
        end = newest[0].map[1] + lines_left_out
        self._tokens[0].map = [0, end]
        self._tokens[rows[1] - 1].map = [_HEAD_LINES, end]  # the body of the table
        return self._tokens[: rows[-1]] + fresh


def _is_content(code: Token, text: str) -> bool:
    """Return whether a text is code to its end, not counting a last line of white space."""
    return text.startswith(code.content) and not text[len(code.content) :].strip(" \t")


def _first_lines(text: str, count: int) -> str:
    at = 0
    for _ in range(count):
        at = text.index("\n", at) + 1
    return text[:at]


def _is_lone_table(tokens: list[Token]) -> bool:
    # A top-level table contains no other block, and a second table would close the first.
    return (
        len(tokens) > 1
        and tokens[0].type == "table_open"
        and tokens[-1].type == "table_close"
        and sum(token.type == "table_open" for token in tokens) == 1
    )


def _row_starts(tokens: list[Token]) -> list[int]:
    return [at for at, token in enumerate(tokens) if token.type == "tr_open"]
