"""Calls that are written as Python: ``[f(a="x", b=2), g()]``. Pure; any thread."""

import ast
import json
import re
import textwrap
from collections.abc import Sequence

from engine.output.tool_calls.call_text import (
    CALL_ENDS,
    CallWriter,
    IrregularCall,
    ReadCalls,
    StreamBuffer,
    Waiting,
)
from engine.output.tool_calls.json_calls import json_calls
from engine.output.tool_calls.parameters import ToolTypes
from engine.threads import syntax_of

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STRING = re.compile(r"""(?<![\w"'])("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""", re.DOTALL)
_JSON_LITERALS = {"true": True, "false": False, "null": None}


def python_calls(types: ToolTypes, marks: Sequence[str]) -> ReadCalls:
    """Return the reader of calls in Python: calls, or lists of them, each on a line.

    The calls come when the text is complete.
    """
    as_json = json_calls(marks)

    def read(text: StreamBuffer, out: CallWriter) -> Waiting[None]:
        char = yield from text.skip_marks(marks)
        if char == "[":
            offset = yield from text.after_space(1)
            char = yield from text.peek(offset)
        if char == "{":
            yield from as_json(text, out)
            return
        code = yield from text.text_before(CALL_ENDS)
        for mark in marks:
            code = code.replace(mark, "\n")
        for name, arguments in _calls_in(code, types):
            out.start(name)
            out.write(arguments[:-1])
            out.defer("}")

    return read


def _calls_in(code: str, types: ToolTypes) -> list[tuple[str, str]]:
    """Return the names and arguments of the calls that code consists of."""
    try:
        calls = [
            call
            for statement in _parsed(textwrap.dedent(code).strip()).body
            for call in _calls_of(
                statement.value if isinstance(statement, ast.Expr) else None, types
            )
        ]
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise IrregularCall("the text is more than calls in Python") from error
    if not calls:
        raise IrregularCall("the text has no call")
    return calls


def _parsed(code: str) -> ast.Module:
    """Return the syntax of code, in whose strings line breaks may be written as they are."""
    try:
        return syntax_of(code)
    except SyntaxError:
        return syntax_of(_STRING.sub(lambda match: match[0].replace("\n", "\\n"), code))


def _calls_of(node: object, types: ToolTypes) -> list[tuple[str, str]]:
    if isinstance(node, (ast.List, ast.Tuple)):
        return [call for element in node.elts for call in _calls_of(element, types)]
    if not isinstance(node, ast.Call):
        raise IrregularCall("the code is more than calls")
    name = ast.unparse(node.func)
    if name == "print" and name not in types.names and len(node.args) == 1 and not node.keywords:
        return _calls_of(node.args[0], types)
    name = name.removeprefix("default_api.")
    if not all(map(_NAME.fullmatch, name.split("."))):
        raise IrregularCall("the code is more than calls")
    arguments = dict(zip(types.parameters_of(name), map(_value, node.args), strict=False))
    if len(arguments) < len(node.args):
        raise IrregularCall("the call has values without names")
    for named in node.keywords:
        if named.arg is None:
            raise IrregularCall("the call has values without names")
        arguments[named.arg] = _value(named.value)
    written = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
    written.encode()  # refuses half of a surrogate pair
    return [(name, written)]


def _value(node: ast.expr) -> object:
    """Return the value of a literal, in which JSON's words may stand."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and inner.id not in _JSON_LITERALS:
            raise IrregularCall("a value is not a literal")
    return ast.literal_eval(_JsonLiterals().visit(node))


class _JsonLiterals(ast.NodeTransformer):
    """Reads ``true``, ``false`` and ``null`` as Python's words."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.copy_location(ast.Constant(_JSON_LITERALS[node.id]), node)
