"""Calls whose parameters are between tags, or are attributes of tags. Pure; any thread."""

import re

from engine.output.tool_calls.call_text import (
    ArrivingText,
    CallParser,
    CallWriter,
    Format,
    IrregularCall,
    Rewritten,
    Waiting,
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
