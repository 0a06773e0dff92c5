"""Calls whose parameters are between tags. Pure; any thread."""

import re

from engine.output.call_readers.arriving import (
    ArrivingText,
    CallParser,
    CallWriter,
    Format,
    IrregularCall,
    Waiting,
)
from engine.output.call_readers.json_calls import json_calls
from engine.output.call_readers.parameter_value import Trim
from engine.output.call_readers.parameters import Conversions, ParameterWriter

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
