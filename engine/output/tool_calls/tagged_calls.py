"""Calls whose parameters are between tags or marks, or are attributes of tags. Pure; any thread."""

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
    Rewritten,
    Waiting,
    escaped,
    json_object,
)
from engine.output.tool_calls.json_calls import json_calls
from engine.output.tool_calls.parameters import Conversions, ParameterWriter, Trim

_PLAIN_NAME = re.compile(r"[^\s<>]+")


def qwen3_coder(parse: CallParser) -> Format:
    """Return the format ``<function=f><parameter=p>…</parameter></function>``."""
    conversions = Conversions(parse)

    def read(text: ArrivingText, out: CallWriter) -> Waiting[None]:
        yield from text.skip_past("<function=")
        name = yield from text.until(">")
        if not _PLAIN_NAME.fullmatch(name):
            raise IrregularCall
        begun = f"<function={name}>"
        out.start(conversions.name_of(f"{begun}</function>"))
        writer = ParameterWriter(out, conversions)
        writer.open()
        while True:
            yield from text.skip_past("<parameter=")
            key = yield from text.until(">")
            if not _PLAIN_NAME.fullmatch(key):
                raise IrregularCall

            def call_of(value: str, key: str = key) -> str:
                return f"{begun}<parameter={key}>{value}</parameter></function>"

            yield from writer.read(text, ("</parameter>",), call_of, Trim.NEWLINE)

    return read


def glm47(parse: CallParser) -> Format:
    """Return the format ``f<arg_key>p</arg_key><arg_value>…</arg_value>``."""
    return _pairs(parse, "arg")


def longcat(parse: CallParser) -> Format:
    """Return LongCat's format: GLM's with longer tags, or JSON."""
    pairs = _pairs(parse, "longcat_arg")

    def read(text: ArrivingText, out: CallWriter) -> Waiting[None]:
        is_json = (yield from text.skip_space()) == "{"
        yield from (json_calls if is_json else pairs)(text, out)

    return read


def _pairs(parse: CallParser, prefix: str) -> Format:
    conversions = Conversions(parse)
    key_start, key_end = f"<{prefix}_key>", f"</{prefix}_key>"
    value_start, value_end = f"<{prefix}_value>", f"</{prefix}_value>"

    def read(text: ArrivingText, out: CallWriter) -> Waiting[None]:
        begun = yield from text.until(key_start)
        out.start(conversions.name_of(begun + key_start))
        writer = ParameterWriter(out, conversions)
        while True:
            key = yield from text.until(key_end)
            while (yield from text.skip_space()) == "\\":  # to the parser, a typed "\n" is one
                yield from text.expect("\\n")
            yield from text.expect(value_start)

            def call_of(value: str, key: str = key) -> str:
                return f"{begun}{key_start}{key}{key_end}{value_start}{value}{value_end}"

            yield from writer.read(text, (value_end,), call_of, Trim.SPACE)
            yield from text.skip_past(key_start)

    return read


def minimax_m2(parse: CallParser) -> Format:
    """Return the format ``<invoke name="f"><parameter name="p">…</parameter></invoke>``."""
    conversions = Conversions(parse)
    end = "</invoke>"

    def read(text: ArrivingText, out: CallWriter) -> Waiting[None]:
        while True:
            yield from text.skip_past("<invoke name=")
            begun = f"<invoke name={(yield from text.until('>'))}>"
            out.start(conversions.name_of(begun + end))
            writer = ParameterWriter(out, conversions)
            writer.open()
            while (yield from text.skip_past("<parameter name=", end)) != end:
                key = yield from text.until(">")

                def call_of(value: str, begun: str = begun, key: str = key) -> str:
                    return f"{begun}<parameter name={key}>{value}</parameter>{end}"

                yield from writer.read(text, ("</parameter>", end), call_of, Trim.SPACE)
            writer.end()

    return read


_NAME = r"(?:\"[^\"]*\"|'[^']*'|[^\s\"'<>]+)"
_FUNCTION = re.compile(rf"\s*{_NAME}\s*")
_PARAM = re.compile(rf"\s+name\s*=\s*{_NAME}\s*")
_INVOKE = re.compile(r"\s[^>]*?\bname=\"[^\"]+\"")
_ATEM_PARAMETER = re.compile(r"\s[^>]*?\bname=\"[^\"]+\"[^>]*?")


def minicpm5(parse: CallParser) -> Format:
    """Return the format ``<function name="f"><param name="p">…</param></function>``.

    The tag that opens the call ends before the name.
    """
    conversions = Conversions(parse)

    def read(text: ArrivingText, out: CallWriter) -> Waiting[None]:
        head = yield from text.until(">")
        if not _FUNCTION.fullmatch(head):
            raise IrregularCall
        begun = f"{head}>"
        out.start(conversions.name_of(begun))
        writer = ParameterWriter(out, conversions)
        writer.open()
        while True:
            yield from text.skip_past("<param")
            attributes = yield from text.until(">")
            if not _PARAM.fullmatch(attributes):
                raise IrregularCall

            def call_of(value: str, attributes: str = attributes) -> str:
                return f"{begun}<param{attributes}>{value}</param>"

            yield from writer.read(text, ("</param>",), call_of, Trim.SPACE, has_cdata=True)

    return read


def muse_spark(parse: CallParser) -> Format:
    """Return the format ``<atem:invoke name="f"><atem:parameter name="p">…``."""
    conversions = Conversions(parse)
    end = "</atem:invoke>"

    def read(text: ArrivingText, out: CallWriter) -> Waiting[None]:
        while True:
            yield from text.skip_past("<atem:invoke")
            head = yield from text.until(">")
            if not _INVOKE.fullmatch(head):
                raise IrregularCall
            begun = f"<atem:invoke{head}>"
            out.start(conversions.name_of(begun + end))
            writer = ParameterWriter(out, conversions)
            writer.open()
            while (yield from text.skip_past("<atem:parameter", end)) != end:
                attributes = yield from text.until(">")
                if not _ATEM_PARAMETER.fullmatch(attributes):
                    raise IrregularCall

                def call_of(value: str, begun: str = begun, attributes: str = attributes) -> str:
                    parameter = f"<atem:parameter{attributes}>{value}</atem:parameter>"
                    return f"{begun}{parameter}{end}"

                yield from writer.read(
                    text, ("</atem:parameter>",), call_of, Trim.SPACE, may_be_json=True
                )
            writer.end()

    return read


def kimi_k3(parse: CallParser) -> Format:
    """Return Kimi K3's format: ``<|open|>call tool="f"<|sep|>`` and arguments with types."""
    conversions = Conversions(parse)
    sep, end = "<|sep|>", "<|close|>call<|sep|>"
    argument, json_block = "<|open|>argument", "<|open|>json"
    argument_end = "<|close|>argument<|sep|>"

    def read(text: ArrivingText, out: CallWriter) -> Waiting[None]:
        while True:
            yield from text.skip_past("<|open|>call")
            begun = f"<|open|>call{(yield from text.until(sep))}{sep}"
            out.start(conversions.name_of(begun + end))
            writer = ParameterWriter(out, conversions)
            while (mark := (yield from text.skip_past(argument, json_block, end))) == argument:
                attributes = yield from text.until(sep)

                def call_of(value: str, begun: str = begun, attributes: str = attributes) -> str:
                    return f"{begun}{argument}{attributes}{sep}{value}{argument_end}{end}"

                yield from writer.read(text, (argument_end, end), call_of, Trim.NOTHING)
            if mark == json_block:
                if writer.is_open:
                    raise IrregularCall
                yield from text.until(sep)
                yield from text.skip_space()
                yield from json_object(text, Rewritten(out.write))
                yield from text.skip_space()
                yield from text.expect("<|close|>json<|sep|>")
                yield from text.skip_past(end)
                out.owe("}")
            else:
                writer.end()

    return read


# Gemma's calls: ``call:f{key:value}`` with strings between marks.

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
