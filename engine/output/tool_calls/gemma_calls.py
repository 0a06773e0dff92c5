"""Gemma's calls: ``call:f{key:value}`` with strings between marks. Pure; any thread."""

import json
import re
from collections.abc import Callable

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
from engine.output.tool_calls.parameters import Conversions, ParameterWriter

_WORD_NAME = re.compile(r"\w+")
_TOOL_NAME = re.compile(r"[\w-]+")
_WORD = re.compile(r'[^,\[\]{}<"]*')
_ESCAPE = "<escape>"
_QUOTE = '<|"|>'


def function_gemma(parse: CallParser) -> Format:
    """Return FunctionGemma's format, with strings between ``<escape>`` marks.

    Its parser has no nested values: a comma or brace ends every value except a string.
    """
    conversions = Conversions(parse)

    def read(text: ArrivingText, out: CallWriter) -> Waiting[None]:
        yield from text.skip_past("call:")
        name = yield from text.until("{")
        if not _WORD_NAME.fullmatch(name):
            raise IrregularCall
        out.start(name)
        writer = ParameterWriter(out, conversions)
        writer.open()
        mark = ","
        while mark == ",":
            parts: list[str] = []
            if (yield from text.pass_on((":", "}"), parts.append)) == "}":
                return
            key = "".join(parts)
            if (yield from text.peek()) == "<":
                yield from text.expect(_ESCAPE)
                writer.key(key)
                out.write('"')
                if (yield from text.pass_on((_ESCAPE, "}"), _grown(out))) == "}":
                    raise IrregularCall  # the parser ends the call there
                out.write('"')
                mark = yield from text.take()
            else:
                parts = []
                mark = yield from text.pass_on((",", "}"), parts.append)
                writer.pair(f"call:{name}{{{key}:{''.join(parts)}}}")

    return read


def gemma4(text: ArrivingText, out: CallWriter) -> Waiting[None]:
    """Read Gemma 4's calls: JSON with bare keys, strings between marks of their own."""
    while True:
        yield from text.skip_past("call:")
        name = yield from text.until("{")
        if not _TOOL_NAME.fullmatch(name):
            raise IrregularCall
        out.start(name)
        yield from _object(text, out, 1)
        out.owe("}")


def _object(text: ArrivingText, out: CallWriter, depth: int) -> Waiting[None]:
    """Read an object after its first brace, including its last brace, which is not written."""
    out.write("{")
    if (yield from text.peek()) == "}":
        yield from text.take()
        return
    while True:
        yield from _key(text, out)
        yield from _value(text, out, depth)
        char = yield from text.take()
        if char == "}":
            return
        if char != ",":
            raise IrregularCall
        out.write(", ")


def _key(text: ArrivingText, out: CallWriter) -> Waiting[None]:
    if (yield from text.peek()) == "<":
        yield from text.expect(_QUOTE)
        key = yield from text.until(_QUOTE)
        yield from text.expect(":")
    else:
        key = yield from text.until(":")
        if not _WORD_NAME.fullmatch(key):
            raise IrregularCall
    out.write(f'"{escaped(key)}": ')


def _value(text: ArrivingText, out: CallWriter, depth: int) -> Waiting[None]:
    char = yield from text.peek()
    if char in "{[" and depth >= MAX_DEPTH:
        raise IrregularCall
    if char == "<":
        yield from text.expect(_QUOTE)
        out.write('"')
        yield from text.pass_on((_QUOTE,), _grown(out))
        out.write('"')
    elif char == "{":
        yield from text.take()
        yield from _object(text, out, depth + 1)
        out.write("}")
    elif char == "[":
        yield from text.take()
        yield from _list(text, out, depth + 1)
    else:
        yield from _word(text, out)


def _list(text: ArrivingText, out: CallWriter, depth: int) -> Waiting[None]:
    out.write("[")
    if (yield from text.peek()) == "]":
        yield from text.take()
    else:
        while True:
            yield from _value(text, out, depth)
            char = yield from text.take()
            if char == "]":
                break
            if char != ",":
                raise IrregularCall
            out.write(", ")
    out.write("]")


def _word(text: ArrivingText, out: CallWriter) -> Waiting[None]:
    parts: list[str] = []
    while part := text.take_run(_WORD):
        parts.append(part)
        yield from text.peek()
    try:
        value = json.loads("".join(parts))
        out.write(json.dumps(value, ensure_ascii=False, allow_nan=False))
    except ValueError as error:
        raise IrregularCall from error


def _grown(out: CallWriter) -> Callable[[str], None]:
    """Return a function that writes text of a string as it arrives."""

    def write(text: str) -> None:
        out.write(escaped(text))

    return write
