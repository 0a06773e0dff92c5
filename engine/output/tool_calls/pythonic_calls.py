"""Calls that are written as Python: ``[f(a="x", b=2), g()]``. Pure; any thread."""

import ast
import json
import keyword
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from engine.output.tool_calls.call_text import (
    MAX_DEPTH,
    ArrivingText,
    CallParser,
    CallWriter,
    Format,
    IrregularCall,
    Waiting,
    escaped,
)
from engine.output.tool_calls.parameters import Conversions, NestedValue, ParameterWriter, ReadValue

# Strings without a prefix are written while they arrive, also in lists and dictionaries. The
# model's parser converts every other value when it is complete, and also lists and dictionaries
# that contain anything but strings, plain words, lists and dictionaries.

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN = re.compile(r"""[^"'\\\n\r\x00]*""")
_VALUE = re.compile(r"""[^"'\\\n\r\x00\[\](){},#]*""")
_WORD = re.compile(r"[^\s,:()\[\]{}\"'#]*")
_HEX = re.compile(r"[0-9a-fA-F]+")
_ESCAPED = {
    "n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v",
    "\\": "\\", "'": "'", '"': '"',
}  # fmt: skip
_DIGITS = {"x": 2, "u": 4, "U": 8}
_WRAPPER = "print"
_CLOSING = {"(": ")", "[": "]", "{": "}"}


def pythonic(parse: CallParser) -> Format:
    """Return the format of calls in Python."""
    conversions = Conversions(parse)

    def read(text: ArrivingText, out: CallWriter) -> Waiting[None]:
        yield from text.skip_past("[")
        yield from _list(text, out, conversions)

    return read


def tool_code(parse: CallParser) -> Format:
    """Return the format of Gemma 3's ``tool_code``: calls, or lists of them, each on a line."""
    conversions = Conversions(parse)

    def read(text: ArrivingText, out: CallWriter) -> Waiting[None]:
        while True:
            if (yield from text.skip_space()) == "[":
                yield from text.take()
                yield from _list(text, out, conversions)
                yield from text.take()
            else:
                yield from _call(text, out, conversions, wrapper=_WRAPPER)

    return read


def _list(text: ArrivingText, out: CallWriter, conversions: Conversions) -> Waiting[None]:
    """Read calls up to the bracket that closes their list."""
    while (yield from text.skip_space()) != "]":
        yield from _call(text, out, conversions)
        yield from _comma(text, "]")


def _call(
    text: ArrivingText, out: CallWriter, conversions: Conversions, wrapper: str = ""
) -> Waiting[None]:
    """Read a call, which another function may wrap."""
    name = (yield from text.until("(")).strip()
    if name == wrapper:
        yield from _call(text, out, conversions)
        yield from text.skip_space()
        yield from text.expect(")")
        return
    for part in name.split("."):
        _check(part)
    out.start(conversions.name_of(f"[{name}()]"))
    writer = ParameterWriter(out, conversions)
    writer.open()
    keys: set[str] = set()
    while (yield from text.skip_space()) != ")":
        key = (yield from text.until("=")).strip()
        _check(key)
        if key in keys:
            raise IrregularCall
        keys.add(key)
        if (yield from text.skip_space()) in "\"'":
            writer.key(key)
            yield from _string(text, out.write, ",)")
        else:
            value = writer.nested(key, _nested_reader(conversions))
            yield from _value(text, value)
            writer.pair(f"[{name}({key}={value.raw})]", value)
        yield from _comma(text, ")")
    yield from text.take()
    writer.end()


def parse_tool_code(raw: str, tools: Sequence[Mapping[str, Any]]) -> list[dict[str, object]]:
    """Return the calls of whole Python code; raises ``ValueError`` if it is anything else.

    Args:
        raw: The code.
        tools: The tools that were offered, which name parameters that the code does not name.
    """
    try:
        body = ast.parse(textwrap.dedent(raw).strip()).body
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError("the text is not Python") from error
    return [
        call
        for statement in body
        for call in _calls_of(statement.value if isinstance(statement, ast.Expr) else None, tools)
    ]


def _calls_of(node: object, tools: Sequence[Mapping[str, Any]]) -> list[dict[str, object]]:
    if isinstance(node, ast.List):
        return [call for element in node.elts for call in _calls_of(element, tools)]
    if not isinstance(node, ast.Call):
        raise ValueError("the code is more than calls")
    name = ast.unparse(node.func)
    if name == _WRAPPER and len(node.args) == 1 and not node.keywords:
        return _calls_of(node.args[0], tools)
    name = name.removeprefix("default_api.")
    if name == _WRAPPER or not all(map(_NAME.fullmatch, name.split("."))):
        raise ValueError("the code is more than calls")
    arguments = dict(zip(_parameters(name, tools), map(ast.literal_eval, node.args), strict=False))
    if len(arguments) < len(node.args):
        raise ValueError("the call has values without names")
    for named in node.keywords:
        if named.arg is None:
            raise ValueError("the call has values without names")
        arguments[named.arg] = ast.literal_eval(named.value)
    return [{"name": name, "arguments": arguments}]


def _parameters(name: str, tools: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of a tool's parameters, in their order."""
    for tool in tools:
        function = tool["function"]
        if function["name"] == name:
            return list((function.get("parameters") or {}).get("properties") or {})
    return []


def _check(name: str) -> None:
    """Raise ``IrregularCall`` for text that is not a plain name in Python."""
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise IrregularCall


def _comma(text: ArrivingText, end: str) -> Waiting[None]:
    """Take a comma, if there is one; leave the end mark."""
    char = yield from text.skip_space()
    if char == ",":
        yield from text.take()
    elif char != end:
        raise IrregularCall


def _string(text: ArrivingText, write: Callable[[str], object], ends: str) -> Waiting[None]:
    """Read a string while it arrives, including its last quotation mark."""
    quote = yield from text.take()
    write('"')
    is_empty = True
    while True:
        char = yield from text.peek()
        if plain := text.take_run(_PLAIN):
            write(escaped(plain))
        else:
            yield from text.take()
            if char == quote:
                break
            if char == "\\":
                write(escaped((yield from _escape(text))))
            elif char in "\"'":
                write(escaped(char))
            else:
                raise IrregularCall
        is_empty = False
    if is_empty and (yield from text.peek()) == quote:
        raise IrregularCall  # three quotation marks
    if (yield from text.skip_space()) not in ends:
        raise IrregularCall
    write('"')


def _escape(text: ArrivingText) -> Waiting[str]:
    letter = yield from text.take()
    if letter in _ESCAPED:
        return _ESCAPED[letter]
    digits = ""
    for _ in range(_DIGITS.get(letter, 0)):
        digits += yield from text.take()
    if not _HEX.fullmatch(digits):
        raise IrregularCall
    code = int(digits, 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise IrregularCall
    return chr(code)


def _nested_reader(conversions: Conversions) -> ReadValue:
    """Return a reader of lists and dictionaries of strings, words, lists and dictionaries."""

    def read(text: ArrivingText, write: Callable[[str], object]) -> Waiting[None]:
        if (yield from text.peek()) not in "[{":
            raise IrregularCall
        yield from _nested(text, write, conversions, MAX_DEPTH)

    return read


def _nested(
    text: ArrivingText, write: Callable[[str], object], conversions: Conversions, depth: int
) -> Waiting[None]:
    """Read a nested value, or a value inside one."""
    opening = yield from text.skip_space()
    if opening in "\"'":
        yield from _string(text, write, ",]}")
        return
    if opening not in "[{":
        yield from _word(text, write, conversions)
        return
    if not depth:
        raise IrregularCall
    write((yield from text.take()))
    closing, has_items = _CLOSING[opening], False
    while (yield from text.skip_space()) != closing:
        if has_items:
            write(", ")
        has_items = True
        if opening == "{":
            if (yield from text.peek()) not in "\"'":
                raise IrregularCall
            yield from _string(text, write, ":")
            yield from text.take()
            write(": ")
        yield from _nested(text, write, conversions, depth - 1)
        yield from _comma(text, closing)
    yield from text.take()
    write(closing)


def _word(
    text: ArrivingText, write: Callable[[str], object], conversions: Conversions
) -> Waiting[None]:
    parts: list[str] = []
    while part := text.take_run(_WORD):
        parts.append(part)
        yield from text.peek()
    if (yield from text.skip_space()) not in ",]}":
        raise IrregularCall  # an expression
    value = conversions.pair(f"[f(a=[{''.join(parts)}])]")[1]
    if not isinstance(value, list) or len(value) != 1:
        raise IrregularCall
    try:
        write(json.dumps(value[0], ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise IrregularCall from error


def _value(text: ArrivingText, parts: NestedValue) -> Waiting[None]:
    """Collect the raw text of a value, up to the comma or bracket after it."""
    closing: list[str] = []
    while True:
        char = yield from text.peek()
        if plain := text.take_run(_VALUE):
            parts.append(plain)
            continue
        if not closing and char in ",)":
            return
        parts.append((yield from text.take()))
        if char in "\"'":
            yield from _skip_string(text, char, parts)
        elif char in _CLOSING:
            closing.append(_CLOSING[char])
        elif char in ")]}":
            if not closing or closing.pop() != char:
                raise IrregularCall
        elif char not in ",\n\r":
            raise IrregularCall


def _skip_string(text: ArrivingText, quote: str, parts: NestedValue) -> Waiting[None]:
    while True:
        char = yield from text.peek()
        if plain := text.take_run(_PLAIN):
            parts.append(plain)
            continue
        parts.append((yield from text.take()))
        if char == quote:
            return
        if char == "\\":
            parts.append((yield from text.take()))
        elif char not in "\"'":
            raise IrregularCall
